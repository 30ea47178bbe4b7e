//! Sends a store the commits that follow from a run's decisions, and records them.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use retrial::guard::{Ended, GuardInput, GuardRules};
use retrial::policy::Functions;
use retrial::run::{
    self, Digest, Event, Impossible, Input, Letter, LetterId, Phase, Recorded, RunId, RunState,
    TaskId, Token, Version, Waits, queue_of,
};
use retrial::runtime::Runtime as _;
use retrial::store::{
    Archived, Claim, ClaimId, Commit, CommitId, Committed, Create, Created, Discarded, Fence,
    Guarding, Holder, LetterRow, QueueChange, RedbStore, Renewal, ResultRow, RunPhase, Store,
    StoreError,
};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Able, Workflow};

use super::disk_trace::Recording;
use super::model::{AnsweredCall, Call};
use crate::runtime::SimRuntime;

/// Longer than any workload.
pub(super) const LONG: Nanos = Nanos::from_secs(100_000);
/// How long a task is reserved for its start.
const RESERVED: Nanos = Nanos::from_millis(1);
/// The action of which one attempt may be in progress at once.
pub(super) const NARROW: &str = "narrow";

/// Why a workload was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the workload can't be recorded: {0}")]
pub struct NotRecorded(pub(super) String);

impl From<Impossible> for NotRecorded {
    fn from(wrong: Impossible) -> Self {
        Self(wrong.to_string())
    }
}

impl From<StoreError> for NotRecorded {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

/// Builds the commits of a workload.
pub(super) struct CommitBuilder {
    pub(super) store: RedbStore,
    pub(super) runtime: SimRuntime,
    recording: Recording,
    runs: BTreeMap<RunId, RunState>,
    asked: u64,
    now: Timestamp,
}

pub(super) fn id(n: u64) -> RunId {
    RunId::from_random(n, n)
}

impl CommitBuilder {
    pub(super) fn new(store: RedbStore, runtime: SimRuntime, recording: Recording) -> Self {
        let now = Timestamp::default();
        Self { store, runtime, recording, runs: BTreeMap::new(), asked: 0, now }
    }

    /// Closes the store and goes on with the one that `open` gives.
    pub(super) async fn reopened(
        self,
        open: &impl AsyncFn() -> Result<RedbStore, NotRecorded>,
    ) -> Result<Self, NotRecorded> {
        let Self { store, runtime, recording, runs, asked, now } = self;
        store.close().await;
        let store = open().await?;
        Ok(Self { store, runtime, recording, runs, asked, now })
    }

    /// Asks for all of `calls` at once.
    pub(super) async fn step(&mut self, calls: Vec<Call>) -> Result<(), NotRecorded> {
        self.recording.begin();
        let made = together(calls.into_iter().map(|call| ask(&self.store, call)).collect()).await;
        let made: Vec<AnsweredCall> = made.into_iter().collect::<Result<_, _>>()?;
        self.now = made.iter().map(|made| made.at).fold(self.now, Timestamp::max);
        self.recording.answered(made);
        Ok(())
    }

    fn count(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// The creation of run `n`.
    pub(super) fn create(
        &mut self,
        n: u64,
        workflow: Arc<Workflow>,
        redrives: Option<LetterId>,
    ) -> Result<Call, NotRecorded> {
        let (run, name) = (id(n), workflow.name().to_owned());
        let (state, events) = RunState::create(run, n, workflow, Default::default(), self.now)?;
        let call = Call::Create(Create {
            run,
            key: Some(format!("key {n}")),
            digest: Digest::of(&n.to_be_bytes()),
            id: Default::default(),
            workflow: name,
            fields: [("n".to_owned(), n.to_string())].into(),
            events: events.iter().map(run::encode).collect(),
            queue: changes(&[], &state, &events),
            phase: phase_of(&state),
            redrives,
        });
        self.runs.insert(run, state);
        Ok(call)
    }

    /// The commit of what `input` does to run `n`. `keep` brings a snapshot.
    pub(super) fn commit(
        &mut self,
        n: u64,
        input: &Input,
        keep: bool,
    ) -> Result<Call, NotRecorded> {
        let (run, counter) = (id(n), self.count());
        let unknown = || NotRecorded(format!("run {n} was not created"));
        let state = self.runs.get_mut(&run).ok_or_else(unknown)?;
        let (before, expect) = (queue_of(state), state.version());
        let events = state.handle(input, self.now, &Functions::default())?;
        let mut commit = Commit {
            id: CommitId { writer: 1, counter },
            run,
            expect,
            fences: fence_of(input).into_iter().collect(),
            events: events.iter().map(run::encode).collect(),
            queue: changes(&before, state, &events),
            results: Vec::new(),
            letters: Vec::new(),
            phase: phase_of(state),
            snapshot: keep.then(|| run::encode_snapshot(state)),
            guards: guarding(run, state, input),
            raised: Vec::new(),
            creates: Vec::new(),
        };
        for Recorded { event, .. } in &events {
            if let (Event::TaskSucceeded { task, attempt, .. }, Input::Succeeded { result, .. }) =
                (event, input)
            {
                let result = Bytes::from(result.to_string());
                commit.results.push(ResultRow { task: *task, attempt: *attempt, result });
            }
            commit.letters.extend(Letter::left_by(state, event).map(|(task, letter)| {
                let code = letter.error.code.as_str().to_owned();
                let (body, message) = (run::encode_letter(&letter), letter.error.message);
                LetterRow { task, action: letter.action, code, message, body }
            }));
        }
        Ok(Call::Commit(commit))
    }

    /// The commit that starts the due task of run `n`, which is claimed first.
    pub(super) async fn start(
        &mut self,
        n: u64,
        task: TaskId,
    ) -> Result<(Call, Token), NotRecorded> {
        // Reservations that did not start are due again by then.
        self.wait(RESERVED.saturating_add(RESERVED)).await;
        let claim = ClaimId { writer: 1, counter: self.count() };
        let claimed = claimed(&self.store, claim, id(n), task).await?;
        let Some((attempt, token)) = claimed else {
            return Err(NotRecorded(format!("task {task} of run {n} is not due")));
        };
        let call =
            self.commit(n, &Input::Claimed { task, attempt, token, default_timeout: None }, false)?;
        Ok((call, token))
    }

    /// Lets time pass.
    pub(super) async fn wait(&mut self, by: Nanos) {
        self.runtime.sleep_until(self.runtime.now().after(by)).await;
    }

    /// The version of run `n`.
    pub(super) fn version(&self, n: u64) -> Version {
        self.runs.get(&id(n)).map_or(Version::START, RunState::version)
    }
}

/// Claims everything that is due, and gives the attempt and token of one task.
pub(super) async fn claimed(
    store: &impl Store,
    id: ClaimId,
    run: RunId,
    task: TaskId,
) -> Result<Option<(u32, Token)>, StoreError> {
    let claim = Claim {
        id,
        limit: 99,
        lasts: RESERVED,
        chance: 7,
        able: Arc::new(Able::Anything),
        full: [].into(),
    };
    let tasks = store.claim(claim).await?.tasks;
    let found = tasks.into_iter().find(|found| (found.run, found.task) == (run, task));
    Ok(found.map(|found| (found.attempt, found.token)))
}

/// Asks once and wants the answer that changes the store.
async fn ask(store: &impl Store, call: Call) -> Result<AnsweredCall, NotRecorded> {
    let at = match &call {
        Call::Create(create) => match store.create(create.clone()).await? {
            Created::New { at } => Ok(at),
            other => Err(format!("{other:?}")),
        },
        Call::Commit(commit) => match store.commit(commit.clone()).await? {
            Committed::Applied { at, .. } => Ok(at),
            other => Err(format!("{other:?}")),
        },
        Call::Renew(holding) => {
            let renewed = store.renew(vec![holding.clone()]).await?;
            match renewed.answers[..] {
                [Renewal::Held] => Ok(renewed.at),
                _ => Err(format!("{renewed:?}")),
            }
        }
        Call::Trim(run, below) => {
            store.trim(*run, *below).await?;
            Ok(Timestamp::default())
        }
        Call::Discard(id, reason) => match store.discard(*id, reason.clone()).await? {
            Discarded::Done => Ok(Timestamp::default()),
            other => Err(format!("{other:?}")),
        },
        Call::Archive(run) => match store.archive(*run).await? {
            Archived::Done { since } => Ok(since),
            other => Err(format!("{other:?}")),
        },
        Call::Prune(prune) => Ok(store.prune(*prune).await?.at),
    };
    let at = at.map_err(|answer| NotRecorded(format!("{call} was answered {answer}")))?;
    Ok(AnsweredCall { call, at })
}

/// Waits for all, each asked before any is answered.
async fn together<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut waiting: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, done) in waiting.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// The changes of the queue since `before`.
fn changes(
    before: &[(TaskId, u32, Waits)],
    state: &RunState,
    events: &[Recorded],
) -> Vec<QueueChange> {
    let after = queue_of(state);
    let gone = before.iter().filter(|row| after.iter().all(|other| other.0 != row.0));
    let gone = gone.map(|row| QueueChange::Remove { task: row.0 });
    let new = after.iter().filter(|row| !before.contains(row));
    let new = new.filter_map(|&(task, attempt, waits)| {
        Some(match waits {
            Waits::Due => {
                let delay = events.iter().find_map(|recorded| match &recorded.event {
                    Event::RetryScheduled { task: of, delay, .. } if *of == task => Some(*delay),
                    _ => None,
                });
                let (after, need) = (delay.unwrap_or_default(), state.workflow().need(task.step)?);
                QueueChange::Due { task, attempt, after, need, progress: None }
            }
            Waits::Leased(token) => QueueChange::Lease {
                task,
                attempt,
                token,
                lasts: LONG,
                timeout: None,
                heartbeat: None,
            },
        })
    });
    gone.chain(new).collect()
}

fn fence_of(input: &Input) -> Option<Fence> {
    match input {
        Input::Claimed { task, token, .. }
        | Input::Succeeded { task, token, .. }
        | Input::Failed { task, token, .. } => Some(Fence::Held { task: *task, token: *token }),
        _ => None,
    }
}

/// The effect of an input on the guards of the narrow action.
fn guarding(run: RunId, state: &RunState, input: &Input) -> Vec<Guarding> {
    let (task, token, end) = match input {
        Input::Claimed { task, token, .. } => (*task, *token, None),
        Input::Succeeded { task, token, .. } => (*task, *token, Some(Ended::Well)),
        Input::Failed { task, token, .. } => (*task, *token, Some(Ended::Badly)),
        _ => return Vec::new(),
    };
    let step = state.workflow().step(task.step);
    if step.is_none_or(|step| step.action != NARROW) {
        return Vec::new();
    }
    let attempt = Holder { run, task, token };
    let input = match end {
        None => GuardInput::Admit { attempt, first: true, tokens: 0 },
        Some(how) => GuardInput::Ended { attempt, how, refill: 0 },
    };
    let rules = GuardRules { concurrency: Some(NonZeroU32::MIN), ..GuardRules::default() };
    vec![Guarding { action: NARROW.to_owned(), rules: Arc::new(rules), inputs: vec![input] }]
}

/// The phase that a run's head must say.
pub(super) fn phase_of(state: &RunState) -> RunPhase {
    match state.phase() {
        Phase::Running => RunPhase::Running,
        Phase::Deactivated => RunPhase::Deactivated,
        Phase::Ended(run::Outcome::Completed) => RunPhase::Completed,
        Phase::Ended(run::Outcome::Failed { .. }) => RunPhase::Failed,
        Phase::Ended(run::Outcome::Cancelled { .. }) => RunPhase::Cancelled,
    }
}
