//! H11, A15: what the stored events alone tell of a run.

use insta::assert_snapshot;
use retrial_core::run::{Recorded, RunState, queue_of};

use super::*;

/// The state that the first `count` events of a world fold to.
fn replayed(world: &World, count: usize) -> RunState {
    RunState::replay(world.state.id(), &world.log[..count]).expect("a history that can be")
}

fn place(world: &World, wanted: impl Fn(&Event) -> bool) -> usize {
    world.log.iter().position(|r| wanted(&r.event)).expect("such an event")
}

/// `state` without the results, which are not in the events.
fn phases(state: &RunState) -> Vec<(TaskPhase, u32)> {
    state.tasks().map(|(_, t)| (t.phase.clone(), t.attempt)).collect()
}

#[test]
fn h11_what_failed_stays_failed_and_what_succeeded_stays_so() {
    for (shots, attempts) in [(vec![status(503); 3], 3), (vec![status(503), ok()], 2)] {
        let world = one(doubling(3), shots);
        let state = replayed(&world, world.log.len());
        assert_eq!(phases(&state), phases(&world.state));
        assert_eq!(state.outcome(), world.state.outcome());
        assert_eq!(state.task(task(0, 0)).map(|t| t.attempt), Some(attempts));
        // Nothing is to be invoked or waited for, and no input changes anything.
        assert_eq!(queue_of(&state), []);
        let mut state = state;
        let token = token_of(task(0, 0), attempts);
        let claim = Input::Claimed {
            task: task(0, 0),
            attempt: attempts + 1,
            token,
            default_timeout: None,
        };
        let failed = Input::Failed {
            task: task(0, 0),
            token,
            failure: Failure::http(500, "again"),
            denied: false,
        };
        for input in [claim, failed] {
            assert_eq!(state.handle(&input, world.now, &world.functions), Ok(Vec::new()));
        }
    }
}

/// Cut off after every event: the replayed state takes the same inputs to the same end.
#[test]
fn h11_a_sequence_that_was_cut_off_is_taken_up_where_it_stopped() {
    let shots = || vec![status(503), hangs(), ok()];
    let policy = || change(4, |p| p.attempt_timeout = Some(Nanos::from_secs(5)));
    let whole = one(policy(), shots());
    for cut in 1..whole.log.len() {
        let mut world = set(Flow::new().step("a", policy()).build(), [("a", 0, shots())]);
        while world.log.len() < cut {
            assert!(world.step_next());
        }
        // Events of one commit are there together or not at all.
        let before = world.log.len();
        world.state = replayed(&world, before);
        assert!(world.run(100));
        assert_eq!(world.log, whole.log, "cut after {before} events");
    }
}

#[test]
fn h11_a_state_tells_what_it_is_the_fold_of() {
    let world = one(doubling(3), [status(503), ok()]);
    let mut at_work = None;
    for count in 1..=world.log.len() {
        let state = replayed(&world, count);
        assert_eq!((state.id(), state.seed()), (world.state.id(), 7));
        assert_eq!(state.version(), retrial_core::run::Version(count as u64));
        assert_eq!(state.last_at(), world.log[count - 1].at);
        let held = state.task(task(0, 0)).and_then(|t| t.token());
        // Until what follows its failure is decided.
        at_work = match &world.log[count - 1].event {
            Event::AttemptStarted { token, .. } => Some(*token),
            Event::AttemptFailed { .. } => at_work,
            _ => None,
        };
        assert_eq!(held, at_work);
    }
}

/// W12: results are kept beside the events; those that are brought back are at hand again.
#[test]
fn w12_results_are_brought_back_to_a_replayed_state() {
    let flow = Flow::new().step("a", once()).step("b", once()).after(&["a"]);
    let flow = flow.args(json!("${steps.a.result.id}"));
    let mut world = set(flow.build(), [("a", 0, vec![gives(json!({"id": 7}))])]);
    world.run_to(1);
    let mut state = replayed(&world, world.log.len());
    let (a, b) = (task(0, 0), task(1, 0));
    assert_eq!((state.result(a), state.prepare(b).map(|p| p.args)), (None, Some(Value::Null)));
    state.restore_result(a, std::sync::Arc::new(json!({"id": 7})));
    assert_eq!(state.result(a).map(|r| r["id"].clone()), Some(json!(7)));
    assert_eq!(state.prepare(b).map(|p| p.args), Some(json!(7)));
    assert_eq!(state, world.state);
}

/// A15: of each retry the events tell what triggered it, when it was decided, when it was due, and
/// that it started no earlier.
#[test]
fn a15_the_events_tell_when_and_why_each_retry_happened() {
    let policy = change(5, |p| p.attempt_timeout = Some(Nanos::from_secs(5)));
    let world = one(policy, [status(503), hangs(), lost().taking(Nanos::from_secs(4)), ok()]);
    let told: Vec<String> = world
        .log
        .iter()
        .filter_map(|Recorded { at, event }| match event {
            Event::RetryScheduled { attempt, delay, kind, code, .. } => {
                let due = at.after(*delay).since(run_support::world::START);
                let start = place(
                    &world,
                    |e| matches!(e, Event::AttemptStarted { attempt: n, .. } if n == attempt),
                );
                let started = world.log[start].at.since(run_support::world::START);
                Some(format!("#{attempt} for {kind} {code}: due {due}, started {started}"))
            }
            _ => None,
        })
        .collect();
    assert_snapshot!(told.join("\n"), @"
    #2 for failure 503: due 2s, started 2s
    #3 for timeout TIMEOUT: due 9s, started 9s
    #4 for lost lease LEASE_LOST: due 17s, started 17s
    ");
}
