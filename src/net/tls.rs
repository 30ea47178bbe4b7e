use std::fmt;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Authority, ConnectError};
use crate::failure::NetworkFault;

/// TLS by rustls over ring. The provider is given outright: the process needs no default one.
#[derive(Clone)]
pub(super) struct Tls(Result<TlsConnector, ConnectError>);

impl Tls {
    pub(super) fn mozilla() -> Self {
        Self(connector(mozilla()))
    }

    pub(super) fn with_roots(extra: &[Vec<u8>]) -> Result<Self, ConnectError> {
        let mut roots = mozilla();
        for der in extra {
            roots.add(CertificateDer::from_slice(der)).map_err(|e| unusable(&e))?;
        }
        Ok(Self(connector(roots)))
    }

    pub(super) async fn shake_hands(
        &self,
        to: &Authority,
        tcp: TcpStream,
    ) -> Result<TlsStream<TcpStream>, ConnectError> {
        let connector = self.0.as_ref().map_err(Clone::clone)?;
        let name = ServerName::try_from(to.host.clone()).map_err(|e| unusable(&e))?;
        let doing = format!("agreeing on TLS with {to}");
        connector.connect(name, tcp).await.map_err(|error| {
            // rustls reports its own refusals as I/O errors that carry one of its errors.
            if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                ConnectError::new(NetworkFault::Tls, format!("{doing}: {error}"))
            } else {
                ConnectError::from_io(&doing, &error)
            }
        })
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
