//! Tests of a user's functions, services and policies in simulated worlds. A seed draws each world;
//! all oracles and the user's invariants judge it.
//!
//! Decides what a user may bring and how a failure is reported: shrunk, with its history and the
//! command that repeats it. Must never decide what is right (the oracles and the user's invariants
//! do) nor what a world does with user code (`world` does). Everything runs in this process,
//! because code can't be sent to another: each seed runs on a fresh thread, and a seed that never
//! yields is abandoned. To accept one more thing from users, add a method to [`Check`] and a field
//! to `user::UserCode` (code) or `workload::CheckPlan` (data).

mod check_runner;
mod gap;
mod history_lines;
mod invariant;
mod replay;
mod summary;

use std::collections::BTreeSet;
use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use retrial::action::{Function, Registry};
use retrial::policy::Policy;
use retrial::time::Nanos;
use retrial::workflow::{Step, Workflow, WorkflowParts};
use serde_json::{Map, Value};

pub use crate::evidence::{RunEvidence, ServiceRequest};
pub use crate::fault::FaultKind;
pub use crate::user::{Fact, Peer, Request, Response, UserFault, World};
pub use gap::Gap;
pub use invariant::{Invariant, Seen};
pub use summary::{Details, Failed, Passed};

use crate::scenario::ENDPOINT_HOST;
use crate::user::{UserCode, make};
use crate::workload::{CheckPlan, Text, UserKind};
use check_runner::CheckRunner;
use invariant::Closure;

/// The default of [`Check::tries`].
const TRIES: u64 = 400;
/// The default of [`Check::watchdog`].
const WATCHDOG: Duration = Duration::from_secs(120);
/// The default of [`Check::seeds`].
const SEEDS: u64 = 100;

/// A test of user functions and a workflow in simulated worlds.
///
/// ```
/// use retrial::action::Context;
/// use retrial::failure::Failure;
/// use retrial::policy::Policy;
/// use retrial_sim::check::{Check, Request, Response};
///
/// async fn greet(context: Context) -> Result<String, Failure> {
///     let answer = context.http().get("http://greeter.test/").send().await?;
///     answer.json()
/// }
///
/// # fn main() -> Result<(), retrial::policy::PolicyError> {
/// let policy = Policy::builder().attempts(5).exception_types(["NetworkError", "5xx"]).build()?;
/// Check::new("greeting")
///     .retry(policy, greet)
///     .service("greeter.test", |_| |_: Request| async { Response::json(&"hello") })
///     .seeds(5)
///     .run();
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is checked before `run`"]
#[derive(Debug)]
pub struct Check {
    name: String,
    text: Option<Text>,
    own: UserCode,
    invariants: Vec<Arc<dyn Invariant>>,
    runs: Option<RangeInclusive<u32>>,
    input: Map<String, Value>,
    nodes: Option<u32>,
    kinds: Option<BTreeSet<FaultKind>>,
    heal_after: Option<Nanos>,
    longest_attempt: Option<Nanos>,
    longest_list: Option<u64>,
    seeds: u64,
    tries: u64,
    panics_are_failures: bool,
    allowed: BTreeSet<Gap>,
    watchdog: Duration,
    wrong: Vec<String>,
}

impl Check {
    /// A check with this name, which messages and file names show.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: None,
            own: UserCode::default(),
            invariants: Vec::new(),
            runs: None,
            input: Map::new(),
            nodes: None,
            kinds: None,
            heal_after: None,
            longest_attempt: None,
            longest_list: None,
            seeds: SEEDS,
            tries: TRIES,
            panics_are_failures: false,
            allowed: BTreeSet::new(),
            watchdog: WATCHDOG,
            wrong: Vec::new(),
        }
    }

    /// Checks this workflow.
    pub fn workflow(mut self, workflow: Workflow) -> Self {
        self.text = Some(Text::Made(Box::new(workflow)));
        self
    }

    /// Checks the workflow of a file: TOML, JSON or IR text, as the ending of `file` says. Its
    /// `[simulate]` table applies unless the check overrides it.
    pub fn workflow_file(mut self, file: &str, text: &str) -> Self {
        self.text = Some(Text::File(file.to_owned(), text.to_owned()));
        self
    }

    /// Checks one function under a policy, as a workflow of one step, `work`.
    pub fn retry<M>(mut self, policy: Policy, function: impl Function<M> + Clone) -> Self {
        let steps = vec![Step::new("work", "work", policy)];
        match Workflow::try_from(WorkflowParts {
            name: self.name.clone(),
            steps,
            ..WorkflowParts::default()
        }) {
            Ok(workflow) => self.workflow(workflow).function("work", function),
            Err(error) => {
                self.wrong.push(error.to_string());
                self
            }
        }
    }

    /// Registers `function` under `name`, as [`Registry::register`] does. All worlds share what it
    /// captures: use [`Check::functions`] for state.
    pub fn function<M>(self, name: &str, function: impl Function<M> + Clone) -> Self {
        let name = name.to_owned();
        self.functions(move |registry| {
            registry.register(&name, function.clone());
        })
    }

    /// Registers functions through `add`, which runs each time a node starts: values that it
    /// creates live as long as that process.
    pub fn functions(mut self, add: impl Fn(&mut Registry) + Send + Sync + 'static) -> Self {
        self.own.registries.push(Arc::new(add));
        self
    }

    /// Registers a custom backoff function: the retry's number, from 1, to its delay.
    pub fn backoff(
        mut self,
        name: &str,
        function: impl Fn(u32) -> Nanos + Send + Sync + 'static,
    ) -> Self {
        if crate::workload::functions().get(name).is_some() {
            self.wrong.push(format!("the backoff name `{name}` is the simulation's own"));
        }
        self.own.backoffs.register(name, function);
        self
    }

    /// Adds an HTTP service at `host`, a name as in URLs, at every port. `service` runs once for
    /// each world and returns the handler, so each world has its own state. Faults strike requests
    /// and answers on their way.
    pub fn service<M, S, Fut>(mut self, host: &str, service: M) -> Self
    where
        M: Fn(&World) -> S + Send + Sync + 'static,
        S: Fn(Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Response> + Send + 'static,
    {
        if host.contains(['/', ':']) || host.is_empty() {
            self.wrong.push(format!("`{host}` is no host name: write it without scheme and port"));
        }
        if host.eq_ignore_ascii_case(ENDPOINT_HOST) {
            self.wrong.push(format!("`{host}` is where the world's scripted endpoints are"));
        }
        self.own.services.insert(host.to_ascii_lowercase(), make(service));
        self
    }

    /// The range from which the number of runs in a world is drawn; 1 to 4 by default.
    pub fn runs(mut self, runs: RangeInclusive<u32>) -> Self {
        if runs.is_empty() || *runs.start() == 0 || *runs.end() > 100 {
            self.wrong.push("`runs` must be a range within 1 to 100".to_owned());
        }
        self.runs = Some(runs);
        self
    }

    /// The input of each run: an object.
    pub fn input(mut self, input: Value) -> Self {
        match input {
            Value::Object(input) => self.input = input,
            other => self.wrong.push(format!("the input must be an object, not {other}")),
        }
        self
    }

    /// The number of engines: 1 has its own store, 2 or 3 share one. Drawn by default.
    pub fn nodes(mut self, nodes: u32) -> Self {
        if !(1..=3).contains(&nodes) {
            self.wrong.push("`nodes` must be 1, 2 or 3".to_owned());
        }
        self.nodes = Some(nodes);
        self
    }

    /// Draws only these kinds of faults: none if empty, all by default. Answers may still be late.
    pub fn faults(mut self, kinds: impl IntoIterator<Item = FaultKind>) -> Self {
        self.kinds = Some(kinds.into_iter().collect());
        self
    }

    /// The time after which everything heals; drawn from 2 s to 20 s by default.
    pub fn heal_after(mut self, length: Nanos) -> Self {
        self.heal_after = Some(length);
        self
    }

    /// The longest that one attempt takes without faults; 60 s by default. It is part of the time
    /// after which a run that has not ended counts as stuck.
    pub fn longest_attempt(mut self, length: Nanos) -> Self {
        self.longest_attempt = Some(length);
        self
    }

    /// The most items of a list that user functions and services return and a step fans out over;
    /// 100 by default. It is part of that time too.
    pub fn longest_list(mut self, items: u64) -> Self {
        self.longest_list = Some(items);
        self
    }

    /// The number of seeds, from 0; 100 by default. `RETRIAL_SEEDS` overrides it with a number or a
    /// range.
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds;
        self
    }

    /// The most scenarios to try when a failing one is shrunk; 400 by default.
    pub fn tries(mut self, tries: u64) -> Self {
        self.tries = tries;
        self
    }

    /// The real time after which a world that makes no progress is abandoned, with its thread; two
    /// minutes by default. A world that makes progress may take longer.
    pub fn watchdog(mut self, length: Duration) -> Self {
        self.watchdog = length;
        self
    }

    /// Treats a panic in a function as an ordinary failure, as the engine does (`PANIC`,
    /// permanent). By default it fails the check.
    pub fn panics_are_failures(mut self) -> Self {
        self.panics_are_failures = true;
        self
    }

    /// Lets the check pass although it did not test something. By default it fails where no run
    /// succeeded, a service was never asked, or answers were drawn for an endpoint that the test does
    /// not name: a misspelt host does all that.
    pub fn allow(mut self, gaps: impl IntoIterator<Item = Gap>) -> Self {
        self.allowed.extend(gaps);
        self
    }

    /// Adds a condition that must hold at the end of every world.
    pub fn invariant(mut self, invariant: impl Invariant) -> Self {
        self.invariants.push(Arc::new(invariant));
        self
    }

    /// Adds an invariant from a closure; its error says what is wrong.
    pub fn holds(
        self,
        name: &str,
        check: impl Fn(&Seen<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.invariant(Closure { name: name.to_owned(), check })
    }

    /// Adds a kind of fault. The seed draws whether a world has it.
    pub fn fault(mut self, fault: impl UserFault) -> Self {
        if self.own.fault(fault.name()).is_some() {
            self.wrong.push(format!("two faults are called `{}`", fault.name()));
        }
        self.own.faults.push(Arc::new(fault));
        self
    }

    /// Runs the check and prints one line that says what was tested.
    ///
    /// `RETRIAL_SEED=n` runs that seed alone and shows its history; `RETRIAL_CAPSULE=file` replays
    /// the scenario of a recorded failure.
    ///
    /// # Panics
    /// When a seed fails, or nothing was tested.
    #[expect(clippy::panic, reason = "a test fails by panicking")]
    #[track_caller]
    pub fn run(self) {
        match self.outcome() {
            Ok(passed) => println!("{passed}"),
            Err(failed) => panic!("{failed}"),
        }
    }

    /// Runs the check as [`Check::run`] does.
    ///
    /// # Errors
    /// The first failing seed, shrunk; or why nothing could be checked.
    pub fn outcome(self) -> Result<Passed, Failed> {
        let (name, seeds, tries) = (self.name.clone(), self.seeds, self.tries);
        let runner = self.runner().map_err(|wrong| Failed::refused(&name, &wrong))?;
        replay::selection(&name, seeds)
            .map_err(|wrong| Failed::refused(&name, &[wrong]))
            .and_then(|selection| runner.run(selection, tries))
    }

    fn runner(mut self) -> Result<CheckRunner, Vec<String>> {
        let services: BTreeSet<String> = self.own.services.keys().cloned().collect();
        let text = self.text.take();
        let plan = match text.map(|text| CheckPlan::new(&self.name, text, &services)) {
            Some(Ok(plan)) => Some(plan),
            Some(Err(wrong)) => {
                self.wrong.push(wrong);
                None
            }
            None => {
                self.wrong.push("give it a workflow, or a function under a policy".to_owned());
                None
            }
        };
        if let Some(workflow) = plan.as_ref().and_then(CheckPlan::workflow) {
            self.wrong.extend(self.own.missing(&workflow));
        }
        let Some(mut plan) = plan.filter(|_| self.wrong.is_empty()) else {
            return Err(self.wrong);
        };
        plan.runs = self.runs;
        plan.input = self.input;
        plan.longest_attempt = self.longest_attempt.unwrap_or(plan.longest_attempt);
        plan.longest_list = self.longest_list.unwrap_or(plan.longest_list);
        plan.faults = self.own.faults.iter().map(|fault| kind(&**fault)).collect();
        self.nodes.into_iter().for_each(|nodes| plan.on_nodes(nodes));
        self.kinds.into_iter().for_each(|kinds| plan.limit_faults(kinds));
        self.heal_after.into_iter().for_each(|length| plan.heal_after(length));
        let Self { name, own, invariants, panics_are_failures, allowed, watchdog, .. } = self;
        Ok(CheckRunner {
            name,
            plan,
            own: Arc::new(own),
            invariants,
            panics_are_failures,
            allowed,
            watchdog,
        })
    }
}

fn kind(fault: &dyn UserFault) -> UserKind {
    UserKind { name: fault.name().to_owned(), longest: fault.longest(), most: fault.most() }
}
