//! Delays and decisions that other engines publish in their own tests
//! (`fixtures/peer_vectors.json`, each with its source), beside ours. Every entry stands once in
//! [`TABLE`]: what of it is checked, or why it is apart. Where a decision of the specification
//! contradicts a peer, the check says which one and holds ours.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "peers publish their times as decimals"
)]

use retrial_core::failure::Failure;
use retrial_core::policy::{
    AtDeadline, Backoff, DelayList, Dialect, Functions, GiveUp, Jitter, Limit, Matcher, Multiplier,
    Policy, PolicyParts, Preset, Rule, Shape, Share, Used, Verdict,
};
use retrial_core::time::{Nanos, Timestamp};
use serde_json::Value;

mod checks;
mod decisions;
mod table;

use table::{How, TABLE};

/// One published vector.
struct Entry {
    value: Value,
}

impl Entry {
    fn policy(&self, key: &str) -> &Value {
        &self.value["policy"][key]
    }

    fn kind(&self) -> &str {
        self.policy("kind").as_str().unwrap()
    }

    fn cap(&self) -> Option<Nanos> {
        self.policy("cap_ms").as_f64().map(ms)
    }

    /// The attempts in all that the peer allows; 0 is its word for any number.
    fn limit(&self) -> Limit {
        let most = self.policy("max_attempts").as_u64().unwrap_or(0);
        Limit::attempts(most as u32).unwrap_or(Limit::Unlimited)
    }

    /// The peer's backoff in our words, without jitter.
    fn backoff(&self) -> Backoff {
        let base = ms(self.policy("base_ms").as_f64().unwrap_or(0.0));
        let shape = match self.kind() {
            "constant" => Shape::Fixed { base },
            "linear" => Shape::Linear { base, step: base },
            "fibonacci" => Shape::Fibonacci { base },
            "immediate" => Shape::None,
            kind if kind.starts_with("exponential") => {
                exponential(base, self.policy("multiplier").as_f64().unwrap_or(2.0))
            }
            other => panic!("{other} is no shape of ours"),
        };
        Backoff { shape, jitter: Jitter::None, cap: self.cap() }
    }

    /// The published delays: a number, a range, or `None` where the peer gives up.
    fn delays(&self) -> Vec<Option<(f64, f64)>> {
        let one = |v: &Value| match v {
            Value::Null => None,
            Value::Array(ends) => Some((ends[0].as_f64().unwrap(), ends[1].as_f64().unwrap())),
            number => Some((number.as_f64().unwrap(), number.as_f64().unwrap())),
        };
        self.value["attempt_to_delay_ms"].as_array().unwrap().iter().map(one).collect()
    }

    fn cases(&self) -> &[Value] {
        self.value["cases"].as_array().unwrap()
    }
}

fn ms(n: f64) -> Nanos {
    let nanos = n * 1e6;
    if nanos >= u64::MAX as f64 { Nanos::MAX } else { Nanos::new(nanos.round() as u64) }
}

fn exponential(base: Nanos, multiplier: f64) -> Shape {
    let millionths = (multiplier * 1e6).round() as u64;
    Shape::Exponential { base, multiplier: Multiplier::from_millionths(millionths).unwrap() }
}

fn share(of: f64) -> Share {
    Share::from_millionths((of * 1e6).round() as u32).unwrap()
}

/// The delay before retry `n`, from 1, without jitter.
fn nominal(backoff: &Backoff, n: u32) -> Nanos {
    backoff.nominal(n, &Functions::default())
}

fn close(ours: Nanos, peers: f64, by: f64) -> bool {
    (ours.get() as f64 / 1e6 - peers).abs() <= by
}

fn one_rule(backoff: Backoff, limit: Limit) -> PolicyParts {
    let mut parts = PolicyParts::new(Dialect::Builder);
    parts.rules.push(Rule { matcher: Matcher::any(), limit, backoff });
    parts
}

/// The verdict on `failure` after `attempt` attempts, `since` after the first start.
fn after(
    parts: &PolicyParts,
    failure: &Failure,
    attempt: u32,
    since: Nanos,
) -> Result<Nanos, GiveUp> {
    let policy = Policy::try_from(parts.clone()).unwrap();
    let start = Timestamp::from_nanos(1);
    let used = Used {
        attempt,
        idempotent: true,
        timeout_retries: 0,
        by_rule: &[],
        previous: None,
        first_started: start,
    };
    match policy.verdict(failure, &used, start.after(since), 0, &Functions::default()) {
        Verdict::Retry { delay, .. } => Ok(delay),
        Verdict::GiveUp(reason) => Err(reason),
    }
}

fn entries() -> Vec<Entry> {
    let text = include_str!("../fixtures/peer_vectors.json");
    let all: Vec<Value> = serde_json::from_str(text).unwrap();
    all.into_iter().map(|value| Entry { value }).collect()
}

#[test]
fn every_entry_is_accounted_for_exactly_once() {
    let entries = entries();
    let places: Vec<usize> = TABLE.iter().map(|row| row.0).collect();
    assert_eq!(places, (0..entries.len()).collect::<Vec<_>>());
    for (at, path, how) in &TABLE {
        let entry = &entries[*at];
        assert!(entry.value["path"].as_str().unwrap().contains(path), "{at} is not {path}");
        assert!(entry.value["source"].as_str().is_some_and(|s| !s.is_empty()), "{at}");
        if let How::Apart(reason) = how {
            assert!(reason.len() > 10, "{at} has no reason");
            let ours = ["constant", "linear", "exponential", "fibonacci", "sequence"];
            let says = !entry.delays().is_empty() || entry.value["cases"].is_array();
            let due = ours.contains(&entry.kind()) && says;
            assert!(!due || reason.contains("ecision"), "{at} {path} is to be checked");
        }
    }
}

#[test]
fn r1_c2_h1_x3_our_delays_are_what_other_engines_publish() {
    let entries = entries();
    let checked = TABLE.iter().filter(|(at, path, how)| {
        println!("{at} {path}");
        how.check(&entries[*at])
    });
    assert!(checked.count() >= 30);
}
