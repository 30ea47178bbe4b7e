//! Promise 9: commands of people take effect as asked. Every final failure leaves one dead letter
//! with the invocation, a letter is redriven at most once, no retry of a paused run is sent, nothing
//! in quarantine starts, and pruning removes exactly what it should.

use std::collections::{BTreeMap, BTreeSet};

use retrial::failure::Failure;
use retrial::run::{Event, Letter, LetterId, RunId, TaskId, Version};
use retrial::store::{LetterHead, LetterStatus, RunHead};
use retrial::time::{Nanos, Timestamp};

use super::attempt_records::AttemptRecords;
use super::history::{Entry, TaskHistory, carried, entries, tasks};
use super::{Promise, Report, by_hand, following, lists, quarantine, submissions};
use crate::evidence::{Evidence, Pruning, RedriveAnswer, RunEvidence};

/// A task failed for good and left no letter.
pub const LETTER_LOST: &str = "letter_lost";
/// There is a letter of a task that did not fail for good.
pub const LETTER_UNEARNED: &str = "letter_unearned";
/// A letter can't be read although nothing rotted.
pub const LETTER_DAMAGED: &str = "letter_damaged";
/// A letter says something else than the run's history.
pub const WRONG_LETTER: &str = "wrong_letter";
/// A letter's payload is not what the endpoint was sent.
pub const WRONG_PAYLOAD: &str = "wrong_payload";
/// Two runs redrive one letter, or two callers got the answer that theirs does.
pub const REDRIVEN_TWICE: &str = "redriven_twice";
/// A letter's status, the answers and the runs do not agree.
pub const WRONG_STATUS: &str = "wrong_status";
/// A redriven run is another step, policy or payload than its letter's.
pub const REDRIVEN_OTHERWISE: &str = "redriven_otherwise";
/// A retry started while its run was paused.
pub const STARTED_WHILE_PAUSED: &str = "started_while_paused";
/// A retry arrived at an endpoint while its run was paused.
pub const ARRIVED_WHILE_PAUSED: &str = "arrived_while_paused";
/// A request to cancel a run, or to roll it back, was answered well, and the run went on.
pub const NOT_CANCELLED: &str = "not_cancelled";
/// A run was pruned that should have stayed.
pub const PRUNED_TOO_MUCH: &str = "pruned_too_much";
/// A run should have been pruned, or is not gone whole.
pub const PRUNED_TOO_LITTLE: &str = "pruned_too_little";

/// Judges promise 9.
#[must_use]
pub fn judge(evidence: &Evidence) -> Report {
    let mut report = Report::new(Promise::Interventions);
    let ledger = AttemptRecords::of(evidence);
    for run in evidence.runs.iter().filter(|run| !run.damaged) {
        for task in tasks(run) {
            left(&mut report, evidence, &ledger, &task);
        }
        paused(&mut report, &ledger, run);
        cancelled(&mut report, evidence, run);
        quarantine::judge(&mut report, evidence, run);
        if !evidence.rot {
            by_hand::judge(&mut report, evidence, run);
        }
    }
    letters(&mut report, evidence);
    redriven(&mut report, evidence, &ledger);
    let gone = evidence.interventions.pruned.as_ref().map(removed).unwrap_or_default();
    submissions::judge(&mut report, evidence);
    following::judge(&mut report, evidence);
    lists::judge(&mut report, evidence, &gone);
    if let Some(pruning) = &evidence.interventions.pruned {
        pruned(&mut report, pruning, &gone);
        let known = evidence.interventions.letters.iter().map(|(head, _)| head.id);
        let right: BTreeSet<LetterId> = known.filter(|id| !gone.contains(&id.run)).collect();
        let after: BTreeSet<LetterId> = pruning.letters.iter().copied().collect();
        report.check(right == after, None, PRUNED_TOO_LITTLE, || {
            format!("{} letters are left, not {}", after.len(), right.len())
        });
    }
    report
}

/// Each final failure left one letter, which says what the history and the endpoint say.
fn left(
    report: &mut Report,
    evidence: &Evidence,
    ledger: &AttemptRecords<'_>,
    task: &TaskHistory<'_>,
) {
    let failed = task.entries.iter().find(|e| matches!(e.event, Event::TaskFailed { .. }));
    let Some(entry) = failed else { return };
    let (run, id) = (task.run, LetterId { run: task.run.id, task: task.task });
    let mut found = evidence.interventions.letters.iter().filter(|(head, _)| head.id == id);
    let letter = found.next();
    let one = letter.is_some() && found.next().is_none();
    report
        .check(one, run.id, LETTER_LOST, || format!("there is not one letter of {}", entry.show()));
    let Some((head, letter)) = letter else { return };
    report.check(letter.is_some() || evidence.rot, run.id, LETTER_DAMAGED, || entry.show());
    let Some(letter) = letter else { return };
    let wrong = differs(task, head, letter, entry.event);
    report.check(wrong.is_none(), run.id, WRONG_LETTER, || {
        format!("its {} is another than in {}", wrong.unwrap_or_default(), entry.show())
    });
    let last = ledger.last_attempt(run.id, task.task).unwrap_or(0);
    for arrival in (1..=last).flat_map(|n| ledger.arrivals(run.id, task.task, n)) {
        let right = carried(&run.workflow, id.task.step, arrival, letter.payload.as_ref());
        report.check(right, run.id, WRONG_PAYLOAD, || {
            format!("{} was sent something else than the letter of {}", arrival.path, entry.show())
        });
    }
}

/// The differences of a letter from the history.
fn differs(
    task: &TaskHistory<'_>,
    head: &LetterHead,
    letter: &Letter,
    event: &Event,
) -> Option<&'static str> {
    let Event::TaskFailed { attempts, reason, error, .. } = event else { return None };
    let failures: Vec<&Failure> = task.failed().iter().map(|failed| failed.failure).collect();
    let run = task.run;
    let names = head.workflow == run.workflow.name()
        && letter.step == task.step.id
        && [&letter.action, &head.action] == [&task.step.action; 2];
    let parts = [
        (names, "name"),
        (letter.attempts == *attempts, "count of attempts"),
        (letter.reason == *reason, "reason"),
        (letter.error == *error && head.code == error.code.as_str(), "error"),
        (letter.last.as_ref() == failures.last().copied(), "last failure"),
        (!task.whole || letter.first.as_ref() == failures.first().copied(), "first failure"),
        (head.redrives == run.redrives, "link"),
    ];
    parts.into_iter().find(|(right, _)| !right).map(|(_, what)| what)
}

/// No letter without a final failure.
fn letters(report: &mut Report, evidence: &Evidence) {
    for (head, _) in &evidence.interventions.letters {
        let run = evidence.runs.iter().find(|run| run.id == head.id.run);
        let failed = |run: &RunEvidence| {
            entries(run)
                .any(|e| matches!(e.event, Event::TaskFailed { task, .. } if *task == head.id.task))
        };
        let earned = run.is_some_and(|run| run.damaged || run.first.0 > 0 || failed(run));
        report.check(earned, head.id.run, LETTER_UNEARNED, || format!("letter {}", head.id));
    }
}

/// One run a letter, known to everybody, of the same step on the same payload.
fn redriven(report: &mut Report, evidence: &Evidence, ledger: &AttemptRecords<'_>) {
    let mut runs: BTreeMap<LetterId, Vec<&RunEvidence>> = BTreeMap::new();
    for (letter, run) in evidence.runs.iter().filter_map(|run| Some((run.redrives?, run))) {
        runs.entry(letter).or_default().push(run);
    }
    for (head, letter) in &evidence.interventions.letters {
        let by = runs.get(&head.id).map_or(&[][..], Vec::as_slice);
        let of = head.id.run;
        let answers = evidence.interventions.redriven.iter().filter(|(id, _)| *id == head.id);
        let answers: Vec<RedriveAnswer> = answers.map(|(_, answer)| *answer).collect();
        let own = answers.iter().filter(|a| matches!(a, RedriveAnswer::By(_))).count();
        report.check(by.len() <= 1 && own <= 1, of, REDRIVEN_TWICE, || {
            format!("letter {}: {} runs, {own} callers", head.id, by.len())
        });
        let right = agrees(&head.status, by.first().map(|run| run.id), &answers)
            && (!evidence.interventions.discarded.contains(&head.id)
                || matches!(head.status, LetterStatus::Discarded { .. }));
        report.check(right, of, WRONG_STATUS, || {
            format!("letter {} is {:?}; answers: {answers:?}", head.id, head.status)
        });
        if let (Some(run), Some(letter)) = (by.first(), letter) {
            let first = evidence.runs.iter().find(|run| run.id == of);
            same_work(report, ledger, head.id, letter, run, first);
        }
    }
}

fn agrees(status: &LetterStatus, by: Option<RunId>, answers: &[RedriveAnswer]) -> bool {
    let told = |answer: &RedriveAnswer| match (answer, status) {
        (
            RedriveAnswer::By(run) | RedriveAnswer::Before(run),
            LetterStatus::Redriven { run: kept },
        ) => run == kept,
        (RedriveAnswer::By(_) | RedriveAnswer::Before(_), _) => false,
        (RedriveAnswer::Discarded, status) => matches!(status, LetterStatus::Discarded { .. }),
        (RedriveAnswer::Refused, _) => true,
    };
    let kept = match status {
        LetterStatus::Redriven { run } => by == Some(*run),
        LetterStatus::Waiting | LetterStatus::Discarded { .. } => by.is_none(),
    };
    kept && answers.iter().all(told)
}

/// The redriven run is the letter's step alone, on what the letter holds.
fn same_work(
    report: &mut Report,
    ledger: &AttemptRecords<'_>,
    id: LetterId,
    letter: &Letter,
    run: &RunEvidence,
    first: Option<&RunEvidence>,
) {
    let step = run.workflow.steps().first();
    let was = first.and_then(|first| first.workflow.step(id.task.step));
    let same = match (step, was) {
        (Some(step), Some(was)) => {
            (&step.id, &step.action, &step.policy) == (&was.id, &was.action, &was.policy)
                && step.ensures == was.ensures
                && step.heartbeat_timeout == was.heartbeat_timeout
        }
        _ => false,
    };
    let alone = same && run.workflow.steps().len() == 1;
    report
        .check(alone, run.id, REDRIVEN_OTHERWISE, || format!("it is not the step of letter {id}"));
    let task = TaskId { step: retrial::workflow::StepIx(0), item: 0 };
    let last = ledger.last_attempt(run.id, task).unwrap_or(0);
    for arrival in (1..=last).flat_map(|n| ledger.arrivals(run.id, task, n)) {
        let right = carried(&run.workflow, task.step, arrival, letter.payload.as_ref());
        report.check(right, run.id, REDRIVEN_OTHERWISE, || {
            format!("{} was sent something else than letter {id} holds", arrival.path)
        });
    }
}

/// No retry starts while the run is paused, and none that started later is sent between the pause's
/// answer and the request to resume.
fn paused(report: &mut Report, ledger: &AttemptRecords<'_>, run: &RunEvidence) {
    let mut is_paused = false;
    let mut paused_at = None;
    for entry in entries(run) {
        match entry.event {
            Event::RunPaused { .. } => (is_paused, paused_at) = (true, Some(entry.number)),
            Event::RunResumed => is_paused = false,
            Event::AttemptStarted { attempt, .. } if *attempt > 1 => {
                report.check(!is_paused, run.id, STARTED_WHILE_PAUSED, || entry.show());
            }
            _ => {}
        }
    }
    let (Some(paused_at), [(from, until)]) = (paused_at, run.pauses.as_slice()) else { return };
    for entry in entries(run).filter(|e| e.number > paused_at) {
        let Event::AttemptStarted { task, attempt, .. } = entry.event else { continue };
        let sent = ledger.arrivals(run.id, *task, *attempt).iter();
        let early = sent.filter(|arrival| *attempt > 1 && (*from..*until).contains(&arrival.at));
        report.check(early.count() == 0, run.id, ARRIVED_WHILE_PAUSED, || entry.show());
    }
}

/// A run whose cancellation was answered well had ended by then, or begun to roll back.
fn cancelled(report: &mut Report, evidence: &Evidence, run: &RunEvidence) {
    let Some(answered) = run.called_off.filter(|_| run.first.0 == 0) else { return };
    let off = entries(run).find(|entry| {
        matches!(entry.event, Event::RunEnded { .. } | Event::RollbackStarted { .. })
    });
    // What comes with the creation of a run was not asked for by a commit.
    let asked = |entry: &Entry<'_>| evidence.asked.get(&(run.id, Version(entry.number)));
    let in_time = off.is_some_and(|entry| asked(&entry).is_none_or(|asked| *asked <= answered));
    report.check(in_time, run.id, NOT_CANCELLED, || {
        let off = off.map_or_else(|| "nothing".to_owned(), |entry| entry.show());
        format!("answered at {}; then came {off}", Nanos::new(answered.as_nanos()))
    });
}

fn removed(pruning: &Pruning) -> BTreeSet<RunId> {
    let after: BTreeSet<RunId> = pruning.after.iter().map(|head| head.run).collect();
    pruning.before.iter().map(|head| head.run).filter(|run| !after.contains(run)).collect()
}

/// Every pruned run had to go, every kept run had to stay, and a pruned run is gone completely.
fn pruned(report: &mut Report, pruning: &Pruning, gone: &BTreeSet<RunId>) {
    let asked = &pruning.asked;
    let may_go = |head: &RunHead| {
        head.phase.is_terminal()
            && (!asked.archived_only || head.archived.is_some())
            && (asked.with_letters || head.letters == 0)
    };
    for head in &pruning.before {
        let old = |at: Timestamp| head.ended.is_some_and(|end| at.since(end) >= asked.older_than);
        let shown = || format!("{:?}, ended {:?}, {asked:?}", head.phase, head.ended);
        match gone.contains(&head.run) {
            true => {
                let right = may_go(head) && old(pruning.until);
                report.check(right, head.run, PRUNED_TOO_MUCH, shown);
            }
            false => {
                let right = !(may_go(head) && old(pruning.at));
                report.check(right, head.run, PRUNED_TOO_LITTLE, shown);
            }
        }
    }
    let told = pruning.gone.iter().all(|run| gone.contains(run)) && pruning.readable.is_empty();
    report.check(told, None, PRUNED_TOO_LITTLE, || {
        format!("{:?} were said to be gone, {:?} can be read", pruning.gone, pruning.readable)
    });
}
