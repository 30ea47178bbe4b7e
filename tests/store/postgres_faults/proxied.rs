//! The proxy itself: exactly so many bytes pass.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::postgres_proxy::{Fault, From, Proxy, Strike, Way};

/// Echoes one connection's bytes, and gives all it has read when that ends.
async fn echo() -> (SocketAddr, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let echoing = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        let mut bytes = [0; 64];
        while let Ok(read @ 1..) = stream.read(&mut bytes).await {
            all.extend(&bytes[..read]);
            if stream.write_all(&bytes[..read]).await.is_err() {
                break;
            }
        }
        all
    });
    (address, echoing)
}

/// What the server and the client have read when the connection has ended.
async fn read(way: Way, passing: u64, strike: Strike) -> (usize, usize) {
    let (server, echoing) = echo().await;
    let proxy = Proxy::before(server).await;
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    proxy.arm(Fault { way, from: From::Arming, passing, strike });
    client.write_all(&[7; 20]).await.unwrap();
    let mut come = 0;
    let mut bytes = [0; 64];
    while let Ok(read @ 1..) = client.read(&mut bytes).await {
        come += read;
    }
    assert!(proxy.disarm() && proxy.struck() == 1);
    (echoing.await.unwrap().len(), come)
}

#[tokio::test]
async fn so_many_bytes_pass_and_no_more() {
    for passing in 0..20 {
        let (server, client) = read(Way::ToServer, passing, Strike::End).await;
        assert_eq!(server as u64, passing);
        assert!(client <= server);
        let (server, client) = read(Way::ToClient, passing, Strike::End).await;
        assert_eq!((server, client as u64), (20, passing));
    }
}

#[tokio::test]
async fn a_reset_ends_both_sides() {
    let (server, client) = read(Way::ToServer, 4, Strike::Reset).await;
    assert!(server <= 4 && client <= 4);
}

#[tokio::test]
async fn what_is_calm_passes_whole() {
    let (server, echoing) = echo().await;
    let proxy = Proxy::before(server).await;
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    client.write_all(&[7; 20]).await.unwrap();
    let mut bytes = [0; 20];
    client.read_exact(&mut bytes).await.unwrap();
    let passed = proxy.passed();
    assert_eq!((passed.to_server.bytes, passed.to_client.bytes), (20, 20));
    proxy.end_all();
    assert_eq!(client.read(&mut bytes).await.unwrap(), 0);
    assert_eq!(echoing.await.unwrap().len(), 20);
}
