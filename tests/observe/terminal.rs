//! H14 on a terminal: detailed lines live, folded on recovery.

use insta::assert_snapshot;
use retrial::observe::{Output, Printer};
use retrial::policy::GiveUp;
use retrial::run::Event;

use crate::tale::*;

const TERMINAL: Output = Output::Auto { terminal: true };

/// What a terminal shows after `text`. It knows a line's end, moving up, and clearing to the end.
fn screen(text: &str) -> String {
    let mut lines = vec![String::new()];
    let mut at = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\n' => {
                at += 1;
                lines.resize(lines.len().max(at + 1), String::new());
            }
            '\r' => {}
            '\x1b' => {
                let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                match (&rest[1..end], &rest[end..=end]) {
                    (n, "A") => at -= n.parse::<usize>().unwrap(),
                    ("", "J") => {
                        lines.truncate(at);
                        lines.push(String::new());
                    }
                    other => panic!("unknown sequence {other:?}"),
                }
                rest = &rest[end + 1..];
            }
            c => lines[at].push(c),
        }
    }
    lines.join("\n")
}

fn shown(events: &[(u64, Event)]) -> String {
    screen(&printed(TERMINAL, events))
}

#[test]
fn h14_lines_are_live_and_folded_on_recovery() {
    let t = task(FETCH);
    let mut events = failing(t, Some(3), &[2_000])[..4].to_vec();
    assert_snapshot!(shown(&events[..1]), @"🔧 fetch_data [STARTED]");
    assert_snapshot!(shown(&events), @r"
    🔧 fetch_data [STARTED]
    ✖ fetch_data [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 2.0s...
    🔧 fetch_data [STARTED] (retry 2/3)
    ");
    events.push((5_200, succeeded(t, 2)));
    assert_snapshot!(shown(&events), @r"
    🔧 fetch_data [STARTED]
    ✔ fetch_data [COMPLETED after 2 attempts] (5.2s total)
      ↻ Recovered after 1 retry
    ");
}

#[test]
fn h14_a_failure_stays_in_detail() {
    let t = task(FETCH);
    let mut events = failing(t, Some(3), &[2_000, 4_000]);
    events.push((7_500, gave_up(t, 3, GiveUp::Exhausted, &slow())));
    let piped = printed(Output::Auto { terminal: false }, &events);
    assert_eq!(shown(&events), piped);
}

#[test]
fn h14_what_has_ended_stays_above_what_is_live() {
    let (a, b) = (item(EACH, 0), item(EACH, 1));
    let events = [
        (0, started(a, 1, Some(3))),
        (0, started(b, 1, Some(3))),
        (500, failed(a, 1, slow(), true)),
        (500, scheduled(a, 2, 2_000)),
        (700, succeeded(b, 1)),
    ];
    assert_snapshot!(shown(&events), @r"
    🔧 each[1] [STARTED]
    ✔ each[1] [COMPLETED] (0.7s)
    🔧 each[0] [STARTED]
    ✖ each[0] [FAILED] (0.5s) - Connection timeout
      ↻ Retrying (attempt 2/3) in 2.0s...
    ");
}

/// A line that has scrolled away, or wrapped, could not be taken back.
#[test]
fn h14_live_lines_fit_the_terminal() {
    let paper = Paper::default();
    let printer = Printer::new(paper.clone(), TERMINAL).with_size(24, 4);
    for n in 0..9 {
        tell(&printer, run(1), &[(0, started(item(EACH, n), 1, Some(3)))]);
    }
    assert_snapshot!(screen(&paper.text()), @r"
    … more above
    🔧 each[7] [STARTED]
    🔧 each[8] [STARTED]
    ");
    let long = retrial::failure::Failure::timed_out("ein sehr langer Grund für alles");
    tell(&printer, run(1), &[(500, failed(item(EACH, 8), 1, long, true))]);
    assert_snapshot!(screen(&paper.text()), @r"
    … more above
    🔧 each[8] [STARTED]
    ✖ each[8] [FAILED] (0…
    ");
}
