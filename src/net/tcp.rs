use std::net::SocketAddr;

use tokio::net::TcpStream;

use super::tls::Tls;
use super::{Authority, BoxStream, Connect, ConnectError};
use crate::failure::NetworkFault;

/// The production network: the system's resolver and TCP, and TLS with the feature `tls`.
#[derive(Clone, Debug)]
pub struct TcpConnect {
    pub(super) tls: Tls,
}

impl TcpConnect {
    /// Connects over the system's TCP. With the feature `tls`, trusts Mozilla's root certificates.
    #[must_use]
    pub fn new() -> Self {
        Self { tls: Tls::new() }
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
            return self.tls.connect(to, dial(to)).await;
        }
        Ok(Box::new(dial(to).await?))
    }
}

/// Tries the host's addresses in the resolver's order and returns the last failure.
async fn dial(to: &Authority) -> Result<TcpStream, ConnectError> {
    let doing = format!("connecting to {to}");
    let mut last = ConnectError::new(NetworkFault::Dns, format!("{doing}: no address found"));
    for address in resolve(to).await? {
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

async fn resolve(to: &Authority) -> Result<Vec<SocketAddr>, ConnectError> {
    match tokio::net::lookup_host((to.host.as_str(), to.port)).await {
        Ok(found) => Ok(found.collect()),
        Err(error) => Err(ConnectError::new(NetworkFault::Dns, format!("resolving {to}: {error}"))),
    }
}
