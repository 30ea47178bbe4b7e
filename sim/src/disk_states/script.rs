//! The workload: every kind of change that the store's seam knows, in many commits.

use std::sync::Arc;

use retrial::failure::Failure;
use retrial::policy::{Backoff, Policy, PolicyError};
use retrial::run::{Input, LetterId, TaskId, Token};
use retrial::store::{Holding, Prune, RedbStore};
use retrial::time::Nanos;
use retrial::workflow::{Step, StepIx, Template, Workflow, WorkflowParts};
use serde_json::{Value, json};

use super::commit_builder::{CommitBuilder, LONG, NARROW, NotRecorded, id};
use super::model::Call;

/// How much is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// One run's creation, a start and a failure, closing and opening the store, and the retry.
    Short,
    /// Five runs and everything that can happen to them.
    #[default]
    Whole,
}

const DELAY: Nanos = Nanos::from_millis(10);
const PRUNE: Prune = Prune {
    after: None,
    limit: 99,
    older_than: Nanos::ZERO,
    archived_only: true,
    with_letters: false,
};

fn task(step: u16, item: u32) -> TaskId {
    TaskId { step: StepIx(step), item }
}

fn ended(task: TaskId, token: Token, result: Value) -> Input {
    Input::Succeeded { task, token, result: Arc::new(result) }
}

fn failed(task: TaskId, token: Token) -> Input {
    Input::Failed { task, token, failure: Failure::http(503, "busy"), denied: false }
}

fn wrong(error: impl std::fmt::Display) -> NotRecorded {
    NotRecorded(error.to_string())
}

/// A step of three attempts.
fn step(name: &str, action: &str, attempts: u32) -> Result<Step, PolicyError> {
    let policy =
        Policy::builder().attempts(attempts).backoff(Backoff::exponential(DELAY)).build()?;
    Ok(Step::new(name, action, policy))
}

/// A fan-out over two items, and what follows it.
fn fan() -> Result<Arc<Workflow>, NotRecorded> {
    let items = Template::try_from(json!([1, 2])).map_err(wrong)?;
    let fan = Step { for_each: Some(items), ..step("fan", "act", 3).map_err(wrong)? };
    let last = Step { after: vec![StepIx(0)], ..step("last", "act", 1).map_err(wrong)? };
    let parts = WorkflowParts {
        name: "fan".to_owned(),
        steps: vec![fan, last],
        ..WorkflowParts::default()
    };
    Ok(Arc::new(Workflow::try_from(parts).map_err(wrong)?))
}

/// One task of the action of which one attempt may be in progress, which is tried once.
pub(super) fn one() -> Result<Arc<Workflow>, NotRecorded> {
    let steps = vec![step("one", NARROW, 1).map_err(wrong)?];
    let parts = WorkflowParts { name: "one".to_owned(), steps, ..WorkflowParts::default() };
    Ok(Arc::new(Workflow::try_from(parts).map_err(wrong)?))
}

impl CommitBuilder {
    async fn started(&mut self, n: u64, task: TaskId) -> Result<Token, NotRecorded> {
        let (start, token) = self.start(n, task).await?;
        self.step(vec![start]).await?;
        Ok(token)
    }

    async fn applied(&mut self, n: u64, input: &Input, keep: bool) -> Result<(), NotRecorded> {
        let commit = self.commit(n, input, keep)?;
        self.step(vec![commit]).await
    }

    /// Run 1 begins: its first attempt fails and is to be tried again.
    pub(super) async fn begin(&mut self) -> Result<(), NotRecorded> {
        let create = self.create(1, fan()?, None)?;
        self.step(vec![create]).await?;
        let token = self.started(1, task(0, 0)).await?;
        self.applied(1, &failed(task(0, 0), token), false).await
    }

    /// The retry succeeds.
    pub(super) async fn retry(&mut self) -> Result<(), NotRecorded> {
        self.wait(DELAY.saturating_add(DELAY)).await;
        let token = self.started(1, task(0, 0)).await?;
        let result = json!({ "text": "r".repeat(400) });
        self.applied(1, &ended(task(0, 0), token, result), false).await
    }

    /// Another run beside the first, two calls at once, a result of many pages, a snapshot, and
    /// what it has folded in trimmed away.
    pub(super) async fn grow(&mut self) -> Result<(), NotRecorded> {
        let create = self.create(2, one()?, None)?;
        let (start, token) = self.start(1, task(0, 1)).await?;
        self.step(vec![create, start]).await?;
        let result = json!({ "text": "x".repeat(20_000) });
        self.applied(1, &ended(task(0, 1), token, result), true).await?;
        let below = self.version(1);
        self.step(vec![Call::Trim(id(1), below)]).await
    }

    /// Guarded attempts that fail for good, and what is done with their letters.
    pub(super) async fn fail(&mut self) -> Result<(), NotRecorded> {
        let token = self.started(2, task(0, 0)).await?;
        let last = self.started(1, task(1, 0)).await?;
        let renewed = Call::Renew(Holding {
            run: id(1),
            task: task(1, 0),
            token: last,
            lasts: LONG.saturating_add(LONG),
            heartbeat: None,
        });
        let end = self.commit(2, &failed(task(0, 0), token), false)?;
        self.step(vec![end, renewed]).await?;
        let redrives = Some(LetterId { run: id(2), task: task(0, 0) });
        let again = self.create(3, one()?, redrives)?;
        self.step(vec![again]).await?;
        let token = self.started(3, task(0, 0)).await?;
        self.applied(3, &failed(task(0, 0), token), true).await?;
        let letter = LetterId { run: id(3), task: task(0, 0) };
        self.step(vec![Call::Discard(letter, "nobody wants it".to_owned())]).await?;
        self.applied(1, &ended(task(1, 0), last, json!("done")), true).await
    }

    /// A run is cancelled, others are archived and pruned, and one is left in the middle.
    pub(super) async fn rest(&mut self) -> Result<(), NotRecorded> {
        let create = self.create(4, fan()?, None)?;
        self.step(vec![create]).await?;
        self.applied(4, &Input::Cancel { reason: "enough".to_owned() }, false).await?;
        self.step(vec![Call::Archive(id(2))]).await?;
        self.wait(DELAY).await;
        self.step(vec![Call::Prune(PRUNE)]).await?;
        let create = self.create(5, one()?, None)?;
        self.step(vec![create]).await?;
        self.started(5, task(0, 0)).await?;
        Ok(())
    }
}

/// Does the workload with the stores that `open` opens, one after another.
pub(super) async fn work(
    mut pen: CommitBuilder,
    length: Length,
    open: impl AsyncFn() -> Result<RedbStore, NotRecorded>,
) -> Result<(), NotRecorded> {
    pen.begin().await?;
    pen = pen.reopened(&open).await?;
    pen.retry().await?;
    if length == Length::Whole {
        pen.grow().await?;
        pen.fail().await?;
        pen = pen.reopened(&open).await?;
        pen.rest().await?;
    }
    pen.store.close().await;
    Ok(())
}
