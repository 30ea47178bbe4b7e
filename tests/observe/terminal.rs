//! H14 on a terminal: detailed lines live, folded on recovery.

use insta::assert_snapshot;
use retrial::observe::{Output, Printer};
use retrial::policy::GiveUp;
use retrial::run::Event;

use crate::fixtures::*;

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
    ✖ each[8] [FAILED] (0.5…
    ");
}

/// Columns are counted as a terminal counts them: wide characters are two, accents of their own none.
#[test]
fn h14_live_lines_are_cut_by_the_columns_they_take() {
    let shown = |columns, reason: &str| {
        let paper = Paper::default();
        let printer = Printer::new(paper.clone(), TERMINAL).with_size(columns, 9);
        let slow = retrial::failure::Failure::timed_out(reason);
        let events =
            [(0, started(task(FETCH), 1, Some(3))), (0, failed(task(FETCH), 1, slow, true))];
        tell(&printer, run(1), &events);
        screen(&paper.text()).lines().nth(1).unwrap().to_owned()
    };
    assert_eq!(shown(38, "über"), "✖ fetch_data [FAILED] (0.0s) - über", "35 columns");
    assert_eq!(shown(35, "über"), "✖ fetch_data [FAILED] (0.0s) - über", "just fits");
    assert_eq!(shown(34, "über"), "✖ fetch_data [FAILED] (0.0s) - üb…");
    assert_eq!(shown(35, "時間"), "✖ fetch_data [FAILED] (0.0s) - 時間", "four columns");
    assert_eq!(shown(34, "時間"), "✖ fetch_data [FAILED] (0.0s) - 時…");
    assert_eq!(shown(35, "u\u{308}ber"), "✖ fetch_data [FAILED] (0.0s) - u\u{308}ber");
    assert_eq!(shown(0, "x"), "…", "a terminal without columns has one");
}

/// A window that was made narrower has broken the live lines into more rows.
#[test]
fn h14_live_lines_follow_the_window() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    let columns = Arc::new(AtomicUsize::new(80));
    let (paper, now) = (Paper::default(), Arc::clone(&columns));
    let printer =
        Printer::new(paper.clone(), TERMINAL).with_size_from(move || Some((now.load(Relaxed), 24)));
    let events = failing(task(FETCH), Some(3), &[2_000]);
    tell(&printer, run(1), &events[..2]);
    columns.store(20, Relaxed);
    let before = paper.text().len();
    tell(&printer, run(1), &events[2..3]);
    let after = paper.text()[before..].to_owned();
    // 24 and 50 columns: two rows and three.
    assert!(after.starts_with("\x1b[5A\r\x1b[J"), "{after:?}");
    assert!(after.contains("✖ fetch_data [FAILE…\n"), "{after:?}");
}
