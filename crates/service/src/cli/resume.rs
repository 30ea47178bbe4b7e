//! Finds the unfinished run that a repeated command resumes, and describes its progress.

use std::path::Path;
use std::sync::Arc;

use retrial::observe::Notice;
use retrial::run::{
    self, Digest, Recorded, RunId, RunState, StepPhase, StepState, TaskPhase, Version,
};
use retrial::store::{Loaded, QueueState, RunHead, RunPhase, Store, StoreError};
use retrial::time::{Nanos, Timestamp};
use serde_json::Value;

use super::error::CliError;
use super::target;

/// Runs looked at in one step.
const PAGE: usize = 256;

/// The unfinished runs of a store.
pub(super) struct FoundRun {
    /// The newest run of the wanted workflow and input.
    pub(super) wanted: Option<RunHead>,
    /// How many other runs are unfinished.
    pub(super) others: usize,
}

/// Finds the unfinished run with this digest of workflow and input; none for `None`.
pub(super) async fn find(store: &impl Store, digest: Option<Digest>) -> Result<FoundRun, CliError> {
    let (heads, damaged) = unfinished(store).await?;
    if let (Some(run), Some(_)) = (damaged.first(), digest) {
        let message = format!("run {run} in the store is damaged, and may be the one to resume");
        return Err(CliError::store(message)
            .help("restore a backup of the store, or start a new run with --new"));
    }
    let same = heads.iter().filter(|head| Some(head.digest) == digest);
    let wanted = same.max_by_key(|head| (head.created, head.run)).cloned();
    let others = heads.len() - usize::from(wanted.is_some());
    Ok(FoundRun { wanted, others })
}

/// Every unfinished run, and the runs with damaged records.
async fn unfinished(store: &impl Store) -> Result<(Vec<RunHead>, Vec<RunId>), CliError> {
    let (mut heads, damaged) = runs(store).await?;
    heads.retain(|head| head.phase.is_active());
    Ok((heads, damaged))
}

/// Every run, and the runs with damaged records.
pub(super) async fn runs(store: &impl Store) -> Result<(Vec<RunHead>, Vec<RunId>), CliError> {
    let (mut heads, mut damaged, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = store.heads(after, PAGE).await.map_err(|e| unavailable(&e))?;
        damaged.extend(page.damaged);
        let Some(last) = page.runs.last() else { return Ok((heads, damaged)) };
        after = Some(last.run);
        heads.extend(page.runs);
    }
}

/// The one run with an id that begins with `text`.
pub(super) async fn find_run(store: &impl Store, text: &str) -> Result<RunHead, CliError> {
    let (runs, damaged) = runs(store).await?;
    let ids = runs.iter().map(|head| head.run).chain(damaged).map(|run| run.to_string());
    let run: RunId = target::find_unique(ids, text, "run", "`retrial list` lists them")?;
    match runs.into_iter().find(|head| head.run == run) {
        Some(head) => Ok(head),
        None => Err(CliError::store(format!("run {run} in the store is damaged"))
            .help("restore a backup of the store; its other runs can still be read")),
    }
}

/// `--store PATH`, the option that selects this store in another command.
pub(super) fn option(path: &Path) -> String {
    format!("--store {}", path.display())
}

/// Fails for a run that the engine would not execute.
pub(super) fn may_run(head: &RunHead, path: &Path) -> Result<(), CliError> {
    let (run, store) = (head.run, option(path));
    match head.phase {
        RunPhase::Running => Ok(()),
        RunPhase::Paused => Err(CliError::input(format!("the retries of run {run} are paused"))
            .help(format!("resume them: retrial resume {run} {store}"))),
        RunPhase::Deactivated => Err(CliError::input(format!("run {run} is deactivated"))
            .help(format!("activate it: retrial activate {run} {store}"))),
        RunPhase::Completed | RunPhase::Failed | RunPhase::Cancelled => {
            let phase = phase(head.phase);
            Err(CliError::input(format!("run {run} has ended ({phase})"))
                .help(format!("show it: retrial inspect {run} {store}")))
        }
    }
}

/// Fails for a run with tasks in quarantine.
pub(super) fn nothing_held(left: &UnfinishedRun, path: &Path) -> Result<(), CliError> {
    match left.state().quarantined().count() {
        0 => Ok(()),
        held => {
            let (run, store) = (left.run(), option(path));
            let what = format!("run {run} has tasks in quarantine: {held}");
            Err(CliError::input(what)
                .help(format!("let them go on: retrial release {run} {store}")))
        }
    }
}

/// The phase's name in output.
pub(super) fn phase(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Running => "running",
        RunPhase::Paused => "paused",
        RunPhase::Completed => "completed",
        RunPhase::Failed => "failed",
        RunPhase::Cancelled => "cancelled",
        RunPhase::Deactivated => "deactivated",
    }
}

/// An unfinished run as the store holds it.
pub(super) struct UnfinishedRun {
    state: RunState,
    /// The events that the store still has, from `first` on.
    events: Vec<Recorded>,
    first: Version,
    /// When the next attempt is due, and what time it is.
    next: Option<Timestamp>,
    at: Timestamp,
}

impl UnfinishedRun {
    pub(super) async fn load(store: &impl Store, run: RunId) -> Result<Self, CliError> {
        let missing = || damaged(run, "the store has lost it");
        let loaded = store.load(run, Some(Version::START)).await.map_err(|e| unavailable(&e))?;
        let loaded = loaded.ok_or_else(missing)?;
        let rows = store.queue(run).await.map_err(|e| unavailable(&e))?;
        let due = rows.iter().filter_map(|row| match row.state {
            QueueState::Due { at, .. } => Some(at),
            QueueState::Leased { .. } => None,
        });
        let (state, events) = read(run, &loaded).map_err(|what| damaged(run, &what))?;
        let first = loaded.snapshot.map_or(Version::START, |snapshot| snapshot.version);
        Ok(Self { state, events, first, next: due.min(), at: loaded.at })
    }

    pub(super) fn run(&self) -> RunId {
        self.state.id()
    }

    pub(super) fn state(&self) -> &RunState {
        &self.state
    }

    /// The workflow's name.
    pub(super) fn workflow(&self) -> &str {
        self.state.workflow().name()
    }

    /// The run's past events.
    pub(super) fn notices(&self) -> impl Iterator<Item = Notice<'_>> {
        self.events.iter().enumerate().map(|(n, recorded)| Notice {
            run: self.state.id(),
            workflow: self.state.workflow(),
            number: self.first.after(n),
            at: recorded.at,
            event: &recorded.event,
        })
    }

    /// The run's progress: `1 of 3 steps done, 4 attempts made, the next is due in 1.2s`.
    pub(super) fn progress(&self) -> String {
        // Compensations do not count as steps.
        let definitions = self.state.workflow().steps();
        let ordinary = self.state.steps().iter().zip(definitions);
        let steps = ordinary.filter(|(_, s)| s.compensates.is_none()).map(|(state, _)| state);
        let steps: Vec<&StepState> = steps.collect();
        let is_done = |phase| !matches!(phase, StepPhase::Waiting | StepPhase::Active);
        let done = steps.iter().filter(|step| is_done(step.phase)).count();
        let made: u64 = self.state.tasks().map(|(_, task)| u64::from(made(task))).sum();
        let attempts = if made == 1 { "attempt" } else { "attempts" };
        let mut text = format!("{done} of {} steps done, {made} {attempts} made", steps.len());
        if let Some(rollback) = self.state.rollback() {
            text.push_str(&format!(", rolling back, {} undone", rollback.compensated));
        }
        let cut = self.state.tasks().filter(|(_, t)| matches!(t.phase, TaskPhase::Running { .. }));
        match cut.count() {
            0 => {}
            n => text.push_str(&format!(", {n} of them cut off")),
        }
        match self.next.map(|next| next.since(self.at)) {
            None => {}
            Some(Nanos::ZERO) => text.push_str(", the next is due now"),
            Some(wait) => text.push_str(&format!(", the next is due in {}", tenths(wait))),
        }
        text
    }
}

/// Attempts started of a task.
fn made(task: &run::TaskState) -> u32 {
    match task.phase {
        TaskPhase::Idle => 0,
        TaskPhase::Queued | TaskPhase::Cancelled => task.attempt.saturating_sub(1),
        TaskPhase::Running { .. } | TaskPhase::Succeeded { .. } | TaskPhase::Failed { .. } => {
            task.attempt
        }
    }
}

/// Rounded up to a tenth of a second.
fn tenths(wait: Nanos) -> Nanos {
    Nanos::from_millis(wait.as_millis_ceil().div_ceil(100).saturating_mul(100))
}

fn read(run: RunId, loaded: &Loaded) -> Result<(RunState, Vec<Recorded>), String> {
    let events = loaded.tail.events.iter().map(|bytes| run::decode(bytes));
    let events: Vec<Recorded> = events.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let mut state = match &loaded.snapshot {
        None => RunState::replay(run, &events).map_err(|e| e.to_string())?,
        Some(snapshot) => {
            let mut state = run::decode_snapshot(&snapshot.state).map_err(|e| e.to_string())?;
            events.iter().try_for_each(|event| state.apply(event)).map_err(|e| e.to_string())?;
            state
        }
    };
    for row in &loaded.tail.results {
        let value: Value = serde_json::from_slice(&row.result).map_err(|e| e.to_string())?;
        state.restore_result(row.task, Arc::new(value));
    }
    Ok((state, events))
}

fn damaged(run: RunId, what: &str) -> CliError {
    CliError::store(format!("run {run} in the store is damaged: {what}"))
        .help("restore a backup of the store, or start a new run with --new")
}

fn unavailable(error: &StoreError) -> CliError {
    CliError::store(error.to_string())
}
