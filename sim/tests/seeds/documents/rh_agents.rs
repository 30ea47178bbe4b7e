//! The printer's examples of rh_agents, end to end: the event flow (H9), what is printed of it
//! (H14), and the statistics (H15).

use std::io::Write;
use std::sync::{Arc, Mutex};

use insta::assert_snapshot;
use retrial::observe::{Output, Printer};
use retrial::run::Event;
use retrial_sim::unstable::scenario::Reply;

use crate::documents::stage::{Played, after, check_waits, play};

fn workflow(retry_config: &str) -> String {
    format!(
        r#"workflow = "agents"

[actions.fetch]
http = "POST http://api.test/fetch"
kind = "tool_call"

[[steps]]
id = "fetch_data"
action = "fetch"
retry_config = {retry_config}
"#
    )
}

/// The document's `Connection timeout`, after half a second.
fn timeout() -> Reply {
    let (kind, message) = ("TimeoutError".to_owned(), "Connection timeout".to_owned());
    after(480, Reply::Exception { kind, message, mro: vec![] })
}

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a printer prints of the run, and of its retries.
fn printed(played: &Played, output: Output) -> String {
    let paper = Paper::default();
    let printer = Printer::new(paper.clone(), output);
    played.tell(&printer);
    printer.summarise();
    let bytes = paper.0.lock().unwrap().clone();
    let text = String::from_utf8(bytes).unwrap();
    text.lines().filter(|line| !line.starts_with('▶')).map(|line| format!("{line}\n")).collect()
}

const PIPE: Output = Output::Auto { terminal: false };

/// "Success after retries (compact)": delays of 1 s and 2 s, 5.2 s in all.
#[test]
fn h9_h14_h15_success_after_retries() {
    let config = "{ initial_delay = 1.0, jitter = false }";
    let success = after(1_130, Reply::SuccessTrue);
    let played = play(&workflow(config), &[("fetch", &[timeout(), timeout(), success])]);
    assert_snapshot!(played.events(), @r"
    run_created
    step_entered fetch_data
    attempt_started fetch_data attempt 1
    attempt_failed fetch_data attempt 1: TimeoutError, will retry
    retry_scheduled fetch_data attempt 2 in 1s: failure TimeoutError
    attempt_started fetch_data attempt 2, a retry after 1s
    attempt_failed fetch_data attempt 2: TimeoutError, will retry
    retry_scheduled fetch_data attempt 3 in 2s: failure TimeoutError
    attempt_started fetch_data attempt 3, a retry after 2s
    task_succeeded fetch_data after 3
    step_succeeded fetch_data
    run_ended completed
    ");
    check_waits(&played.waits("fetch_data"), &[1_000, 2_000]);
    assert_snapshot!(printed(&played, PIPE), @r"
    🔧 fetch_data [STARTED]
    ✔ fetch_data [COMPLETED after 3 attempts] (5.1s total)
      ↻ Recovered after 2 retries
    ✔ agents [RUN COMPLETED] (5.2s total)
    📊 RETRY STATISTICS
    ├─ Total events with retries: 1
    ├─ Succeeded after retry: 1 (100%)
    ├─ Failed after all retries: 0 (0%)
    ├─ Total retry attempts: 2
    └─ Avg retries per event: 2.0
    ⏱ TIME OF TASKS
    ├─ Working: 1.1s
    ├─ In attempts that failed: 1.0s
    └─ Waiting to retry: 3.0s
    ");
}

/// "Failure with retries (detailed)": delays of 2 s and 4 s.
#[test]
fn h9_h14_h15_failure_with_retries() {
    let config = "{ initial_delay = 2.0, jitter = false }";
    let replies = [timeout(), timeout(), timeout()];
    let played = play(&workflow(config), &[("fetch", &replies)]);
    assert_snapshot!(played.events(), @r"
    run_created
    step_entered fetch_data
    attempt_started fetch_data attempt 1
    attempt_failed fetch_data attempt 1: TimeoutError, will retry
    retry_scheduled fetch_data attempt 2 in 2s: failure TimeoutError
    attempt_started fetch_data attempt 2, a retry after 2s
    attempt_failed fetch_data attempt 2: TimeoutError, will retry
    retry_scheduled fetch_data attempt 3 in 4s: failure TimeoutError
    attempt_started fetch_data attempt 3, a retry after 4s
    attempt_failed fetch_data attempt 3: TimeoutError, will not retry
    task_failed fetch_data after 3: TimeoutError, all attempts are used up
    step_failed fetch_data: TimeoutError
    run_ended failed: fetch_data TimeoutError
    ");
    check_waits(&played.waits("fetch_data"), &[2_000, 4_000]);
    assert_snapshot!(printed(&played, PIPE), @r"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 2.0s...
    🔧 fetch_data [STARTED] (retry 2/3)
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 3/3) in 4.0s...
    🔧 fetch_data [STARTED] (retry 3/3)
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
    ✖ fetch_data [EXHAUSTED all 3 attempts] (7.5s total)
    ✖ agents [RUN FAILED] (7.5s total) - fetch_data: TimeoutError: Connection timeout
    📊 RETRY STATISTICS
    ├─ Total events with retries: 1
    ├─ Succeeded after retry: 0 (0%)
    ├─ Failed after all retries: 1 (100%)
    ├─ Total retry attempts: 2
    └─ Avg retries per event: 2.0
    ⏱ TIME OF TASKS
    ├─ Working: 0.0s
    ├─ In attempts that failed: 1.5s
    └─ Waiting to retry: 6.0s
    ");
    assert_eq!(printed(&played, PIPE), printed(&played, Output::Detailed), "nothing is folded");
}

/// Jitter is within a quarter, and the recorded delay is the real one.
#[test]
fn h9_the_delay_that_is_told_is_the_one_that_is_waited_for() {
    let played = play(&workflow("{ initial_delay = 2.0 }"), &[("fetch", &[timeout()])]);
    let told = played.run().events.iter().find_map(|r| match &r.event {
        Event::RetryScheduled { delay, .. } => Some(*delay),
        _ => None,
    });
    let told = told.unwrap();
    assert!((1_500..=2_500).contains(&told.as_millis()), "{told}");
    check_waits(&played.waits("fetch_data"), &[told.as_millis()]);
}
