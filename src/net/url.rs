use std::fmt;
use std::str::FromStr;

use super::basic;

/// The address of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Authority {
    /// A name or an IP address in lower case; IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether to use TLS.
    pub tls: bool,
}

impl Authority {
    fn default_port(tls: bool) -> u16 {
        if tls { 443 } else { 80 }
    }

    /// The value of the `Host` header: without the port if it is the scheme's default.
    #[must_use]
    pub fn host_header(&self) -> String {
        if self.port == Self::default_port(self.tls) {
            self.bracketed()
        } else {
            format!("{}:{}", self.bracketed(), self.port)
        }
    }

    fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

/// `https://host:port`.
impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.bracketed(), self.port)
    }
}

/// `host:port`, in the clear, or `http://host` and `https://host`, with or without a port.
impl FromStr for Authority {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.contains("://") {
            return text.parse::<Url>().map(|url| url.authority);
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(UrlError::Character);
        }
        let (host, port) = host_and_port(text)?;
        let port = port_number(port.ok_or(UrlError::Port)?)?;
        Ok(Self { host: host.to_ascii_lowercase(), port, tls: false })
    }
}

/// An absolute `http` or `https` URL. Not `Display`: it may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    authority: Authority,
    target: String,
    user: Option<String>,
}

/// Why a URL is invalid. No variant repeats the URL, which may hold secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Neither `http://` nor `https://` at the start.
    #[error("the URL must start with http:// or https://")]
    Scheme,
    /// No usable host.
    #[error(
        "the URL's host is missing or malformed; write a name, an IPv4 address or an IPv6 address in brackets"
    )]
    Host,
    /// No usable port.
    #[error("the URL's port is not a number from 1 to 65535")]
    Port,
    /// Spaces, control characters or characters outside ASCII.
    #[error(
        "the URL holds a space, a control character or a character outside ASCII; percent-encode it"
    )]
    Character,
}

impl Url {
    /// The address to connect to.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Path and query, starting with `/`. The fragment is not sent.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The user part before `@`, percent-encoded as written: a secret.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The user part as the value of an `Authorization` header: a secret.
    #[must_use]
    pub(crate) fn basic(&self) -> Option<String> {
        self.user().map(basic::credentials)
    }
}

/// Shows the address and nothing else.
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({}/...)", self.authority)
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(UrlError::Character);
        }
        let (tls, rest) = scheme(text)?;
        let whole = rest.split('#').next().unwrap_or(rest);
        let (place, target) = whole.split_at(whole.find(['/', '?']).unwrap_or(whole.len()));
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user.to_owned()), place),
            None => (None, place),
        };
        let (host, port) = host_and_port(place)?;
        let port = port.map_or(Ok(Authority::default_port(tls)), port_number)?;
        let target = if target.starts_with('/') { target.into() } else { format!("/{target}") };
        let authority = Authority { host: host.to_ascii_lowercase(), port, tls };
        Ok(Self { authority, target, user })
    }
}

fn scheme(text: &str) -> Result<(bool, &str), UrlError> {
    let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
    if scheme.eq_ignore_ascii_case("https") {
        Ok((true, rest))
    } else if scheme.eq_ignore_ascii_case("http") {
        Ok((false, rest))
    } else {
        Err(UrlError::Scheme)
    }
}

fn host_and_port(place: &str) -> Result<(&str, Option<&str>), UrlError> {
    if let Some(inner) = place.strip_prefix('[') {
        let (host, after) = inner.split_once(']').ok_or(UrlError::Host)?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| UrlError::Host)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(UrlError::Host),
        };
    }
    let (host, port) = match place.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (place, None),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if host.is_empty() || !host.bytes().all(plain) {
        return Err(UrlError::Host);
    }
    Ok((host, port))
}

fn port_number(text: &str) -> Result<u16, UrlError> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port > 0 => Ok(port),
        _ => Err(UrlError::Port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(&str, u16, bool, &str, Option<&str>), UrlError>) {
        let got = text.parse::<Url>();
        let seen = got.as_ref().map(|u| {
            let a = u.authority();
            (a.host.as_str(), a.port, a.tls, u.target(), u.user())
        });
        assert_eq!(seen.map_err(|e| *e), expected, "{text}");
    }

    #[test]
    fn urls_are_read() {
        check("http://a.b/c?d=e#f", Ok(("a.b", 80, false, "/c?d=e", None)));
        check("HTTPS://A.B", Ok(("a.b", 443, true, "/", None)));
        check("https://h:8443?x=1", Ok(("h", 8443, true, "/?x=1", None)));
        check("http://[::1]:81/", Ok(("::1", 81, false, "/", None)));
        check("http://[::1]", Ok(("::1", 80, false, "/", None)));
        check("http://u:p@x@h/q", Ok(("h", 80, false, "/q", Some("u:p@x"))));
        check("http://h/a@b", Ok(("h", 80, false, "/a@b", None)));
    }

    #[test]
    fn nonsense_is_refused() {
        for (text, error) in [
            ("", UrlError::Scheme),
            ("/path", UrlError::Scheme),
            ("ftp://h", UrlError::Scheme),
            ("http://", UrlError::Host),
            ("http:///p", UrlError::Host),
            ("http://h:0", UrlError::Port),
            ("http://h:65536", UrlError::Port),
            ("http://h:", UrlError::Port),
            ("http://h:+80", UrlError::Port),
            ("http://[::1", UrlError::Host),
            ("http://[::1]x", UrlError::Host),
            ("http://[nope]", UrlError::Host),
            ("http://a b/", UrlError::Character),
            ("http://h/\r\nX: y", UrlError::Character),
            ("http://bücher/", UrlError::Character),
        ] {
            check(text, Err(error));
        }
    }

    #[test]
    fn authorities_are_read() {
        let read = |text: &str| text.parse::<Authority>().map(|a| (a.host, a.port, a.tls));
        assert_eq!(read("Bank.test:7000"), Ok(("bank.test".into(), 7000, false)));
        assert_eq!(read("[::1]:1"), Ok(("::1".into(), 1, false)));
        assert_eq!(read("https://h/path"), Ok(("h".into(), 443, true)));
        assert_eq!(read("h"), Err(UrlError::Port));
        assert_eq!(read("h :1"), Err(UrlError::Character));
    }

    #[test]
    fn the_host_header_leaves_out_the_default_port() {
        let header = |t: &str| t.parse::<Url>().map(|u| u.authority().host_header());
        assert_eq!(header("http://h:80"), Ok("h".into()));
        assert_eq!(header("https://h:80"), Ok("h:80".into()));
        assert_eq!(header("http://[::1]:8080"), Ok("[::1]:8080".into()));
    }

    #[test]
    fn a_shown_url_hides_user_path_and_query() {
        let url: Url = "http://u:hunter2@h/secret?token=abc".parse().unwrap();
        assert_eq!(format!("{url:?}"), "Url(http://h:80/...)");
    }
}
