//! TLS to a server whose certificate a root of our own has signed.

use std::fmt::Write as _;
use std::sync::OnceLock;

use retrial::runtime::TokioRuntime;
use retrial::store::{ConnectError, PostgresOptions, PostgresStore, Store as _};
use tempfile::NamedTempFile;

use retrial_testkit::postgres_server::{Server, Setup};

const ROOT: &[u8] = include_bytes!("../../fixtures/tls/root.der");
const LEAF: &[u8] = include_bytes!("../../fixtures/tls/leaf.der");
const KEY: &[u8] = include_bytes!("../../fixtures/tls/leaf.key.der");

/// DER between PEM's lines.
fn pem(what: &str, der: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {what}-----\n");
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let bits = three.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
            let bits = bits << (8 * (3 - three.len()));
            let letter = |n: usize| char::from(LETTERS[(bits >> (18 - 6 * n) & 63) as usize]);
            let letters: String = (0..=three.len()).map(letter).collect();
            write!(text, "{letters:=<4}").unwrap();
        }
        text.push('\n');
    }
    text + &format!("-----END {what}-----\n")
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let tls = Some((pem("CERTIFICATE", LEAF), pem("PRIVATE KEY", KEY)));
        Server::start_as(Setup { tls, ..Setup::default() })
    })
}

fn root() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pem("CERTIFICATE", ROOT)).unwrap();
    file
}

async fn connect(host: &str, options: &str) -> Result<PostgresStore, ConnectError> {
    let url = format!("postgres://retrial@{host}:{}/postgres?{options}", server().port());
    PostgresStore::connect(TokioRuntime::current(), PostgresOptions::from_url(&url)?).await
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn tls_wants_a_certificate_that_it_trusts_and_that_has_the_hosts_name() {
    let root = root();
    let trusted = format!("sslrootcert={}", root.path().display().to_string().replace('/', "%2F"));
    for mode in ["require", "verify-full", "prefer"] {
        let store = connect("localhost", &format!("sslmode={mode}&{trusted}")).await.unwrap();
        store.tally().await.unwrap();
        let seen = "SELECT bool_and(ssl), count(*) > 0 FROM pg_stat_ssl JOIN pg_stat_activity \
            USING (pid) WHERE application_name = 'retrial'";
        let row = server().client("postgres").await.query_one(seen, &[]).await.unwrap();
        assert_eq!((row.get(0), row.get(1)), (true, true), "{mode}");
        store.close().await;
        // Without that root the certificate is nobody's, and nothing goes on without TLS.
        let refused = connect("localhost", &format!("sslmode={mode}")).await.unwrap_err();
        assert!(refused.to_string().to_lowercase().contains("certificate"), "{mode}: {refused}");
    }
    let plain = connect("localhost", "sslmode=disable").await.unwrap();
    plain.tally().await.unwrap();
    plain.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn root_certificates_that_cannot_be_read_are_told() {
    let empty = NamedTempFile::new().unwrap();
    for path in [empty.path(), "/nowhere/root.pem".as_ref()] {
        let options = format!("sslrootcert={}", path.display());
        let refused = connect("localhost", &options).await.unwrap_err();
        let named = refused.to_string().contains(&path.display().to_string());
        assert!(named && matches!(refused, ConnectError::Certificates { .. }), "{refused}");
    }
}
