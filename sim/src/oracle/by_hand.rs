//! The part of promise 9 about tasks that are failed by hand: those that waited of the step, or its
//! item, and no others, and only where a user asked for it.

use retrial::policy::GiveUp;
use retrial::run::{Event, TaskId};
use retrial::workflow::StepIx;

use super::Report;
use super::history::{Entry, TaskHistory, entries, tasks};
use crate::evidence::{ByHand, Evidence, RunEvidence};

/// Something was failed by hand that nobody asked for.
pub const FAILED_UNASKED: &str = "failed_unasked";
/// A task that waited and was meant was not failed.
pub const NOT_FAILED: &str = "not_failed";

pub(super) fn judge(report: &mut Report, evidence: &Evidence, run: &RunEvidence) {
    let commands: Vec<Command> = commands(run).collect();
    let is = |asked: &ByHand, command: &Command| {
        let name = run.workflow.step(command.step).map(|step| &step.id);
        (Some(&asked.step), asked.item) == (name, command.item)
    };
    let asked = || evidence.interventions.by_hand.iter().filter(|asked| asked.run == run.id);
    for command in &commands {
        let right = evidence.own.is_own || asked().any(|asked| is(asked, command));
        report.check(right, run.id, FAILED_UNASKED, || format!("nobody asked for {command:?}"));
    }
    for asked in asked().filter(|asked| asked.is_done && run.first.0 == 0) {
        let right = commands.iter().any(|command| is(asked, command));
        report.check(right, run.id, NOT_FAILED, || format!("{asked:?}"));
    }
    for task in tasks(run) {
        of_task(report, &task, &commands);
    }
}

/// A user's command to fail what waits, as the history has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    number: u64,
    step: StepIx,
    item: Option<u32>,
}

/// Those to a run.
pub(super) fn commands(run: &RunEvidence) -> impl Iterator<Item = Command> + '_ {
    entries(run).filter_map(|entry| match *entry.event {
        Event::FailRequested { step, item, .. } => {
            Some(Command { number: entry.number, step, item })
        }
        _ => None,
    })
}

impl Command {
    /// Whether it means this task and comes between these events.
    pub(super) fn means(&self, task: TaskId, from: u64, until: u64) -> bool {
        let is_meant = self.step == task.step && self.item.is_none_or(|item| item == task.item);
        is_meant && (from..until).contains(&self.number)
    }
}

/// What fails by hand comes after a command that means it, in the same commit. A task that waits for its
/// retry when such a command comes does not go on.
fn of_task(report: &mut Report, task: &TaskHistory<'_>, commands: &[Command]) {
    let mut before: Option<&Entry<'_>> = None;
    for entry in &task.entries {
        let from = before.map_or(0, |before| before.number);
        let command = commands.iter().find(|c| c.means(task.task, from, entry.number));
        match (entry.event, command) {
            (Event::TaskFailed { reason: GiveUp::ByHand, .. }, _) => {
                report.check(command.is_some(), task.run.id, FAILED_UNASKED, || {
                    format!("no command means {}", entry.show())
                });
            }
            (Event::AttemptStarted { .. }, Some(command)) => {
                let retries = |b: &Entry<'_>| matches!(b.event, Event::RetryScheduled { .. });
                report.check(!before.is_some_and(retries), task.run.id, NOT_FAILED, || {
                    format!("it goes on after {command:?}: {}", entry.show())
                });
            }
            _ => {}
        }
        before = Some(entry);
    }
}
