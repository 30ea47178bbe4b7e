//! The spans around runs and attempts, for tracing. Field names follow OpenTelemetry's conventions
//! where it has any; the rest begin with `retrial.`. A span decides nothing and carries no time of
//! its own.

use std::fmt;

use tracing::Span;
use tracing::field::{Empty, display};

use crate::action::{Call, Outcome};
use crate::failure::sanitise;
use crate::run::{self, RunId, RunState};

/// The longest name shown, in characters.
const LONGEST: usize = 200;

/// What a node does for one run, from its first message to its last.
pub(super) fn of_run(run: RunId) -> Span {
    tracing::info_span!(
        "run",
        otel.name = Empty,
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        retrial.run.id = %run,
        retrial.workflow = Empty,
        retrial.outcome = Empty,
    )
}

/// Notes in `span` which workflow the run is of.
pub(super) fn loaded(span: &Span, state: &RunState) {
    if span.is_disabled() {
        return;
    }
    let workflow = Shown(state.workflow().name());
    span.record("otel.name", display(format_args!("run {workflow}")));
    span.record("retrial.workflow", display(&workflow));
}

/// Notes in `span` how the run ended, if it has.
pub(super) fn ended(span: &Span, state: &RunState) {
    let outcome = match state.outcome() {
        None => return,
        Some(run::Outcome::Completed) => "completed",
        Some(run::Outcome::Cancelled { .. }) => "cancelled",
        Some(run::Outcome::Failed { error }) => {
            span.record("otel.status_code", "ERROR");
            span.record("error.type", error.code.as_str());
            "failed"
        }
    };
    span.record("retrial.outcome", outcome);
}

/// One attempt.
pub(super) fn of_attempt(call: &Call) -> Span {
    tracing::info_span!(
        "attempt",
        otel.name = %format_args!("attempt {}", Shown(&call.step)),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        retrial.run.id = %call.run,
        retrial.step = %Shown(&call.step),
        retrial.item = call.task.item,
        retrial.action = %Shown(&call.name),
        retrial.attempt = call.attempt,
        retrial.retries_left = call.retries_left,
        retrial.outcome = Empty,
    )
}

/// Notes in `span` how the attempt ended; `None` when it was called off.
pub(super) fn attempted(span: &Span, outcome: Option<&Outcome>) {
    let outcome = match outcome {
        None => "called_off",
        Some(Ok(_)) => "success",
        Some(Err(failure)) => {
            span.record("otel.status_code", "ERROR");
            span.record("error.type", failure.code().as_str());
            "failure"
        }
    };
    span.record("retrial.outcome", outcome);
}

/// A name as it is shown. It is masked when it is written: a span that nobody listens to costs nothing.
struct Shown<'n>(&'n str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sanitise::message(self.0, LONGEST))
    }
}
