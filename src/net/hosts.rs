use std::net::IpAddr;
use std::str::FromStr;

use super::non_public::{NonPublic, embedded, non_public};
use super::{Authority, ConnectError};

/// The hosts that may be called. A name is judged together with the address that it leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Pattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    what: What,
    /// The one port; any if `None`.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// Every address of the public internet.
    Public,
    /// This name.
    Name(String),
    /// Every name below this one.
    Below(String),
    /// The addresses that begin with so many bits of this one.
    Block(IpAddr, u32),
}

/// A text that names no hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a host; write `host`, `host:port`, `*.domain`, an address such as `10.0.0.7` or `[::1]:8080`, a range such as `10.0.0.0/8`, or `public`"
)]
pub struct HostsError(String);

impl Hosts {
    /// The hosts that `patterns` name: `api.example.org`; `*.example.org` for every name below it;
    /// `10.0.0.7`, `[::1]` and `10.0.0.0/8` for addresses, under any name that resolves to them;
    /// `public` for every address of the public internet. A name and an address may have a port,
    /// `10.0.0.7:8080`, and stand for any port without one.
    ///
    /// A name opens what it leads to, also inside: whoever owns the name decides where that is. A
    /// link-local, metadata, multicast, unspecified or reserved address is opened by an address
    /// alone.
    ///
    /// # Errors
    /// [`HostsError`] for the first text that is not a pattern.
    pub fn new<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self, HostsError> {
        let read = |text: S| text.as_ref().parse();
        patterns.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Every address of the public internet: no private, loopback, link-local, metadata, multicast,
    /// unspecified or reserved one, written as IPv4 or as IPv6.
    #[must_use]
    pub fn public() -> Self {
        Self(vec![Pattern { what: What::Public, port: None }])
    }

    /// The same hosts, and this machine.
    #[must_use]
    pub fn and_loopback(mut self) -> Self {
        let this = [(IpAddr::from([127, 0, 0, 0]), 8), (std::net::Ipv6Addr::LOCALHOST.into(), 128)];
        let block = |(ip, bits)| Pattern { what: What::Block(ip, bits), port: None };
        self.0.extend(this.map(block));
        self
    }

    /// Whether `to` may be called at `address`, to which its host leads.
    #[must_use]
    pub fn allow(&self, to: &Authority, address: IpAddr) -> bool {
        let kind = non_public(address);
        self.of_port(to).any(|pattern| match pattern {
            What::Public => kind.is_none(),
            What::Block(of, bits) => is_in(*of, *bits, address),
            name => name.names(&to.host) && !kind.is_some_and(NonPublic::needs_address),
        })
    }

    /// Whether `to` may be called at some address: `false` if no answer of DNS could allow it.
    #[must_use]
    pub fn may_allow(&self, to: &Authority) -> bool {
        match to.host.parse() {
            Ok(address) => self.allow(to, address),
            Err(_) => self.of_port(to).any(|pattern| match pattern {
                What::Public | What::Block(..) => true,
                name => name.names(&to.host),
            }),
        }
    }

    /// Whether a pattern names the host of `to` itself, at any address.
    #[must_use]
    pub fn name(&self, to: &Authority) -> bool {
        let address: Option<IpAddr> = to.host.parse().ok();
        self.of_port(to).any(|pattern| match pattern {
            What::Public => false,
            What::Block(of, bits) => address.is_some_and(|ip| is_in(*of, *bits, ip)),
            name => name.names(&to.host),
        })
    }

    /// Fails if `to` may not be called at `address`.
    pub(super) fn check(&self, to: &Authority, address: IpAddr) -> Result<(), ConnectError> {
        if self.allow(to, address) {
            return Ok(());
        }
        let kind = non_public(address);
        let what = kind.map_or_else(|| "which is not listed".to_owned(), |kind| kind.to_string());
        let opens = match kind.is_some_and(NonPublic::needs_address) {
            true => "the address",
            false => "the host or the address",
        };
        Err(ConnectError::not_allowed(format!(
            "actions may not call {to} from this node: it leads to {address}, {what}; to open it, list {opens} in allow_hosts"
        )))
    }

    /// The patterns of any port and of the port of `to`.
    fn of_port(&self, to: &Authority) -> impl Iterator<Item = &What> {
        let port = to.port;
        let fits = move |pattern: &&Pattern| pattern.port.is_none_or(|only| only == port);
        self.0.iter().filter(fits).map(|pattern| &pattern.what)
    }
}

impl What {
    /// Whether it is a name that fits `host`.
    fn names(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => host == name,
            Self::Below(name) => host.strip_suffix(name.as_str()).is_some_and(|h| h.ends_with('.')),
            Self::Public | Self::Block(..) => false,
        }
    }
}

impl FromStr for Pattern {
    type Err = HostsError;

    fn from_str(text: &str) -> Result<Self, HostsError> {
        let wrong = || HostsError(text.to_owned());
        let any_port = |what| Ok(Self { what, port: None });
        if text == "public" {
            return any_port(What::Public);
        }
        if let Ok(address) = text.parse() {
            return any_port(whole(address));
        }
        if text.contains("://") {
            return Err(wrong());
        }
        if let Some((address, bits)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| wrong())?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let is_number = bits.bytes().all(|b| b.is_ascii_digit());
            let bits = bits.parse().ok().filter(|bits| is_number && *bits <= most);
            return any_port(What::Block(address, bits.ok_or_else(wrong)?));
        }
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        // An authority has a port. A text without one is parsed with a port that is then dropped.
        let bare = rest.ends_with(']') || !rest.contains(':');
        let written = if bare { format!("{rest}:80") } else { rest.to_owned() };
        let Authority { host, port, .. } = written.parse().map_err(|_| wrong())?;
        let what = match (below, host.parse()) {
            (true, Ok(IpAddr::V4(_) | IpAddr::V6(_))) => return Err(wrong()),
            (true, Err(_)) => What::Below(host),
            (false, Ok(address)) => whole(address),
            (false, Err(_)) => What::Name(host),
        };
        Ok(Self { what, port: (!bare).then_some(port) })
    }
}

fn whole(address: IpAddr) -> What {
    What::Block(address, if address.is_ipv4() { 32 } else { 128 })
}

/// Whether `address`, or the IPv4 address that it means, begins with `bits` bits of `of`.
fn is_in(of: IpAddr, bits: u32, address: IpAddr) -> bool {
    [address, embedded(address)].into_iter().any(|address| match (of, address) {
        (IpAddr::V4(of), IpAddr::V4(ip)) => (of.to_bits() ^ ip.to_bits()).leading_zeros() >= bits,
        (IpAddr::V6(of), IpAddr::V6(ip)) => (of.to_bits() ^ ip.to_bits()).leading_zeros() >= bits,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Url;

    fn authority(url: &str) -> Authority {
        url.parse::<Url>().unwrap().authority().clone()
    }

    fn hosts(patterns: &[&str]) -> Hosts {
        Hosts::new(patterns).unwrap()
    }

    #[test]
    fn hosts_are_read_and_matched() {
        let listed = hosts(&["api.test", "*.inner.test", "10.0.0.7:8080", "[::1]:90"]);
        for good in [
            "http://api.test/x",
            "https://API.test:9/x",
            "http://a.inner.test",
            "http://a.b.inner.test",
            "http://10.0.0.7:8080/",
            "http://[::1]:90/",
        ] {
            assert!(listed.may_allow(&authority(good)) && listed.name(&authority(good)), "{good}");
        }
        for bad in ["http://10.0.0.7/", "http://[::1]/", "http://169.254.169.254/"] {
            assert!(!listed.may_allow(&authority(bad)), "{bad}");
        }
        for bad in ["http://api.test.evil", "http://xapi.test", "http://inner.test"] {
            assert!(!listed.name(&authority(bad)), "{bad}");
            assert!(!hosts(&["api.test", "*.inner.test"]).may_allow(&authority(bad)), "{bad}");
        }
        for wrong in
            ["", "*.", "http://api.test", "a b", "a:0", "[::1", "10.0.0.0/33", "a/8", "*.10.0.0.1"]
        {
            assert!(Hosts::new([wrong]).is_err(), "{wrong}");
        }
    }

    /// Each pattern with the host of a URL, the address it leads to, and whether it may be called.
    #[test]
    fn a_host_is_judged_by_the_address_that_it_leads_to() {
        for (patterns, url, leads_to, allowed) in [
            (&["public"][..], "http://a.test", "8.8.8.8", true),
            (&["public"], "http://a.test", "127.0.0.1", false),
            (&["public"], "http://a.test", "::ffff:10.0.0.1", false),
            (&["public"], "http://a.test", "64:ff9b::a00:1", false),
            (&["10.0.0.0/8"], "http://a.test", "10.200.0.1", true),
            (&["10.0.0.0/8"], "http://a.test", "::ffff:10.200.0.1", true),
            (&["10.0.0.0/8"], "http://a.test", "11.0.0.1", false),
            (&["10.0.0.0/8"], "http://a.test", "8.8.8.8", false),
            (&["10.1.2.3/32"], "http://a.test", "10.1.2.2", false),
            (&["fd00::/8"], "http://a.test", "fd12::1", true),
            (&["fd00::/8"], "http://a.test", "fc12::1", false),
            (&["0.0.0.0/0"], "http://a.test", "169.254.169.254", true),
            (&["0.0.0.0/0"], "http://a.test", "fd00::1", false),
            (&["127.0.0.1"], "http://a.test:81", "127.0.0.1", true),
            (&["127.0.0.1:80"], "http://a.test:81", "127.0.0.1", false),
            (&["a.test"], "http://a.test", "10.0.0.1", true),
            (&["a.test"], "http://a.test", "127.0.0.1", true),
            (&["a.test"], "http://b.test", "8.8.8.8", false),
            // No name opens addresses that give credentials to any caller.
            (&["a.test"], "http://a.test", "169.254.169.254", false),
            (&["a.test", "169.254.169.254"], "http://a.test", "169.254.169.254", true),
            (&["*.test"], "http://a.test", "fe80::1", false),
            (&["a.test"], "http://a.test", "0.0.0.0", false),
            (&[], "http://a.test", "8.8.8.8", false),
        ] {
            let address = leads_to.parse().unwrap();
            let found = hosts(patterns).allow(&authority(url), address);
            assert_eq!(found, allowed, "{patterns:?} {url} {leads_to}");
        }
        let this = Hosts::public().and_loopback();
        for address in ["127.0.0.1", "127.1.2.3", "::1", "8.8.8.8"] {
            assert!(this.allow(&authority("http://a.test"), address.parse().unwrap()));
        }
        assert!(!this.allow(&authority("http://a.test"), "10.0.0.1".parse().unwrap()));
    }
}
