//! Judges runs that have ended: their histories, what the store keeps of them beside that, and the
//! endpoints' ledger must agree. Written from the specification: it decodes events and folds
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use retrial::failure::ErrorCode;
use retrial::run::{self, Digest, Event, Outcome, Recorded, RunId, TaskId, Version};
use retrial::store::{Loaded, RunHead, RunPhase, Store};

use crate::postgres_faults::ledger::{Answer, Entry};
use crate::postgres_faults::patience::patient;

/// The outcomes of all judged runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) runs: u64,
    pub(crate) tasks: u64,
    pub(crate) attempts: u64,
    /// Attempts whose node was lost, so that another took the task over.
    pub(crate) takeovers: u64,
    /// Successes that an endpoint gave and nobody recorded, as their node was lost.
    pub(crate) repeats: u64,
    /// All that is wrong; nothing, it is hoped.
    pub(crate) wrong: Vec<String>,
}

/// The ledger, by task and attempt.
pub(crate) struct Arrived(BTreeMap<String, BTreeMap<u32, Vec<Entry>>>);

impl Arrived {
    pub(crate) fn of(entries: Vec<Entry>) -> Self {
        let mut all = BTreeMap::<_, BTreeMap<_, Vec<_>>>::new();
        for entry in entries {
            let task = all.entry(entry.receipt.clone()).or_default();
            task.entry(entry.attempt).or_default().push(entry);
        }
        Self(all)
    }
}

/// Every run's head, in pages.
async fn heads(store: &impl Store) -> Vec<RunHead> {
    let mut heads: Vec<RunHead> = Vec::new();
    loop {
        let after = heads.last().map(|head| head.run);
        let page = patient(|| store.heads(after, 500)).await;
        assert_eq!(page.damaged, []);
        if page.runs.is_empty() {
            return heads;
        }
        heads.extend(page.runs);
    }
}

/// Judges every run that was acknowledged, and that there are no others.
pub(crate) async fn judge(
    store: &impl Store,
    submitted: &BTreeMap<u64, RunId>,
    entries: Vec<Entry>,
) -> Tally {
    let mut tally = Tally::default();
    let mut arrived = Arrived::of(entries);
    let heads: BTreeMap<RunId, RunHead> =
        heads(store).await.into_iter().map(|head| (head.run, head)).collect();
    let known: BTreeSet<RunId> = submitted.values().copied().collect();
    if known.len() != submitted.len() {
        tally.wrong.push("two submissions were acknowledged with one run".to_owned());
    }
    for run in heads.keys().filter(|run| !known.contains(run)) {
        tally.wrong.push(format!("run {run} was added and never acknowledged to anybody"));
    }
    for (number, run) in submitted {
        let Some(head) = heads.get(run) else {
            tally.wrong.push(format!("run {run}, number {number}, is lost"));
            continue;
        };
        let (loaded, rows) = tokio::join!(
            patient(|| store.load(*run, Some(Version::START))),
            patient(|| store.queue(*run)),
        );
        let (loaded, rows) = (loaded.unwrap(), rows.len());
        let mut case = Case { head, number: *number, tally: &mut tally };
        case.judge(&loaded, rows, &mut arrived);
    }
    for (receipt, _) in arrived.0 {
        tally.wrong.push(format!("an endpoint was asked under receipt {receipt}, of no task"));
    }
    tally
}

/// One run before the judge.
struct Case<'c> {
    head: &'c RunHead,
    number: u64,
    tally: &'c mut Tally,
}

/// What a history says of one task.
#[derive(Default)]
struct Told {
    /// Attempts in the order in which they started.
    started: Vec<u32>,
    failed: BTreeMap<u32, Vec<ErrorCode>>,
    succeeded: Vec<(u32, Digest)>,
}

impl Case<'_> {
    fn hold(&mut self, holds: bool, wrong: impl FnOnce() -> String) {
        if !holds {
            let (run, number) = (self.head.run, self.number);
            self.tally.wrong.push(format!("run {run}, number {number}: {}", wrong()));
        }
    }

    fn judge(&mut self, loaded: &Loaded, rows: usize, arrived: &mut Arrived) {
        let events = loaded.tail.events.iter().map(|bytes| run::decode(bytes).unwrap());
        let events: Vec<Recorded> = events.collect();
        let head = self.head;
        self.tally.runs += 1;
        let ended = |r: &Recorded| matches!(r.event, Event::RunEnded { .. });
        let ends = events.iter().filter(|r| ended(r)).count();
        self.hold(ends == 1, || format!("ended {ends} times"));
        let last = events.last().map(|r| &r.event);
        let well = matches!(last, Some(Event::RunEnded { outcome: Outcome::Completed }));
        self.hold(well, || format!("its last event is {last:?}"));
        self.hold(head.phase == RunPhase::Completed, || format!("its head says {:?}", head.phase));
        let counted = (loaded.version.0, head.version.0);
        let kept = events.len() as u64;
        self.hold(counted == (kept, kept), || format!("has {kept} events, is at {counted:?}"));
        self.hold(rows == 0, || format!("left {rows} rows in the queue"));
        let mut tokens = BTreeSet::new();
        for recorded in &events {
            if let Event::AttemptStarted { token, .. } = recorded.event {
                let first = tokens.insert(token);
                self.hold(first, || format!("two attempts have the delivery token {token}"));
            }
        }
        for (task, told) in tasks(&events) {
            let receipt = task.receipt(head.run).to_string();
            let seen = arrived.0.remove(&receipt).unwrap_or_default();
            self.task(task, &told, &seen, loaded);
        }
    }

    fn task(
        &mut self,
        task: TaskId,
        told: &Told,
        seen: &BTreeMap<u32, Vec<Entry>>,
        loaded: &Loaded,
    ) {
        self.tally.tasks += 1;
        self.tally.attempts += told.started.len() as u64;
        let in_order = told.started.iter().zip(1..).all(|(attempt, n)| *attempt == n);
        self.hold(in_order, || format!("task {task} started the attempts {:?}", told.started));
        let ended_once = |n: &u32| {
            let failures = told.failed.get(n).map_or(0, Vec::len);
            failures + told.succeeded.iter().filter(|(s, _)| s == n).count() == 1
        };
        let each_once = told.started.iter().all(ended_once);
        self.hold(each_once, || format!("an attempt of task {task} has not ended exactly once"));
        let [(succeeded, digest)] = told.succeeded[..] else {
            let times = told.succeeded.len();
            return self.hold(false, || format!("task {task} succeeded {times} times"));
        };
        let results: Vec<_> = loaded.tail.results.iter().filter(|r| r.task == task).collect();
        let kept_once =
            matches!(results[..], [r] if r.attempt == succeeded && Digest::of(&r.result) == digest);
        self.hold(kept_once, || format!("task {task} has the results {results:?}"));
        let right = results.iter().all(|r| said(&r.result) == Some(u64::from(succeeded)));
        self.hold(right, || format!("task {task} has another attempt's result"));
        self.ledger(task, told, seen, succeeded);
    }

    /// What truly arrived explains what was recorded, and the other way round.
    fn ledger(
        &mut self,
        task: TaskId,
        told: &Told,
        seen: &BTreeMap<u32, Vec<Entry>>,
        succeeded: u32,
    ) {
        let number = self.number;
        let own = seen.values().flatten().all(|entry| entry.number == number);
        self.hold(own, || format!("task {task} was asked for with another run's arguments"));
        for (attempt, entries) in seen {
            let times = entries.len();
            self.hold(times == 1, || {
                format!("attempt {attempt} of task {task} came {times} times")
            });
            let started = told.started.contains(attempt);
            self.hold(started, || format!("attempt {attempt} of task {task} never started"));
        }
        // A node that was stopped may send the request of an attempt that it has lost.
        let is_lost = |attempt: &u32| {
            let codes = told.failed.get(attempt).into_iter().flatten();
            codes.into_iter().any(|code| code.as_str() == ErrorCode::LEASE_LOST)
        };
        let kept = seen.iter().filter(|(attempt, _)| !is_lost(attempt));
        let times: Vec<_> = kept.flat_map(|(_, entries)| entries).map(|entry| entry.at).collect();
        self.hold(times.is_sorted(), || format!("attempts of task {task} came out of order"));
        let answer = |attempt: u32| Some(seen.get(&attempt)?.first()?.answer);
        let answered = answer(succeeded);
        self.hold(answered == Some(Answer::Success), || {
            format!("attempt {succeeded} of task {task} succeeded; the endpoint says {answered:?}")
        });
        for (attempt, codes) in &told.failed {
            let lost = codes.iter().any(|code| code.as_str() == ErrorCode::LEASE_LOST);
            self.tally.takeovers += u64::from(lost);
            let unrecorded = answer(*attempt) == Some(Answer::Success);
            self.tally.repeats += u64::from(unrecorded && lost);
            self.hold(lost || !unrecorded, || {
                format!(
                    "attempt {attempt} of task {task} was answered well and failed as {codes:?}"
                )
            });
            let never_came = answer(*attempt).is_none();
            self.hold(lost || !never_came, || {
                format!("attempt {attempt} of task {task} never came and failed as {codes:?}")
            });
        }
    }
}

fn tasks(events: &[Recorded]) -> BTreeMap<TaskId, Told> {
    let mut tasks = BTreeMap::<TaskId, Told>::new();
    for recorded in events {
        match &recorded.event {
            Event::AttemptStarted { task, attempt, .. } => {
                tasks.entry(*task).or_default().started.push(*attempt);
            }
            Event::AttemptFailed { task, attempt, failure, .. } => {
                let failed = &mut tasks.entry(*task).or_default().failed;
                failed.entry(*attempt).or_default().push(failure.code().clone());
            }
            Event::TaskSucceeded { task, attempt, digest, .. } => {
                tasks.entry(*task).or_default().succeeded.push((*attempt, *digest));
            }
            _ => {}
        }
    }
    tasks
}

/// The attempt that an endpoint's answer was given to.
fn said(result: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(result).ok()?["attempt"].as_u64()
}
