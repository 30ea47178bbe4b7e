//! Which hosts HTTP actions may call.

use retrial::net::{Authority, Connect, ConnectError};

/// The hosts that HTTP actions may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Pattern>);

/// `host`, `*.host`, each with or without `:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    host: String,
    /// Whether the pattern matches the names below `host` instead of `host`.
    below: bool,
    port: Option<u16>,
}

/// A text that is not a host pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a host; write `host`, `host:port`, `[::1]:port` or `*.domain`")]
pub struct HostsError(String);

impl Hosts {
    /// The hosts that `patterns` name: `api.example.org`, `*.example.org` for every name below it,
    /// `10.0.0.7:8080` for one port alone.
    ///
    /// # Errors
    /// [`HostsError`] for the first text that is not a pattern.
    pub fn new<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self, HostsError> {
        let read = |text: S| Pattern::read(text.as_ref());
        patterns.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether HTTP actions may call `to`.
    pub(super) fn allow(&self, to: &Authority) -> bool {
        self.0.iter().any(|pattern| pattern.fits(to))
    }
}

impl Pattern {
    fn read(text: &str) -> Result<Self, HostsError> {
        let wrong = || HostsError(text.to_owned());
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        // An authority has a port; what has none is read with one that is forgotten again.
        let bare = rest.ends_with(']') || !rest.contains(':');
        let whole = if bare { format!("{rest}:80") } else { rest.to_owned() };
        let read: Authority = whole.parse().map_err(|_| wrong())?;
        if text.contains("://") {
            return Err(wrong());
        }
        Ok(Self { host: read.host, below, port: (!bare).then_some(read.port) })
    }

    fn fits(&self, to: &Authority) -> bool {
        let host = match self.below {
            true => to.host.strip_suffix(&self.host).is_some_and(|name| name.ends_with('.')),
            false => to.host == self.host,
        };
        host && self.port.is_none_or(|port| port == to.port)
    }
}

/// A network that can reach only some hosts. The service checks definitions when they are uploaded or
/// submitted; this network also restricts runs submitted earlier or to other nodes.
#[derive(Clone, Debug)]
pub struct RestrictedNetwork<C> {
    network: C,
    hosts: Option<Hosts>,
}

impl<C: Connect> RestrictedNetwork<C> {
    /// `network` restricted to `hosts`; unrestricted if `None`.
    #[must_use]
    pub fn new(network: C, hosts: Option<Hosts>) -> Self {
        Self { network, hosts }
    }
}

impl<C: Connect> Connect for RestrictedNetwork<C> {
    type Stream = C::Stream;

    async fn connect(&self, to: &Authority) -> Result<C::Stream, ConnectError> {
        match &self.hosts {
            Some(hosts) if !hosts.allow(to) => Err(ConnectError::not_allowed(to)),
            _ => self.network.connect(to).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_and_matched() {
        let hosts = Hosts::new(["api.test", "*.inner.test", "10.0.0.7:8080", "[::1]:90"]).unwrap();
        let allow = |url: &str| hosts.allow(url.parse::<retrial::net::Url>().unwrap().authority());
        for good in [
            "http://api.test/x",
            "https://API.test:9/x",
            "http://a.inner.test",
            "http://a.b.inner.test",
            "http://10.0.0.7:8080/",
            "http://[::1]:90/",
        ] {
            assert!(allow(good), "{good}");
        }
        for bad in [
            "http://api.test.evil",
            "http://xapi.test",
            "http://inner.test",
            "http://evilinner.test",
            "http://10.0.0.7/",
            "http://[::1]/",
            "http://169.254.169.254/",
        ] {
            assert!(!allow(bad), "{bad}");
        }
        for wrong in ["", "*.", "http://api.test", "a b", "a:0", "[::1"] {
            assert!(Hosts::new([wrong]).is_err(), "{wrong}");
        }
    }
}
