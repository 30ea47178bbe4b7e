//! Each task's events against the model: promises 1 to 3.

use std::collections::BTreeMap;

use retrial_core::failure::{Failure, RetryKind};
use retrial_core::policy::GiveUp;
use retrial_core::run::{Event, Recorded, TaskId};
use retrial_core::workflow::Step;
use serde_json::Value;

use super::model::{self, Expected, Past};
use crate::run_support::End;
use crate::run_support::world::World;

/// Where a task stands, by its events alone.
enum At {
    Due { attempt: u32, at: u64, delay: u64 },
    Running { attempt: u32, cut: bool },
    Failed { attempt: u32, failure: Failure, will_retry: bool, expected: Box<Expected> },
    Ended,
}

struct Track {
    at: At,
    first: Option<u64>,
    timeouts: u32,
    causes: Vec<usize>,
    previous: Option<u64>,
    last: Option<Failure>,
}

/// Checks every task's part of the history.
pub(crate) fn check(world: &World) -> Result<(), String> {
    let mut tracks: BTreeMap<TaskId, Track> = BTreeMap::new();
    let (mut now, mut paused, mut asked) = (0, false, false);
    for (n, recorded) in world.log.iter().enumerate() {
        if recorded.at.as_nanos() < now {
            return Err(format!("event {n} is earlier than the one before"));
        }
        now = recorded.at.as_nanos();
        if let Event::StepEntered { step, tasks } = recorded.event {
            for item in 0..tasks {
                let at = At::Due { attempt: 1, at: now, delay: 0 };
                let track = Track {
                    at,
                    first: None,
                    timeouts: 0,
                    causes: Vec::new(),
                    previous: None,
                    last: None,
                };
                tracks.insert(TaskId { step, item }, track);
            }
        }
        if let Event::CompensationStarted { task } = recorded.event {
            let at = At::Due { attempt: 1, at: now, delay: 0 };
            let track = Track {
                at,
                first: None,
                timeouts: 0,
                causes: Vec::new(),
                previous: None,
                last: None,
            };
            let again = tracks.insert(task, track).is_some();
            ensure(!again, "it is undone twice")?;
        }
        if let Event::RollbackStarted { .. } = recorded.event {
            tracks.values_mut().for_each(|track| track.at = At::Ended);
        }
        // What somebody fails by hand fails at once, before anything else happens.
        asked = match &recorded.event {
            Event::FailRequested { .. } => true,
            Event::TaskFailed { reason: GiveUp::ByHand, .. } if asked => true,
            Event::TaskFailed { reason: GiveUp::ByHand, .. } => {
                return Err(format!("event {n}: nobody asked for it"));
            }
            _ => false,
        };
        match &recorded.event {
            Event::RunPaused { .. } => paused = true,
            Event::RunResumed => paused = false,
            Event::AttemptStarted { attempt, .. } => {
                ensure(!paused || *attempt == 1, "a retry starts while the run is paused")?;
            }
            _ => {}
        }
        let Some(task) = recorded.event.task() else { continue };
        let track = tracks.get_mut(&task).ok_or_else(|| format!("{task} was never entered"))?;
        let step = world.state.workflow().step(task.step).ok_or("no such step")?;
        let follows = world.log.get(n + 1).map(|r| &r.event);
        track
            .follow(world, task, step, recorded, follows)
            .map_err(|wrong| format!("event {n}, {task}, {}: {wrong}", recorded.event.name()))?;
    }
    Ok(())
}

fn ensure(holds: bool, wrong: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong.to_owned()) }
}

impl Track {
    fn follow(
        &mut self,
        world: &World,
        task: TaskId,
        step: &Step,
        recorded: &Recorded,
        follows: Option<&Event>,
    ) -> Result<(), String> {
        let (now, policy) = (recorded.at.as_nanos(), &step.policy);
        // H10, for the one condition that is drawn.
        let broken = |v: &Value| step.ensures.is_some() && v.get("n").is_none_or(Value::is_null);
        let end =
            policy.total_timeout().and_then(|total| Some(self.first?.saturating_add(total.get())));
        let before = std::mem::replace(&mut self.at, At::Ended);
        self.at = match (&recorded.event, before) {
            (
                Event::AttemptStarted { attempt, timeout, retries_left, retry, .. },
                At::Due { attempt: due, at, delay },
            ) => {
                ensure(*attempt == due, "another attempt than the one that is due")?;
                ensure(now >= at, "it starts before it is due")?;
                ensure(end.is_none_or(|end| now < end), "it starts after the total timeout")?;
                let most = model::most_attempts(policy);
                ensure(most.is_none_or(|n| *attempt <= n), "more attempts than allowed")?;
                ensure(*retries_left == most.map(|n| n - attempt), "wrong retries left")?;
                let own = policy.attempt_timeout().map(|t| t.get());
                let total = policy.total_timeout().map(|t| t.get());
                let left = if self.first.is_none() { total } else { end.map(|end| end - now) };
                let limit = [own, left].into_iter().flatten().min();
                self.first.get_or_insert(now);
                ensure(timeout.map(|t| t.get()) == limit, "wrong timeout")?;
                ensure(retry.is_some() == (*attempt > 1), "is it a retry?")?;
                if let Some(of) = retry {
                    ensure(of.delay.get() == delay, "another delay than the one scheduled")?;
                }
                let cut = limit.is_some_and(|l| world.shot(task, *attempt).takes.get() > l);
                At::Running { attempt: *attempt, cut }
            }
            (
                Event::AttemptFailed { attempt, failure, will_retry, .. },
                At::Running { attempt: running, cut },
            ) => {
                ensure(*attempt == running, "another attempt than the one in progress")?;
                let as_played = match world.shot(task, *attempt).end {
                    _ if cut => failure.code().as_str() == "TIMEOUT",
                    End::Lost | End::Hang => failure.code().as_str() == "LEASE_LOST",
                    End::Fail(played) => *failure == played,
                    End::Ok(value) => {
                        broken(&value) && failure.code().as_str() == "POSTCONDITION_FAILED"
                    }
                };
                ensure(as_played, "another failure than the one that happened")?;
                let decided = follows.and_then(Event::task) == Some(task);
                ensure(decided, "nothing is decided about the failure")?;
                let (timeouts, previous) = (self.timeouts, self.previous);
                let first = self.first.unwrap_or(now);
                let (attempt, causes) = (*attempt, &self.causes);
                let harmful =
                    world.state.workflow().actions().values().any(|a| a.idempotent == Some(false));
                let past = Past { attempt, harmful, timeouts, causes, previous, first, now };
                let expected = Box::new(model::expected(policy, failure, &past));
                self.last = Some(failure.clone());
                let will_retry = *will_retry;
                At::Failed { attempt, failure: failure.clone(), will_retry, expected }
            }
            (
                Event::RetryScheduled { attempt, delay, backoff, kind, code, rule, .. },
                At::Failed { attempt: failed, failure, will_retry, expected },
            ) => {
                ensure(will_retry, "no retry was announced")?;
                ensure(*attempt == failed + 1, "the attempt is not the next one")?;
                ensure(code == failure.code(), "another code")?;
                let trigger = match failure.code().as_str() {
                    "TIMEOUT" => RetryKind::Timeout,
                    "LEASE_LOST" => RetryKind::LeaseLost,
                    _ => RetryKind::Failure,
                };
                ensure(*kind == trigger, "another trigger")?;
                expected.check_retry(now, delay.get(), backoff.get())?;
                expected.check_rule(policy, *rule)?;
                self.causes.extend(expected.place());
                self.timeouts += u32::from(trigger == RetryKind::Timeout);
                self.previous = Some(backoff.get());
                let at = now.saturating_add(delay.get());
                At::Due { attempt: *attempt, at, delay: delay.get() }
            }
            (
                Event::TaskFailed { attempts, reason, error, .. },
                At::Failed { attempt, failure, will_retry, expected },
            ) => {
                ensure(!will_retry, "a retry was announced")?;
                ensure(*attempts == attempt && error.attempt == attempt, "wrong total")?;
                ensure(error.code == *failure.code(), "another code")?;
                expected.check_give_up(now, *reason)?;
                At::Ended
            }
            (Event::TaskFailed { attempts, reason, error, .. }, At::Due { attempt, .. }) => {
                let by_hand = *reason == GiveUp::ByHand;
                ensure(by_hand || *reason == GiveUp::TotalTimeout, "given up while it waits")?;
                let passed = end.is_some_and(|end| now >= end);
                ensure(by_hand || passed, "the total timeout has not passed")?;
                ensure(*attempts == attempt - 1, "wrong total")?;
                let last = self.last.as_ref().map(|failure| failure.code().as_str());
                let code = last.or(by_hand.then_some("FAILED_BY_HAND"));
                ensure(code == Some(error.code.as_str()), "another code than the last failure's")?;
                At::Ended
            }
            (Event::TaskSucceeded { attempt, .. }, At::Running { attempt: running, cut }) => {
                ensure(*attempt == running, "another attempt than the one in progress")?;
                let played = matches!(world.shot(task, *attempt).end, End::Ok(v) if !broken(&v));
                ensure(played && !cut, "a success that did not happen")?;
                At::Ended
            }
            (Event::TaskCancelled { .. }, At::Due { .. } | At::Running { .. }) => At::Ended,
            _ => return Err("it can't follow where the task stands".to_owned()),
        };
        Ok(())
    }
}
