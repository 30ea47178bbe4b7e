//! One round: runs are submitted and worked off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::ProgressBar;
use retrial::engine::{Config, Engine, Submission, SubmitError};
use retrial::observe::Observer;
use retrial::run::RunId;
use retrial::runtime::{Runtime as _, TokioRuntime};
use retrial::store::DynStore;
use retrial::time::{Mono, Nanos};
use retrial::workflow::Workflow;
use tokio::task::{JoinError, JoinSet};

use super::watch::{Counted, Watch};
use super::{Plan, workload};
use crate::cli::error::CliError;
use crate::cli::world::CliWorld;

type Node = Engine<CliWorld>;
type Submitted = Result<Result<(), SubmitError>, JoinError>;

/// Submits and works off runs on a store for each node.
pub(super) struct Bench<'p> {
    plan: &'p Plan,
    stores: &'p [DynStore],
    source: Arc<Source>,
}

/// How long the parts of a round took, and what was counted.
pub(super) struct Timed {
    /// From the first submission until all were durable.
    pub(super) submitting: Nanos,
    /// From the start of the nodes until the last end; with a rate, from the first submission.
    pub(super) working: Nanos,
    pub(super) counted: Counted,
}

impl<'p> Bench<'p> {
    pub(super) fn new(
        plan: &'p Plan,
        stores: &'p [DynStore],
        bar: &ProgressBar,
    ) -> Result<Self, CliError> {
        let runtime = TokioRuntime::current();
        let watch = Arc::new(Watch::new(runtime.clone(), bar.clone()));
        let workflows = plan.workload.workflows(plan.items)?;
        let source = Arc::new(Source { runtime, workflows, watch, taken: AtomicUsize::new(0) });
        Ok(Self { plan, stores, source })
    }

    /// Adds runs that wait for a retry for longer than the bench takes.
    pub(super) async fn add_pending(&self, runs: u64) -> Result<(), CliError> {
        let nodes = self.start().await;
        let pending = workload::pending()?;
        self.submit(&nodes, runs, move |_| Submission::new(Arc::clone(&pending))).await?;
        self.source.watch.pending(runs).await;
        stop(nodes).await;
        Ok(())
    }

    /// Submits runs and works them off.
    pub(super) async fn round(&self, runs: u64) -> Result<Timed, CliError> {
        match self.plan.rate {
            Some(rate) => self.open_loop(runs, rate).await,
            None => self.one_after_the_other(runs).await,
        }
    }

    async fn one_after_the_other(&self, runs: u64) -> Result<Timed, CliError> {
        let Source { runtime, watch, .. } = &*self.source;
        let store = self.stores.first().cloned().ok_or_else(|| CliError::store("no store"))?;
        let idle = Node::idle(runtime.clone(), store, workload::actions(), self.config()).await;
        let begun = runtime.now();
        self.submit(&[idle], runs, |source| source.next(source.runtime.now())).await?;
        let submitting = runtime.now().since(begun);
        let begun = watch.open();
        let nodes = self.start().await;
        let counted = watch.ended(runs).await;
        stop(nodes).await;
        Ok(Timed { submitting, working: counted.last_end.since(begun), counted })
    }

    /// Each run is due at its own time, however long the runs before it take.
    async fn open_loop(&self, runs: u64, rate: u64) -> Result<Timed, CliError> {
        let Source { runtime, watch, .. } = &*self.source;
        let nodes = self.start().await;
        let begun = runtime.now();
        let mut submissions = JoinSet::new();
        for (n, node) in (0..runs).zip(nodes.iter().cycle().cloned()) {
            let due = begun.after(Nanos::new(n.saturating_mul(1_000_000_000) / rate));
            runtime.sleep_until(due).await;
            let submission = self.source.next(due);
            submissions.spawn(async move { node.submit(submission).await.map(drop) });
            while let Some(done) = submissions.try_join_next() {
                check(done)?;
            }
        }
        all(submissions).await?;
        let submitting = runtime.now().since(begun);
        let counted = watch.ended(runs).await;
        stop(nodes).await;
        Ok(Timed { submitting, working: counted.last_end.since(begun), counted })
    }

    /// Submits runs, so many at once as the plan says.
    async fn submit(
        &self,
        nodes: &[Node],
        runs: u64,
        next: impl Fn(&Source) -> Submission + Clone + Send + 'static,
    ) -> Result<(), CliError> {
        let users = self.plan.concurrency.min(runs);
        let mut submissions = JoinSet::new();
        for (user, node) in (0..users).zip(nodes.iter().cycle().cloned()) {
            let (source, next) = (Arc::clone(&self.source), next.clone());
            submissions.spawn(async move {
                for _ in (user..runs).step_by(users as usize) {
                    node.submit(next(&source)).await?;
                }
                Ok(())
            });
        }
        all(submissions).await
    }

    async fn start(&self) -> Vec<Node> {
        let mut nodes = Vec::new();
        for store in self.stores {
            let observer = Arc::clone(&self.source.watch) as Arc<dyn Observer>;
            let (runtime, store) = (self.source.runtime.clone(), store.clone());
            let actions = workload::actions();
            nodes.push(Node::start(runtime, store, actions, self.config(), vec![observer]).await);
        }
        nodes
    }

    /// As a node is by default, except for what the plan says.
    fn config(&self) -> Config {
        Config {
            concurrency: self.plan.concurrency as usize,
            action_share: 100,
            sole_owner: self.stores.len() == 1,
            ..Config::default()
        }
    }
}

/// Where the runs come from.
struct Source {
    runtime: TokioRuntime,
    /// They take turns.
    workflows: Vec<Arc<Workflow>>,
    watch: Arc<Watch>,
    taken: AtomicUsize,
}

impl Source {
    /// The next run, watched and due at `due`.
    fn next(&self, due: Mono) -> Submission {
        let draw = || self.runtime.random();
        let run = RunId::created_at(self.runtime.wall(), draw(), draw());
        self.watch.expect(run, due);
        let turn = self.taken.fetch_add(1, Ordering::Relaxed) % self.workflows.len();
        let workflow = Arc::clone(&self.workflows[turn]);
        Submission { id: Some((run, draw())), ..Submission::new(workflow) }
    }
}

async fn stop(nodes: Vec<Node>) {
    for node in nodes {
        node.shutdown().await;
    }
}

async fn all(mut submissions: JoinSet<Result<(), SubmitError>>) -> Result<(), CliError> {
    while let Some(done) = submissions.join_next().await {
        check(done)?;
    }
    Ok(())
}

fn check(done: Submitted) -> Result<(), CliError> {
    let done = done.map_err(|e| CliError::store(format!("a submission was lost: {e}")))?;
    done.map_err(|e| CliError::store(format!("a run can't be submitted: {e}")))
}
