use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;

use super::tls::Tls;
use super::{Authority, BoxStream, Connect, ConnectError, Hosts};
use crate::failure::NetworkFault;

/// The production network: the system's resolver and TCP, and TLS with the feature `tls`.
#[derive(Clone, Debug)]
pub struct TcpConnect {
    pub(super) tls: Tls,
    /// The hosts that may be called; any if `None`.
    hosts: Option<Arc<Hosts>>,
}

impl TcpConnect {
    /// Connects over the system's TCP. With the feature `tls`, trusts Mozilla's root certificates.
    #[must_use]
    pub fn new() -> Self {
        Self { tls: Tls::new(), hosts: None }
    }

    /// The same network, which connects only to `hosts`. A name is judged by the very address that
    /// is connected to, so no second answer of DNS can lead elsewhere.
    #[must_use]
    pub fn only_to(self, hosts: Hosts) -> Self {
        Self { hosts: Some(Arc::new(hosts)), ..self }
    }

    /// Tries the host's addresses in the resolver's order and returns the last failure.
    async fn dial(&self, to: &Authority) -> Result<TcpStream, ConnectError> {
        let doing = format!("connecting to {to}");
        let mut last = ConnectError::new(NetworkFault::Dns, format!("{doing}: no address found"));
        for address in resolve(to).await? {
            if let Some(Err(refused)) = self.hosts.as_ref().map(|h| h.check(to, address.ip())) {
                last = refused;
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    // A request is written whole: waiting for more to send only adds delay.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => last = ConnectError::from_io(&doing, &error),
            }
        }
        Err(last)
    }
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
}

async fn resolve(to: &Authority) -> Result<Vec<SocketAddr>, ConnectError> {
    match tokio::net::lookup_host((to.host.as_str(), to.port)).await {
        Ok(found) => Ok(found.collect()),
        Err(error) => Err(ConnectError::new(NetworkFault::Dns, format!("resolving {to}: {error}"))),
    }
}
