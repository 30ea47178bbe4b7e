//! A crashed node's connections: silence first, a reset once the node is back.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes a test's helpers for production code"
)]

use crate::net_world;

use std::io;

use madsim::runtime::Handle;
use madsim::time::{sleep, timeout};
use net_world::*;
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::net::ShimStream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// How long the survivor listens to the silence.
const SILENCE: u64 = 60_000;

/// Reads until something other than bytes comes; returns what, how many bytes, and when.
async fn listen_on(mut stream: ShimStream) -> (Result<usize, io::ErrorKind>, usize, u64) {
    let mut heard = 0;
    loop {
        match stream.read(&mut [0; 64]).await {
            Ok(0) => return (Ok(0), heard, now_ms()),
            Ok(n) => heard += n,
            Err(error) => return (Err(error.kind()), heard, now_ms()),
        }
    }
}

/// The crash as the world does it: mark dead, let it run on a little, kill, wait, restart.
async fn crash(world: &World, node: &str, incarnation: &Incarnation) {
    incarnation.end();
    sleep(millis(50)).await;
    Handle::current().kill(node);
    sleep(millis(SILENCE)).await;
    Handle::current().restart(node);
    world.net.node_restarted(node);
}

/// `a` connects to `b` and both write a byte every 10 ms; `victim` crashes at 1 s.
fn survivor_of(victim: &'static str) -> (Result<usize, io::ErrorKind>, usize, u64) {
    within(4, plan([]), move |world| async move {
        let (a, b) = (world.node("a", 1), world.node("b", 2));
        let lives = [Incarnation::new("a", 0), Incarnation::new("b", 0)];
        let (net, own) = (world.net.clone(), lives[1].clone());
        let at_b = b.spawn(async move {
            let listener = net.listen(own, 80).await.unwrap();
            babble(listener.accept().await.unwrap()).await
        });
        let (net, own) = (world.net.clone(), lives[0].clone());
        let at_a = a.spawn(async move {
            sleep(millis(10)).await;
            babble(net.connector(own).connect_to("b", 80).await.unwrap()).await
        });
        sleep(millis(1_000)).await;
        let (dying, survivor) = if victim == "a" { (&lives[0], at_b) } else { (&lives[1], at_a) };
        let net = world.net.clone();
        let look = madsim::task::spawn(async move {
            sleep(millis(SILENCE / 2)).await;
            net.silent(victim)
        });
        crash(&world, victim, dying).await;
        assert_eq!((look.await.unwrap(), world.net.silent(victim)), (1, 0));
        let told = timeout(millis(1_000), survivor).await.unwrap().unwrap();
        sleep(millis(50)).await;
        assert_eq!(world.net.open(), 0);
        told
    })
}

async fn babble(stream: ShimStream) -> (Result<usize, io::ErrorKind>, usize, u64) {
    let mut told = None;
    let (mut reads, mut writes) = tokio::io::split(stream);
    let writer = madsim::task::spawn(async move {
        while writes.write_all(b".").await.is_ok() {
            sleep(millis(10)).await;
        }
    });
    let mut heard = 0;
    while told.is_none() {
        match reads.read(&mut [0; 64]).await {
            Ok(0) => told = Some((Ok(0), heard, now_ms())),
            Ok(n) => heard += n,
            Err(error) => told = Some((Err(error.kind()), heard, now_ms())),
        }
    }
    // The writer must learn of it as well.
    timeout(millis(1_000), writer).await.unwrap().unwrap();
    told.unwrap()
}

#[test]
fn the_dead_fall_silent_and_reset_only_when_their_node_is_back() {
    for victim in ["a", "b"] {
        let (ending, heard, at) = survivor_of(victim);
        assert_eq!(ending, Err(io::ErrorKind::ConnectionReset), "{victim}");
        // About a byte every 10 to 11 ms for a second, and not one from the 50 ms after its death.
        assert!((80..100).contains(&heard), "{heard} bytes of {victim}");
        assert!((1_050 + SILENCE..1_200 + SILENCE).contains(&at), "{victim}: {at}");
    }
}

#[test]
fn who_waits_in_a_dead_listeners_backlog_is_told_at_restart() {
    let (ending, heard, at) = within(4, plan([]), |world| async move {
        let (a, b) = (world.node("a", 1), world.node("b", 2));
        let (net, own) = (world.net.clone(), Incarnation::new("b", 0));
        let dying = own.clone();
        b.spawn(async move {
            let _listener = net.listen(own, 80).await.unwrap();
            std::future::pending::<()>().await;
        });
        let net = world.net.clone();
        let client = a.spawn(async move {
            sleep(millis(10)).await;
            let mut stream = net.connector(incarnation("a")).connect_to("b", 80).await.unwrap();
            stream.write_all(b"is anybody there?").await.unwrap();
            sleep(millis(2_000)).await;
            stream.write_all(b"hello?").await.unwrap();
            listen_on(stream).await
        });
        sleep(millis(1_000)).await;
        crash(&world, "b", &dying).await;
        client.await.unwrap()
    });
    assert_eq!((ending, heard), (Err(io::ErrorKind::ConnectionReset), 0));
    assert!(at >= 1_050 + SILENCE, "{at}");
}

#[test]
fn the_living_close_cleanly_and_nobody_listens_on_a_node_that_is_down() {
    let seen = within(4, plan([]), |world| async move {
        let (a, b) = (world.node("a", 1), world.node("b", 2));
        let (net, own) = (world.net.clone(), Incarnation::new("b", 0));
        let dying = own.clone();
        b.spawn(async move {
            let listener = net.listen(own, 80).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            stream.write_all(b"bye").await.unwrap();
            drop(stream);
            listener.accept().await
        });
        let net = world.net.clone();
        let client = a.spawn(async move {
            sleep(millis(10)).await;
            let connector = net.connector(incarnation("a"));
            let (ending, heard, _) = listen_on(connector.connect_to("b", 80).await.unwrap()).await;
            sleep(millis(2_000)).await;
            let refused = connector.connect_to("b", 80).await.unwrap_err().kind();
            (ending, heard, refused)
        });
        sleep(millis(1_000)).await;
        dying.end();
        Handle::current().kill("b");
        client.await.unwrap()
    });
    assert_eq!(seen, (Ok(0), 3, io::ErrorKind::ConnectionRefused));
}

#[test]
fn the_dead_connect_to_nobody() {
    let made = within(4, plan([]), |world| async move {
        let a = world.node("a", 1);
        let (net, own) = (world.net.clone(), Incarnation::new("a", 0));
        own.end();
        let connects = a.spawn(async move { net.connector(own).connect_to("a", 80).await.is_ok() });
        timeout(millis(SILENCE), connects).await.is_ok()
    });
    assert!(!made);
}
