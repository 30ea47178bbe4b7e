//! The presets by name (row X2), with the numbers of their sources.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::fields::Fields;
use super::plain::{Growth, MILLION, MILLISECOND, PlainBudget, PlainPolicy, PlainRule, SECOND};

/// What AWS SDKs take for throttling: botocore's `retries/standard.py`, and our type of a 429.
const THROTTLING: [&str; 16] = [
    "429",
    "RateLimitError",
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "LimitExceededException",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "TransactionInProgressException",
];
/// What they retry besides, with our names of the same failures.
const TRANSIENT: [&str; 10] = [
    "500",
    "502",
    "503",
    "504",
    "ConnectionError",
    "HTTPClientError",
    "NetworkError",
    "RequestTimeout",
    "RequestTimeoutException",
    "TimeoutError",
];

/// A name, or a table with a name and the settings of every dialect.
pub(super) fn read(value: &Value) -> Option<PlainPolicy> {
    let mut fields = match value {
        Value::String(name) => {
            let name = ("name".to_owned(), Value::String(name.clone()));
            Fields::from_pairs(Map::from_iter([name]))
        }
        table => Fields::of(table)?,
    };
    let name = fields.text("name")??;
    let mut policy = PlainPolicy::new("preset");
    match name.as_str() {
        "aws-standard-2.1" => aws(&mut policy),
        "google-sre" => google(&mut policy),
        "none" => {}
        _ => return None,
    }
    fields.settings(&mut policy)?;
    fields.finish(policy)
}

/// Three attempts, with full jitter.
fn rule(scope: &'static str, names: &[&str], base_ms: u128, cap_s: u128) -> PlainRule {
    let base = base_ms * MILLISECOND;
    PlainRule {
        scope,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        except: BTreeSet::new(),
        attempts: Some(3),
        growth: Growth::new("exponential", [("base", base), ("multiplier", 2 * MILLION)]),
        cap: Some(cap_s * SECOND),
        jitter: ("full", 0),
    }
}

fn aws(policy: &mut PlainPolicy) {
    policy.rules = vec![rule("names", &THROTTLING, 1_000, 20), rule("names", &TRANSIENT, 50, 20)];
    policy.budget = Some(PlainBudget {
        numbers: [
            ("capacity", 500),
            ("initial", 500),
            ("cost", 14),
            ("throttling_cost", 5),
            ("ratio", 0),
            ("first_success", 1),
            ("refund", 1),
        ]
        .into(),
        scope: "action",
        on_denied: "fail",
    });
}

/// Retries are at most a tenth of the requests, and ten besides.
fn google(policy: &mut PlainPolicy) {
    policy.rules = vec![rule("retryable", &[], 100, 10)];
    policy.budget = Some(PlainBudget::of_first_attempts(MILLION / 10));
}
