//! Hand-made worlds.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use retrial::failure::{ErrorContext, Failure, RetryKind};
use retrial::policy::{
    ActionKind, Backoff, Dialect, GiveUp, Limit, Matcher, Policy, PolicyParts, Rule,
};
use retrial::run::{Digest, Event, Outcome, Recorded, RunId, TaskId, TaskTime, Token};
use retrial::store::ResultRow;
use retrial::time::{Mono, Nanos, Timestamp};
use retrial::workflow::{
    Action, Endpoint, Step, StepIx, Target, Template, Workflow, WorkflowParts,
};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::evidence::{
    Arrival, ArrivalEnd, CommitRecord, Evidence, ObservedEvent, RunEvidence, StoreAnswer,
};
use retrial_sim::unstable::incarnation::Lifespan;
use retrial_sim::unstable::oracle::Report;
use retrial_sim::unstable::scenario::Reply;
use serde_json::{Map, json};

/// The store's clock when the world begins.
const EPOCH: u64 = 1_700_000_000_000_000_000;

pub(crate) fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// True time.
pub(crate) fn at(millis: u64) -> Mono {
    Mono::from_nanos(millis * 1_000_000)
}

/// Store time.
pub(crate) fn store(millis: u64) -> Timestamp {
    Timestamp::from_nanos(EPOCH + millis * 1_000_000)
}

pub(crate) fn task(step: u16, item: u32) -> TaskId {
    TaskId { step: StepIx(step), item }
}

/// A rule for every failure, doubling from 100 ms.
pub(crate) fn policy(attempts: u32) -> PolicyParts {
    let mut parts = PolicyParts::new(Dialect::Builder);
    parts.rules.push(Rule {
        matcher: Matcher::any(),
        limit: Limit::attempts(attempts).unwrap_or(Limit::Unlimited),
        backoff: Backoff::exponential(ms(100)),
    });
    parts
}

pub(crate) fn step(id: &str, policy: PolicyParts) -> Step {
    Step {
        args: Template::try_from(json!({})).unwrap(),
        ..Step::new(id, format!("do_{id}"), Policy::try_from(policy).unwrap())
    }
}

pub(crate) fn workflow(steps: Vec<Step>) -> WorkflowParts {
    let action = |s: &Step| {
        let url = format!("http://api.test/{}", s.id);
        let endpoint = Endpoint::new("POST", url);
        let target = Target::Http(endpoint);
        let action = Action {
            kind: ActionKind::ToolCall,
            target,
            idempotent: None,
            inner_attempts: None,
            webhook: None,
            guard: Default::default(),
            heartbeat_timeout: None,
        };
        (s.action.clone(), action)
    };
    let actions = steps.iter().map(action).collect();
    WorkflowParts { name: "w".to_owned(), actions, steps, ..WorkflowParts::default() }
}

/// Writes one run's history and what goes with it. Every event is also told by node `n0`.
pub(crate) struct Script {
    pub(crate) world: Evidence,
    pub(crate) now: u64,
    tokens: u64,
    backoff: BTreeMap<TaskId, u64>,
}

impl Script {
    /// A run of `parts`, submitted and created at 0 ms.
    pub(crate) fn new(parts: WorkflowParts) -> Self {
        let workflow = Arc::new(Workflow::try_from(parts).unwrap());
        let id = RunId::from_random(1, 2);
        let mut run = RunEvidence::new(id, 42, Arc::clone(&workflow), at(0));
        run.acknowledged = true;
        let mut world = Evidence { runs: vec![run], ..Evidence::default() };
        world.answers.push(StoreAnswer::Unsure);
        let (node, born) = ("n0".to_owned(), at(0));
        world.lifespans.push(Lifespan { node, incarnation: 0, born, died: None });
        world.phases.healed_at = at(10_000);
        let mut script = Self { world, now: 0, tokens: 0, backoff: BTreeMap::new() };
        let input = Map::from_iter([("items".to_owned(), json!([1, 2, 3]))]);
        script.event(Event::RunCreated { seed: 42, workflow, input });
        script
    }

    pub(crate) fn run(&self) -> &RunEvidence {
        &self.world.runs[0]
    }

    pub(crate) fn run_mut(&mut self) -> &mut RunEvidence {
        &mut self.world.runs[0]
    }

    pub(crate) fn pass(&mut self, millis: u64) -> &mut Self {
        self.now += millis;
        self
    }

    /// Where `task`'s time went by now: failed attempts, and what passed since the last turn.
    fn spent(&self, task: TaskId) -> (TaskTime, Nanos) {
        let (mut spent, mut last) = (TaskTime::default(), None);
        for Recorded { at, event } in &self.run().events {
            let passed = last.map_or(Nanos::ZERO, |last| at.since(last));
            match event {
                Event::AttemptStarted { task: t, .. } if *t == task => {
                    spent.waiting = sum(spent.waiting, passed)
                }
                Event::AttemptFailed { task: t, .. } if *t == task => {
                    spent.failing = sum(spent.failing, passed)
                }
                _ => continue,
            }
            last = Some(*at);
        }
        (spent, last.map_or(Nanos::ZERO, |last| store(self.now).since(last)))
    }

    /// The event with the right times now, if it has any (C15).
    fn timed(&self, mut event: Event) -> Event {
        let Some(task) = event.task() else { return event };
        let (so_far, passed) = self.spent(task);
        match &mut event {
            Event::AttemptFailed { took, .. } => *took = passed,
            Event::TaskSucceeded { spent, .. } => *spent = TaskTime { working: passed, ..so_far },
            Event::TaskFailed { spent, .. } => {
                *spent = TaskTime { waiting: sum(so_far.waiting, passed), ..so_far };
            }
            _ => {}
        }
        event
    }

    pub(crate) fn event(&mut self, event: Event) -> &mut Self {
        let event = self.timed(event);
        let recorded = Recorded { at: store(self.now), event };
        let (id, number) = (self.run().id, self.run().version);
        self.world.observed.push(ObservedEvent {
            node: "n0".to_owned(),
            incarnation: 0,
            at: at(self.now),
            run: id,
            number,
            recorded: recorded.clone(),
        });
        self.world.asked.insert((id, number), at(self.now));
        let (events, at, first) = (vec![recorded.clone()], recorded.at, number);
        let ask = CommitRecord { at, writer: 0, run: id, first, events };
        self.world.answers.push(StoreAnswer::Landed(ask));
        self.run_mut().events.push(recorded);
        self.run_mut().version = number.after(1);
        self
    }

    pub(crate) fn enter(&mut self, step: u16, tasks: u32) -> &mut Self {
        self.event(Event::StepEntered { step: StepIx(step), tasks })
    }

    fn definition(&self, task: TaskId) -> Step {
        self.run().workflow.step(task.step).unwrap().clone()
    }

    /// An attempt starts and its request arrives, to be answered with `reply`.
    pub(crate) fn start(&mut self, task: TaskId, attempt: u32, reply: Reply) -> &mut Self {
        let policy = self.definition(task).policy;
        let most = policy.rules().iter().map(|r| r.limit.count()).max();
        let first = self.run().events.iter().find_map(|r| match r.event {
            Event::AttemptStarted { task: t, attempt: 1, .. } if t == task => Some(r.at),
            _ => None,
        });
        let first = first.unwrap_or(store(self.now));
        let left = policy.total_timeout().map(|t| first.after(t).since(store(self.now)));
        let timeout = [policy.attempt_timeout(), left].into_iter().flatten().min();
        self.tokens += 1;
        self.event(Event::AttemptStarted {
            task,
            attempt,
            token: Token::from_random(9, self.tokens),
            timeout,
            retries_left: most.unwrap_or(Some(1)).map(|n| n.saturating_sub(attempt)),
            retry: None,
        });
        self.arrive(task, attempt, timeout, reply)
    }

    fn arrive(
        &mut self,
        task: TaskId,
        attempt: u32,
        timeout: Option<Nanos>,
        reply: Reply,
    ) -> &mut Self {
        let (token, hangs) = (task.receipt(self.run().id).to_string(), reply == Reply::Hang);
        self.world.ledger.push(Arrival {
            at: at(self.now),
            path: format!("/{}", self.definition(task).id),
            receipt_token: Some(token.clone()),
            idempotency_key: Some(token),
            retry_attempt: Some(attempt - 1),
            retry_timeout_ms: timeout.map(Nanos::as_millis),
            body: Bytes::from_static(b"{}"),
            cost: None,
            reply,
            answered_at: (!hangs).then(|| at(self.now)),
            ended_at: Some(at(self.now)),
            end: if hangs { ArrivalEnd::CallerGone } else { ArrivalEnd::Answered },
        });
        self
    }

    fn failed(&mut self, task: TaskId, attempt: u32, failure: &Failure, will_retry: bool) {
        let (failure, took) = (failure.clone(), Nanos::ZERO);
        self.event(Event::AttemptFailed { task, attempt, failure, will_retry, took });
    }

    /// The attempt fails and is retried after a backoff that doubles from 100 ms, then waited for.
    pub(crate) fn retry(&mut self, task: TaskId, attempt: u32, failure: &Failure) -> &mut Self {
        self.failed(task, attempt, failure, true);
        let backoff = *self.backoff.entry(task).and_modify(|b| *b *= 2).or_insert(100);
        let delay = ms(backoff).max(failure.retry_after().unwrap_or(Nanos::ZERO));
        self.event(Event::RetryScheduled {
            task,
            attempt: attempt + 1,
            delay,
            backoff: ms(backoff),
            kind: match failure.code().as_str() {
                "TIMEOUT" | "HEARTBEAT_TIMEOUT" => RetryKind::Timeout,
                "LEASE_LOST" => RetryKind::LeaseLost,
                _ => RetryKind::Failure,
            },
            code: failure.code().clone(),
            rule: None,
        });
        self.pass(delay.as_millis())
    }

    pub(crate) fn context(&self, task: TaskId, attempt: u32, failure: &Failure) -> ErrorContext {
        let step = self.definition(task);
        let retryable = failure.class() == retrial::failure::Class::Retryable;
        ErrorContext::new(failure, retryable, &step.id, &step.action, attempt, store(self.now))
    }

    /// The attempt fails and the task with it.
    pub(crate) fn give_up(
        &mut self,
        task: TaskId,
        attempt: u32,
        failure: &Failure,
        reason: GiveUp,
    ) -> &mut Self {
        self.failed(task, attempt, failure, false);
        let (error, spent) = (self.context(task, attempt, failure), TaskTime::default());
        self.event(Event::TaskFailed { task, attempts: attempt, reason, error, spent })
    }

    pub(crate) fn succeed(&mut self, task: TaskId, attempt: u32) -> &mut Self {
        let result = Bytes::from_static(b"{\"ok\":true}");
        self.event(Event::TaskSucceeded {
            task,
            attempt,
            digest: Digest::of(&result),
            spent: TaskTime::default(),
        });
        self.run_mut().results.push(ResultRow { task, attempt, result });
        self
    }

    pub(crate) fn step_succeeded(&mut self, step: u16) -> &mut Self {
        self.event(Event::StepSucceeded { step: StepIx(step) })
    }

    pub(crate) fn step_failed(&mut self, step: u16, error: ErrorContext) -> &mut Self {
        self.event(Event::StepFailed { step: StepIx(step), error })
    }

    pub(crate) fn end(&mut self, outcome: Outcome) -> &mut Self {
        self.event(Event::RunEnded { outcome })
    }

    pub(crate) fn strike(&mut self, kind: FaultKind) -> &mut Self {
        *self.world.strikes.entry(kind).or_default() += 1;
        self
    }

    /// Changes every kept event; the reported ones stay.
    pub(crate) fn alter(mut self, change: impl FnMut(&mut Recorded)) -> Self {
        self.run_mut().events.iter_mut().for_each(change);
        self
    }

    /// Forgets the kept events that `which` picks; the reported ones stay.
    pub(crate) fn without(mut self, which: impl Fn(&Event) -> bool) -> Self {
        self.run_mut().events.retain(|r| !which(&r.event));
        self
    }

    /// Repeats the first kept event that `which` picks, right after itself.
    pub(crate) fn twice(mut self, which: impl Fn(&Event) -> bool) -> Self {
        let events = &mut self.run_mut().events;
        let place = events.iter().position(|r| which(&r.event)).unwrap();
        events.insert(place + 1, events[place].clone());
        self
    }
}

pub(crate) fn server_error() -> Failure {
    Failure::http(503, "busy")
}

pub(crate) fn status(code: u16) -> Reply {
    Reply::Status { code, retry_after: None, body: String::new() }
}

/// Test 1 of Capability 5: two 503, then success.
pub(crate) fn recovered() -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    let it = task(0, 0);
    script.enter(0, 1);
    script.start(it, 1, status(503)).retry(it, 1, &server_error());
    script.start(it, 2, status(503)).retry(it, 2, &server_error());
    script.start(it, 3, Reply::SuccessTrue).succeed(it, 3);
    script.step_succeeded(0).end(Outcome::Completed);
    script
}

/// Test 2 of Capability 5: three 503 and out.
pub(crate) fn exhausted() -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    let it = task(0, 0);
    script.enter(0, 1);
    script.start(it, 1, status(503)).retry(it, 1, &server_error());
    script.start(it, 2, status(503)).retry(it, 2, &server_error());
    script.start(it, 3, status(503)).give_up(it, 3, &server_error(), GiveUp::Exhausted);
    let error = script.context(it, 3, &server_error());
    script.step_failed(0, error.clone()).end(Outcome::Failed { error });
    script
}

/// Three siblings: one recovers, two succeed at once.
pub(crate) fn fanned() -> Script {
    let mut fan = step("a", policy(3));
    fan.for_each = Some(Template::try_from(json!("${input.items}")).unwrap());
    let mut script = Script::new(workflow(vec![fan]));
    script.enter(0, 3).start(task(0, 0), 1, status(500));
    script.start(task(0, 1), 1, Reply::SuccessTrue);
    script.start(task(0, 2), 1, Reply::Ok(json!({"ok": true})));
    script.succeed(task(0, 1), 1).succeed(task(0, 2), 1);
    script.retry(task(0, 0), 1, &Failure::http(500, "oops"));
    script.start(task(0, 0), 2, Reply::SuccessTrue).succeed(task(0, 0), 2);
    script.step_succeeded(0).end(Outcome::Completed);
    script
}

/// The report has judged something and found nothing.
#[track_caller]
pub(crate) fn healthy(report: &Report) {
    assert!(report.judged > 0, "{} judged nothing", report.oracle);
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Every finding is for `reason`, and there is one.
#[track_caller]
pub(crate) fn found(report: &Report, reason: &str) {
    let reasons: Vec<_> = report.findings.iter().map(|f| f.reason).collect();
    assert!(reasons.contains(&reason), "expected {reason}, found {:#?}", report.findings);
    let text = &report.findings[0].text;
    assert!(!text.is_empty(), "{reason} proves nothing");
}

fn sum(a: Nanos, b: Nanos) -> Nanos {
    a.saturating_add(b)
}
