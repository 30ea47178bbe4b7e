//! What the engine's tests share: actions written as closures that note what they see, a store that
//! is watched, and small workflows.

mod link;
mod watched;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use retrial::action::{Actions, Call, Outcome};
use retrial::engine::{Config, Engine, Submission, World};
use retrial::policy::{Backoff, Policy};
use retrial::run::{self, Event, Recorded, RunId, TaskId, Version};
use retrial::runtime::TokioRuntime;
use retrial::store::Store;
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Step, StepIx, Template, Transition, Workflow, WorkflowParts};
use serde_json::Value;

pub(crate) use link::{Way, over};
pub(crate) use watched::{Trouble, Watched};

pub(crate) const SECOND: Nanos = Nanos::from_secs(1);

type Attempt = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Actions that are one closure. Clones share what was seen.
#[derive(Clone)]
pub(crate) struct Acts {
    act: Arc<dyn Fn(Call) -> Attempt + Send + Sync>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    calls: Vec<Call>,
    flying: BTreeMap<(RunId, TaskId), u32>,
    most: u32,
    /// Whether two attempts of one task were ever in progress together.
    twice: bool,
}

impl Acts {
    pub(crate) fn new<F: Future<Output = Outcome> + Send + 'static>(
        act: impl Fn(Call) -> F + Send + Sync + 'static,
    ) -> Self {
        let act = Arc::new(move |call| -> Attempt { Box::pin(act(call)) });
        Self { act, seen: Arc::default() }
    }

    /// The same notes, taken of other behaviour: another node beside this one.
    pub(crate) fn beside<F: Future<Output = Outcome> + Send + 'static>(
        &self,
        act: impl Fn(Call) -> F + Send + Sync + 'static,
    ) -> Self {
        Self { seen: Arc::clone(&self.seen), ..Self::new(act) }
    }

    /// Every call so far, in order.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.seen.lock().unwrap().calls.clone()
    }

    /// The most attempts that were in progress at once.
    pub(crate) fn most(&self) -> u32 {
        self.seen.lock().unwrap().most
    }

    /// Whether two attempts of one task were ever in progress together.
    pub(crate) fn ever_twice(&self) -> bool {
        self.seen.lock().unwrap().twice
    }
}

impl Actions for Acts {
    async fn invoke(&self, call: Call) -> Outcome {
        let _flight = Flight::begin(&self.seen, &call);
        (self.act)(call).await
    }
}

/// An attempt in progress, until it is dropped.
struct Flight {
    seen: Arc<Mutex<Seen>>,
    of: (RunId, TaskId),
}

impl Flight {
    fn begin(seen: &Arc<Mutex<Seen>>, call: &Call) -> Self {
        let of = (call.run, call.task);
        let mut now = seen.lock().unwrap();
        now.calls.push(call.clone());
        let count = now.flying.entry(of).or_default();
        *count += 1;
        let again = *count > 1;
        now.twice |= again;
        now.most = now.most.max(now.flying.values().sum());
        Self { seen: Arc::clone(seen), of }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(count) = self.seen.lock().unwrap().flying.get_mut(&self.of) {
            *count -= 1;
        }
    }
}

/// The world of most tests.
pub(crate) type Test = (TokioRuntime, Arc<Watched>, Acts);

pub(crate) async fn start(store: &Arc<Watched>, acts: &Acts, config: Config) -> Engine<Test> {
    let runtime = TokioRuntime::current();
    Engine::start(runtime, Arc::clone(store), acts.clone(), config, Vec::new()).await
}

/// An engine alone on a new store.
pub(crate) async fn alone(acts: &Acts, config: Config) -> Engine<Test> {
    start(&Watched::new(), acts, config).await
}

pub(crate) async fn submit<W: World>(engine: &Engine<W>, workflow: Arc<Workflow>) -> RunId {
    engine.submit(Submission::new(workflow)).await.unwrap().run
}

pub(crate) fn step(id: &str, policy: Policy, after: &[u16], args: Value) -> Step {
    Step {
        args: Template::try_from(args).unwrap(),
        after: after.iter().map(|n| StepIx(*n)).collect(),
        ..Step::new(id, "act", policy)
    }
}

pub(crate) fn workflow(steps: Vec<Step>) -> Arc<Workflow> {
    Arc::new(
        Workflow::try_from(WorkflowParts { name: "w".into(), steps, ..WorkflowParts::default() })
            .unwrap(),
    )
}

/// A step, and the handler that every failure of it is routed to.
pub(crate) fn handled(work: Step, handler: Step) -> Arc<Workflow> {
    let edge = Transition {
        from: StepIx(0),
        to: StepIx(1),
        priority: 0,
        on_error: Some(Default::default()),
        condition: None,
    };
    let (steps, transitions) = (vec![work, handler], vec![edge]);
    let parts =
        WorkflowParts { name: "handled".into(), steps, transitions, ..WorkflowParts::default() };
    Arc::new(Workflow::try_from(parts).unwrap())
}

/// One step that fans out over `count` items.
pub(crate) fn fan_out(count: u32, policy: Policy) -> Arc<Workflow> {
    let items: Vec<u32> = (0..count).collect();
    let each = step("each", policy, &[], serde_json::json!({ "item": "${item}" }));
    let for_each = Some(Template::try_from(serde_json::json!("${input.items}")).unwrap());
    let input = serde_json::json!({ "items": items }).as_object().cloned().unwrap();
    let steps = vec![Step { for_each, ..each }];
    let parts = WorkflowParts { name: "fan".into(), input, steps, ..WorkflowParts::default() };
    Arc::new(Workflow::try_from(parts).unwrap())
}

/// So many attempts, 1 s and doubling between them.
pub(crate) fn patient(attempts: u32) -> Policy {
    let backoff = Backoff::exponential(SECOND);
    Policy::builder().attempts(attempts).backoff(backoff).build().unwrap()
}

/// The run's whole history.
pub(crate) async fn history(store: &impl Store, run: RunId) -> Vec<Recorded> {
    let loaded = store.load(run, Some(Version::START)).await.unwrap().unwrap();
    loaded.tail.events.iter().map(|bytes| run::decode(bytes).unwrap()).collect()
}

pub(crate) fn names(history: &[Recorded]) -> Vec<&'static str> {
    history.iter().map(|recorded| recorded.event.name()).collect()
}

/// When the `attempt`-th attempt of the run's first task started, by the store's clock.
pub(crate) fn started(history: &[Recorded], attempt: u32) -> Timestamp {
    let is_it =
        |r: &&Recorded| matches!(r.event, Event::AttemptStarted { attempt: n, .. } if n == attempt);
    history.iter().find(is_it).unwrap().at
}

/// When the `attempt`-th attempt failed, by the store's clock.
pub(crate) fn failed(history: &[Recorded], attempt: u32) -> Timestamp {
    let is_it =
        |r: &&Recorded| matches!(r.event, Event::AttemptFailed { attempt: n, .. } if n == attempt);
    history.iter().find(is_it).unwrap().at
}

/// Lets virtual time pass.
pub(crate) async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// What `future` gives; fails the test when an hour of virtual time is not enough.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    let hour = Duration::from_secs(3_600);
    tokio::time::timeout(hour, future).await.expect("it never ends")
}
