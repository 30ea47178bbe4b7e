//! The users of the world: they ask nodes to submit, cancel and deactivate runs, and wait for their
//! end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use madsim::time::sleep;
use retrial::engine::{Submission, SubmitError};
use retrial::run::RunId;
use retrial::store::{Answer, Heads, Request, RunPhase, Store, StoreError};
use retrial::time::Nanos;
use retrial::workflow::Workflow;
use tokio::sync::oneshot;

use super::order::{Asked, Order, OrderQueue};
use crate::clock::{true_now, until};
use crate::evidence::{Bound, InterventionEvidence, RunEvidence, Steps};
use crate::fault::FaultKind;
use crate::records::Records;
use crate::runtime::mix;
use crate::scenario::{Cancel, Deactivation, Scenario, WorkflowText};
use crate::sync::lock;
use crate::trace::Kind;

/// How long a user waits for a node before asking another.
const PATIENCE: Nanos = Nanos::from_secs(5);
/// How often the world is asked whether all runs have ended, in the first hour after healing.
const LOOK: Nanos = Nanos::from_millis(250);
/// Once in so many looks, what is held in quarantine is released.
const LOOKS_A_RELEASE: u32 = 8;
/// After this long the looks grow rarer, by a thousandth of the time that has passed: a retry may
/// wait for days.
const LONG: Nanos = Nanos::from_secs(60 * 60);

/// After so many looks in a row that were not answered, a store with rotten bytes is given up.
const IN_VAIN: u32 = 400;

/// More runs than a world has.
pub(super) const ALL: usize = 10_000;

/// Everybody who asks something of the nodes, and what they remember. Clones share it.
#[derive(Clone)]
pub(super) struct Users {
    scenario: Arc<Scenario>,
    workflows: Arc<Vec<Arc<Workflow>>>,
    order_queues: Vec<OrderQueue>,
    records: Records,
    pub(super) runs: Arc<Mutex<Vec<RunEvidence>>>,
    pub(super) interventions: Arc<Mutex<InterventionEvidence>>,
    /// The waits that have an answer, a success or an error.
    answered: Arc<Mutex<usize>>,
    /// How far each node had come when everything healed.
    pub(super) steps: Arc<Mutex<BTreeMap<String, Steps>>>,
}

impl Users {
    pub(super) fn new(
        scenario: &Scenario,
        workflows: Arc<Vec<Arc<Workflow>>>,
        order_queues: Vec<OrderQueue>,
        records: &Records,
    ) -> Self {
        let users = Self {
            scenario: Arc::new(scenario.clone()),
            workflows,
            order_queues,
            records: records.clone(),
            runs: Arc::default(),
            interventions: Arc::default(),
            answered: Arc::default(),
            steps: Arc::default(),
        };
        // What else is asked about a run may be asked in the instant of its submission, and first.
        *lock(&users.runs) = users.expected_runs();
        users
    }

    fn expected_runs(&self) -> Vec<RunEvidence> {
        let texts: Vec<Arc<WorkflowText>> =
            self.scenario.workflows.iter().cloned().map(Arc::new).collect();
        let submissions = self.scenario.submissions.iter().enumerate();
        let runs = submissions.filter_map(|(number, asked)| {
            let workflow = self.workflows.get(asked.workflow).cloned()?;
            let (id, seed) = (self.id_of(number), self.seed_of(number));
            let text = texts.get(asked.workflow).cloned();
            let input = Some(asked.input.clone());
            let key = asked.key.clone();
            Some(RunEvidence { text, input, key, ..RunEvidence::new(id, seed, workflow, asked.at) })
        });
        runs.collect()
    }

    /// The runs that were asked for.
    pub(super) fn runs(&self) -> Vec<RunEvidence> {
        lock(&self.runs).clone()
    }

    /// Records the result of asking for a run.
    pub(super) fn with_run(&self, run: RunId, note: impl FnOnce(&mut RunEvidence)) {
        if let Some(asked) = lock(&self.runs).iter_mut().find(|r| r.id == run) {
            note(asked);
        }
    }

    /// Asks for a run until a node answers. The id is the user's, so asking again asks for no more.
    pub(super) async fn submit(&self, number: usize) {
        let asked = &self.scenario.submissions[number];
        until(asked.at).await;
        let Some(workflow) = self.workflows.get(asked.workflow).cloned() else { return };
        let (id, seed) = (self.id_of(number), self.seed_of(number));
        self.note(&format!("run {id} of workflow {} is asked for", asked.workflow));
        let submission = Submission {
            workflow,
            input: asked.input.clone(),
            key: asked.key.clone(),
            id: Some((id, seed)),
            redrives: None,
            require_actions: false,
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
                self.with_run(id, |asked| asked.answer = Some(run));
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

    /// Whether a node that is shutting down is no answer: a user's check looks at every run that
    /// was asked for.
    fn insists(&self) -> bool {
        self.scenario.own.is_some()
    }

    pub(super) async fn cancel(&self, cancel: Cancel) {
        until(cancel.at).await;
        let run = self.id_of(cancel.submission);
        let how = if cancel.rollback { "rolled back" } else { "called off" };
        self.note(&format!("run {run} is {how}"));
        self.with_run(run, |asked| {
            asked.cancels.push(true_now());
            asked.rollbacks.extend(cancel.rollback.then(true_now));
        });
        let answer = if cancel.rollback {
            self.ask(cancel.node, |reply| Order::Rollback(run, reply)).await
        } else {
            self.ask(cancel.node, |reply| Order::Cancel(run, reply)).await
        };
        if answer.is_ok() {
            self.with_run(run, |asked| {
                asked.called_off.get_or_insert(true_now());
            });
        }
    }

    /// Deactivates a run and activates it again.
    pub(super) async fn rest(&self, rest: Deactivation) {
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

    /// Two runs share a seed, so that what must depend on it alone can be seen to.
    fn seed_of(&self, submission: usize) -> u64 {
        mix(self.scenario.seed, 3_002 + 4 * (submission as u64 / 2))
    }

    pub(super) fn note(&self, text: &str) {
        self.records.trace.record(true_now(), "users", Kind::Input, text, &[]);
    }

    pub(super) fn nodes(&self) -> u32 {
        (self.order_queues.len() as u32).max(1)
    }

    /// Whether a node takes an order.
    pub(super) fn send(&self, node: u32, order: impl Into<Asked>) -> bool {
        let order_queue = self.order_queues.get((node % self.nodes()) as usize);
        let order_queue = order_queue.and_then(OrderQueue::open);
        order_queue.is_some_and(|order_queue| order_queue.try_send(order.into()).is_ok())
    }

    /// Asks one node after another until one answers.
    pub(super) async fn ask<T, A: Into<Asked>>(
        &self,
        first: u32,
        order: impl Fn(oneshot::Sender<T>) -> A,
    ) -> T {
        let mut node = first;
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
        node: u32,
        asked: impl Into<Asked>,
        answer: oneshot::Receiver<T>,
    ) -> Option<T> {
        if !self.send(node, asked) {
            return None;
        }
        tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = sleep(PATIENCE.into()) => None,
        }
    }

    /// Waits until every submission is answered and every run has ended, or the bound has passed.
    /// Whether all had ended.
    pub(super) async fn wait_for_end(&self, bound: Bound) -> bool {
        let length = match bound {
            Bound::Within(length) => length,
            Bound::UnboundedByPolicy => Nanos::from_secs(600),
        };
        let last = self.scenario.heal_at.after(length);
        let interventions = self.scenario.interventions.asked();
        let asked =
            self.scenario.submissions.len() + self.scenario.deactivations.len() + interventions;
        let (mut looks, mut unanswered) = (0_u32, 0_u32);
        while true_now() < last && unanswered < IN_VAIN {
            looks = looks.wrapping_add(1);
            if self.scenario.quarantine_after.is_some() && looks.is_multiple_of(LOOKS_A_RELEASE) {
                self.release_all().await;
            }
            if *lock(&self.answered) >= asked {
                let rots = || self.records.strikes.counts().contains_key(&FaultKind::BitRot);
                match self.all_ended().await {
                    Some(true) => return true,
                    Some(false) => unanswered = 0,
                    None if rots() => unanswered += 1,
                    None => {}
                }
            }
            let longer = true_now().since(self.scenario.heal_at.after(LONG));
            let rest = LOOK.saturating_add(Nanos::new(longer.get() / 1_000));
            sleep(rest.min(last.since(true_now()).max(LOOK)).into()).await;
        }
        false
    }

    /// The name of a step of a run, by place, counted round and round.
    pub(super) fn step_of(&self, submission: usize, step: usize) -> String {
        let asked = self.scenario.submissions.get(submission);
        let workflow = asked.and_then(|s| self.workflows.get(s.workflow));
        let steps = workflow.map(|w| w.steps()).unwrap_or_default();
        steps.get(step % steps.len().max(1)).map(|s| s.id.clone()).unwrap_or_default()
    }

    /// Releases what is held of any run, also of those that no user asked for.
    async fn release_all(&self) {
        let Some(heads) = self.try_heads().await else { return };
        for head in heads.runs.iter().filter(|h| !h.phase.is_terminal()) {
            self.release(0, head.run).await;
        }
    }

    /// Every run's head, if the first node says so soon.
    async fn try_heads(&self) -> Option<Heads> {
        let (reply, answer) = oneshot::channel();
        let heads = Request::Heads { after: None, limit: ALL };
        match self.try_node(0, Asked::Store(heads, reply), answer).await? {
            Ok(Answer::Heads(heads)) => Some(heads),
            _ => None,
        }
    }

    /// `None` where the first node does not say.
    async fn all_ended(&self) -> Option<bool> {
        let heads = self.try_heads().await?;
        for head in heads.runs.iter().filter(|h| h.phase == RunPhase::Deactivated) {
            // A slow node has carried an order out late; its user wants the run back.
            self.activate(0, head.run).await;
        }
        for head in heads.runs.iter().filter(|h| h.phase == RunPhase::Paused) {
            self.ask(0, |reply| Order::Resume(head.run, reply)).await;
        }
        Some(heads.runs.iter().all(|h| h.phase.is_terminal()))
    }
}

/// The store, past the engines: one node after another is asked until one answers, and again where
/// it could not tell.
impl Store for Users {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        loop {
            match self.ask(0, |reply| Asked::Store(request.clone(), reply)).await {
                Err(StoreError::Unknown(_) | StoreError::NotDone(_)) => {}
                definite => return definite,
            }
            sleep(Nanos::from_millis(50).into()).await;
        }
    }
}
