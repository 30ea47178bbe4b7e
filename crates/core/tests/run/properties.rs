//! Promises 1 to 4 and 7 of `docs/architecture.md` over drawn policies, workflows and outcomes, on
//! the pure heart: virtual time, no async, no store. What is expected comes from the models in
//! `properties/`, written from the specification.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use crate::run_support;

mod draw;
mod graphs;
mod history;
mod model;
mod policies;
mod rollbacks;
mod routes;

use draw::{Case, Jolt, case, script};
use policies::policy;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use retrial_core::failure::Failure;
use retrial_core::policy::{GiveUp, Policy};
use retrial_core::run::{
    Event, Input, Lapse, Phase, Recorded, RunState, StepPhase, TaskId, TaskPhase, TaskState, Token,
    decode, decode_snapshot, encode, encode_snapshot, queue_of,
};
use retrial_core::time::Nanos;
use retrial_core::workflow::StepIx;
use run_support::build::Flow;
use run_support::world::{START, World};
use run_support::{Shot, gives, ok};
use serde_json::{Map, json};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn fails(reason: impl Into<String>) -> TestCaseError {
    TestCaseError::fail(reason.into())
}

/// A failure with the history that shows it.
fn told(world: &World, wrong: &str) -> TestCaseError {
    fails(format!("{wrong}\n{}", run_support::show::history(world)))
}

fn begin(case: &Case) -> World {
    let input: Map<_, _> =
        [("yes".to_owned(), json!(case.yes)), ("amount".to_owned(), json!(case.amount))]
            .into_iter()
            .collect();
    let mut world = World::with_input(case.graph.workflow.clone(), case.seed, input);
    world.functions.register(draw::CUSTOM, draw::sevens);
    world.lag = case.lag;
    // At once, or an attempt timeout could cut it every time.
    world.beyond = gives(json!({"n": 1})).taking(Nanos::ZERO);
    for step in case.graph.workflow.places() {
        for item in 0..4_u32 {
            let script = &case.scripts[(step.index() + item as usize) % case.scripts.len()];
            world.script_task(TaskId { step, item }, script.clone());
        }
    }
    world
}

/// More things than can happen in the case: two for each attempt that its scripts can make fail.
fn bound(case: &Case) -> usize {
    let longest = case.scripts.iter().map(Vec::len).max().unwrap_or(0);
    let tasks = 4 * case.graph.workflow.steps().len();
    2 * tasks * (longest + 2) + 4 * case.jolts.len() + 9
}

/// Plays the case to its end; `seen` looks on after each input.
fn play(case: &Case, mut seen: impl FnMut(&World)) -> Result<World, TestCaseError> {
    let mut world = begin(case);
    let mut jolts = case.jolts.iter().peekable();
    seen(&world);
    for _ in 0..bound(case) {
        if world.state.outcome().is_some() {
            let late = world.handle(&Input::Cancel { reason: "late".into() });
            prop_assert!(late.is_empty(), "something follows the end");
            return Ok(world);
        }
        let next = world.next();
        let jolt = jolts.next_if(|(ms, _)| {
            next.is_none_or(|(at, _)| START.after(Nanos::from_millis(*ms)) <= at)
        });
        match jolt {
            Some((ms, jolt)) => {
                world.now = world.now.max(START.after(Nanos::from_millis(*ms)));
                strike(&mut world, *jolt)?;
            }
            None if next.is_some() => {
                world.step_next();
            }
            None if *world.state.phase() == Phase::Deactivated => {
                strike(&mut world, Jolt::Activate)?;
            }
            None if world.state.paused().is_some() => strike(&mut world, Jolt::Resume)?,
            None => return Err(fails("the run is stuck: nothing is due and it has not ended")),
        }
        check_state(&world)?;
        seen(&world);
    }
    Err(fails("the run does not end"))
}

/// What holds of every state.
fn check_state(world: &World) -> Result<(), TestCaseError> {
    world.check_queue();
    for step in world.state.steps() {
        let cleared = step.phase != StepPhase::Succeeded || step.last_error.is_none();
        prop_assert!(cleared, "a step's success leaves `_last_error`");
    }
    let live = world.state.tasks().any(|(_, t)| t.is_live());
    prop_assert!(world.state.outcome().is_none() || !live, "a task outlives its run");
    Ok(())
}

fn strike(world: &mut World, jolt: Jolt) -> Result<(), TestCaseError> {
    match jolt {
        Jolt::Cancel => {
            let rolled = world.state.rollback().is_some();
            world.handle(&Input::Cancel { reason: "enough".into() });
            let rolls = !rolled && world.state.rollback().is_some();
            let ended = world.state.outcome().is_some();
            prop_assert!(ended || rolls, "cancelling does not end the run");
        }
        Jolt::Rollback => {
            world.handle(&Input::Rollback { reason: "undo it".into() });
            prop_assert!(world.state.rollback().is_some(), "it is not rolled back");
        }
        Jolt::Deactivate => {
            world.handle(&Input::Deactivate);
            for (task, attempt, _) in queue_of(&world.state) {
                let claim = Input::Claimed {
                    task,
                    attempt,
                    token: Token::from_random(9, 9),
                    default_timeout: None,
                };
                prop_assert!(world.handle(&claim).is_empty(), "a deactivated run starts work");
            }
        }
        Jolt::Activate => {
            world.handle(&Input::Activate);
        }
        Jolt::Pause => {
            world.handle(&Input::Pause { reason: "let me look".into() });
            let waiting = world.state.waiting_retries().map(|(task, t)| (task, t.attempt));
            for (task, attempt) in waiting.collect::<Vec<_>>() {
                let claim = Input::Claimed {
                    task,
                    attempt,
                    token: Token::from_random(9, 9),
                    default_timeout: None,
                };
                prop_assert!(world.handle(&claim).is_empty(), "a paused run starts a retry");
            }
        }
        Jolt::Resume => {
            world.handle(&Input::Resume);
            prop_assert!(world.state.paused().is_none(), "it is still paused");
        }
        Jolt::Fail(nth) => {
            let Some(task) = nth_task(world, nth) else { return Ok(()) };
            let item = (nth % 2 == 0).then_some(task.item);
            let meant = |t: TaskId| t.step == task.step && item.is_none_or(|i| i == t.item);
            let waits = |world: &World| -> Vec<TaskId> {
                let queued = |t: &TaskState| t.phase == TaskPhase::Queued;
                world.state.tasks().filter(|(_, t)| queued(t)).map(|(id, _)| id).collect()
            };
            let before: Vec<TaskId> = waits(world).into_iter().filter(|t| meant(*t)).collect();
            let fail = Input::Fail { step: task.step, item, reason: "no use".into() };
            let events = world.handle(&fail);
            let by_hand = events.iter().filter_map(|recorded| match recorded.event {
                Event::TaskFailed { task, reason: GiveUp::ByHand, .. } => Some(task),
                _ => None,
            });
            prop_assert_eq!(&by_hand.collect::<Vec<_>>(), &before, "what waits fails, and no more");
            prop_assert_eq!(events.is_empty(), before.is_empty(), "else nothing happens");
            // What follows may wait, as the next compensation of a step that is undone.
            let after = waits(world);
            prop_assert!(!before.iter().any(|t| after.contains(t)), "it does not wait any more");
        }
        Jolt::Stale(nth) => {
            let Some(task) = nth_task(world, nth) else { return Ok(()) };
            let token = Token::from_random(9, 9);
            let failure = Failure::http(503, "late");
            let stale = match nth % 3 {
                0 => Input::Failed { task, token, failure, denied: false },
                1 => Input::Expired {
                    task,
                    token,
                    lapse: [Lapse::Lease, Lapse::Deadline, Lapse::Heartbeat][nth % 3],
                    denied: false,
                    quarantine_after: None,
                },
                _ => Input::Succeeded { task, token, result: json!(1).into() },
            };
            prop_assert!(world.handle(&stale).is_empty(), "a stale token changes something");
        }
        Jolt::Misclaim(nth) => {
            let Some(task) = nth_task(world, nth) else { return Ok(()) };
            let attempt = world.state.task(task).map_or(1, |t| t.attempt) + 1;
            let claim = Input::Claimed {
                task,
                attempt,
                token: Token::from_random(9, 9),
                default_timeout: None,
            };
            prop_assert!(world.handle(&claim).is_empty(), "the wrong attempt starts");
        }
    }
    world.paused = *world.state.phase() == Phase::Deactivated;
    Ok(())
}

fn nth_task(world: &World, nth: usize) -> Option<TaskId> {
    let count = world.state.tasks().count();
    world.state.tasks().nth(nth.checked_rem(count)?).map(|(id, _)| id)
}

proptest! {
    #![proptest_config(config(4_000))]

    /// Promises 1, 2 and 3: every run ends, within the policy's attempts, after the policy's
    /// delays; what fails for good is routed once; nothing follows an end.
    #[test]
    fn d2_a_run_does_what_its_policies_and_its_graph_say(case in case()) {
        let world = play(&case, |_| {})?;
        history::check(&world).map_err(|wrong| told(&world, &wrong))?;
        routes::check(&case, &world).map_err(|wrong| told(&world, &wrong))?;
        rollbacks::check(&world).map_err(|wrong| told(&world, &wrong))?;
    }
}

proptest! {
    #![proptest_config(config(2_000))]

    /// Promise 2 for one task and long sequences, where every retry is up to the policy.
    #[test]
    fn d2_a_task_retries_as_its_policy_says(policy in policy(), script in vec(failing(), 1..20)) {
        let mut world = lone(policy, vec![script]);
        prop_assert!(world.run(100), "the run does not end");
        history::check(&world).map_err(|wrong| told(&world, &wrong))?;
    }
}

/// A short attempt that mostly fails.
fn failing() -> impl Strategy<Value = Shot> {
    let shot = script().prop_filter_map("one shot", |mut s| s.pop());
    shot.prop_map(|s| s.taking(Nanos::from_millis(1)))
}

/// A run of one fanned-out step, an item a script.
fn lone(policy: Policy, scripts: Vec<Vec<Shot>>) -> World {
    let items = json!(vec![0; scripts.len()]);
    let mut world = World::new(Flow::new().step("f", policy).for_each(items).build(), 5);
    world.functions.register(draw::CUSTOM, draw::sevens);
    world.beyond = ok().taking(Nanos::ZERO);
    for (item, script) in (0..).zip(scripts) {
        world.script_task(TaskId { step: StepIx(0), item }, script);
    }
    world
}

proptest! {
    #![proptest_config(config(300))]

    /// Promise 4: the fold of snapshot k and what follows it is the live state, byte for byte, for
    /// every k. By induction: one more event on the stored snapshot gives the next snapshot.
    #[test]
    fn d2_h11_replay_is_the_live_state(case in case()) {
        let mut live = Vec::new();
        let world = play(&case, |w| live.push((w.log.len(), encode_snapshot(&w.state))))?;
        let id = world.state.id();
        let mut state = RunState::replay(id, &world.log[..1]).map_err(|e| fails(e.to_string()))?;
        for (k, event) in world.log.iter().enumerate().skip(1) {
            let stored = encode_snapshot(&state);
            let mut restored = decode_snapshot(&stored).map_err(|e| fails(e.to_string()))?;
            prop_assert_eq!(encode_snapshot(&restored), stored, "snapshot {} changes", k);
            restored.apply(event).map_err(|e| fails(e.to_string()))?;
            state.apply(event).map_err(|e| fails(e.to_string()))?;
            // Byte for byte, and also in what bytes that miss something would not show.
            prop_assert_eq!(encode_snapshot(&restored), encode_snapshot(&state), "after {}", k);
            prop_assert_eq!(&restored, &state, "after {}", k);
            if let Some((_, bytes)) = live.iter().find(|(n, _)| *n == k + 1) {
                prop_assert_eq!(bytes, &encode_snapshot(&state), "the live state at {}", k + 1);
            }
        }
        let whole = RunState::replay(id, &world.log).map_err(|e| fails(e.to_string()))?;
        prop_assert_eq!(encode_snapshot(&whole), encode_snapshot(&world.state));
    }

    /// C15: the time working, in failed attempts and between attempts is all of a task's time.
    #[test]
    fn c15_the_times_told_add_up(case in case()) {
        let world = play(&case, |_| {})?;
        for (id, task) in world.state.tasks() {
            let of_task = |r: &&Recorded| r.event.task() == Some(id);
            let mut failed = Nanos::ZERO;
            for recorded in world.log.iter().filter(of_task) {
                match &recorded.event {
                    Event::AttemptFailed { took, .. } => failed = failed.saturating_add(*took),
                    Event::TaskSucceeded { spent, .. } | Event::TaskFailed { spent, .. } => {
                        let began = task.first_started.unwrap_or(recorded.at);
                        prop_assert_eq!(spent.total(), recorded.at.since(began), "{}", id);
                        prop_assert_eq!(spent.failing, failed, "{}", id);
                        prop_assert_eq!(*spent, task.spent(), "{}", id);
                    }
                    _ => {}
                }
            }
        }
    }

    /// H11: what is stored is what was decided, to the last bit.
    #[test]
    fn stored_events_are_the_events(case in case()) {
        for recorded in &play(&case, |_| {})?.log {
            let stored = decode(&encode(recorded)).map_err(|e| fails(e.to_string()))?;
            prop_assert_eq!(&stored, recorded);
        }
    }
}

proptest! {
    #![proptest_config(config(500))]

    /// Promise 7: what happens to one item of a fan-out changes nothing in its siblings' histories.
    #[test]
    fn c10_siblings_do_not_touch_each_other(
        policy in policy(),
        scripts in vec(script(), 3),
        other in script(),
    ) {
        let play = |first: &Vec<Shot>| {
            let all = vec![first.clone(), scripts[1].clone(), scripts[2].clone()];
            let mut world = lone(policy.clone(), all);
            prop_assert!(world.run(200), "the run does not end");
            let others = |r: &Recorded| r.event.task().is_some_and(|t| t.item > 0);
            let mut kept: Vec<_> = world.log.into_iter().filter(others).collect();
            kept.sort_by_key(|r| r.event.task());
            Ok(kept)
        };
        let (one, two): (Vec<Recorded>, Vec<Recorded>) = (play(&scripts[0])?, play(&other)?);
        let started = |r: &Recorded| matches!(r.event, Event::AttemptStarted { .. });
        prop_assert!(one.iter().any(started), "the siblings never start");
        prop_assert_eq!(one, two);
    }
}
