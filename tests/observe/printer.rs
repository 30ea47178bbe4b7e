//! H14: compact on recovery, detailed on failure, in the document's layout.

use insta::assert_snapshot;
use retrial::failure::Failure;
use retrial::observe::Output;
use retrial::policy::GiveUp;
use retrial::run::Event;

use crate::fixtures::*;

const PIPE: Output = Output::Auto { terminal: false };

fn with(
    mut events: Vec<(u64, Event)>,
    more: impl IntoIterator<Item = (u64, Event)>,
) -> Vec<(u64, Event)> {
    events.extend(more);
    events
}

/// Two failures and a success, 5.2 s in all.
fn recovers() -> Vec<(u64, Event)> {
    let t = task(FETCH);
    vec![
        (0, started(t, 1, Some(3))),
        (500, failed(t, 1, slow(), true)),
        (500, scheduled(t, 2, 1_000)),
        (1_500, started(t, 2, Some(3))),
        (2_000, failed(t, 2, slow(), true)),
        (2_000, scheduled(t, 3, 2_000)),
        (4_000, started(t, 3, Some(3))),
        (5_200, succeeded(t, 3)),
    ]
}

/// Three failures with delays of 2 s and 4 s: 3 x 0.5 + 2 + 4 = 7.5 s in all.
fn exhausts() -> Vec<(u64, Event)> {
    let t = task(FETCH);
    with(failing(t, Some(3), &[2_000, 4_000]), [(7_500, gave_up(t, 3, GiveUp::Exhausted, &slow()))])
}

#[test]
fn h14_the_documents_recovery_to_the_letter() {
    assert_snapshot!(printed(PIPE, &recovers()), @r"
    🔧 fetch_data [STARTED]
    ✔ fetch_data [COMPLETED after 3 attempts] (5.2s total)
      ↻ Recovered after 2 retries
    ");
}

/// The document says `7.0s total` under parts that add up to 7.5 s. Here the store's clock lost
/// half a second on the way, so that the computed total is the document's.
#[test]
fn h14_the_documents_failure_to_the_letter() {
    let t = task(FETCH);
    let events = [
        (0, started(t, 1, Some(3))),
        (500, failed(t, 1, slow(), true)),
        (500, scheduled(t, 2, 2_000)),
        (2_500, started(t, 2, Some(3))),
        (3_000, failed(t, 2, slow(), true)),
        (3_000, scheduled(t, 3, 4_000)),
        (6_500, started(t, 3, Some(3))),
        (7_000, failed(t, 3, slow(), false)),
        (7_000, gave_up(t, 3, GiveUp::Exhausted, &slow())),
    ];
    assert_snapshot!(printed(PIPE, &events), @r"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 2.0s...
    🔧 fetch_data [STARTED] (retry 2/3)
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 3/3) in 4.0s...
    🔧 fetch_data [STARTED] (retry 3/3)
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
    ✖ fetch_data [EXHAUSTED all 3 attempts] (7.0s total)
    ");
}

#[test]
fn h14_totals_are_computed() {
    let text = printed(PIPE, &exhausts());
    assert_eq!(text.lines().last(), Some("✖ fetch_data [EXHAUSTED all 3 attempts] (7.5s total)"));
}

#[test]
fn h14_detailed_prints_at_once_and_folds_nothing() {
    let events = recovers();
    assert_snapshot!(printed(Output::Detailed, &events[..3]), @r"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 1.0s...
    ");
    assert_snapshot!(printed(Output::Detailed, &events), @r"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 1.0s...
    🔧 fetch_data [STARTED] (retry 2/3)
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 3/3) in 2.0s...
    🔧 fetch_data [STARTED] (retry 3/3)
    ✔ fetch_data [COMPLETED after 3 attempts] (5.2s total)
      ↻ Recovered after 2 retries
    ");
}

#[test]
fn h14_nothing_is_printed_before_the_outcome_is_known() {
    let events = exhausts();
    assert_eq!(printed(PIPE, &events[..events.len() - 1]), "");
}

#[test]
fn h14_a_first_success_is_short() {
    let t = task(FETCH);
    let events = [(0, started(t, 1, Some(3))), (500, succeeded(t, 1))];
    assert_snapshot!(printed(PIPE, &events), @r"
    🔧 fetch_data [STARTED]
    ✔ fetch_data [COMPLETED] (0.5s)
    ");
}

#[test]
fn r12_a_permanent_failure_has_no_retry_line() {
    let t = task(FETCH);
    let wrong = retrial::failure::Failure::http(404, "HTTP 404: no such thing");
    let first = [
        (0, started(t, 1, Some(3))),
        (500, failed(t, 1, wrong.clone(), false)),
        (500, gave_up(t, 1, GiveUp::NotRetryable, &wrong)),
    ];
    assert_snapshot!(printed(PIPE, &first), @r"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - HTTP 404: no such thing
    ");
    let second = with(
        failing(t, Some(3), &[2_000])[..4].to_vec(),
        [
            (3_000, failed(t, 2, wrong.clone(), false)),
            (3_000, gave_up(t, 2, GiveUp::NotRetryable, &wrong)),
        ],
    );
    assert_snapshot!(printed(PIPE, &second), @r"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 2.0s...
    🔧 fetch_data [STARTED] (retry 2/3)
    ✖ fetch_data [FAILED] (0.5s) - HTTP 404: no such thing
    ✖ fetch_data [FAILED after 2 attempts] (3.0s total) - no rule retries this failure
    ");
}

#[test]
fn h14_other_reasons_to_give_up_are_said_in_words() {
    let last = |reason| last_of(reason, &slow());
    assert_snapshot!(last(GiveUp::TotalTimeout), @"✖ fetch_data [FAILED after 2 attempts] (3.0s total) - the total timeout leaves no time for another attempt");
    assert_snapshot!(last(GiveUp::TimeoutBudget), @"✖ fetch_data [FAILED after 2 attempts] (3.0s total) - the retries allowed for timeouts are used up");
    assert_snapshot!(last(GiveUp::RetryAfter), @"✖ fetch_data [FAILED after 2 attempts] (3.0s total) - the endpoint asks for a longer wait than is allowed");
    let numbers = Failure::http(
        503,
        &format!("HTTP 503 ({}: 2h is more than max_retry_after, 1h)", GiveUp::RetryAfter),
    );
    assert_snapshot!(last_of(GiveUp::RetryAfter, &numbers), @r"
    ✖ fetch_data [FAILED after 2 attempts] (3.0s total) - the endpoint asks for a longer wait than is allowed: 2h is more than max_retry_after, 1h
    ");
}

/// The last line of a task that fails for this reason.
fn last_of(reason: GiveUp, failure: &Failure) -> String {
    let t = task(FETCH);
    let end = [(3_000, gave_up(t, 2, reason, failure))];
    let text = printed(PIPE, &with(failing(t, Some(3), &[2_000]), end));
    text.lines().last().unwrap().to_owned()
}

#[test]
fn h14_one_attempt_is_not_exhausted_in_the_plural() {
    let t = task(ONCE);
    let events = with(failing(t, Some(1), &[]), [(500, gave_up(t, 1, GiveUp::Exhausted, &slow()))]);
    assert_snapshot!(printed(PIPE, &events), @r"
    🔧 once [STARTED]
    ✖ once [FAILED] (0.5s) - Connection timeout
    ");
}

#[test]
fn h14_unlimited_retries_have_no_bound_in_their_count() {
    let t = task(POLL);
    let events =
        with(failing(t, None, &[1_000])[..4].to_vec(), [(3_000, Event::TaskCancelled { task: t })]);
    assert_snapshot!(printed(PIPE, &events), @r"
    🔧 poll [STARTED]
    ✖ poll [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2) in 1.0s...
    🔧 poll [STARTED] (retry 2)
    ⊘ poll [CANCELLED] (3.0s total)
    ");
}

#[test]
fn h14_held_lines_are_bounded() {
    let t = task(POLL);
    let delays = vec![1_000; 5_000];
    let events = with(failing(t, None, &delays), [(9_000_000, Event::TaskCancelled { task: t })]);
    let text = printed(PIPE, &events);
    assert_eq!(text.lines().count(), 61, "20 attempts of 3 lines less one, the gap, the end");
    assert!(text.contains("\n  … 4981 more attempts, not shown\n"), "{text}");
    assert!(text.contains("(attempt 11) in"), "the tenth attempt is kept: {text}");
    assert!(text.contains("(retry 4992)") && !text.contains("(retry 4991)"), "{text}");
}

#[test]
fn c10_lines_of_parallel_tasks_are_not_mixed() {
    let (a, b) = (item(EACH, 0), item(EACH, 3));
    let mut events =
        with(failing(a, Some(3), &[2_000, 4_000]), failing(b, Some(3), &[2_000, 4_000]));
    events.sort_by_key(|(at, _)| *at);
    let ends = [
        (7_500, gave_up(a, 3, GiveUp::Exhausted, &slow())),
        (7_500, gave_up(b, 3, GiveUp::Exhausted, &slow())),
    ];
    let text = printed(PIPE, &with(events, ends));
    assert!(text.rfind("each[0]") < text.find("each[3]"), "{text}");
    assert_eq!(text.lines().count(), 18, "{text}");
}

#[test]
fn h14_a_failure_without_an_attempt_still_says_why() {
    let wrong = retrial::failure::Failure::new("BAD_ARGS", "`list` is not a list");
    let events = [(0, gave_up(task(FETCH), 0, GiveUp::NotRetryable, &wrong))];
    assert_snapshot!(printed(PIPE, &events), @"✖ fetch_data [FAILED] - `list` is not a list");
}

#[test]
fn c14_what_is_printed_is_one_clean_line() {
    let t = task(FETCH);
    let nasty = retrial::failure::Failure::new("X", "one\ntwo\x1b[2J\rthree\u{9b}1mfour");
    let events = [
        (0, started(t, 1, Some(3))),
        (500, failed(t, 1, nasty.clone(), false)),
        (500, gave_up(t, 1, GiveUp::NotRetryable, &nasty)),
    ];
    let text = printed(PIPE, &events);
    assert_eq!(text.lines().count(), 2, "{text:?}");
    assert!(text.lines().all(|l| !l.contains(char::is_control)), "{text:?}");
    assert!(text.contains("one") && text.contains("four"), "{text:?}");
}
