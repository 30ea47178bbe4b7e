//! Hand-made events and the workflow that they are about.

use std::sync::{Arc, Mutex};

use retrial::failure::{ErrorContext, Failure};
use retrial::observe::{Notice, Observer, Output, Printer};
use retrial::policy::{Backoff, GiveUp, Policy};
use retrial::run::{
    Digest, Event, Outcome, RetryOf, RouteCause, RunId, TaskId, TaskTime, Token, Version,
};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Step, StepIx, Template, Workflow, WorkflowParts};
use serde_json::{Value, json};

/// The steps of [`workflow`]: three attempts, unlimited, three attempts for each of a list, one
/// attempt.
pub(crate) const FETCH: StepIx = StepIx(0);
pub(crate) const POLL: StepIx = StepIx(1);
pub(crate) const EACH: StepIx = StepIx(2);
pub(crate) const ONCE: StepIx = StepIx(3);
pub(crate) const UNDO: StepIx = StepIx(4);

pub(crate) fn workflow() -> Workflow {
    let three = || {
        let rule = Policy::builder().attempts(3).exception_types(["TIMEOUT", "503"]);
        rule.backoff(Backoff::exponential(Nanos::from_secs(2))).build().unwrap()
    };
    let unlimited =
        Policy::builder().unlimited().backoff(Backoff::exponential(Nanos::from_secs(1)));
    let once = Policy::no_retries(retrial::policy::Dialect::Builder);
    let list = Template::try_from(json!("${input.list}")).unwrap();
    let steps = vec![
        step("fetch_data", three(), None),
        step("poll", unlimited.build().unwrap(), None),
        step("each", three(), Some(list)),
        step("once", once.clone(), None),
        Step { compensates: Some(ONCE), ..step("undo", once, None) },
    ];
    Workflow::try_from(WorkflowParts { name: "etl".into(), steps, ..WorkflowParts::default() })
        .unwrap()
}

fn step(id: &str, policy: Policy, for_each: Option<Template>) -> Step {
    Step {
        args: Template::try_from(Value::Null).unwrap(),
        for_each,
        ..Step::new(id, format!("do_{id}"), policy)
    }
}

pub(crate) fn run(n: u64) -> RunId {
    RunId::from_random(n << 32, n)
}

pub(crate) fn item(step: StepIx, item: u32) -> TaskId {
    TaskId { step, item }
}

pub(crate) fn task(step: StepIx) -> TaskId {
    item(step, 0)
}

pub(crate) fn created(input: Value) -> Event {
    let input = input.as_object().cloned().unwrap_or_default();
    Event::RunCreated { seed: 7, workflow: Arc::new(workflow()), input }
}

pub(crate) fn started(task: TaskId, attempt: u32, of: Option<u32>) -> Event {
    let retry = RetryOf { delay: Nanos::from_millis(2_500), original_error: "503: busy".into() };
    Event::AttemptStarted {
        task,
        attempt,
        token: Token::from_random(1, 2),
        timeout: Some(Nanos::from_secs(30)),
        retries_left: of.map(|of| of - attempt),
        retry: (attempt > 1).then_some(retry),
    }
}

pub(crate) fn failed(task: TaskId, attempt: u32, failure: Failure, will_retry: bool) -> Event {
    let took = Nanos::from_millis(500);
    Event::AttemptFailed { task, attempt, failure, will_retry, took }
}

pub(crate) fn scheduled(task: TaskId, attempt: u32, delay_ms: u64) -> Event {
    let failure = Failure::timed_out("Connection timeout");
    Event::RetryScheduled {
        task,
        attempt,
        delay: Nanos::from_millis(delay_ms),
        backoff: Nanos::from_millis(delay_ms),
        kind: failure.kind(),
        code: failure.code().clone(),
        rule: None,
    }
}

pub(crate) fn succeeded(task: TaskId, attempt: u32) -> Event {
    let spent = spent(attempt, Nanos::from_millis(250));
    Event::TaskSucceeded { task, attempt, digest: Digest::of(b"null"), spent }
}

pub(crate) fn gave_up(task: TaskId, attempts: u32, reason: GiveUp, failure: &Failure) -> Event {
    let error = context(failure, attempts);
    let spent = spent(attempts + 1, Nanos::ZERO);
    Event::TaskFailed { task, attempts, reason, error, spent }
}

/// Attempts of half a second that failed before this one, two seconds apart.
fn spent(attempt: u32, working: Nanos) -> TaskTime {
    let failed = u64::from(attempt.saturating_sub(1));
    let waits = failed.saturating_sub(u64::from(working == Nanos::ZERO));
    let (failing, waiting) = (Nanos::from_millis(500 * failed), Nanos::from_secs(2 * waits));
    TaskTime { working, failing, waiting }
}

pub(crate) fn context(failure: &Failure, attempts: u32) -> ErrorContext {
    ErrorContext::new(failure, true, "fetch_data", "do_fetch_data", attempts, Timestamp::default())
}

pub(crate) fn routed(from: StepIx, to: StepIx, cause: RouteCause) -> Event {
    Event::Routed { from, to, cause }
}

pub(crate) fn ended(outcome: Outcome) -> Event {
    Event::RunEnded { outcome }
}

pub(crate) fn slow() -> Failure {
    Failure::timed_out("Connection timeout")
}

/// Attempts of `task`, each half a second long, that all fail, with these delays between them.
pub(crate) fn failing(task: TaskId, of: Option<u32>, delays_ms: &[u64]) -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    let mut now = 0;
    let mut attempt = 1;
    for delay in delays_ms.iter().map(|d| Some(*d)).chain([None]) {
        events.push((now, started(task, attempt, of)));
        now += 500;
        events.push((now, failed(task, attempt, slow(), delay.is_some())));
        if let Some(delay) = delay {
            attempt += 1;
            events.push((now, scheduled(task, attempt, delay)));
            now += delay;
        }
    }
    events
}

/// Tells `observer` events of `run`, each with its time in milliseconds from the run's origin.
pub(crate) fn tell(observer: &impl Observer, run: RunId, events: &[(u64, Event)]) {
    each(run, events, |notice| observer.tell(notice));
}

pub(crate) fn each(run: RunId, events: &[(u64, Event)], mut take: impl FnMut(&Notice<'_>)) {
    let workflow = Arc::new(workflow());
    for (number, (ms, event)) in (0..).zip(events) {
        let at = Timestamp::from_nanos(Nanos::from_millis(1_700_000_000_000 + ms).get());
        take(&Notice { run, workflow: &workflow, number: Version(number), at, event });
    }
}

/// A writer whose text can be looked at.
#[derive(Clone, Default)]
pub(crate) struct Paper(Arc<Mutex<Vec<u8>>>);

impl Paper {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a printer prints of one run's events.
pub(crate) fn printed(output: Output, events: &[(u64, Event)]) -> String {
    let paper = Paper::default();
    tell(&Printer::new(paper.clone(), output), run(1), events);
    paper.text()
}
