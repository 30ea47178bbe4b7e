//! The call that the tests of actions make.

pub(crate) mod server;

use std::sync::Arc;

use retrial::action::{Call, Canceller, ContextRuntime, Reports};
use retrial::run::{RunId, TaskId};
use retrial::runtime::TokioRuntime;
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Action, StepIx, Target};
use serde_json::json;

/// A first attempt of the action `act`, at store time 1,000 s.
pub(crate) fn call(target: Target) -> Call {
    let (_, cancelled) = Canceller::pair();
    let run = RunId::from_random(1, 2);
    let task = TaskId { step: StepIx(0), item: 0 };
    let action = Action {
        kind: Default::default(),
        target,
        idempotent: None,
        inner_attempts: None,
        webhook: None,
        guard: Default::default(),
        heartbeat_timeout: None,
    };
    Call {
        run,
        task,
        step: "work".to_owned(),
        name: "act".to_owned(),
        action: Some(Arc::new(action)),
        args: json!({}),
        attempt: 1,
        retries_left: Some(2),
        timeout: None,
        heartbeat_timeout: None,
        progress: None,
        reports: Reports::default(),
        at: Timestamp::from_nanos(Nanos::from_secs(1_000).get()),
        cancelled,
        context_runtime: ContextRuntime::by(TokioRuntime::current()),
    }
}
