//! The seam to the network: byte streams to an address, and its implementations.
//!
//! Decides how URLs are parsed and how transport failures are classified. Must never know HTTP,
//! actions or runs. To add a network, implement [`Connect`].

mod basic;
#[cfg(feature = "tls")]
mod certificate;
mod hosts;
mod non_public;
mod proxy;
mod stream;
mod tcp;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod url;

use std::future::Future;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

pub use hosts::{Hosts, HostsError};
pub use proxy::{Proxy, ProxyError};
pub use stream::{BoxStream, ByteStream};
pub use tcp::TcpConnect;
pub use url::{Authority, Url, UrlError};

use crate::failure::{Failure, NetworkFault};

/// Opens byte streams. A clone is a handle to the same network.
pub trait Connect: Clone + Send + Sync + 'static {
    /// A stream. Dropping it closes it.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens one stream. If `to.tls` is set, the TLS handshake is done. There is no timeout: a caller
    /// drops the future to give up.
    fn connect(
        &self,
        to: &Authority,
    ) -> impl Future<Output = Result<Self::Stream, ConnectError>> + Send;

    /// Opens one stream for HTTP, and says in which version to speak. Unless a network can agree on
    /// another, that is HTTP/1.1.
    fn connect_http(
        &self,
        to: &Authority,
    ) -> impl Future<Output = Result<(Self::Stream, HttpVersion), ConnectError>> + Send {
        async move { Ok((self.connect(to).await?, HttpVersion::Http1)) }
    }
}

/// A version of HTTP, as two sides agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpVersion {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Why a stream could not be opened, or why it broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    cause: Cause,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Network(NetworkFault),
    TimedOut,
    NoTls,
    NotAllowed,
}

impl ConnectError {
    /// A transport failure with its message.
    #[must_use]
    pub fn new(fault: NetworkFault, message: impl Into<String>) -> Self {
        Self { cause: Cause::Network(fault), message: message.into() }
    }

    /// An I/O error while `doing`.
    #[must_use]
    pub fn from_io(doing: &str, error: &io::Error) -> Self {
        match tls::refusal(error) {
            Some(why) => Self::new(NetworkFault::Tls, format!("{doing}: {why}")),
            None => Self { cause: cause_of(error.kind()), message: format!("{doing}: {error}") },
        }
    }

    /// TLS is needed in a build without the feature `tls`.
    #[must_use]
    pub fn no_tls(to: &Authority) -> Self {
        let message = format!("{to} needs TLS, which this build leaves out; use the feature `tls`");
        Self { cause: Cause::NoTls, message }
    }

    /// The node's settings do not allow actions to call that host.
    fn not_allowed(message: String) -> Self {
        Self { cause: Cause::NotAllowed, message }
    }

    /// How the transport failed; `None` for a timeout of the system, for missing TLS and for a host
    /// that is not allowed.
    #[must_use]
    pub fn fault(&self) -> Option<NetworkFault> {
        match self.cause {
            Cause::Network(fault) => Some(fault),
            Cause::TimedOut | Cause::NoTls | Cause::NotAllowed => None,
        }
    }
}

fn cause_of(kind: io::ErrorKind) -> Cause {
    use io::ErrorKind as K;
    Cause::Network(match kind {
        K::TimedOut => return Cause::TimedOut,
        K::ConnectionRefused => NetworkFault::Refused,
        K::ConnectionReset | K::BrokenPipe => NetworkFault::Reset,
        K::ConnectionAborted => NetworkFault::Aborted,
        K::UnexpectedEof | K::WriteZero => NetworkFault::Cut,
        _ => NetworkFault::Other,
    })
}

/// Network failures and timeouts are retryable. Missing TLS (`NO_TLS`) and a host that is not allowed
/// (`HOST_NOT_ALLOWED`) are permanent: a retry can't succeed.
impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error.cause {
            Cause::Network(fault) => Self::network(fault, &error.message),
            Cause::TimedOut => Self::timed_out(&error.message),
            Cause::NoTls => Self::new("NO_TLS", &error.message).with_lineage(["NoTlsError"]),
            Cause::NotAllowed => {
                Self::new("HOST_NOT_ALLOWED", &error.message).with_lineage(["HostNotAllowedError"])
            }
        }
    }
}
