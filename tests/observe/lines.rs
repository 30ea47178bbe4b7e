//! The printer's lines about a run, and what a caller adds.

use insta::assert_snapshot;
use retrial::guard::Alert;
use retrial::observe::{Output, Printer};
use retrial::run::{Event, Outcome, RouteCause};
use serde_json::json;

use crate::fixtures::*;

const PIPE: Output = Output::Auto { terminal: false };

#[test]
fn a_run_is_printed_from_its_start_to_its_end() {
    let error = context(&slow(), 3);
    let events = [
        (0, created(json!({}))),
        (0, Event::StepEntered { step: FETCH, tasks: 1 }),
        (10, Event::StepFailed { step: FETCH, error: error.clone() }),
        (10, routed(FETCH, ONCE, RouteCause::Failure)),
        (10, routed(ONCE, POLL, RouteCause::Success)),
        (10, Event::StepEntered { step: EACH, tasks: 20 }),
        (20, Event::StepSkipped { step: POLL }),
        (20, Event::StepUnreachable { step: ONCE }),
        (12_340, ended(Outcome::Failed { error })),
    ];
    assert_snapshot!(printed(PIPE, &events), @r"
    ▶ etl [RUN STARTED] 00000001-0000-4000-8000-000000000001
    ↳ fetch_data failed: routed to once
    🔧 each [FANNED OUT into 20 tasks]
    ⊘ poll [SKIPPED]
    ⊘ once [UNREACHABLE]
    ✖ etl [RUN FAILED] (12.3s total) - fetch_data: TIMEOUT: Connection timeout
    ");
}

/// Each task of a fan-out that ends says how many have; those that are called off unseen count, too.
#[test]
fn h14_a_fan_out_says_how_many_of_its_tasks_have_ended() {
    let once =
        |n, at| [(at, started(item(EACH, n), 1, None)), (at + 500, succeeded(item(EACH, n), 1))];
    let entered = |at| (at, Event::StepEntered { step: EACH, tasks: 4 });
    let call_off = |n, at| (at, Event::TaskCancelled { task: item(EACH, n) });
    let mut events = vec![(0, created(json!({}))), entered(0)];
    events.extend(once(2, 0));
    events.extend([call_off(1, 600), (700, started(item(EACH, 0), 1, None)), call_off(0, 900)]);
    events.extend(once(3, 1_000));
    // Entered again, it begins anew. A step without items counts nothing.
    events.push(entered(2_000));
    events.extend(once(0, 2_000));
    events.extend([(3_000, started(task(FETCH), 1, None)), (3_500, succeeded(task(FETCH), 1))]);
    assert_snapshot!(printed(PIPE, &events), @"
    ▶ etl [RUN STARTED] 00000001-0000-4000-8000-000000000001
    🔧 each [FANNED OUT into 4 tasks]
    🔧 each[2] [STARTED]
    ✔ each[2] [COMPLETED] (0.5s) · 1 of 4
    🔧 each[0] [STARTED]
    ⊘ each[0] [CANCELLED] (0.2s total) · 3 of 4
    🔧 each[3] [STARTED]
    ✔ each[3] [COMPLETED] (0.5s) · 4 of 4
    🔧 each [FANNED OUT into 4 tasks]
    🔧 each[0] [STARTED]
    ✔ each[0] [COMPLETED] (0.5s) · 1 of 4
    🔧 fetch_data [STARTED]
    ✔ fetch_data [COMPLETED] (0.5s)
    ");
}

#[test]
fn other_ends_and_turns_of_a_run() {
    let line = |event| printed(PIPE, &[(0, created(json!({}))), (2_000, event)]);
    let last = |event| line(event).lines().last().unwrap().to_owned();
    assert_snapshot!(last(ended(Outcome::Completed)), @"✔ etl [RUN COMPLETED] (2.0s total)");
    assert_snapshot!(last(ended(Outcome::Cancelled { reason: "not needed".into() })), @"⊘ etl [RUN CANCELLED] (2.0s total) - not needed");
    assert_snapshot!(last(Event::CancelRequested { reason: "not needed".into() }), @"⊘ etl [CANCEL REQUESTED] - not needed");
    assert_snapshot!(last(Event::RunActivated), @"▶ etl [RUN ACTIVATED] 00000001-0000-4000-8000-000000000001");
    assert_snapshot!(last(Event::RunDeactivated), @"⊘ etl [RUN DEACTIVATED] 00000001-0000-4000-8000-000000000001");
}

/// An alert is about an action: its line stands by itself, however the task ends.
#[test]
fn c18_an_alert_is_told_at_once() {
    let alert = Alert { threshold: 500_000, burnt: 1_250_000, failures: 5, calls: 400 };
    let burnt = Event::ErrorBudgetBurnt { task: task(FETCH), attempt: 1, alert, webhook: None };
    let mut events = failing(task(FETCH), Some(3), &[2_000])[..3].to_vec();
    events.insert(1, (500, burnt));
    events.push((2_600, succeeded(task(FETCH), 2)));
    assert_snapshot!(printed(PIPE, &events), @"
    ⚠ do_fetch_data [ERROR BUDGET 50% BURNT] - 5 of 400 calls failed, 125% of the budget
    🔧 fetch_data [STARTED]
    ✔ fetch_data [COMPLETED after 2 attempts] (2.6s total)
      ↻ Recovered after 1 retry
    ");
}

/// The end of a run calls off what it leaves unfinished; that is said, and what was held is shown.
#[test]
fn a_runs_end_calls_off_what_was_going() {
    let mut events = failing(task(FETCH), Some(3), &[2_000])[..3].to_vec();
    events.push((600, ended(Outcome::Cancelled { reason: "enough".into() })));
    assert_snapshot!(printed(PIPE, &events), @r"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 2.0s...
    ⊘ fetch_data [CANCELLED] (0.6s total)
    ⊘ etl [RUN CANCELLED] - enough
    ");
    assert_eq!(printed(Output::Detailed, &events), printed(PIPE, &events));
}

#[test]
fn h14_the_end_of_the_process_releases_what_was_held() {
    let paper = Paper::default();
    let printer = Printer::new(paper.clone(), PIPE);
    tell(&printer, run(1), &failing(task(FETCH), Some(3), &[2_000])[..3]);
    assert_eq!(paper.text(), "");
    printer.release();
    printer.release();
    assert_snapshot!(paper.text(), @r"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 2.0s...
    ");
}

/// H11: a sequence taken up in the middle counts what went before, and prints it only where its
/// failure is shown whole.
#[test]
fn h11_a_resumed_run_recalls_what_it_does_not_print() {
    let events = failing(task(FETCH), Some(3), &[2_000]);
    let paper = Paper::default();
    let printer = Printer::new(paper.clone(), PIPE);
    each(run(1), &events[..3], |notice| printer.recall(notice));
    assert_eq!(paper.text(), "");
    printer.say("resuming run 1");
    let rest = [(2_500, started(task(FETCH), 2, Some(3))), (3_000, succeeded(task(FETCH), 2))];
    tell(&printer, run(1), &rest);
    printer.summarise();
    assert_snapshot!(paper.text(), @r"
    resuming run 1
    🔧 fetch_data [STARTED]
    ✔ fetch_data [COMPLETED after 2 attempts] (3.0s total)
      ↻ Recovered after 1 retry
    📊 RETRY STATISTICS
    ├─ Total events with retries: 1
    ├─ Succeeded after retry: 1 (100%)
    ├─ Failed after all retries: 0 (0%)
    ├─ Total retry attempts: 1
    └─ Avg retries per event: 1.0
    ⏱ TIME OF TASKS
    ├─ Working: 0.3s
    ├─ In attempts that failed: 0.5s
    └─ Waiting to retry: 2.0s
    ");
}

/// H11, H14: what ended before the run was taken up counts in its summary.
#[test]
fn h11_the_summary_of_a_resumed_run_counts_what_ended_before() {
    let mut events = failing(task(FETCH), Some(3), &[2_000])[..3].to_vec();
    events.extend([(2_500, started(task(FETCH), 2, Some(3))), (3_000, succeeded(task(FETCH), 2))]);
    let paper = Paper::default();
    let printer = Printer::new(paper.clone(), PIPE);
    each(run(1), &events, |notice| printer.recall(notice));
    printer.summarise();
    assert!(paper.text().contains("├─ Succeeded after retry: 1 (100%)"), "{}", paper.text());
}

#[test]
fn a_total_that_is_not_known_is_not_made_up() {
    let t = task(FETCH);
    let events = [(100_000, started(t, 3, Some(3))), (101_000, succeeded(t, 3))];
    assert_snapshot!(printed(PIPE, &events), @r"
    🔧 fetch_data [STARTED]
    ✔ fetch_data [COMPLETED after 3 attempts]
      ↻ Recovered after 2 retries
    ");
}

#[test]
fn h16_runs_beside_each_other_are_told_apart() {
    let paper = Paper::default();
    let printer = Printer::new(paper.clone(), PIPE).with_run_names();
    let t = task(FETCH);
    for n in [1, 2] {
        tell(&printer, run(n), &[(0, started(t, 1, Some(3)))]);
    }
    for n in [2, 1] {
        tell(&printer, run(n), &[(700, succeeded(t, 1))]);
    }
    assert_snapshot!(paper.text(), @r"
    🔧 00000002/fetch_data [STARTED]
    ✔ 00000002/fetch_data [COMPLETED] (0.7s)
    🔧 00000001/fetch_data [STARTED]
    ✔ 00000001/fetch_data [COMPLETED] (0.7s)
    ");
}

#[test]
fn colours_are_there_only_when_asked_for() {
    let t = task(FETCH);
    let events = [(0, started(t, 1, Some(3))), (500, succeeded(t, 1))];
    assert!(!printed(Output::Detailed, &events).contains('\x1b'));
    let paper = Paper::default();
    let printer = Printer::new(paper.clone(), Output::Detailed).with_colour(true);
    tell(&printer, run(1), &events);
    assert!(paper.text().ends_with("\x1b[32m✔ fetch_data [COMPLETED] (0.5s)\x1b[0m\n"));
}

/// A closed pipe must not change what happens to a run.
#[test]
fn a_writer_that_fails_is_left_alone() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let printer = Printer::new(Closed, Output::Detailed);
    tell(&printer, run(1), &failing(task(FETCH), Some(3), &[2_000]));
    assert_eq!(printer.statistics().retries(), 1);
}

/// What was going when a rollback begins is called off, and the run's end comes after it.
#[test]
fn c18_a_rollback_is_told_from_its_start_to_its_end() {
    let error = context(&slow(), 3);
    let outcome = || Outcome::Failed { error: error.clone() };
    let mut events = failing(task(FETCH), Some(3), &[2_000])[..3].to_vec();
    events.extend([
        (600, Event::RollbackStarted { outcome: outcome() }),
        (600, Event::CompensationStarted { task: task(UNDO) }),
        (600, started(task(UNDO), 1, Some(1))),
        (700, succeeded(task(UNDO), 1)),
        (700, Event::RollbackEnded { complete: false }),
        (700, ended(outcome())),
    ]);
    assert_snapshot!(printed(PIPE, &events), @"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 2.0s...
    ⊘ fetch_data [CANCELLED] (0.6s total)
    ↺ etl [ROLLING BACK] - fetch_data: TIMEOUT: Connection timeout
    ↺ undo undoes once
    🔧 undo [STARTED]
    ✔ undo [COMPLETED] (0.1s)
    ✖ etl [ROLLBACK INCOMPLETE]
    ✖ etl [RUN FAILED] - fetch_data: TIMEOUT: Connection timeout
    ");
}

/// A failure and the retry that follows it are shown one after the other; events of another run in
/// between stands after both, and each line says whose it is.
#[test]
fn h16_at_once_a_failure_and_its_retry_stay_together() {
    let paper = Paper::default();
    let printer = Printer::new(paper.clone(), Output::Detailed).with_run_names();
    let events = failing(task(FETCH), Some(3), &[2_000]);
    for event in events.chunks(1).take(4) {
        for n in [1, 2] {
            tell(&printer, run(n), event);
        }
    }
    assert_snapshot!(paper.text(), @r"
    🔧 00000001/fetch_data [STARTED]
    🔧 00000002/fetch_data [STARTED]
    ✖ 00000001/fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 2.0s...
    ✖ 00000002/fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 2.0s...
    🔧 00000001/fetch_data [STARTED] (retry 2/3)
    🔧 00000002/fetch_data [STARTED] (retry 2/3)
    ");
}

#[test]
fn h16_what_is_kept_back_for_a_moment_is_not_lost() {
    let paper = Paper::default();
    let printer = Printer::new(paper.clone(), Output::Detailed);
    tell(&printer, run(1), &failing(task(FETCH), Some(3), &[2_000])[..2]);
    printer.release();
    assert_snapshot!(paper.text(), @r"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
    ");
    let cut = [(0, started(task(FETCH), 1, Some(3))), (500, failed(task(FETCH), 1, slow(), true))];
    let cancelled = ended(Outcome::Cancelled { reason: "enough".into() });
    assert_snapshot!(printed(Output::Detailed, &[&cut[..], &[(600, cancelled)]].concat()), @r"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
    ⊘ fetch_data [CANCELLED] (0.6s total)
    ⊘ etl [RUN CANCELLED] - enough
    ");
}
