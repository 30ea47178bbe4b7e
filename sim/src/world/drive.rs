//! Who uses the world: submits, cancels, heals it, and waits for its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use madsim::time::{TimeHandle, sleep};
use retrial::engine::{Submission, SubmitError};
use retrial::policy::Functions;
use retrial::run::RunId;
use retrial::store::RunPhase;
use retrial::time::{Mono, Nanos};
use retrial::workflow::Workflow;
use tokio::sync::oneshot;

use super::collect;
use super::nodes::Nodes;
use super::plan;
use super::program::{Counter, Notes, Order};
use super::{spans, user_faults};
use crate::clock::true_now;
use crate::evidence::{Bound, Evidence, PeopleEvidence, RunEvidence, Steps};
use crate::fault::FaultKind;
use crate::runtime::mix;
use crate::scenario::{Cancel, Fault, Place, Rest, Scenario, When};
use crate::sync::lock;
use crate::trace::Kind;
use crate::user::{UserCode, World};
use crate::watch::Records;
use crate::workload;

/// How long a user waits for a node before asking another.
const PATIENCE: Nanos = Nanos::from_secs(5);
/// How often the world is asked whether all runs have ended, in the first hour after healing.
const LOOK: Nanos = Nanos::from_millis(250);
/// From then on looks grow rarer, a thousandth of the time that passes: worlds in which a retry waits
/// for days would else be lived through for the sake of the looks alone.
const LONG: Nanos = Nanos::from_secs(60 * 60);

/// How long the world goes on when all has ended, so that what was done is told and what was called
/// off has stopped.
const SETTLE: Nanos = Nanos::from_secs(5);

/// Lives through a scenario, from its beginning to what it leaves behind.
pub(super) async fn live(
    scenario: &Scenario,
    workflows: Arc<Vec<Arc<Workflow>>>,
    own: Option<Arc<UserCode>>,
    bound: Bound,
    records: &Records,
) -> Evidence {
    let notes = Notes::default();
    let _spans = spans::written(&notes.outputs);
    if scenario.faults.iter().any(|fault| fault.kind == FaultKind::BitRot) {
        notes.seen.keep_sent();
    }
    let own = own.map(|own| (own, World::new(scenario.seed, records.trace.clone())));
    let nodes = Nodes::start(scenario, own.clone(), &notes, records);
    let users = Users::new(scenario, workflows, &nodes, records);
    for number in 0..scenario.submissions.len() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.submit(number).await }));
    }
    if let Some((own, world)) = &own {
        user_faults::start(scenario, own, world);
    }
    for cancel in scenario.cancels.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.cancel(cancel).await }));
    }
    for rest in scenario.rests.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.rest(rest).await }));
    }
    for pause in scenario.people.pauses.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.pause(pause).await }));
    }
    for by_hand in scenario.people.by_hand.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.fail_by_hand(by_hand).await }));
    }
    for mend in scenario.people.mends.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.mend(mend).await }));
    }
    for fault in scenario.faults.iter().filter(|f| f.kind == FaultKind::Shutdown) {
        shutdown(*fault, &nodes);
    }
    let end = async {
        until(scenario.heal_at).await;
        *lock(&users.steps) = nodes.steps();
        nodes.heal();
        records.trace.record(true_now(), "world", Kind::Input, "everything heals", &[]);
        users.wait_for_end(bound).await;
        sleep(SETTLE.into()).await;
    };
    tokio::select! {
        biased;
        // A livelock: the nodes take no more polls, so nothing can be asked of them.
        _ = records.watch.alarm() => {}
        // What rotted can't be read, and the store says so: nobody can go on.
        () = notes.lost.said() => {}
        () = end => {}
    }
    let collected = collect::collect(scenario, bound, &nodes, &users, &notes, records).await;
    match own {
        Some((brought, world)) => Evidence { own: brought.evidence(&world), ..collected },
        None => collected,
    }
}

/// Has a node shut down in good order, as whoever installs another version does. One that is down is
/// let be.
fn shutdown(fault: Fault, nodes: &Nodes) {
    let (When::At(at), Place::Node(number)) = (fault.when, fault.target) else { return };
    let name = plan::name_of(fault.target);
    let node = nodes.all.iter().find(|node| node.name() == name).cloned();
    let counter = nodes.counters.get(number as usize).cloned();
    let (Some(node), Some(counter)) = (node, counter) else { return };
    drop(madsim::task::spawn(async move {
        until(at).await;
        let (reply, done) = oneshot::channel();
        let asked = counter.open().is_some_and(|c| c.try_send(Order::Shutdown(reply)).is_ok());
        if asked && done.await.is_ok() {
            node.leave_and_return(fault.lasts).await;
        }
    }));
}

/// How long after healing the scenario's runs must have ended.
pub(super) fn bound(
    scenario: &Scenario,
    workflows: &[Arc<Workflow>],
    own: Option<&UserCode>,
) -> Bound {
    let functions = own.map_or_else(Functions::default, |own| own.backoffs.clone());
    workload::bound(scenario, workflows, &functions)
}

/// Everybody who asks something of the nodes, and what they remember. Clones share it.
#[derive(Clone)]
pub(super) struct Users {
    scenario: Arc<Scenario>,
    workflows: Arc<Vec<Arc<Workflow>>>,
    counters: Vec<Counter>,
    records: Records,
    pub(super) book: Arc<Mutex<Vec<RunEvidence>>>,
    pub(super) people: Arc<Mutex<PeopleEvidence>>,
    /// What was waited for and has been answered, well or ill.
    answered: Arc<Mutex<usize>>,
    /// How far each node had come when everything healed.
    pub(super) steps: Arc<Mutex<BTreeMap<String, Steps>>>,
}

impl Users {
    fn new(
        scenario: &Scenario,
        workflows: Arc<Vec<Arc<Workflow>>>,
        nodes: &Nodes,
        records: &Records,
    ) -> Self {
        Self {
            scenario: Arc::new(scenario.clone()),
            workflows,
            counters: nodes.counters.clone(),
            records: records.clone(),
            book: Arc::default(),
            people: Arc::default(),
            answered: Arc::default(),
            steps: Arc::default(),
        }
    }

    /// The runs that were asked for.
    pub(super) fn book(&self) -> Vec<RunEvidence> {
        lock(&self.book).clone()
    }

    /// Writes down what became of asking for a run.
    pub(super) fn with_run(&self, run: RunId, note: impl FnOnce(&mut RunEvidence)) {
        if let Some(asked) = lock(&self.book).iter_mut().find(|r| r.id == run) {
            note(asked);
        }
    }

    /// Asks for a run until a node answers. The id is the user's, so asking again asks for no more.
    async fn submit(&self, number: usize) {
        let asked = &self.scenario.submissions[number];
        until(asked.at).await;
        let Some(workflow) = self.workflows.get(asked.workflow).cloned() else { return };
        // Two runs share a seed, so that what must depend on it alone can be seen to.
        let pair = number as u64 / 2;
        let (id, seed) = (self.id_of(number), mix(self.scenario.seed, 3_002 + 4 * pair));
        self.note(&format!("run {id} of workflow {} is asked for", asked.workflow));
        lock(&self.book).push(RunEvidence::new(id, seed, Arc::clone(&workflow), true_now()));
        let submission = Submission {
            workflow,
            input: asked.input.clone(),
            key: asked.key.clone(),
            id: Some((id, seed)),
            redrives: None,
        };
        let mut node = asked.node;
        let answer = loop {
            let answer = self.ask(node, |reply| Order::Submit(submission.clone(), reply)).await;
            if !self.insists() || !matches!(answer, Err(SubmitError::Closing)) {
                break answer;
            }
            node += 1;
            sleep(Nanos::from_millis(50).into()).await;
        };
        self.done();
        match answer {
            Ok(run) => {
                self.note(&format!("run {run} is acknowledged"));
                self.with_run(run, |asked| asked.acknowledged = true);
            }
            Err(error) => {
                self.note(&format!("run {id} is refused: {error}"));
                let of_what_is_asked =
                    !matches!(error, SubmitError::Closing | SubmitError::Broken(_));
                let refused = of_what_is_asked.then(|| error.to_string());
                self.with_run(id, |asked| asked.refused = refused);
            }
        }
    }

    /// Whether a node that is shutting down is no answer: a user's check looks at every run that was
    /// asked for.
    fn insists(&self) -> bool {
        self.scenario.own.is_some()
    }

    async fn cancel(&self, cancel: Cancel) {
        until(cancel.at).await;
        let run = self.id_of(cancel.submission);
        let how = if cancel.rollback { "rolled back" } else { "called off" };
        self.note(&format!("run {run} is {how}"));
        self.with_run(run, |asked| {
            asked.cancels.push(true_now());
            asked.rollbacks.extend(cancel.rollback.then(true_now));
        });
        if cancel.rollback {
            self.ask(cancel.node, |reply| Order::Rollback(run, reply)).await;
        } else {
            self.ask(cancel.node, |reply| Order::Cancel(run, reply)).await;
        }
    }

    /// Has a run left alone for a while.
    async fn rest(&self, rest: Rest) {
        until(rest.from).await;
        let run = self.id_of(rest.submission);
        self.note(&format!("run {run} is deactivated"));
        self.with_run(run, |asked| asked.left_alone = true);
        self.ask(rest.node, |reply| Order::Deactivate(run, reply)).await;
        if rest.archive {
            self.note(&format!("run {run} is archived"));
            // One that is active again was activated by another.
            let _ = self.ask(rest.node, |reply| Order::Archive(run, reply)).await;
        }
        until(rest.until).await;
        self.activate(rest.node, run).await;
        self.done();
    }

    async fn activate(&self, node: u32, run: RunId) {
        self.note(&format!("run {run} is activated"));
        self.with_run(run, |asked| asked.left_alone = false);
        self.ask(node, |reply| Order::Activate(run, reply)).await;
    }

    pub(super) fn done(&self) {
        *lock(&self.answered) += 1;
    }

    pub(super) fn id_of(&self, submission: usize) -> RunId {
        let draw = |n: u64| mix(self.scenario.seed, 3_000 + 4 * submission as u64 + n);
        RunId::from_random(draw(0), draw(1))
    }

    pub(super) fn note(&self, text: &str) {
        self.records.trace.record(true_now(), "users", Kind::Input, text, &[]);
    }

    /// Asks one node after another until one answers.
    pub(super) async fn ask<T>(
        &self,
        first: u32,
        order: impl Fn(oneshot::Sender<T>) -> Order,
    ) -> T {
        let mut node = first as usize;
        loop {
            let (reply, answer) = oneshot::channel();
            if let Some(answer) = self.try_node(node, order(reply), answer).await {
                return answer;
            }
            node += 1;
            sleep(Nanos::from_millis(50).into()).await;
        }
    }

    async fn try_node<T>(
        &self,
        node: usize,
        order: Order,
        answer: oneshot::Receiver<T>,
    ) -> Option<T> {
        let counter = self.counters.get(node % self.counters.len().max(1))?.open()?;
        counter.try_send(order).ok()?;
        tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = sleep(PATIENCE.into()) => None,
        }
    }

    /// Waits until every submission is answered and every run has ended, or the bound has passed.
    async fn wait_for_end(&self, bound: Bound) {
        let length = match bound {
            Bound::Within(length) => length,
            Bound::UnboundedByPolicy => Nanos::from_secs(600),
        };
        let last = self.scenario.heal_at.after(length);
        let people = self.scenario.people.asked();
        let asked = self.scenario.submissions.len() + self.scenario.rests.len() + people;
        while true_now() < last {
            if *lock(&self.answered) >= asked && self.all_ended().await {
                return;
            }
            let longer = true_now().since(self.scenario.heal_at.after(LONG));
            let rest = LOOK.saturating_add(Nanos::new(longer.get() / 1_000));
            sleep(rest.min(last.since(true_now()).max(LOOK)).into()).await;
        }
    }

    /// The name of a step of a run, by place, counted round and round.
    pub(super) fn step_of(&self, submission: usize, step: usize) -> String {
        let asked = self.scenario.submissions.get(submission);
        let workflow = asked.and_then(|s| self.workflows.get(s.workflow));
        let steps = workflow.map(|w| w.steps()).unwrap_or_default();
        steps.get(step % steps.len().max(1)).map(|s| s.id.clone()).unwrap_or_default()
    }

    async fn all_ended(&self) -> bool {
        let (reply, answer) = oneshot::channel();
        let heads = self.try_node(0, Order::Heads(reply), answer).await;
        let Some(Ok(heads)) = heads else { return false };
        for head in heads.runs.iter().filter(|h| h.phase == RunPhase::Deactivated) {
            // A slow node has carried an order out late: whoever gave it wants the run back.
            self.activate(0, head.run).await;
        }
        for head in heads.runs.iter().filter(|h| h.phase == RunPhase::Paused) {
            self.ask(0, |reply| Order::Resume(head.run, reply)).await;
        }
        heads.runs.iter().all(|h| h.phase.is_terminal())
    }
}

/// The workflows of a scenario.
///
/// # Panics
/// When a text makes no sense: only sense is drawn, and a user's file was read before.
#[expect(clippy::panic, reason = "a nonsense scenario is a bug of its drawing")]
pub(super) fn workflows(scenario: &Scenario) -> Vec<Arc<Workflow>> {
    let read = |(place, text)| match workload::workflow(place, text) {
        Ok(workflow) => Arc::new(workflow),
        Err(why) => panic!("a drawn workflow makes no sense: {why}"),
    };
    scenario.workflows.iter().enumerate().map(read).collect()
}

pub(super) async fn until(at: Mono) {
    let wait = at.since(true_now());
    if !wait.is_zero() {
        madsim::time::sleep_until(
            TimeHandle::current().now_instant() + std::time::Duration::from(wait),
        )
        .await;
    }
}
