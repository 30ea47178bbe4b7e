use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificate::{self, Explaining};
use super::{Authority, BoxStream, ConnectError, HttpVersion, TcpConnect};
use crate::failure::NetworkFault;

/// TLS by rustls with ring. The provider is set explicitly, so the process needs no default.
#[derive(Clone)]
pub(super) struct Tls {
    roots: RootCertStore,
    /// What is shown to an endpoint that asks for a client's certificate.
    identity: Option<Identity>,
    connector: Result<TlsConnector, ConnectError>,
    /// The same, which offers HTTP/2.
    http_connector: Result<TlsConnector, ConnectError>,
}

/// A certificate, those between it and a root, and its key.
type Identity = Arc<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>;

impl TcpConnect {
    /// The same network, trusting these root certificates (DER) as well.
    ///
    /// # Errors
    /// [`ConnectError`] for a certificate that can't be read.
    pub fn with_roots(mut self, roots: &[Vec<u8>]) -> Result<Self, ConnectError> {
        for der in roots {
            let added = self.tls.roots.add(CertificateDer::from_slice(der));
            added.map_err(|e| unusable(&e))?;
        }
        Ok(self.with_tls())
    }

    /// The same network, trusting the certificates of a private CA as well, in PEM.
    ///
    /// # Errors
    /// [`ConnectError`] for a text without certificates, and for one that can't be read.
    pub fn with_ca(self, pem: &[u8]) -> Result<Self, ConnectError> {
        let roots = certificates(pem)?;
        self.with_roots(&roots.iter().map(|der| der.to_vec()).collect::<Vec<_>>())
    }

    /// The same network, trusting what the operating system trusts as well.
    ///
    /// # Errors
    /// [`ConnectError`] if no certificate of the system can be read.
    pub fn with_system_roots(mut self) -> Result<Self, ConnectError> {
        let found = rustls_native_certs::load_native_certs();
        let (added, _) = self.tls.roots.add_parsable_certificates(found.certs);
        match (added, found.errors.first()) {
            (0, Some(error)) => Err(unusable(error)),
            (0, None) => Err(unusable(&"the system has no store of certificates")),
            _ => Ok(self.with_tls()),
        }
    }

    /// The same network, which shows this certificate to an endpoint that asks for one. `chain` begins
    /// with the certificate and goes on with those between it and its root; `key` is its private key.
    /// Both are PEM.
    ///
    /// # Errors
    /// [`ConnectError`] if one of them can't be read, or they don't belong together.
    pub fn with_client_certificate(
        mut self,
        chain: &[u8],
        key: &[u8],
    ) -> Result<Self, ConnectError> {
        // The error of a parser could show a part of the key.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| unusable(&"the client's key is not a private key in PEM"))?;
        self.tls.identity = Some(Arc::new((certificates(chain)?, key)));
        let connected = self.with_tls();
        connected.tls.connector.as_ref().map_err(Clone::clone)?;
        Ok(connected)
    }

    fn with_tls(mut self) -> Self {
        let tls = self.tls;
        self.tls = Tls::of(tls.roots, tls.identity);
        self
    }
}

impl Tls {
    /// Trusts Mozilla's root certificates.
    pub(super) fn new() -> Self {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        Self::of(roots, None)
    }

    fn of(roots: RootCertStore, identity: Option<Identity>) -> Self {
        let connector = |protocols: &[&[u8]]| connector(&roots, identity.as_ref(), protocols);
        let (plain, http) = (connector(&[]), connector(&[HTTP2, HTTP1]));
        Self { connector: plain, http_connector: http, identity, roots }
    }

    /// Waits for `dial` and agrees on TLS over its stream.
    pub(super) async fn connect(
        &self,
        to: &Authority,
        dial: impl Future<Output = Result<TcpStream, ConnectError>>,
    ) -> Result<BoxStream, ConnectError> {
        let connector = self.connector.as_ref().map_err(Clone::clone)?;
        Ok(Box::new(agree(connector, to, dial).await?))
    }

    /// The same, and offers HTTP/2 (ALPN).
    pub(super) async fn connect_http(
        &self,
        to: &Authority,
        dial: impl Future<Output = Result<TcpStream, ConnectError>>,
    ) -> Result<(BoxStream, HttpVersion), ConnectError> {
        let connector = self.http_connector.as_ref().map_err(Clone::clone)?;
        let stream = agree(connector, to, dial).await?;
        let version = match stream.get_ref().1.alpn_protocol() {
            Some(protocol) if protocol == HTTP2 => HttpVersion::Http2,
            _ => HttpVersion::Http1,
        };
        Ok((Box::new(stream), version))
    }
}

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

async fn agree(
    connector: &TlsConnector,
    to: &Authority,
    dial: impl Future<Output = Result<TcpStream, ConnectError>>,
) -> Result<TlsStream<TcpStream>, ConnectError> {
    let tcp = dial.await?;
    let name = ServerName::try_from(to.host.clone()).map_err(|e| unusable(&e))?;
    let doing = format!("agreeing on TLS with {to}");
    connector.connect(name, tcp).await.map_err(|error| ConnectError::from_io(&doing, &error))
}

/// What TLS objects to, in words, if it is the cause of an I/O error.
pub(super) fn refusal(error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?.downcast_ref()?;
    Some(certificate::in_words(inner))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|e| unusable(&e))?;
    match read.is_empty() {
        true => Err(unusable(&"there is no certificate in PEM")),
        false => Ok(read),
    }
}

fn connector(
    roots: &RootCertStore,
    identity: Option<&Identity>,
    protocols: &[&[u8]],
) -> Result<TlsConnector, ConnectError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = verifier(roots, &provider)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| unusable(&e))?
        // Mozilla's and the user's roots decide as they would without it; it only explains.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match identity.map(Arc::as_ref) {
        None => config.with_no_client_auth(),
        Some((chain, key)) => config
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(|e| unusable(&format!("the client's certificate: {e}")))?,
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn verifier(
    roots: &RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Explaining, ConnectError> {
    let (roots, provider) = (Arc::new(roots.clone()), Arc::clone(provider));
    let built = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
    built.map(Explaining::new).map_err(|e| unusable(&e))
}

fn unusable(error: &dyn fmt::Display) -> ConnectError {
    ConnectError::new(NetworkFault::Tls, format!("TLS can't be set up: {error}"))
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}
