//! The events that are put next.

use super::*;

/// The events of a history, and each once more about its neighbours.
pub(super) fn candidates(log: &[Recorded], workflow: &Workflow) -> Vec<Event> {
    let mut all: Vec<Event> = log.iter().map(|r| r.event.clone()).collect();
    let failure = Failure::http(503, "x");
    let error = log.iter().find_map(|r| match &r.event {
        Event::TaskFailed { error, reason, .. } => Some((error.clone(), *reason)),
        _ => None,
    });
    let steps = 0..=u16::try_from(workflow.steps().len()).expect("few steps");
    for step in steps.clone().map(StepIx) {
        all.extend([
            Event::StepEntered { step, tasks: 2 },
            Event::StepEntered { step, tasks: 10_000 },
            Event::StepEntered { step, tasks: 10_001 },
            Event::StepSucceeded { step },
            Event::StepUnreachable { step },
            Event::StepSkipped { step },
            Event::FailRequested { step, item: None, reason: "x".into() },
        ]);
        all.extend(error.clone().map(|(error, _)| Event::StepFailed { step, error }));
        for to in steps.clone().map(StepIx) {
            let routed = |cause| Event::Routed { from: step, to, cause };
            all.extend([RouteCause::Success, RouteCause::Failure].map(routed));
        }
        for task in (0..3).map(|item| TaskId { step, item }) {
            all.push(Event::TaskCancelled { task });
            all.push(Event::CompensationStarted { task });
            all.extend((1..4).flat_map(|attempt| of_attempt(task, attempt, &failure)));
            all.extend(error.clone().map(|(error, reason)| Event::TaskFailed {
                task,
                attempts: 1,
                reason,
                error,
                spent: TaskTime::default(),
            }));
        }
    }
    let cancelled = Outcome::Cancelled { reason: "x".into() };
    all.extend([Outcome::Completed, cancelled].into_iter().flat_map(|outcome| {
        let rollback = Event::RollbackStarted { outcome: outcome.clone() };
        [rollback, Event::RunEnded { outcome }]
    }));
    all.extend([
        Event::RunActivated,
        Event::RunDeactivated,
        Event::RunPaused { reason: "x".into() },
        Event::RunResumed,
        Event::CancelRequested { reason: "x".into() },
        Event::RollbackEnded { complete: true },
    ]);
    all
}

fn of_attempt(task: TaskId, attempt: u32, failure: &Failure) -> Vec<Event> {
    let retry = |rule| Event::RetryScheduled {
        task,
        attempt,
        delay: Nanos::ZERO,
        backoff: Nanos::ZERO,
        kind: failure.kind(),
        code: failure.code().clone(),
        rule,
    };
    let (token, timeout, retry_of) = (token_of(task, attempt), None, None);
    let lost = Failure::lease_lost();
    vec![
        Event::TaskQuarantined { task, attempt, lost: 1 },
        Event::TaskQuarantined { task, attempt, lost: 2 },
        Event::TaskReleased { task, attempt, reason: "x".into() },
        Event::AttemptFailed { task, attempt, failure: lost, will_retry: true, took: Nanos::ZERO },
        Event::AttemptStarted {
            task,
            attempt,
            token,
            timeout,
            retries_left: None,
            retry: retry_of,
        },
        Event::TaskHeld {
            task,
            attempt,
            by: retrial_core::guard::HeldBy::Breaker,
            until: run_support::world::START,
        },
        Event::AttemptFailed {
            task,
            attempt,
            failure: failure.clone(),
            will_retry: true,
            took: Nanos::ZERO,
        },
        Event::CostReported { task, attempt, cost: Cost::default() },
        Event::TaskSucceeded {
            task,
            attempt,
            digest: Digest::of(b"null"),
            spent: TaskTime::default(),
        },
        retry(None),
        retry(Some(0)),
        retry(Some(1)),
    ]
}
