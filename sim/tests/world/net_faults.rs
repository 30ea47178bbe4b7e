//! Each network fault as both ends see it, and that it is counted when, and only when, it struck.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes a test's helpers for production code"
)]

use crate::net_world;

use madsim::time::timeout;
use net_world::*;
use retrial::time::Nanos;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::net::{Direction, Effect, NetFault, NetPlan, ShimStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const REQUEST: &[u8] = b"a request of 25 bytes....";
const RESPONSE: &[u8] = b"and a response of 32 bytes......";

/// What one side wrote and read of an exchange, until something failed.
async fn talk(stream: &mut ShimStream, says: &[u8], hears: usize, first: bool) -> String {
    let mut heard = vec![0; hears];
    let mut said = Ok(());
    if first {
        said = stream.write_all(says).await;
    }
    let mut count = 0;
    let ending = loop {
        match stream.read(&mut heard[count..]).await {
            _ if count == hears => break "all".to_owned(),
            Ok(0) => break "end".to_owned(),
            Ok(n) => count += n,
            Err(error) => break error.kind().to_string(),
        }
        if count == hears {
            break "all".to_owned();
        }
    };
    if !first && ending == "all" {
        said = stream.write_all(says).await;
    }
    let said = said.map_or_else(|e| e.kind().to_string(), |()| "said".to_owned());
    format!("{said}, heard {count} {ending}")
}

/// One exchange under `fault`: what the client saw, what the server saw, and when the client's part
/// had ended, in milliseconds.
fn exchange(faults: Vec<NetFault>) -> (String, String, u64, Vec<(FaultKind, u64)>) {
    within(7, plan(faults), |world| async move {
        let (a, b) = (world.node("a", 1), world.node("b", 2));
        let net = world.net.clone();
        let server = b.spawn(async move {
            let listener = net.listen(incarnation("b"), 80).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            let seen = talk(&mut stream, RESPONSE, REQUEST.len(), false).await;
            // Stays until the other side is done, so that only faults end connections.
            let _ = stream.read(&mut [0]).await;
            seen
        });
        let net = world.net.clone();
        let client = a.spawn(async move {
            madsim::time::sleep(millis(10)).await;
            let seen = match net.connector(incarnation("a")).connect_to("b", 80).await {
                Ok(mut stream) => talk(&mut stream, REQUEST, RESPONSE.len(), true).await,
                Err(error) => error.kind().to_string(),
            };
            (seen, now_ms())
        });
        let (client, at) = client.await.unwrap();
        let server = timeout(millis(1_000), server).await;
        let server = server.map_or_else(|_| "nobody came".to_owned(), |seen| seen.unwrap());
        (client, server, at, world.strikes.counts().into_iter().collect())
    })
}

/// Checks what both sides saw and that exactly `struck` was counted, once.
#[track_caller]
fn check(effect: Effect, client: &str, server: &str, struck: Option<FaultKind>) -> u64 {
    let (saw, served, at, counts) = exchange(vec![NetFault::always(effect)]);
    assert_eq!((saw.as_str(), served.as_str()), (client, server), "{effect:?}");
    assert_eq!(counts, struck.map(|kind| (kind, 1)).into_iter().collect::<Vec<_>>());
    at
}

#[test]
fn without_faults_all_arrives() {
    let (client, server, at, counts) = exchange(vec![]);
    assert_eq!(client, "said, heard 32 all");
    assert_eq!(server, "said, heard 25 all");
    assert!(at < 300 && counts.is_empty());
}

#[test]
fn refused() {
    check(Effect::Refuse, "connection refused", "nobody came", Some(FaultKind::Refuse));
}

#[test]
fn a_reset_in_the_request_is_seen_by_both_after_the_bytes_before_it() {
    let effect = Effect::ResetAt { byte: 9, direction: Direction::Request };
    let reset = "connection reset, heard 0 connection reset";
    check(effect, reset, "said, heard 9 connection reset", Some(FaultKind::Reset));
}

#[test]
fn a_reset_in_the_response_comes_after_the_request_was_handled() {
    let effect = Effect::ResetAt { byte: 0, direction: Direction::Response };
    let (client, server) = ("said, heard 0 connection reset", "connection reset, heard 25 all");
    check(effect, client, server, Some(FaultKind::Reset));
    let effect = Effect::ResetAt { byte: 31, direction: Direction::Response };
    check(effect, "said, heard 31 connection reset", server, Some(FaultKind::Reset));
}

#[test]
fn a_cut_is_a_clean_end() {
    let effect = Effect::CutAt { byte: 9, direction: Direction::Request };
    check(effect, "broken pipe, heard 0 end", "said, heard 9 end", Some(FaultKind::Cut));
    let effect = Effect::CutAt { byte: 5, direction: Direction::Response };
    check(effect, "said, heard 5 end", "broken pipe, heard 25 all", Some(FaultKind::Cut));
}

#[test]
fn a_fault_beyond_the_last_byte_never_strikes() {
    for (byte, direction) in [(25, Direction::Request), (32, Direction::Response)] {
        check(
            Effect::ResetAt { byte, direction },
            "said, heard 32 all",
            "said, heard 25 all",
            None,
        );
    }
}

#[test]
fn a_stall_holds_everything_up_for_its_time() {
    for (byte, direction) in [(3, Direction::Request), (30, Direction::Response)] {
        let effect = Effect::Stall { byte, direction, lasts: Nanos::from_secs(9) };
        let at = check(effect, "said, heard 32 all", "said, heard 25 all", Some(FaultKind::Stall));
        assert!((9_000..9_500).contains(&at), "{at}");
    }
}

#[test]
fn a_delay_makes_both_ways_slower_and_counts_once_a_connection() {
    let effect = Effect::Delay { by: Nanos::from_secs(2) };
    let at = check(effect, "said, heard 32 all", "said, heard 25 all", Some(FaultKind::Delay));
    assert!((4_000..4_500).contains(&at), "{at}");
}

#[test]
fn what_hangs_goes_on_when_its_window_ends() {
    for (effect, kind) in [
        (Effect::Hang, FaultKind::ConnectHang),
        (Effect::Partition, FaultKind::Partition),
        (Effect::OneWay, FaultKind::OneWay),
    ] {
        let fault = NetFault { window: window(0, 5_000), ..NetFault::always(effect) };
        let (client, _, at, counts) = exchange(vec![fault]);
        assert_eq!(client, "said, heard 32 all");
        assert!((5_000..5_300).contains(&at), "{effect:?} until {at}");
        assert_eq!(counts, [(kind, 1)]);
    }
}

/// Sends a byte a second from `a` to `b` and back for ten seconds; returns when each arrived.
fn pings(faults: Vec<NetFault>, heal_at: u64) -> (Vec<u64>, Vec<u64>, u64) {
    within(3, plan(faults), move |world| async move {
        let (a, b) = (world.node("a", 1), world.node("b", 2));
        let net = world.net.clone();
        let listens = b.spawn(async move {
            let listener = net.listen(incarnation("b"), 80).await.unwrap();
            pace(listener.accept().await.unwrap()).await
        });
        let net = world.net.clone();
        let connects = a.spawn(async move {
            madsim::time::sleep(millis(10)).await;
            pace(net.connector(incarnation("a")).connect_to("b", 80).await.unwrap()).await
        });
        madsim::time::sleep(millis(heal_at)).await;
        world.net.heal();
        let (at_a, at_b) = (connects.await.unwrap(), listens.await.unwrap());
        let kinds = [FaultKind::Partition, FaultKind::OneWay, FaultKind::Loss];
        (at_a, at_b, kinds.into_iter().map(|kind| world.struck(kind)).sum())
    })
}

async fn pace(stream: ShimStream) -> Vec<u64> {
    let (mut reads, mut writes) = tokio::io::split(stream);
    let writer = madsim::task::spawn(async move {
        for _ in 0..10 {
            writes.write_all(b".").await.unwrap();
            madsim::time::sleep(millis(1_000)).await;
        }
        writes.shutdown().await.unwrap();
    });
    let mut arrived = Vec::new();
    while reads.read(&mut [0]).await.unwrap() == 1 {
        arrived.push(now_ms() / 1_000);
    }
    writer.await.unwrap();
    arrived
}

#[test]
fn a_partition_stalls_streams_both_ways_and_loses_nothing() {
    let fault = NetFault {
        window: window(2_500, 6_500),
        from: Some("b".into()),
        to: Some("a".into()),
        ..NetFault::always(Effect::Partition)
    };
    let (at_a, at_b, struck) = pings(vec![fault], 20_000);
    assert_eq!(at_a, [0, 1, 2, 6, 6, 6, 6, 7, 8, 9]);
    assert_eq!(at_b, at_a);
    assert_eq!(struck, 1);
}

#[test]
fn one_way_stalls_only_that_way() {
    let fault = NetFault {
        window: window(2_500, u64::MAX / 2_000_000),
        from: Some("a".into()),
        to: Some("b".into()),
        ..NetFault::always(Effect::OneWay)
    };
    let (at_a, at_b, struck) = pings(vec![fault], 4_200);
    assert_eq!(at_a, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(at_b, [0, 1, 2, 4, 4, 5, 6, 7, 8, 9]);
    assert_eq!(struck, 1);
}

/// TCP's view of loss: nothing is lost for good, each piece comes later by 200, 600, 1,400 ms and
/// so on, what is behind it waits, and in order.
#[test]
fn what_is_lost_is_sent_again_later_each_time() {
    let lossy = |percent| {
        let fault =
            NetFault { window: window(0, 60_000), ..NetFault::always(Effect::Loss { percent }) };
        pings(vec![fault], 60_000)
    };
    let none = lossy(0);
    assert_eq!((none.0.as_slice(), none.2), ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9].as_slice(), 0));
    let (at_a, at_b, struck) = lossy(70);
    for at in [&at_a, &at_b] {
        assert_eq!(at.len(), 10, "nothing is lost for good");
        assert!(at.is_sorted());
        // Sent once a second, lost at most six times: 200 ms * (2^6 - 1).
        assert!(at.iter().zip(0..).all(|(at, sent)| (sent..=sent + 13).contains(at)), "{at:?}");
    }
    assert!(at_a != none.0 && at_b != none.0, "{at_a:?} {at_b:?}");
    assert!(struck >= 1);
    // Each sending is lost by itself: with every one lost, each piece is 12.6 s late.
    let (at_a, ..) = lossy(100);
    assert_eq!(at_a, [12, 13, 14, 15, 16, 17, 18, 19, 20, 21]);
}

#[test]
fn healing_frees_what_hangs_for_ever() {
    for effect in [Effect::Hang, Effect::Partition] {
        let at = within(5, plan([NetFault::always(effect)]), |world| async move {
            let (a, b) = (world.node("a", 1), world.node("b", 2));
            let net = world.net.clone();
            b.spawn(async move { net.listen(incarnation("b"), 80).await.unwrap().accept().await });
            let net = world.net.clone();
            let client = a.spawn(async move {
                madsim::time::sleep(millis(5)).await;
                net.connector(incarnation("a")).connect_to("b", 80).await.map(|_| now_ms()).unwrap()
            });
            madsim::time::sleep(millis(60_000)).await;
            assert!(!client.is_finished());
            world.net.heal();
            client.await.unwrap()
        });
        assert!((60_000..60_050).contains(&at), "{effect:?} at {at}");
    }
}

#[test]
fn only_the_named_connection_is_struck() {
    let seen = within(1, plan([nth(1, Effect::Refuse)]), |world| async move {
        let (a, b) = (world.node("a", 1), world.node("b", 2));
        world.net.add_alias("api.example", "b");
        let net = world.net.clone();
        b.spawn(async move {
            let listener = net.listen(incarnation("b"), 80).await.unwrap();
            loop {
                let _ = listener.accept().await;
            }
        });
        let net = world.net.clone();
        a.spawn(async move {
            madsim::time::sleep(millis(5)).await;
            let connector = net.connector(incarnation("a"));
            let mut seen = Vec::new();
            for (host, port) in [("b", 80), ("api.example", 80), ("b", 80), ("b", 81), ("c", 80)] {
                let made = connector.connect_to(host, port).await;
                seen.push(made.map_or_else(|e| e.kind().to_string(), |s| s.name().to_owned()));
            }
            seen
        })
        .await
        .unwrap()
    });
    let refused = "connection refused";
    assert_eq!(seen, ["a>b#0", refused, "a>b#2", refused, "entity not found"]);
}

#[test]
fn a_plan_is_plain_data() {
    let text = r#"{"faults":[
        {"window":{"from":0,"until":5},"from":"a","which":{"nth":2},
         "effect":{"reset_at":{"byte":7,"direction":"response"}}},
        {"window":{"from":0,"until":9},"effect":"partition"}]}"#;
    let read: NetPlan = serde_json::from_str(text).unwrap();
    assert!(read.short && read.faults.len() == 2);
    let again = serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
    assert_eq!(read, again);
    assert!(serde_json::from_str::<NetPlan>(r#"{"fault":[]}"#).is_err());
}
