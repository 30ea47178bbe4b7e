use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;

use super::tls::Tls;
use super::{Authority, BoxStream, Connect, ConnectError, Hosts, HttpVersion, Proxy};
use crate::failure::NetworkFault;

/// The production network: the system's resolver and TCP, and TLS with the feature `tls`.
#[derive(Clone, Debug)]
pub struct TcpConnect {
    pub(super) tls: Tls,
    /// The hosts that may be called; any if `None`.
    hosts: Option<Arc<Hosts>>,
    proxy: Option<Arc<Proxy>>,
}

impl TcpConnect {
    /// Connects over the system's TCP. With the feature `tls`, trusts Mozilla's root certificates.
    #[must_use]
    pub fn new() -> Self {
        Self { tls: Tls::new(), hosts: None, proxy: None }
    }

    /// The same network, which connects only to `hosts`. A name is judged by the very address that
    /// is connected to, so no second answer of DNS can lead elsewhere.
    #[must_use]
    pub fn only_to(self, hosts: Hosts) -> Self {
        Self { hosts: Some(Arc::new(hosts)), ..self }
    }

    /// The same network, whose connections under TLS go through `proxy`. Where the network connects
    /// only to some hosts, it finds and judges a name's address itself, and the proxy is asked for that
    /// address: no other answer of DNS can lead elsewhere. The proxy's own address is not judged.
    #[must_use]
    pub fn through(self, proxy: Proxy) -> Self {
        Self { proxy: Some(Arc::new(proxy)), ..self }
    }

    async fn dial(&self, to: &Authority) -> Result<TcpStream, ConnectError> {
        let hosts = self.hosts.as_deref();
        let Some(proxy) = self.proxy.as_deref().filter(|proxy| proxy.carries(to)) else {
            return dial(to, hosts).await;
        };
        let address = match hosts {
            None => None,
            Some(_) => allowed(to, hosts).await?.first().map(SocketAddr::ip),
        };
        proxy.tunnel(dial(proxy.authority(), None).await?, to, address).await
    }
}

/// The host's addresses, in the resolver's order, that may be called; fails if there are none.
async fn allowed(to: &Authority, hosts: Option<&Hosts>) -> Result<Vec<SocketAddr>, ConnectError> {
    let mut last =
        ConnectError::new(NetworkFault::Dns, format!("connecting to {to}: no address found"));
    let mut allowed = Vec::new();
    for address in resolve(to).await? {
        match hosts.map_or(Ok(()), |hosts| hosts.check(to, address.ip())) {
            Ok(()) => allowed.push(address),
            Err(refused) => last = refused,
        }
    }
    if allowed.is_empty() { Err(last) } else { Ok(allowed) }
}

async fn dial(to: &Authority, hosts: Option<&Hosts>) -> Result<TcpStream, ConnectError> {
    dial_first(&allowed(to, hosts).await?, &format!("connecting to {to}")).await
}

/// Tries the addresses one after another and returns the last failure.
async fn dial_first(addresses: &[SocketAddr], doing: &str) -> Result<TcpStream, ConnectError> {
    let mut last = ConnectError::new(NetworkFault::Dns, format!("{doing}: no address found"));
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // A request is written whole: waiting for more to send only adds delay.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = ConnectError::from_io(doing, &error),
        }
    }
    Err(last)
}

impl Default for TcpConnect {
    fn default() -> Self {
        Self::new()
    }
}

impl Connect for TcpConnect {
    type Stream = BoxStream;

    async fn connect(&self, to: &Authority) -> Result<BoxStream, ConnectError> {
        if to.tls {
            return self.tls.connect(to, self.dial(to)).await;
        }
        Ok(Box::new(self.dial(to).await?))
    }

    async fn connect_http(&self, to: &Authority) -> Result<(BoxStream, HttpVersion), ConnectError> {
        if to.tls {
            return self.tls.connect_http(to, self.dial(to)).await;
        }
        Ok((Box::new(self.dial(to).await?), HttpVersion::Http1))
    }
}

async fn resolve(to: &Authority) -> Result<Vec<SocketAddr>, ConnectError> {
    match tokio::net::lookup_host((to.host.as_str(), to.port)).await {
        Ok(found) => Ok(found.collect()),
        Err(error) => Err(ConnectError::new(NetworkFault::Dns, format!("resolving {to}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_address_that_refuses_is_passed_by() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let stream = dial_first(&[closed, open], "calling").await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        let refused = dial_first(&[closed, closed], "calling").await.unwrap_err();
        assert!(refused.to_string().contains("calling"), "{refused}");
    }
}
