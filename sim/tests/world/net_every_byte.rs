//! Real HTTP exchanges, reset, cut and stalled at every byte of both directions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes a test's helpers for production code"
)]

use crate::net_world;

use std::collections::BTreeMap;

use madsim::time::{sleep, timeout};
use net_world::*;
use retrial::time::Nanos;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::endpoint::{Delivery, Endpoint, EndpointScript, Entry, Route};
use retrial_sim::unstable::net::{Direction, Effect};
use retrial_sim::unstable::scenario::Reply;
use retrial_sim::unstable::trace::{Fingerprint, Kind};

const BODY: &str = r#"{"amount": 12, "note": "long enough to be cut in many places"}"#;
const STALL: Nanos = Nanos::from_secs(30);

/// The result of one exchange.
#[derive(Debug)]
struct Exchange {
    /// Whether the client got the whole answer.
    succeeded: bool,
    took_ms: u64,
    /// What the endpoint knows of it.
    entry: Option<Entry>,
}

#[derive(Debug)]
struct Run {
    exchanges: Vec<Exchange>,
    fingerprint: Fingerprint,
    strikes: BTreeMap<FaultKind, u64>,
    /// Bytes sent by the client and by the server.
    sent: [u64; 2],
}

/// One exchange for each effect, the n-th under the n-th; one without, where there are none.
fn run(seed: u64, effects: &[Effect]) -> Run {
    let faults = effects.iter().zip(0..).map(|(effect, n)| nth(n, *effect));
    let count = effects.len().max(1);
    within(seed, plan(faults), move |world| async move {
        let (client, server) = (world.node("a", 1), world.node("api", 2));
        let route = Route::one(vec![], Reply::Echo);
        let script = EndpointScript { routes: [("/work".to_owned(), route)].into(), heals: true };
        let endpoint = Endpoint::new("api", script, world.trace.clone(), world.strikes.clone());
        let (net, served) = (world.net.clone(), endpoint.clone());
        server.spawn(async move {
            served.serve(net.listen(incarnation("api"), 80).await.unwrap()).await
        });
        let net = world.net.clone();
        let talked = client.spawn(async move {
            sleep(millis(5)).await;
            let connector = net.connector(incarnation("a"));
            let mut seen = Vec::new();
            for n in 0..count {
                let (token, began) = (format!("{n:05}"), now_ms());
                let asked = post(&connector, "api", "/work", &token, BODY);
                let answer = timeout(millis(60_000), asked).await.unwrap();
                let whole = answer.is_ok_and(|a| a.status == 200 && a.body.is_some());
                seen.push((whole, now_ms() - began));
            }
            seen
        });
        let seen = talked.await.unwrap();
        settle().await;
        let mut entries: BTreeMap<_, _> = endpoint
            .ledger()
            .entries()
            .into_iter()
            .map(|e| (e.token.clone().unwrap(), e))
            .collect();
        let exchanges = seen.into_iter().enumerate().map(|(n, (succeeded, took_ms))| Exchange {
            succeeded,
            took_ms,
            entry: entries.remove(&format!("{n:05}")),
        });
        Run {
            exchanges: exchanges.collect(),
            fingerprint: world.trace.fingerprint(),
            strikes: world.strikes.counts(),
            sent: ["a", "api"].map(|lane| sent_by(&world, lane)),
        }
    })
}

fn sent_by(world: &World, lane: &str) -> u64 {
    let lines = world.trace.lines();
    let sends = lines.iter().filter(|l| l.lane == lane && l.kind == Kind::Message);
    sends
        .filter_map(|l| l.text.split_once(" sends ")?.1.strip_suffix(" bytes")?.parse::<u64>().ok())
        .sum()
}

/// Every effect at every byte of the request, then of the response.
fn every_byte(sent: [u64; 2]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (direction, bytes) in [(Direction::Request, sent[0]), (Direction::Response, sent[1])] {
        for byte in 0..bytes {
            effects.extend([
                Effect::ResetAt { byte, direction },
                Effect::CutAt { byte, direction },
                Effect::Stall { byte, direction, lasts: STALL },
            ]);
        }
    }
    effects
}

#[test]
fn every_byte_of_an_exchange_can_be_its_last() {
    let calm = run(11, &[]);
    assert!(calm.exchanges[0].succeeded, "{calm:?}");
    let effects = every_byte(calm.sent);
    assert!(effects.len() > 1_000, "only {} exchanges", effects.len());

    let seen = run(11, &effects);
    let mut handled_but_failed = 0;
    for (effect, exchange) in effects.iter().zip(&seen.exchanges) {
        let handled = exchange.entry.is_some();
        let (direction, fails) = match effect {
            Effect::Stall { direction, .. } => (direction, false),
            Effect::ResetAt { direction, .. } | Effect::CutAt { direction, .. } => {
                (direction, true)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(exchange.succeeded, !fails, "{effect:?}: {exchange:?}");
        assert_eq!(
            handled,
            !fails || *direction == Direction::Response,
            "{effect:?}: {exchange:?}"
        );
        assert_eq!(exchange.took_ms >= STALL.as_millis(), !fails, "{effect:?}: {exchange:?}");
        if let Some(entry) = &exchange.entry {
            let handed = matches!(entry.delivery, Some(Delivery::Handed(_)));
            assert!(handed != fails && entry.ended.is_some(), "{effect:?}: {entry:?}");
        }
        handled_but_failed += usize::from(handled && !exchange.succeeded);
    }
    assert_eq!(handled_but_failed as u64, 2 * calm.sent[1]);

    let each = effects.len() as u64 / 3;
    let all = [FaultKind::Reset, FaultKind::Stall, FaultKind::Cut].map(|kind| (kind, each));
    assert_eq!(seen.strikes, all.into());
    assert_eq!(run(11, &effects).fingerprint, seen.fingerprint);
}

#[test]
fn another_seed_is_another_history_of_the_same_outcome() {
    let [first, second] = [1, 2].map(|seed| run(seed, &[]));
    assert_ne!(first.fingerprint, second.fingerprint);
    assert_eq!(first.sent, second.sent);
}
