//! `/v1/actions`: the calls, failures and retries of each action.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::json::ok;
use super::problem::Problem;
use super::service::SharedState;
use retrial::engine::World;
use retrial::failure::sanitise::clean;
use retrial::guard::{BreakerStanding, Outcomes, Standing};
use retrial::observe::Notice;
use retrial::run::Event;
use retrial::store::{GuardRow, Store};

/// The most actions that are counted by name.
const MOST_ACTIONS: usize = 1_000;
/// The most codes of one action that are counted by name.
const MOST_CODES: usize = 50;
/// The name under which all others are counted.
const OTHER: &str = "other";

/// This node's counts for each action since the node started.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<BTreeMap<String, Rate>>);

#[derive(Debug, Default)]
struct Rate {
    succeeded: u64,
    failures: BTreeMap<String, u64>,
    retries: u64,
}

impl Rates {
    /// Counts an event of `action`.
    pub(super) fn take(&self, action: &str, notice: &Notice<'_>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = known(&all, action.to_owned(), MOST_ACTIONS);
        let rate = all.entry(name).or_default();
        match notice.event {
            Event::AttemptFailed { failure, .. } => {
                let code = known(&rate.failures, clean(failure.code().as_str()), MOST_CODES);
                *rate.failures.entry(code).or_default() += 1;
            }
            Event::TaskSucceeded { .. } => rate.succeeded += 1,
            Event::RetryScheduled { .. } => rate.retries += 1,
            _ => {}
        }
    }

    /// By action.
    fn to_json(&self) -> BTreeMap<String, Value> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, rate)| (name.clone(), rate.to_json(name))).collect()
    }
}

impl Rate {
    fn to_json(&self, name: &str) -> Value {
        let failed: u64 = self.failures.values().sum();
        let attempts = self.succeeded + failed;
        json!({
            "action": name,
            "attempts": attempts,
            "failed": failed,
            "failures": self.failures,
            "retries": self.retries,
            "retry_rate": share(self.retries, attempts),
            "error_rate": share(failed, attempts),
            "guards": null,
            "recent": null,
        })
    }
}

/// The action, as it is shown, that an event is counted for.
pub(super) fn counted_for(notice: &Notice<'_>) -> Option<String> {
    let counts = matches!(
        notice.event,
        Event::AttemptFailed { .. } | Event::TaskSucceeded { .. } | Event::RetryScheduled { .. }
    );
    let task = notice.event.task().filter(|_| counts)?;
    Some(clean(&notice.workflow.step(task.step)?.action))
}

/// `name`, or [`OTHER`] if there are too many names already.
pub(super) fn known<T>(among: &BTreeMap<String, T>, name: String, most: usize) -> String {
    if among.contains_key(&name) || among.len() < most { name } else { OTHER.to_owned() }
}

/// A fraction for output only.
#[expect(clippy::cast_precision_loss, reason = "a rate is shown, nothing is computed from it")]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// This node's counts for each action, those of all nodes in the last hour and day, and the state of
/// its guards in the store.
pub(super) async fn list<W: World>(
    State(service): State<SharedState<W>>,
) -> Result<Response, Problem> {
    let mut all = service.monitor.rates.to_json();
    for GuardRow { action, standing } in service.engine.store().guards().await? {
        let name = clean(&action);
        let shown = all.entry(name).or_insert_with_key(|name| Rate::default().to_json(name));
        shown["guards"] = match standing {
            Some(standing) => guards(&standing),
            None => json!({ "damaged": true }),
        };
    }
    let recent = service.recent().await?;
    for name in recent.names() {
        all.entry(name.clone()).or_insert_with_key(|name| Rate::default().to_json(name));
    }
    for (name, shown) in &mut all {
        shown["recent"] = recent.of(name);
    }
    Ok(ok(&json!({ "actions": all.into_values().collect::<Vec<_>>() })))
}

fn guards(standing: &Standing) -> Value {
    let outcomes = |o: Outcomes| json!({ "calls": o.calls, "failures": o.failures });
    let breaker = match standing.breaker {
        BreakerStanding::Closed { in_a_row, recent } => {
            json!({ "state": "closed", "in_a_row": in_a_row, "recent": outcomes(recent) })
        }
        BreakerStanding::Open { until } => json!({ "state": "open", "until": until.to_string() }),
        BreakerStanding::HalfOpen { successes } => {
            json!({ "state": "half_open", "successes": successes })
        }
    };
    json!({
        "breaker": breaker,
        "running": standing.running,
        "unpaced_at": standing.unpaced_at.to_string(),
        "tokens_millionths": standing.tokens_millionths,
        "errors": outcomes(standing.errors),
        "alerts_millionths": standing.alerts_millionths,
    })
}
