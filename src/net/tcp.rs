use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::{Authority, Connect, ConnectError};
use crate::failure::NetworkFault;

/// The production network: the system's resolver and TCP, and TLS with the feature `tls`.
#[derive(Clone, Debug)]
pub struct TcpConnect {
    #[cfg(feature = "tls")]
    tls: super::tls::Tls,
}

impl TcpConnect {
    /// Over the system's TCP. With the feature `tls`, trusts Mozilla's root certificates.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(feature = "tls")]
            tls: super::tls::Tls::mozilla(),
        }
    }

    /// The same network, trusting these root certificates (DER) as well.
    ///
    /// # Errors
    /// A certificate that can't be read.
    #[cfg(feature = "tls")]
    pub fn with_roots(mut self, roots: &[Vec<u8>]) -> Result<Self, ConnectError> {
        self.tls = super::tls::Tls::with_roots(roots)?;
        Ok(self)
    }
}

impl Default for TcpConnect {
    fn default() -> Self {
        Self::new()
    }
}

impl Connect for TcpConnect {
    type Stream = TcpOrTls;

    async fn connect(&self, to: &Authority) -> Result<TcpOrTls, ConnectError> {
        if to.tls && !cfg!(feature = "tls") {
            return Err(ConnectError::no_tls(to));
        }
        let tcp = dial(to).await?;
        #[cfg(feature = "tls")]
        if to.tls {
            return Ok(TcpOrTls::Tls(Box::new(self.tls.shake_hands(to, tcp).await?)));
        }
        Ok(TcpOrTls::Tcp(tcp))
    }
}

/// Tries the host's addresses in the resolver's order; the last failure speaks.
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

/// A stream in the clear or under TLS.
#[derive(Debug)]
pub enum TcpOrTls {
    /// In the clear.
    Tcp(TcpStream),
    /// Under TLS.
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

macro_rules! to_either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            TcpOrTls::Tcp(inner) => {
                let $stream = Pin::new(inner);
                $call
            }
            #[cfg(feature = "tls")]
            TcpOrTls::Tls(inner) => {
                let $stream = Pin::new(inner);
                $call
            }
        }
    };
}

impl AsyncRead for TcpOrTls {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        to_either!(self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for TcpOrTls {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        to_either!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        to_either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        to_either!(self, stream => stream.poll_shutdown(cx))
    }
}
