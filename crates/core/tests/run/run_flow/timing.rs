//! Whose time counts, and what retries do to the time of a parallel group.

use insta::assert_snapshot;

use super::*;

#[test]
fn decision_11_time_never_goes_back() {
    // Decision 11: a node whose clock is behind stamps its events with the last event's time.
    let mut world = set(Flow::new().step("a", doubling(3)).build(), [("a", 0, vec![status(500)])]);
    world.run_to(1);
    world.now = run_support::world::START;
    let (task, attempt) = (task(0, 0), 2);
    world.handle(&Input::Claimed {
        task,
        attempt,
        token: token_of(task, attempt),
        default_timeout: None,
    });
    let before = world.log.last().expect("a start").at;
    world.now = run_support::world::START;
    let failure = Failure::http(500, "from a node whose clock is behind");
    let told = world.handle(&Input::Failed {
        task,
        token: token_of(task, attempt),
        failure,
        denied: false,
    });
    assert!(told.len() > 1 && told.iter().all(|r| r.at == before), "{told:#?}");
    assert!(world.log.is_sorted_by_key(|r| r.at));
}

#[test]
fn c10_h17_the_timing_of_a_parallel_group_is_that_of_its_slowest_task() {
    // One task's retries keep no sibling waiting; the step, and what is after it, wait for the last.
    let flow = Flow::new().step("f", doubling(3)).for_each(json!(["x", "y", "z"]));
    let flow = flow.step("b", once()).after(&["f"]).build();
    let slow = || ok().taking(Nanos::from_secs(3));
    let world = plays(flow, [("f", 1, vec![status(503), status(503)]), ("f", 2, vec![slow()])]);
    let ends: Vec<String> = show(&world.log, world.state.workflow())
        .lines()
        .filter(|line| ["succeeded", "entered", "retrying"].iter().any(|word| line.contains(word)))
        .map(str::to_owned)
        .collect();
    assert_snapshot!(ends.join("\n"), @"
    0s entered f x3
    1s succeeded f[0] #1
    1s retrying f[1] #2 in 1s backoff=1s failure 503
    3s retrying f[1] #3 in 2s backoff=2s failure 503
    3s succeeded f[2] #1
    6s succeeded f[1] #3
    6s step succeeded f
    6s entered b x1
    7s succeeded b #1
    7s step succeeded b
    ");
}

#[test]
fn x15_an_attempt_without_a_timeout_gets_the_default() {
    // X15: the policy's own timeout comes first, the total timeout still cuts, and replay reads what
    // the event says.
    let seconds = |n| Some(Nanos::from_secs(n));
    let started = |own, total, default_timeout| {
        let policy = change(3, |p| (p.attempt_timeout, p.total_timeout) = (own, total));
        let mut world = set(Flow::new().step("a", policy).build(), []);
        let at = task(0, 0);
        let claim =
            Input::Claimed { task: at, attempt: 1, token: token_of(at, 1), default_timeout };
        let told = world.handle(&claim);
        let Event::AttemptStarted { timeout, .. } = told[0].event else { panic!("{told:?}") };
        let TaskPhase::Running { timeout: kept, .. } = world.state.task(at).unwrap().phase else {
            panic!("{:?}", world.state)
        };
        assert_eq!(kept, timeout);
        timeout
    };
    assert_eq!(started(None, None, seconds(300)), seconds(300));
    assert_eq!(started(None, None, None), None);
    assert_eq!(started(seconds(900), None, seconds(300)), seconds(900));
    assert_eq!(started(seconds(2), None, seconds(300)), seconds(2));
    assert_eq!(started(None, seconds(60), seconds(300)), seconds(60));
    assert_eq!(started(None, seconds(900), seconds(300)), seconds(300));
}
