use std::sync::Arc;

use bytes::Bytes;

use super::Harness;
use crate::run::{Digest, Progress, RunId, TaskId, Token, Version};
use crate::store::{
    Claim, ClaimId, Claimed, ClaimedTask, Commit, CommitId, Committed, Create, Created, DynStore,
    Expired, Fence, Heartbeat, Holding, Loaded, QueueChange, QueueRow, Renewal, ResultRow,
    RunPhase, Store, StoreError,
};
use crate::time::{Nanos, Timestamp};
use crate::workflow::{Able, Need, StepIx, Via};

/// How a store differs from what the suite expects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

impl From<StoreError> for Wrong {
    fn from(error: StoreError) -> Self {
        Self(format!("the store failed: {error}"))
    }
}

/// Returns [`Wrong`] unless both sides are equal.
macro_rules! same {
    ($got:expr, $expected:expr) => {{
        let (got, expected) = (&$got, &$expected);
        if got != expected {
            let (line, what) = (line!(), stringify!($got));
            return Err($crate::store::conformance::Wrong(format!(
                "line {line}: `{what}` is {got:?}, and should be {expected:?}"
            )));
        }
    }};
}
pub(super) use same;

/// Returns [`Wrong`] unless the value matches; otherwise evaluates to what the pattern bound.
macro_rules! matched {
    ($got:expr, $pattern:pat => $bound:expr) => {{
        match $got {
            $pattern => $bound,
            other => {
                let (line, expected) = (line!(), stringify!($pattern));
                return Err($crate::store::conformance::Wrong(format!(
                    "line {line}: got {other:?}, and expected {expected}"
                )));
            }
        }
    }};
}
pub(super) use matched;

/// A time short enough to wait for and long enough to notice.
pub(super) const SOON: Nanos = Nanos::from_millis(20);
/// A time longer than any case.
pub(super) const LONG: Nanos = Nanos::from_secs(100_000);

/// The store under test, with helpers for the cases.
pub(super) struct Bench<'a> {
    pub(super) harness: &'a mut dyn Harness,
    claims: u64,
    commits: u64,
}

pub(super) fn run(n: u64) -> RunId {
    RunId::from_bytes([&[0; 8][..], &n.to_be_bytes()].concat().try_into().unwrap_or([0; 16]))
}

pub(super) fn task(item: u32) -> TaskId {
    TaskId { step: StepIx(7), item }
}

pub(super) fn due(item: u32, after: Nanos) -> QueueChange {
    due_again(item, 1, after)
}

pub(super) fn due_again(item: u32, attempt: u32, after: Nanos) -> QueueChange {
    let need = need("act", Via::Function);
    QueueChange::Due { task: task(item), attempt, after, need, progress: None }
}

pub(super) fn need(action: &str, via: Via) -> Need {
    Need { action: action.into(), via }
}

pub(super) fn progress(number: u64) -> Progress {
    let json = format!("{{\"done\": {number}}}");
    Progress { number, json: Some(json.into()), checked: number > 6 }
}

pub(super) fn lease(item: u32, token: Token, lasts: Nanos, timeout: Option<Nanos>) -> QueueChange {
    QueueChange::Lease { task: task(item), attempt: 1, token, lasts, timeout, heartbeat: None }
}

pub(super) fn held(item: u32, token: Token) -> Fence {
    Fence::Held { task: task(item), token }
}

pub(super) fn lapsed(item: u32, token: Token) -> Fence {
    Fence::Lapsed { task: task(item), token }
}

/// `n` events that contain their number.
pub(super) fn events(from: u64, n: u64) -> Vec<Bytes> {
    (from..from + n).map(|n| Bytes::from(format!("event {n}"))).collect()
}

pub(super) fn result(item: u32, text: &str) -> ResultRow {
    ResultRow { task: task(item), attempt: 1, result: Bytes::from(text.to_owned()) }
}

/// A submission of run `n` with two events and these queue rows.
pub(super) fn create(n: u64, queue: Vec<QueueChange>) -> Create {
    Create {
        run: run(n),
        key: None,
        digest: Digest::of(&n.to_be_bytes()),
        id: Default::default(),
        workflow: format!("workflow {n}"),
        events: events(0, 2),
        queue,
        phase: RunPhase::Running,
        redrives: None,
        fields: Default::default(),
    }
}

impl<'a> Bench<'a> {
    pub(super) fn new(harness: &'a mut dyn Harness) -> Self {
        Self { harness, claims: 0, commits: 0 }
    }

    pub(super) fn store(&self) -> DynStore {
        self.harness.store()
    }

    /// Adds run `n` with these rows and returns the time.
    pub(super) async fn add(&self, n: u64, queue: Vec<QueueChange>) -> Result<Timestamp, Wrong> {
        let created = self.store().create(create(n, queue)).await?;
        Ok(matched!(created, Created::New { at } => at))
    }

    /// A claim with a new id.
    pub(super) fn next_claim(&mut self, limit: usize, lasts: Nanos) -> Claim {
        self.claims += 1;
        let id = ClaimId { writer: 1, counter: self.claims };
        Claim { id, limit, lasts, chance: 99, able: Arc::new(Able::Anything), full: [].into() }
    }

    pub(super) async fn claim(&mut self, limit: usize) -> Result<Claimed, Wrong> {
        let claim = self.next_claim(limit, LONG);
        Ok(self.store().claim(claim).await?)
    }

    /// Claims the one task that is due.
    pub(super) async fn claim_one(&mut self, lasts: Nanos) -> Result<ClaimedTask, Wrong> {
        let claim = self.next_claim(9, lasts);
        let claimed = self.store().claim(claim).await?;
        Ok(matched!(claimed.tasks.as_slice(), [task] => task.clone()))
    }

    /// A commit of one event to run `n` after `expect`, with a new id.
    pub(super) fn next_commit(&mut self, n: u64, expect: u64) -> Commit {
        self.commits += 1;
        Commit {
            id: CommitId { writer: 1, counter: self.commits },
            run: run(n),
            expect: Version(expect),
            fences: vec![],
            events: events(expect, 1),
            queue: vec![],
            results: vec![],
            letters: vec![],
            phase: RunPhase::Running,
            snapshot: None,
            guards: vec![],
            raised: vec![],
            creates: vec![],
        }
    }

    /// Commits and returns the time at which the commit landed.
    pub(super) async fn land(&self, commit: &Commit) -> Result<Timestamp, Wrong> {
        let (landed, at) = match self.store().commit(commit.clone()).await? {
            Committed::Applied { version, at } => (version, at),
            other => return Err(Wrong(format!("{commit:?} was answered {other:?}"))),
        };
        same!(landed, commit.expect.after(commit.events.len()));
        Ok(at)
    }

    /// Starts item 0 of run 1, which is due and at version 2, under a lease.
    pub(super) async fn start(
        &mut self,
        lasts: Nanos,
        timeout: Option<Nanos>,
    ) -> Result<(Token, Timestamp), Wrong> {
        let token = self.claim_one(LONG).await?.token;
        let mut commit = self.next_commit(1, 2);
        commit.fences = vec![held(0, token)];
        commit.queue = vec![lease(0, token, lasts, timeout)];
        Ok((token, self.land(&commit).await?))
    }

    pub(super) async fn load(&self, n: u64, after: Option<u64>) -> Result<Loaded, Wrong> {
        let loaded = self.store().load(run(n), after.map(Version)).await?;
        Ok(matched!(loaded, Some(loaded) => loaded))
    }

    pub(super) async fn rows(&self, n: u64) -> Result<Vec<QueueRow>, Wrong> {
        Ok(self.store().queue(run(n)).await?)
    }

    pub(super) async fn expired(&self) -> Result<Expired, Wrong> {
        Ok(self.store().expired(100).await?)
    }

    pub(super) async fn renew(&self, token: Token, lasts: Nanos) -> Result<Renewal, Wrong> {
        self.beat(token, lasts, None).await
    }

    pub(super) async fn beat(
        &self,
        token: Token,
        lasts: Nanos,
        heartbeat: Option<Heartbeat>,
    ) -> Result<Renewal, Wrong> {
        let holding = Holding { run: run(1), task: task(0), token, lasts, heartbeat };
        let renewed = self.store().renew(vec![holding]).await?;
        Ok(matched!(renewed.answers.as_slice(), &[answer] => answer))
    }

    pub(super) async fn sleep(&self, by: Nanos) {
        self.harness.sleep(by).await;
    }
}
