use std::fmt;
use std::future::Future;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Authority, BoxStream, ConnectError, TcpConnect};
use crate::failure::NetworkFault;

/// TLS by rustls with ring. The provider is set explicitly, so the process needs no default.
#[derive(Clone)]
pub(super) struct Tls(Result<TlsConnector, ConnectError>);

impl TcpConnect {
    /// The same network, trusting these root certificates (DER) as well.
    ///
    /// # Errors
    /// [`ConnectError`] for a certificate that can't be read.
    pub fn with_roots(mut self, roots: &[Vec<u8>]) -> Result<Self, ConnectError> {
        let mut trusted = mozilla();
        for der in roots {
            trusted.add(CertificateDer::from_slice(der)).map_err(|e| unusable(&e))?;
        }
        self.tls = Tls(connector(trusted));
        Ok(self)
    }
}

impl Tls {
    /// Trusts Mozilla's root certificates.
    pub(super) fn new() -> Self {
        Self(connector(mozilla()))
    }

    /// Waits for `dial` and agrees on TLS over its stream.
    pub(super) async fn connect(
        &self,
        to: &Authority,
        dial: impl Future<Output = Result<TcpStream, ConnectError>>,
    ) -> Result<BoxStream, ConnectError> {
        let tcp = dial.await?;
        let connector = self.0.as_ref().map_err(Clone::clone)?;
        let name = ServerName::try_from(to.host.clone()).map_err(|e| unusable(&e))?;
        let doing = format!("agreeing on TLS with {to}");
        match connector.connect(name, tcp).await {
            Ok(stream) => Ok(Box::new(stream)),
            // rustls reports its own refusals as I/O errors that carry one of its errors.
            Err(error) if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
                Err(ConnectError::new(NetworkFault::Tls, format!("{doing}: {error}")))
            }
            Err(error) => Err(ConnectError::from_io(&doing, &error)),
        }
    }
}

fn mozilla() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

fn connector(roots: RootCertStore) -> Result<TlsConnector, ConnectError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| unusable(&e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn unusable(error: &dyn fmt::Display) -> ConnectError {
    ConnectError::new(NetworkFault::Tls, format!("TLS can't be set up: {error}"))
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}
