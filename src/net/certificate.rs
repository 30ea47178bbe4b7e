//! Why a certificate is refused, in words: which one it is, and what is wrong with it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme,
};
use webpki::EndEntityCert;

use crate::failure::sanitise;

/// The most names of a certificate that a message shows.
const NAMES: usize = 3;
/// The most characters of each.
const NAME: usize = 80;

/// Decides as rustls does, and says which certificate it refused and why.
#[derive(Debug)]
pub(super) struct Explaining(Arc<WebPkiServerVerifier>);

/// A refusal in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

impl Explaining {
    pub(super) fn new(inner: Arc<WebPkiServerVerifier>) -> Self {
        Self(inner)
    }
}

impl ServerCertVerifier for Explaining {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.verify_server_cert(leaf, between, name, ocsp, now).map_err(|error| match error {
            Error::InvalidCertificate(why) => {
                let refused = Refused(format!("{} {}", of(leaf), wrong(&why, name)));
                CertificateError::Other(OtherError(Arc::new(refused))).into()
            }
            other => other,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, leaf, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// What `error`, with which an agreement on TLS ended, means.
pub(super) fn in_words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(refused)) => refused.0.to_string(),
        Error::InvalidMessage(_) => {
            format!("it does not answer in TLS; is it an http:// endpoint? ({error})")
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "it asks for a client's certificate, and none is set".to_owned()
        }
        other => other.to_string(),
    }
}

/// The certificate, by its names and its issuer.
fn of(leaf: &CertificateDer<'_>) -> String {
    let Ok(read) = EndEntityCert::try_from(leaf) else { return "its certificate".to_owned() };
    let names: Vec<_> = read.valid_dns_names().take(NAMES + 1).map(shown).collect();
    let names = match (names.len(), common_name(read.subject())) {
        (0, Some(name)) => format!(" of {name}"),
        (0, None) => String::new(),
        (n, _) if n > NAMES => format!(" for {} and others", names[..NAMES].join(", ")),
        _ => format!(" for {}", names.join(", ")),
    };
    let issuer = common_name(read.issuer()).map(|name| format!(", issued by `{name}`,"));
    format!("its certificate{names}{}", issuer.unwrap_or_default())
}

fn shown(name: &str) -> String {
    sanitise::message(name, NAME)
}

/// The common name in a distinguished name (X.501, DER): the text behind the identifier 2.5.4.3.
fn common_name(name: &[u8]) -> Option<String> {
    const IDENTIFIER: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
    let at = name.windows(IDENTIFIER.len()).position(|w| w == IDENTIFIER)?;
    let rest = &name[at + IDENTIFIER.len()..];
    let (_kind, length) = (rest.first()?, usize::from(*rest.get(1)?));
    // A longer length is written in more bytes; no real name has one.
    let text = rest.get(2..2 + length).filter(|_| length < 128)?;
    Some(shown(&String::from_utf8_lossy(text)))
}

/// What is wrong with it, and what to do.
fn wrong(why: &CertificateError, name: &ServerName<'_>) -> String {
    use CertificateError as E;
    match why {
        E::ExpiredContext { not_after, .. } => format!("expired on {}", date(*not_after)),
        E::Expired => "has expired".to_owned(),
        E::NotValidYetContext { not_before, .. } => {
            format!("is valid only from {}; is this machine's clock right?", date(*not_before))
        }
        E::NotValidYet => "is not valid yet; is this machine's clock right?".to_owned(),
        E::UnknownIssuer => {
            "is signed by nobody that this node trusts; for a private CA, set its certificate (ca_file)"
                .to_owned()
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            format!("is not for the host {}", name.to_str())
        }
        E::Revoked => "is revoked".to_owned(),
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => "is not one of a server".to_owned(),
        E::BadSignature => "has a wrong signature".to_owned(),
        other => format!("is refused: {other}"),
    }
}

/// A date as HTTP writes it.
fn date(at: UnixTime) -> String {
    // The last second of the year 9999, after which HTTP has no dates.
    const LAST: u64 = 253_402_300_799;
    let at = Duration::from_secs(at.as_secs().min(LAST));
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + at)
}
