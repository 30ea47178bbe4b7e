//! Killed and started again.

use retrial::run::Event;
use retrial::store::RunPhase;
use retrial::time::Nanos;

use super::endpoint::{Answer, Endpoint};
use super::workspace::{Stored, Workspace};

const FIXED: &str = "work_config = { max_retries = 3, backoff = 2000 }";
const STORE: &str = ".retrial/w.redb";

fn id(line: &str) -> String {
    line.split_once("un ").unwrap().1.split(' ').next().unwrap().to_owned()
}

// A10, A12, A14, H11, W13: the run goes on where it stopped, the delay neither lost nor repeated.
#[test]
fn w13_a10_killed_in_a_delay_it_resumes_when_the_attempt_is_due() {
    let endpoint = Endpoint::failing(1);
    let workspace = Workspace::with_step(&endpoint.url("/x"), FIXED);
    let mut first = workspace.start(&["run", "w.toml"]);
    let begun = first.until("Retrying (attempt 2/4) in 2.0s");
    first.kill();
    assert_eq!(endpoint.seen().len(), 1);

    let done = workspace.run(&["run", "w.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(begun.starts_with("Run "), "{begun}");
    let line = done.first_line();
    assert!(line.starts_with("Resuming run "), "{line}");
    assert!(
        line.contains(" of w: 0 of 1 steps done, 1 attempt made, the next is due in "),
        "{line}"
    );
    assert_eq!(id(line), id(&begun));
    // What happened before the crash counts in what is said afterwards (H14, H15).
    assert!(done.out.contains("[COMPLETED after 2 attempts] ("), "{}", done.out);
    assert!(done.out.contains("[RUN COMPLETED] ("), "{}", done.out);
    assert!(done.out.contains("Total retry attempts: 1"), "{}", done.out);

    let seen = endpoint.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].token(), seen[1].token());
    assert_eq!([seen[0].header("x-retry-attempt"), seen[1].header("x-retry-attempt")], ["0", "1"]);
    let stored = workspace.stored(STORE);
    assert_eq!((stored.len(), stored[0].phase), (1, RunPhase::Completed));
    stored[0].check_delays();
    assert_eq!(
        stored[0].names(),
        [
            "run_created",
            "step_entered",
            "attempt_started",
            "attempt_failed",
            "retry_scheduled",
            "attempt_started",
            "task_succeeded",
            "step_succeeded",
            "run_ended",
        ]
    );
}

fn lease_lost(stored: &Stored) -> (Nanos, u32) {
    let mut started = None;
    for recorded in &stored.events {
        match &recorded.event {
            Event::AttemptStarted { .. } => started = Some(recorded.at),
            Event::AttemptFailed { failure, attempt, .. } => {
                assert_eq!(failure.code().as_str(), "LEASE_LOST");
                return (recorded.at.since(started.unwrap()), *attempt);
            }
            _ => {}
        }
    }
    panic!("no attempt failed: {:?}", stored.names());
}

// Decision 12: a crash uses up the attempt. On a store of its own the process knows that nobody
// holds the lease any more, and does not wait for its 30 s.
#[test]
fn decision_12_killed_in_an_attempt_it_records_the_lost_lease_at_once() {
    let endpoint = Endpoint::new(|seen| match seen.nth {
        1 => Answer::Hang,
        _ => Answer::Status(200, "{}"),
    });
    let workspace = Workspace::with_step(
        &endpoint.url("/x"),
        "work_config = { max_retries = 1, backoff = 10 }",
    );
    let first = workspace.start(&["run", "w.toml"]);
    endpoint.wait_for(1);
    first.kill();

    let done = workspace.run(&["run", "w.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let line = done.first_line();
    assert!(line.ends_with("0 of 1 steps done, 1 attempt made, 1 of them cut off."), "{line}");
    let seen = endpoint.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].token(), seen[1].token());
    let stored = workspace.stored(STORE);
    let (after, attempt) = lease_lost(&stored[0]);
    assert_eq!(attempt, 1);
    // By the store's own clock: the lease had not ended when it was given up for lost.
    assert!(after < Nanos::from_secs(30), "{after}");
    stored[0].check_delays();
}

#[test]
fn new_starts_another_and_leaves_the_first_alone() {
    let endpoint = Endpoint::failing(1);
    let workspace = Workspace::with_step(
        &endpoint.url("/x"),
        "work_config = { max_retries = 1, backoff = 1000 }",
    );
    let mut first = workspace.start(&["run", "w.toml"]);
    let begun = first.until("Retrying");
    first.kill();

    let other = workspace.run(&["run", "w.toml", "--new"]);
    assert_eq!(other.code, Some(0), "{other:?}");
    let line = other.first_line();
    assert!(line.starts_with("Run "), "{line}");
    assert!(line.ends_with("; 1 other unfinished run there is left alone."), "{line}");
    assert_ne!(id(line), id(&begun));
    let token = endpoint.seen()[0].token().to_owned();
    assert_eq!(endpoint.seen().iter().filter(|s| s.token() == token).count(), 1);

    let resumed = workspace.run(&["run", "w.toml"]);
    assert_eq!((resumed.code, id(resumed.first_line())), (Some(0), id(&begun)));
    let phases: Vec<_> = workspace.stored(STORE).iter().map(|s| s.phase).collect();
    assert_eq!(phases, [RunPhase::Completed, RunPhase::Completed]);

    let fresh = workspace.run(&["run", "w.toml"]);
    assert!(fresh.first_line().starts_with("Run "), "nothing is left: {}", fresh.first_line());
}

// The same workflow with another input, or another workflow, is another run.
#[test]
fn only_the_same_workflow_and_input_are_resumed() {
    let endpoint = Endpoint::failing(1);
    let policy = "args = { day = \"${input.day}\" }\n\
                  work_config = { max_retries = 1, backoff = 1000 }";
    let workspace = Workspace::with_step(&endpoint.url("/x"), policy);
    let mut first = workspace.start(&["run", "w.toml", "--input", r#"{"day": 1}"#]);
    let begun = first.until("Retrying");
    first.kill();

    let other = workspace.run(&["run", "w.toml", "--input", r#"{"day": 2}"#]);
    assert!(other.first_line().starts_with("Run "), "{}", other.first_line());
    let bodies: Vec<_> = endpoint.seen().into_iter().map(|s| s.body).collect();
    assert_eq!(bodies, [r#"{"day":1}"#, r#"{"day":2}"#, r#"{"day":2}"#]);

    let same = workspace.run(&["run", "w.toml", "--input", r#"{ "day" : 1 }"#]);
    assert_eq!(id(same.first_line()), id(&begun));
    workspace.write("w.toml", super::workspace::one_step(&endpoint.url("/y"), policy));
    let edited = workspace.run(&["run", "w.toml", "--input", r#"{"day": 1}"#]);
    assert!(edited.first_line().starts_with("Run "), "{}", edited.first_line());
}

// H12: a stop before the end loses nothing, and says how to go on.
#[cfg(unix)]
#[test]
fn interrupted_it_stops_gracefully_and_resumes() {
    let endpoint = Endpoint::failing(1);
    let workspace = Workspace::with_step(&endpoint.url("/x"), FIXED);
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut going = workspace.start(&["run", "w.toml"]);
        going.until(if signal == "-INT" { "Retrying" } else { "Resuming" });
        send(signal, &going);
        let (ended, rest) = going.end();
        assert_eq!(ended, Some(code), "{rest}");
        assert!(
            rest.contains("is unfinished and its progress is stored. The same command"),
            "{rest}"
        );
    }
    let done = workspace.run(&["run", "w.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.first_line().starts_with("Resuming run "), "{}", done.first_line());
    assert_eq!(endpoint.seen().len(), 2);
}

#[cfg(unix)]
fn send(signal: &str, to: &super::workspace::Going) {
    let id = to.id().to_string();
    let sent = std::process::Command::new("kill").args([signal, &id]).status();
    assert!(sent.unwrap().success());
}

// An attempt in progress is given time to end, unless the user asks again.
#[cfg(unix)]
#[test]
fn interrupted_twice_it_ends_at_once_and_resumes() {
    let endpoint = Endpoint::new(|seen| match seen.nth {
        1 => Answer::Hang,
        _ => Answer::Status(200, "{}"),
    });
    let workspace = Workspace::with_step(
        &endpoint.url("/x"),
        "work_config = { max_retries = 1, backoff = 10 }",
    );
    let mut going = workspace.start(&["run", "w.toml"]);
    endpoint.wait_for(1);
    send("-INT", &going);
    going.until("A second signal stops at once.");
    send("-INT", &going);
    assert_eq!(going.end().0, Some(130));
    let done = workspace.run(&["run", "w.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.first_line().contains("1 of them cut off"), "{}", done.first_line());
}
