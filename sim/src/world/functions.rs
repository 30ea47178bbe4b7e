//! The registered functions of every simulated program. Each works for a while, reports progress
//! and cost, and then calls the endpoint that its arguments name. So the endpoint's ledger shows
//! what it met, as for an HTTP action.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use retrial::action::{
    ActionSet, Actions, Call, Context, ContextRuntime, HttpActions, Outcome, Registry, Reports,
};
use retrial::failure::Failure;
use retrial::run::{RunId, TaskId};
use retrial::runtime::Runtime as _;
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Able, Action, Endpoint, Target};
use serde_json::json;

use super::action_network::ActionNetwork;
use crate::clock::true_now;
use crate::evidence::{FunctionEvent, FunctionRecord};
use crate::incarnation::Incarnation;
use crate::runtime::{SimRuntime, inside_function};
use crate::scenario::ENDPOINT_HOST;
use crate::sync::lock;
use crate::user::UserCode;
use crate::workload::{self, Draw};

/// The record of all functions of a world.
pub(super) type FunctionRecords = Arc<Mutex<Vec<FunctionRecord>>>;

/// The longest timeout that a function outlives now and then, and by how much.
const LONGEST: Nanos = Nanos::from_secs(3);
const OVERTIME: Nanos = Nanos::from_secs(5);

/// When each attempt was dispatched, by its receipt and number.
type Dispatched = Arc<Mutex<BTreeMap<(u128, u32), Timestamp>>>;

/// Registered functions and HTTP endpoints.
pub struct SimActions {
    set: ActionSet<ActionNetwork>,
    owner: Owner,
}

/// Their node.
enum Owner {
    /// The simulation's, which record what they do.
    Drawn(Dispatched, FunctionLog),
    /// A user's.
    User(FunctionLog),
}

/// Records what the functions of one incarnation do.
#[derive(Clone)]
struct FunctionLog {
    incarnation: Incarnation,
    function_records: FunctionRecords,
}

impl FunctionLog {
    fn note(&self, run: RunId, task: TaskId, attempt: u32, did: FunctionEvent) {
        if !self.incarnation.is_over() {
            lock(&self.function_records).push(FunctionRecord {
                at: true_now(),
                run,
                task,
                attempt,
                did,
            });
        }
    }
}

/// A registered function of the simulation.
#[derive(Clone)]
struct DrawnFunction {
    runtime: SimRuntime,
    log: FunctionLog,
    http: HttpActions<ActionNetwork>,
    dispatched: Dispatched,
}

impl SimActions {
    pub(super) fn new(
        runtime: SimRuntime,
        incarnation: Incarnation,
        function_records: FunctionRecords,
        http: HttpActions<ActionNetwork>,
        missing_functions: &BTreeSet<String>,
    ) -> Self {
        let dispatched = Dispatched::default();
        let log = FunctionLog { incarnation, function_records };
        let function = DrawnFunction {
            runtime,
            log: log.clone(),
            http: http.clone(),
            dispatched: Arc::clone(&dispatched),
        };
        let mut registry = Registry::new();
        for name in workload::registered().filter(|name| !missing_functions.contains(name)) {
            let (before, after) = (function.clone(), function.clone());
            registry
                .action(&name)
                .precondition(move |context: Context| {
                    let function = before.clone();
                    async move { function.check(&context).await }
                })
                .run(move |context: Context| {
                    let function = after.clone();
                    async move { function.work(context).await }
                })
                .register();
        }
        Self { set: ActionSet::new(registry, http), owner: Owner::Drawn(dispatched, log) }
    }

    /// A user's own functions, over the simulated network.
    pub(super) fn own(
        own: &UserCode,
        incarnation: Incarnation,
        function_records: FunctionRecords,
        http: HttpActions<ActionNetwork>,
    ) -> Self {
        let owner = Owner::User(FunctionLog { incarnation, function_records });
        Self { set: ActionSet::new(own.registry(), http), owner }
    }
}

impl SimActions {
    /// Records that an attempt has returned, where it was not these actions that ran it.
    pub fn note_return(&self, run: RunId, task: TaskId, attempt: u32) {
        if let Owner::Drawn(_, log) = &self.owner {
            log.note(run, task, attempt, FunctionEvent::Returned);
        }
    }
}

impl Actions for SimActions {
    async fn invoke(&self, call: Call) -> Outcome {
        let (run, task, attempt) = (call.run, call.task, call.attempt);
        match &self.owner {
            Owner::Drawn(dispatched, log) => {
                lock(dispatched).insert((call.receipt().as_u128(), attempt), call.at);
                let outcome = self.set.invoke(call).await;
                log.note(run, task, attempt, FunctionEvent::Returned);
                outcome
            }
            Owner::User(log) => {
                let name = call.name.clone();
                let target = call.action.as_ref().map(|action| &action.target);
                let is_http = matches!(target, Some(Target::Http(_)));
                let mut made = pin!(self.set.invoke(call));
                let outcome = poll_fn(|cx| inside_function(&name, || made.as_mut().poll(cx))).await;
                if let (Err(failure), false) = (&outcome, is_http) {
                    let (code, unknown) = (failure.code().clone(), failure.is_outcome_unknown());
                    log.note(run, task, attempt, FunctionEvent::Failed { code, unknown });
                }
                outcome
            }
        }
    }

    fn able(&self) -> Able {
        self.set.able()
    }
}

impl DrawnFunction {
    fn note(&self, context: &Context, did: FunctionEvent) {
        self.log.note(context.run(), context.task(), context.attempt(), did);
    }

    /// Its precondition, which now and then takes its time, so that it may be called off while it
    /// looks, and now and then does not hold.
    async fn check(&self, context: &Context) -> Result<(), Failure> {
        self.note(context, FunctionEvent::Checked);
        let mut draw = self.draw(context, "check");
        if draw.chance(30) {
            self.wait(draw.millis(1, 150)).await;
        }
        if draw.chance(6) {
            self.note(context, FunctionEvent::Refused);
            return Err(Failure::precondition("the function is not ready"));
        }
        Ok(())
    }

    /// Sends a heartbeat every 100 ms for `length`, whatever its timeout is. With `done`, each one
    /// carries progress.
    async fn dawdle(
        &self,
        context: &Context,
        mut done: Option<&mut u64>,
        length: Nanos,
    ) -> Result<(), Failure> {
        let end = self.runtime.now().after(length);
        while self.runtime.now() < end {
            self.wait(Nanos::from_millis(100)).await;
            match &mut done {
                Some(done) => self.beat(context, done)?,
                None => {
                    self.note(context, FunctionEvent::Alive);
                    context.beat();
                }
            }
        }
        Ok(())
    }

    fn beat(&self, context: &Context, done: &mut u64) -> Result<(), Failure> {
        *done += 1;
        self.note(context, FunctionEvent::Beat(*done));
        context.heartbeat(*done)
    }

    async fn wait(&self, by: Nanos) {
        self.runtime.sleep_until(self.runtime.now().after(by)).await;
    }

    fn draw(&self, context: &Context, topic: &str) -> Draw {
        let (seed, attempt) = (context.receipt_token(), context.attempt());
        Draw::new(self.runtime.redraw(seed.as_u64_pair().0), &format!("{topic} {attempt}"))
    }

    async fn work(&self, context: Context) -> Outcome {
        let mut draw = self.draw(&context, "attempt");
        let seen: Option<u64> = context.progress()?;
        self.note(&context, FunctionEvent::Began(seen));
        let mut done = seen.unwrap_or(0);
        let timeout = context.timeout().filter(|t| *t <= LONGEST && context.attempt() == 1);
        if let Some(timeout) = timeout
            && self.draw(&context, "dawdle").chance(10)
        {
            let bare = self.draw(&context, "bare").chance(50);
            let length = timeout.saturating_add(OVERTIME);
            self.dawdle(&context, (!bare).then_some(&mut done), length).await?;
        }
        let demanded =
            context.heartbeat_timeout().filter(|limit| limit.saturating_add(*limit) <= LONGEST);
        if let (Some(limit), 1) = (demanded, context.attempt())
            && self.draw(&context, "lull").chance(25)
        {
            self.dawdle(&context, None, limit.saturating_add(limit)).await?;
        }
        for _ in 0..draw.small(0, 3) {
            self.wait(draw.millis(1, 400)).await;
            if draw.chance(40) {
                let cost = draw.below(1_000_000);
                self.note(&context, FunctionEvent::TaskTime(cost));
                context.report_cost(cost);
            }
            self.beat(&context, &mut done)?;
        }
        // An answer that looks like an exception is none here.
        self.http.invoke(self.call(&context)).await.map(|answer| json!({"answer": answer}))
    }

    /// The request to the endpoint that the arguments name.
    fn call(&self, context: &Context) -> Call {
        let args = context.raw_args().clone();
        let path = args.get("to").and_then(|to| to.as_str()).unwrap_or_default();
        let url = format!("http://{ENDPOINT_HOST}{path}");
        let endpoint = Endpoint::new("POST", url);
        let action = Action {
            kind: Default::default(),
            target: Target::Http(endpoint),
            idempotent: None,
            inner_attempts: None,
            webhook: None,
            heartbeat_timeout: None,
            guard: Default::default(),
        };
        let (receipt, attempt) = (context.receipt_token(), context.attempt());
        Call {
            run: context.run(),
            task: context.task(),
            step: context.step().to_owned(),
            name: "relay".to_owned(),
            action: Some(Arc::new(action)),
            args,
            attempt,
            retries_left: context.retries_left(),
            timeout: context.timeout(),
            heartbeat_timeout: None,
            progress: None,
            reports: Reports::default(),
            at: lock(&self.dispatched)
                .get(&(receipt.as_u128(), attempt))
                .copied()
                .unwrap_or_default(),
            cancelled: context.cancelled().clone(),
            context_runtime: ContextRuntime::by(self.runtime.clone()),
        }
    }
}
