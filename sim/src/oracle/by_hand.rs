//! The part of promise 9 about tasks that are failed by hand: those that waited of the step, or its
//! item, and no others, and only where a user asked for it.

use retrial::policy::GiveUp;
use retrial::run::{Event, TaskId};
use retrial::workflow::StepIx;

use super::Report;
use super::history::{TaskHistory, entries, tasks};
use crate::evidence::{Evidence, RunEvidence};

/// Something was failed by hand that nobody asked for.
pub const FAILED_UNASKED: &str = "failed_unasked";
/// A task that waited and was meant was not failed.
pub const NOT_FAILED: &str = "not_failed";

pub(super) fn judge(report: &mut Report, evidence: &Evidence, run: &RunEvidence) {
    let mut commands: Vec<Command> = Vec::new();
    for entry in entries(run) {
        if let Event::FailRequested { step, item, .. } = *entry.event {
            commands.push(Command { number: entry.number, step, item });
        }
    }
    let name = |step: StepIx| run.workflow.step(step).map(|step| step.id.as_str());
    let asked = || evidence.interventions.by_hand.iter().filter(|asked| asked.run == run.id);
    for command in &commands {
        let by = |step: &str, item| Some(step) == name(command.step) && item == command.item;
        let right = evidence.own.is_own || asked().any(|asked| by(&asked.step, asked.item));
        report.check(right, run.id, FAILED_UNASKED, || format!("nobody asked for {command:?}"));
    }
    for asked in asked().filter(|asked| asked.is_done && run.first.0 == 0) {
        let of = |c: &Command| name(c.step) == Some(asked.step.as_str()) && c.item == asked.item;
        report.check(commands.iter().any(of), run.id, NOT_FAILED, || format!("{asked:?}"));
    }
    for task in tasks(run) {
        of_task(report, &task, &commands);
    }
}

/// A user's command, as the history has it.
#[derive(Clone, Copy, Debug)]
struct Command {
    number: u64,
    step: StepIx,
    item: Option<u32>,
}

impl Command {
    fn means(&self, task: TaskId) -> bool {
        self.step == task.step && self.item.is_none_or(|item| item == task.item)
    }
}

/// What fails by hand comes after a command that means it, in the same commit. A task that waits for its
/// retry when such a command comes does not go on.
fn of_task(report: &mut Report, task: &TaskHistory<'_>, commands: &[Command]) {
    let meant = || commands.iter().filter(|command| command.means(task.task));
    for (place, entry) in task.entries.iter().enumerate() {
        let by_hand =
            |event: &Event| matches!(event, Event::TaskFailed { reason: GiveUp::ByHand, .. });
        let before = place.checked_sub(1).map_or(0, |place| task.entries[place].number);
        let between = |command: &&Command| (before..entry.number).contains(&command.number);
        if by_hand(entry.event) {
            report.check(meant().any(|c| between(&c)), task.run.id, FAILED_UNASKED, || {
                format!("no command means {}", entry.show())
            });
        } else if let (Event::AttemptStarted { .. }, Some(command)) =
            (entry.event, meant().find(between))
        {
            let waited =
                place > 0 && matches!(task.entries[place - 1].event, Event::RetryScheduled { .. });
            report.check(!waited, task.run.id, NOT_FAILED, || {
                format!("it goes on after {command:?}: {}", entry.show())
            });
        }
    }
}
