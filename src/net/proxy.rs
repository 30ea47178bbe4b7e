use std::fmt;
use std::net::IpAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Authority, ConnectError, Hosts, Url};
use crate::failure::NetworkFault;

/// An HTTP proxy for connections under TLS, and the hosts that are connected to without it.
#[derive(Clone)]
pub struct Proxy {
    url: Url,
    without: Hosts,
    /// Whether no host is connected to through it.
    idle: bool,
}

/// Why a proxy can't be used. Its text does not repeat the proxy's URL, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProxyError(String);

/// The longest head of a proxy's answer, in bytes.
const MAX_HEAD: usize = 8 * 1024;

impl Proxy {
    /// The proxy at `url`, as `HTTPS_PROXY` names it: `http://host:port`, with a user and a password
    /// before `@` if it asks for them. `without`, as `NO_PROXY` lists it with commas: a name stands for
    /// itself and all below it, an address or a range such as `10.0.0.0/8` for a URL that holds the
    /// address, `*` for every host.
    ///
    /// # Errors
    /// [`ProxyError`] for a URL or an entry that can't be read, and for a proxy under TLS.
    pub fn new(url: &str, without: &str) -> Result<Self, ProxyError> {
        let written = match url.contains("://") {
            true => url.trim().to_owned(),
            false => format!("http://{}", url.trim()),
        };
        let url: Url = written.parse().map_err(|e| ProxyError(format!("the proxy: {e}")))?;
        if url.authority().tls {
            return Err(ProxyError("the proxy: write http://, TLS goes through it".to_owned()));
        }
        let entries = || without.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let idle = entries().any(|entry| entry == "*");
        let patterns = entries().filter(|entry| *entry != "*").flat_map(patterns);
        let without = Hosts::new(patterns)
            .map_err(|e| ProxyError(format!("the hosts without a proxy: {e}")))?;
        Ok(Self { url, without, idle })
    }

    /// The address of the proxy.
    pub(super) fn authority(&self) -> &Authority {
        self.url.authority()
    }

    /// Whether connections to `to` go through it.
    pub(super) fn carries(&self, to: &Authority) -> bool {
        to.tls && !self.idle && !self.without.name(to)
    }

    /// Asks the proxy, over an open `stream`, to go on to `to`: at `address` where that was judged,
    /// else wherever the proxy finds the name.
    pub(super) async fn tunnel(
        &self,
        mut stream: TcpStream,
        to: &Authority,
        address: Option<IpAddr>,
    ) -> Result<TcpStream, ConnectError> {
        let doing = format!("connecting to {to} through the proxy {}", self.authority());
        let host = address.map_or_else(|| to.host.clone(), |address| address.to_string());
        let target = match host.contains(':') {
            true => format!("[{host}]:{}", to.port),
            false => format!("{host}:{}", to.port),
        };
        let credentials = self.url.basic();
        let credentials = credentials.map(|value| format!("Proxy-Authorization: {value}\r\n"));
        let credentials = credentials.unwrap_or_default();
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{credentials}\r\n");
        let broken = |error| ConnectError::from_io(&doing, &error);
        stream.write_all(request.as_bytes()).await.map_err(broken)?;
        let failed = |what: &str| {
            Err(ConnectError::new(NetworkFault::Other, format!("{doing}: the proxy {what}")))
        };
        match status(&mut stream).await.map_err(broken)?.as_deref() {
            Some([b'2', _, _]) => Ok(stream),
            Some(b"407") => failed("asks for a user and a password, or refuses those in its URL"),
            Some(status) => failed(&format!("answered {}", String::from_utf8_lossy(status))),
            None => failed("did not answer in HTTP"),
        }
    }
}

/// What an entry of `NO_PROXY` stands for.
fn patterns(entry: &str) -> Vec<String> {
    let name = entry.strip_prefix("*.").or_else(|| entry.strip_prefix('.')).unwrap_or(entry);
    let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
    let is_ip = [name, host].iter().any(|text| text.parse::<IpAddr>().is_ok());
    let is_address = is_ip || name.contains('/') || name.starts_with('[');
    match is_address {
        true => vec![name.to_owned()],
        false => vec![name.to_owned(), format!("*.{name}")],
    }
}

/// The digits of the status of the proxy's answer, once its head has come; `None` if it is no answer.
/// Nothing behind the head is read: it belongs to the tunnel.
async fn status(stream: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD {
            return Ok(None);
        }
        head.push(stream.read_u8().await?);
    }
    let digits = head.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    Ok(digits.filter(|digits| digits.iter().all(u8::is_ascii_digit)).map(<[u8]>::to_vec))
}

/// Shows the address and no password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({})", self.authority())
    }
}
