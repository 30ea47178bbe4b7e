//! What the address of a PostgreSQL store says about TLS. Needs no server.
#![cfg(feature = "postgres")]

use retrial::runtime::TokioRuntime;
use retrial::store::{ConnectError, PostgresOptions, PostgresStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

fn mode(address: &str) -> String {
    let options = format!("{:?}", PostgresOptions::from_url(address).unwrap());
    let (_, rest) = options.split_once("sslmode: ").unwrap();
    rest.split(',').next().unwrap().to_owned()
}

#[test]
fn tls_is_demanded_unless_the_host_is_this_machine_or_the_address_says_otherwise() {
    for (hosts, unless_said) in [
        ("u@db.example/d", "Require"),
        ("u:p@10.0.0.7:5433/d", "Require"),
        ("u@[fe80::1]/d", "Require"),
        ("u@localhost.example/d", "Require"),
        ("u@localhost,db.example/d", "Require"),
        ("u@localhost/d?hostaddr=10.0.0.7", "Require"),
        ("u@localhost/d", "Prefer"),
        ("u@127.0.0.9:5433/d", "Prefer"),
        ("u@[::1]/d", "Prefer"),
        ("u@%2Frun%2Fpostgresql/d", "Prefer"),
        ("u@localhost/d?hostaddr=127.0.0.1", "Prefer"),
    ] {
        assert_eq!(mode(&format!("postgres://{hosts}")), unless_said, "{hosts}");
        let joint = if hosts.contains('?') { '&' } else { '?' };
        for (said, meant) in [
            ("disable", "Disable"),
            ("prefer", "Prefer"),
            ("require", "Require"),
            ("verify-full", "Require"),
        ] {
            let address = format!("postgres://{hosts}{joint}sslmode={said}");
            assert_eq!(mode(&address), meant, "{address}");
        }
    }
}

#[tokio::test]
async fn a_server_without_tls_is_named_with_what_to_write() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let answers = async {
        loop {
            let (mut peer, _) = server.accept().await.unwrap();
            let mut asked = [0; 8];
            peer.read_exact(&mut asked).await.unwrap();
            peer.write_all(b"N").await.unwrap();
        }
    };
    let url = format!("postgres://u:planted-7@{address}/d?sslmode=verify-full");
    let options = PostgresOptions::from_url(&url).unwrap();
    let refused = tokio::select! {
        biased;
        refused = PostgresStore::connect(TokioRuntime::current(), options) => refused.unwrap_err(),
        () = answers => unreachable!(),
    };
    assert!(matches!(&refused, ConnectError::NoTls { .. }), "{refused:?}");
    let said = refused.to_string();
    assert!(said.contains("sslmode=disable") && said.contains(&address.to_string()), "{said}");
    assert!(!said.contains("planted-7"), "{said}");
}
