use std::future::Future;
use std::io;

use tokio::net::TcpStream;

use super::{Authority, BoxStream, ConnectError, HttpVersion};

/// Stands for `Tls` in a build without the feature `tls`: refuses every connection.
#[derive(Clone, Debug)]
pub(super) struct Tls;

impl Tls {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) async fn connect(
        &self,
        to: &Authority,
        _dial: impl Future<Output = Result<TcpStream, ConnectError>>,
    ) -> Result<BoxStream, ConnectError> {
        Err(ConnectError::no_tls(to))
    }

    pub(super) async fn connect_http(
        &self,
        to: &Authority,
        _dial: impl Future<Output = Result<TcpStream, ConnectError>>,
    ) -> Result<(BoxStream, HttpVersion), ConnectError> {
        Err(ConnectError::no_tls(to))
    }
}

/// Nothing comes from TLS.
pub(super) fn refusal(_: &io::Error) -> Option<String> {
    None
}
