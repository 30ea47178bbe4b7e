//! The state that a history leads to, read off the history: each field is a question about the events,
//! such as which was the last of a kind. The engine folds event after event into a state; the two have
//! nothing in common but the names of the fields, so a fold that is wrong in every way of folding is
//! found too. Left out is what other oracles judge: the time of tasks, and when a budget was refilled.

use std::collections::{BTreeMap, BTreeSet};

use retrial::failure::RetryKind;
use retrial::run::{Cost, Event, Recorded, RouteCause, RunId, TaskId};
use retrial::workflow::{StepIx, Workflow};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::guards::Tokens;

/// Fields that are not read off a history.
const LEFT_OUT: [&str; 2] = ["workflow", "watch"];

/// The first field in which `state` is not what the history of `run`, which begins with its creation,
/// leads to.
pub(super) fn difference(run: RunId, events: &[Recorded], state: &Value) -> Option<String> {
    let Some(Event::RunCreated { workflow, .. }) = events.first().map(|r| &r.event) else {
        return Some("the history has no beginning".to_owned());
    };
    let mut by_task: BTreeMap<TaskId, Vec<usize>> = BTreeMap::new();
    for (number, recorded) in events.iter().enumerate() {
        if let Some(task) = recorded.event.task() {
            by_task.entry(task).or_default().push(number);
        }
    }
    let history = History { events, workflow, by_task };
    differs("", &history.state(run), state)
}

/// The path of the first field that differs, with both values.
fn differs(path: &str, expected: &Value, found: &Value) -> Option<String> {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let names = expected.keys().chain(found.keys());
            let is_time = |name: &str| path.ends_with(".budget") && name == "at";
            let mut names =
                names.filter(|name| !LEFT_OUT.contains(&name.as_str()) && !is_time(name));
            names.find_map(|name| {
                let of =
                    |object: &Map<String, Value>| object.get(name).cloned().unwrap_or_default();
                differs(&format!("{path}.{name}"), &of(expected), &of(found))
            })
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            let mut pairs = expected.iter().zip(found).enumerate();
            pairs.find_map(|(at, (expected, found))| {
                differs(&format!("{path}[{at}]"), expected, found)
            })
        }
        _ if expected == found => None,
        _ => Some(format!("{path} is {found}, and the history says {expected}")),
    }
}

struct History<'e> {
    events: &'e [Recorded],
    workflow: &'e Workflow,
    /// The numbers of the events about each task.
    by_task: BTreeMap<TaskId, Vec<usize>>,
}

fn value(of: impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

impl<'e> History<'e> {
    /// The last event for which `ask` has an answer: its number, and the answer.
    fn last<T>(&self, ask: impl Fn(&'e Event) -> Option<T>) -> Option<(usize, T)> {
        let numbered = self.events.iter().enumerate().rev();
        numbered.filter_map(|(number, r)| Some((number, ask(&r.event)?))).next()
    }

    fn of(&self, task: TaskId) -> impl DoubleEndedIterator<Item = (usize, &'e Recorded)> {
        let numbers = self.by_task.get(&task).map_or(&[][..], Vec::as_slice);
        let events = self.events;
        numbers.iter().filter_map(move |number| Some((*number, events.get(*number)?)))
    }

    fn state(&self, run: RunId) -> Value {
        let created = match self.events.first().map(|r| &r.event) {
            Some(Event::RunCreated { seed, input, .. }) => (value(seed), value(input)),
            _ => Default::default(),
        };
        let phase = self.last(|event| match event {
            Event::RunActivated => Some(json!("running")),
            Event::RunDeactivated => Some(json!("deactivated")),
            Event::RunEnded { outcome } => Some(json!({ "ended": outcome })),
            _ => None,
        });
        let paused = self.last(|event| match event {
            Event::RunPaused { reason } => Some(value(reason)),
            Event::RunResumed | Event::RunEnded { .. } => Some(Value::Null),
            _ => None,
        });
        let steps = (0..self.workflow.steps().len()).map(|at| self.step(StepIx(at as u16)));
        let mut state = json!({
            "id": run,
            "seed": created.0,
            "input": created.1,
            "version": self.events.len(),
            "last_at": self.events.last().map(|recorded| recorded.at),
            "phase": phase.map_or(json!("running"), |(_, phase)| phase),
            "steps": steps.collect::<Vec<_>>(),
        });
        state["paused"] = paused.map_or(Value::Null, |(_, reason)| reason);
        state["rollback"] = self.rollback();
        let undo = self.undo();
        state["undo"] = if undo.is_empty() { Value::Null } else { value(undo) };
        state
    }

    /// Where the rollback began.
    fn rolls_back(&self) -> Option<(usize, Value)> {
        self.last(|event| match event {
            Event::RollbackStarted { outcome } => Some(value(outcome)),
            _ => None,
        })
    }

    fn rollback(&self) -> Value {
        let Some((begun, outcome)) = self.rolls_back() else { return Value::Null };
        let since = self.events.iter().skip(begun).map(|recorded| &recorded.event);
        let compensated =
            since.clone().filter(|e| matches!(e, Event::TaskSucceeded { .. })).count();
        let failed = since.filter(|e| matches!(e, Event::TaskFailed { .. })).count();
        let complete = self.last(|event| match event {
            Event::RollbackEnded { complete } => Some(*complete),
            _ => None,
        });
        let complete = complete.map(|(_, complete)| complete);
        json!({ "outcome": outcome, "compensated": compensated, "failed": failed, "complete": complete })
    }

    /// What succeeded before a rollback, has a compensation, and is not undone yet.
    fn undo(&self) -> Vec<TaskId> {
        let before = self.rolls_back().map_or(self.events.len(), |(begun, _)| begun);
        let begun = self.events.iter().filter_map(|r| match &r.event {
            Event::CompensationStarted { task } => Some(*task),
            _ => None,
        });
        let begun: BTreeSet<TaskId> = begun.collect();
        let succeeded = self.events.iter().take(before).filter_map(|r| match &r.event {
            Event::TaskSucceeded { task, .. } => Some(*task),
            _ => None,
        });
        let is_due = |task: &TaskId| {
            let by = self.compensation_of(task.step);
            by.is_some_and(|step| !begun.contains(&TaskId { step, item: task.item }))
        };
        succeeded.filter(is_due).collect()
    }

    fn compensation_of(&self, of: StepIx) -> Option<StepIx> {
        let at = self.workflow.steps().iter().position(|step| step.compensates == Some(of))?;
        Some(StepIx(at as u16))
    }

    fn step(&self, at: StepIx) -> Value {
        let phase = self.last(|event| match event {
            Event::StepEntered { step, .. } if *step == at => Some("active"),
            Event::CompensationStarted { task } if task.step == at => Some("active"),
            Event::StepSucceeded { step } if *step == at => Some("succeeded"),
            Event::StepFailed { step, .. } if *step == at => Some("failed"),
            Event::StepUnreachable { step } if *step == at => Some("unreachable"),
            Event::StepSkipped { step } if *step == at => Some("skipped"),
            _ => None,
        });
        let failed = self.last(|event| match event {
            Event::StepFailed { step, error } if *step == at => Some(error),
            _ => None,
        });
        let (ended, phase) = phase.unwrap_or((0, "waiting"));
        let ended = ["succeeded", "failed"].contains(&phase).then_some(ended);
        let first_failed = self.events.iter().find_map(|recorded| match &recorded.event {
            Event::TaskFailed { task, .. } if task.step == at => Some(task.item),
            _ => None,
        });
        let routed = |event: &Event| matches!(event, Event::Routed { to, .. } if *to == at);
        let led_to = self.last(|event| match event {
            Event::Routed { from, to, .. } if *from == at => Some(*to),
            _ => None,
        });
        let events = self.events.iter().map(|recorded| &recorded.event);
        let tokens = Tokens::left(self.workflow, at, events);
        json!({
            "phase": phase,
            "budget": tokens.map(|left| json!({ "millionths": left })),
            "tasks": self.tasks(at),
            "first_failed": first_failed,
            "error": failed.map(|(_, error)| error),
            "last_error": self.last_error(at),
            "routed": self.events.iter().any(|recorded| routed(&recorded.event)),
            "handling": self.handles(at, self.events.len()),
            "ended": ended,
            "led_to": led_to.map(|(_, to)| to),
        })
    }

    /// The error of the last failure that leads to the step, unless it has succeeded since.
    fn last_error(&self, at: StepIx) -> Value {
        let led = self.last(|event| match event {
            Event::Routed { from, to, cause: RouteCause::Failure } if *to == at => {
                Some(Some(*from))
            }
            Event::StepSucceeded { step } if *step == at => Some(None),
            _ => None,
        });
        let Some((number, Some(source))) = led else { return Value::Null };
        let before = self.events.iter().take(number).rev();
        let error = before.into_iter().find_map(|recorded| match &recorded.event {
            Event::StepFailed { step, error } if *step == source => Some(value(error)),
            _ => None,
        });
        error.unwrap_or_default()
    }

    /// Whether, before event `until`, a failure's handler was entered on the way to the step.
    fn handles(&self, at: StepIx, until: usize) -> bool {
        self.events.iter().take(until).enumerate().any(|(number, recorded)| match &recorded.event {
            Event::Routed { from, to, cause } if *to == at => {
                *cause == RouteCause::Failure || self.handles(*from, number)
            }
            _ => false,
        })
    }

    fn tasks(&self, at: StepIx) -> Vec<Value> {
        let compensates = self.workflow.steps().get(at.index()).and_then(|step| step.compensates);
        let entered = |at: StepIx| {
            self.last(|event| match event {
                Event::StepEntered { step, tasks } if *step == at => Some(*tasks),
                _ => None,
            })
        };
        let begun = |event: &'e Event| match event {
            Event::CompensationStarted { task } if task.step == at => Some(task.item),
            _ => None,
        };
        match compensates {
            None => {
                let (from, count) = entered(at).unwrap_or_default();
                (0..count).map(|item| self.task(TaskId { step: at, item }, Some(from))).collect()
            }
            Some(of) => {
                let any = self.last(begun).is_some();
                let count = if any { entered(of).map_or(0, |(_, count)| count) } else { 0 };
                let from = |item| self.last(|e| begun(e).filter(|i| *i == item)).map(|(at, _)| at);
                (0..count).map(|item| self.task(TaskId { step: at, item }, from(item))).collect()
            }
        }
    }

    /// The task, which has work to do since event `from`; it is idle where there is none.
    fn task(&self, task: TaskId, from: Option<usize>) -> Value {
        let events = || self.of(task).map(|(_, recorded)| recorded);
        let retries = || {
            events().filter_map(|recorded| match &recorded.event {
                Event::RetryScheduled { attempt, delay, backoff, kind, rule, .. } => {
                    Some((recorded.at.after(*delay), *attempt, *delay, *backoff, *kind, *rule))
                }
                _ => None,
            })
        };
        let failures = || {
            events().filter_map(|recorded| match &recorded.event {
                Event::AttemptFailed { failure, .. } => Some(failure),
                _ => None,
            })
        };
        let first_started = events()
            .find(|recorded| matches!(recorded.event, Event::AttemptStarted { .. }))
            .map(|recorded| recorded.at);
        let cost: Cost = events()
            .filter_map(|recorded| match &recorded.event {
                Event::CostReported { cost, .. } => Some(*cost),
                _ => None,
            })
            .sum();
        let by_timeouts = retries().filter(|(.., kind, _)| *kind == RetryKind::Timeout).count();
        let by_rule = |at| retries().filter(|(.., rule)| *rule == Some(at)).count();
        let rules = retries().filter_map(|(.., rule)| rule).max().map_or(0, |last| last + 1);
        let last = retries().next_back();
        let mut found = json!({
            "phase": self.phase(task, from),
            "attempt": last.map_or(1, |(_, attempt, ..)| attempt),
            "first_started": first_started,
            "timeout_retries": by_timeouts,
            "backoff": last.map(|(_, _, _, backoff, ..)| backoff),
            "delay": last.map_or_else(|| json!(0), |(_, _, delay, ..)| value(delay)),
            "due": last.map_or_else(|| json!(0), |(due, ..)| value(due)),
            "failure": failures().next_back(),
        });
        if rules > 0 {
            found["by_rule"] = (0..rules).map(by_rule).collect();
        }
        if !cost.is_zero() {
            found["cost"] = value(cost);
        }
        let holds = events().rev().map(|recorded| &recorded.event);
        let mut holds = holds.take_while(|e| !matches!(e, Event::RetryScheduled { .. }));
        found["held"] = holds
            .find_map(|e| match e {
                Event::TaskHeld { by, .. } => Some(value(by)),
                _ => None,
            })
            .unwrap_or_default();
        found["first_failure"] = value(failures().next());
        let quarantine = events().rev().find_map(|recorded| match recorded.event {
            Event::TaskQuarantined { .. } => Some(true),
            Event::TaskReleased { .. } => Some(false),
            _ => None,
        });
        found["quarantined"] = if quarantine == Some(true) { json!(true) } else { Value::Null };
        let lost = self.lost(task);
        found["lost"] = if lost > 0 { json!(lost) } else { Value::Null };
        found
    }

    /// How many of the last attempts in a row lost their node since somebody last looked.
    fn lost(&self, task: TaskId) -> usize {
        let ends = self.of(task).rev().filter_map(|(_, recorded)| match &recorded.event {
            Event::AttemptFailed { failure, .. } => Some(failure.code().as_str() == "LEASE_LOST"),
            Event::TaskReleased { .. } => Some(false),
            _ => None,
        });
        ends.take_while(|lost| *lost).count()
    }

    fn phase(&self, task: TaskId, from: Option<usize>) -> Value {
        let Some(from) = from else { return json!("idle") };
        let last = self.of(task).rev().find_map(|(number, recorded)| {
            let phase = match &recorded.event {
                Event::AttemptStarted { token, timeout, .. } => {
                    json!({ "running": { "token": token, "timeout": timeout } })
                }
                Event::RetryScheduled { .. } => json!("queued"),
                Event::TaskSucceeded { digest, .. } => json!({ "succeeded": { "digest": digest } }),
                Event::TaskFailed { error, .. } => json!({ "failed": { "error": error } }),
                Event::TaskCancelled { .. } => json!("cancelled"),
                _ => return None,
            };
            Some((number, phase))
        });
        let (since, phase) = last.unwrap_or((from, json!("queued")));
        let is_live = phase == "queued" || phase.get("running").is_some();
        let calls_off = |r: &Recorded| {
            matches!(r.event, Event::RollbackStarted { .. } | Event::RunEnded { .. })
        };
        if is_live && self.events.iter().skip(since).any(calls_off) {
            json!("cancelled")
        } else {
            phase
        }
    }
}
