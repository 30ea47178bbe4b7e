//! What is drawn: policies, workflows, scripts and disruptions, all as plain data.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use retrial_core::failure::{Failure, NetworkFault};
use retrial_core::time::Nanos;
use serde_json::json;

use super::graphs::{Graph, graph};
use super::policies::length;
use crate::run_support::{End, Shot};

/// The name of the one custom backoff.
pub(crate) const CUSTOM: &str = "sevens";

/// The custom backoff: 7 ms more each time.
pub(crate) fn sevens(n: u32) -> Nanos {
    Nanos::from_millis(7 * u64::from(n))
}

/// What a failure whose outcome is unknown says.
pub(crate) const UNKNOWN: &str = "cut off";

/// Names by which rules and exception edges match.
pub(crate) const NAMES: [&str; 14] = [
    "500",
    "4xx",
    "429-503",
    "429",
    "408",
    "TIMEOUT",
    "NETWORK_ERROR",
    "ConnectionError",
    "HTTPError",
    "ClientError",
    "LookupError",
    "LEASE_LOST",
    "LeaseLostError",
    "E42",
];

fn failure() -> impl Strategy<Value = Failure> {
    let kind = select(vec![
        Failure::http(500, "broken"),
        Failure::http(503, "busy"),
        Failure::http(429, "slow down"),
        Failure::http(408, "too slow"),
        Failure::http(400, "nonsense"),
        Failure::network(NetworkFault::Reset, "reset"),
        Failure::network(NetworkFault::Cut, UNKNOWN).with_unknown_outcome(),
        Failure::work_failed("no"),
        Failure::exception("KeyError", "no such key", &["KeyError".into(), "LookupError".into()]),
        Failure::timed_out("the endpoint says so"),
        Failure::new("E42", "anything").retryable(),
    ]);
    let asks = prop_oneof![4 => Just(None), 1 => length().prop_map(Some)];
    (kind, asks).prop_map(|(failure, asks)| match asks {
        Some(wait) => failure.with_retry_after(wait),
        None => failure,
    })
}

fn shot() -> impl Strategy<Value = Shot> {
    let takes = prop_oneof![
        4 => (0..5_000_u64).prop_map(Nanos::from_millis),
        1 => Just(Nanos::ZERO),
        1 => Just(Nanos::from_secs(30)),
    ];
    let value = prop_oneof![
        Just(json!(null)),
        any::<f64>().prop_map(|x| json!(x)),
        any::<u64>().prop_map(|n| json!({"n": n, "text": "ü\u{0}\"\\"})),
    ];
    let end = prop_oneof![
        2 => value.prop_map(End::Ok),
        6 => failure().prop_map(End::Fail),
        1 => Just(End::Lost),
        1 => Just(End::Hang),
    ];
    (takes, end).prop_map(|(takes, end)| Shot { takes, end })
}

/// How the attempts of one task go.
pub(crate) fn script() -> impl Strategy<Value = Vec<Shot>> {
    vec(shot(), 0..7)
}

/// What comes between.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Jolt {
    Cancel,
    Rollback,
    Deactivate,
    Activate,
    Pause,
    Resume,
    /// The n-th task's step, or that task alone, is failed by hand.
    Fail(usize),
    /// An outcome of the n-th task's attempt under a token that is not its own.
    Stale(usize),
    /// A reservation of the n-th task for another attempt than the one it is at.
    Misclaim(usize),
}

/// A whole case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) graph: Graph,
    pub(crate) seed: u64,
    pub(crate) yes: bool,
    pub(crate) amount: f64,
    pub(crate) scripts: Vec<Vec<Shot>>,
    /// By milliseconds from the start.
    pub(crate) jolts: Vec<(u64, Jolt)>,
    pub(crate) lag: Nanos,
}

/// Any case.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    let jolt = prop_oneof![
        1 => Just(Jolt::Cancel),
        1 => Just(Jolt::Rollback),
        1 => Just(Jolt::Deactivate),
        1 => Just(Jolt::Activate),
        1 => Just(Jolt::Pause),
        1 => Just(Jolt::Resume),
        1 => (0..9_usize).prop_map(Jolt::Fail),
        3 => (0..9_usize).prop_map(Jolt::Stale),
        3 => (0..9_usize).prop_map(Jolt::Misclaim),
    ];
    let lag = prop_oneof![3 => Just(0), 1 => 0..3_000_u64].prop_map(Nanos::from_millis);
    let jolts = vec((0..20_000_u64, jolt), 0..4);
    let amount = prop::num::f64::NORMAL;
    (graph(), any::<u64>(), any::<bool>(), amount, vec(script(), 6), jolts, lag).prop_map(
        |(graph, seed, yes, amount, scripts, mut jolts, lag)| {
            jolts.sort_by_key(|(at, _)| *at);
            Case { graph, seed, yes, amount, scripts, jolts, lag }
        },
    )
}
