//! Rollbacks against the history alone (C18): what succeeded is undone backwards, one by one.

use retrial_core::run::{Event, Outcome, TaskId};
use retrial_core::workflow::Rollback;

use crate::run_support::world::World;

fn ensure(holds: bool, wrong: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong.to_owned()) }
}

/// Checks that the run was rolled back where it had to be, and how.
pub(crate) fn check(world: &World) -> Result<(), String> {
    let workflow = world.state.workflow();
    let events: Vec<&Event> = world.log.iter().map(|r| &r.event).collect();
    let begin = events.iter().position(|e| matches!(e, Event::RollbackStarted { .. }));
    let (before, after) = events.split_at(begin.unwrap_or(events.len()));
    let of = |task: &TaskId| workflow.step(task.step).and_then(|s| s.compensates);
    for event in before {
        let undoes = event.task().is_some_and(|t| of(&t).is_some());
        let begins = matches!(event, Event::CompensationStarted { .. });
        ensure(!undoes && !begins, "something is undone outside of a rollback")?;
    }
    let Some(Event::RunEnded { outcome }) = events.last() else { return Ok(()) };
    let Some(Event::RollbackStarted { outcome: settled }) = after.first() else {
        return ensure(!must(workflow.rollback(), outcome), "it was not rolled back");
    };
    let asked = matches!(before.last(), Some(Event::CancelRequested { .. }));
    ensure(must(workflow.rollback(), settled) || asked, "nobody asked for a rollback")?;
    ensure(settled == outcome, "it ended otherwise than it was to end")?;
    let undone_by = |task: &TaskId| {
        let step = workflow
            .places()
            .find(|at| workflow.step(*at).is_some_and(|s| s.compensates == Some(task.step)))?;
        Some(TaskId { step, item: task.item })
    };
    let mut left: Vec<TaskId> = before
        .iter()
        .filter_map(|event| match event {
            Event::TaskSucceeded { task, .. } => undone_by(task),
            _ => None,
        })
        .collect();
    let (mut at_work, mut failed, mut stopped) = (None, false, false);
    for event in &after[1..] {
        match event {
            Event::CompensationStarted { task } => {
                ensure(at_work.is_none(), "two things are undone at once")?;
                ensure(left.pop() == Some(*task), "it is not what succeeded last")?;
                at_work = Some(*task);
            }
            Event::TaskSucceeded { task, .. } | Event::TaskFailed { task, .. } => {
                ensure(at_work == Some(*task), "it is not being undone")?;
                failed |= matches!(event, Event::TaskFailed { .. });
                at_work = None;
            }
            Event::CancelRequested { .. } => stopped = true,
            Event::RollbackEnded { complete } => {
                ensure(stopped || left.is_empty() && at_work.is_none(), "something is left")?;
                ensure(*complete == (!stopped && !failed), "it says otherwise")?;
            }
            Event::StepEntered { .. }
            | Event::StepSkipped { .. }
            | Event::StepUnreachable { .. }
            | Event::Routed { .. }
            | Event::TaskCancelled { .. } => return Err("the ordinary flow goes on".to_owned()),
            other => {
                let task = other.task();
                ensure(task.is_none() || task == at_work, "something else is at work")?;
            }
        }
    }
    let ends = after.iter().rev().nth(1);
    ensure(matches!(ends, Some(Event::RollbackEnded { .. })), "nothing says how it went")
}

fn must(rollback: Rollback, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Completed => false,
        Outcome::Failed { .. } => rollback.on_failure(),
        Outcome::Cancelled { .. } => rollback.on_cancel(),
    }
}
