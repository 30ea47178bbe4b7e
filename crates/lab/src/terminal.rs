//! A report in a terminal: the verdict, a table, and small plots over time.
//!
//! Decides what is shown and how wide. Must never compute a figure. To add a row, add it to `rows`.

use std::fmt::Write as _;

use crate::change::Tried;
use crate::judge::Verdict;
use crate::model::{Scenario, TriggerKind};
use crate::summary::{Point, ServiceFigures, Summary};

/// Columns of a plot.
const WIDTH: usize = 60;
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One side of a report: its name and its figures.
pub type Side<'s> = (&'s str, &'s Summary);

/// The whole report of one or two sides.
#[must_use]
pub fn report(scenario: &Scenario, sides: &[Side<'_>], tried: Option<&[Tried]>) -> String {
    let mut text = String::new();
    for (name, summary) in sides {
        let of = if sides.len() > 1 { format!("{name}: ") } else { String::new() };
        let _ = writeln!(text, "{of}{}", verdict(summary));
    }
    text.push('\n');
    text.push_str(&table(sides));
    for (name, summary) in sides {
        let of = if sides.len() > 1 { format!(" of {name}") } else { String::new() };
        let _ = write!(text, "\nOver time{of}:\n{}", plots(scenario, summary));
    }
    if let Some(tried) = tried {
        let _ = write!(text, "\n{}", changes(tried));
    }
    text
}

/// The verdict in one line.
#[must_use]
pub fn verdict(summary: &Summary) -> String {
    let Summary { verdict, means, seeds, recovered, interval, .. } = summary;
    let (low, high) = (interval.0 * 100.0, interval.1 * 100.0);
    let cut = if summary.cut_off { " A run was cut off: it took too many events." } else { "" };
    format!(
        "{}: {means} {recovered} of {seeds} seeds recover (95 % interval {low:.0} % to {high:.0} %).{cut}",
        verdict.word()
    )
}

/// Which single settings change the verdict.
#[must_use]
pub fn changes(tried: &[Tried]) -> String {
    let mended: Vec<&Tried> = tried.iter().filter(|t| t.verdict == Verdict::Recovers).collect();
    let mut text = String::new();
    if mended.is_empty() {
        let _ = writeln!(
            text,
            "No single setting of the {} that were tried makes it recover.",
            tried.len()
        );
        return text;
    }
    let _ = writeln!(text, "Any of these settings alone makes it recover; all were tried:");
    for tried in mended {
        let _ = writeln!(text, "  {}", tried.words);
    }
    text
}

/// Seconds as people read them.
#[must_use]
pub fn seconds(n: f64) -> String {
    match n {
        0.0 => "0 s".to_owned(),
        n if n < 0.001 => format!("{:.0} µs", n * 1e6),
        n if n < 0.1 => format!("{:.1} ms", n * 1e3),
        n if n < 1.0 => format!("{:.0} ms", n * 1e3),
        n if n < 100.0 => format!("{n:.2} s"),
        n => format!("{n:.0} s"),
    }
}

/// The rows of the table: a name, and the value for each side.
#[must_use]
pub fn rows(sides: &[Side<'_>]) -> Vec<(String, Vec<String>)> {
    let row = |name: &str, value: &dyn Fn(&Summary) -> String| {
        (name.to_owned(), sides.iter().map(|(_, s)| value(s)).collect::<Vec<_>>())
    };
    let mut rows = vec![
        row("tasks that began", &|s| s.total.offered.to_string()),
        row("success", &|s| format!("{:.2} %", s.total.success * 100.0)),
        row("goodput", &|s| format!("{:.1} /s", s.total.goodput)),
        row("calls per task", &|s| format!("{:.3}", s.total.calls_per_task)),
        row("latency p50", &|s| seconds(s.total.latency.p50)),
        row("latency p99", &|s| seconds(s.total.latency.p99)),
        row("latency max", &|s| seconds(s.total.latency.max)),
        row("peak load after the trigger", &|s| format!("{:.1} /s", s.peak_after)),
        row("good again after", &|s| s.drained_after.map_or("-".to_owned(), seconds)),
        row("failed for good", &|s| s.total.failed.to_string()),
    ];
    let mut some = |name: &str, value: &dyn Fn(&Summary) -> u64| {
        if sides.iter().any(|(_, s)| value(s) > 0) {
            rows.push(row(name, &|s| value(s).to_string()));
        }
    };
    some("dead letters", &|s| s.total.dead_letters);
    some("too late", &|s| s.total.late);
    some("begun anew", &|s| s.total.begun_anew);
    some("shed", &|s| s.total.shed);
    some("retries denied by a budget", &|s| s.edges.iter().map(|e| e.denied).sum());
    some("attempts held by a guard", &|s| s.edges.iter().map(|e| e.held).sum());
    some("attempts timed out", &|s| s.edges.iter().map(|e| e.timeouts).sum());
    let classes = sides.first().map_or(0, |(_, s)| s.classes.len());
    for at in (0..classes).filter(|_| classes > 1) {
        let name = sides.first().map(|(_, s)| s.classes[at].name.clone()).unwrap_or_default();
        let of = |s: &Summary| s.classes.get(at).map_or(0.0, |c| c.success * 100.0);
        rows.push(row(&format!("success of {name}"), &|s| format!("{:.2} %", of(s))));
    }
    let layers = sides.first().map_or(0, |(_, s)| s.edges.len());
    for at in (0..layers).filter(|_| layers > 1) {
        let name = sides.first().map(|(_, s)| s.edges[at].name.clone()).unwrap_or_default();
        let value = |s: &Summary| {
            s.edges.get(at).map_or("-".to_owned(), |e| format!("{:.3}", e.amplification))
        };
        rows.push(row(&format!("attempts per call, {name}"), &value));
    }
    let services = sides.first().map_or(0, |(_, s)| s.services.len());
    for at in 0..services {
        let name = sides.first().map(|(_, s)| s.services[at].name.clone()).unwrap_or_default();
        let mut add = |what: &str, value: &dyn Fn(&ServiceFigures) -> String| {
            let of = |s: &Summary| s.services.get(at).map_or("-".to_owned(), value);
            rows.push(row(&format!("{name}: {what}"), &of));
        };
        add("requests per task", &|s| format!("{:.3}", s.amplification));
        add("longest queue", &|s| s.longest_queue.to_string());
        add("turned away", &|s| (s.rejected + s.throttled).to_string());
        add("work for nobody", &|s| s.wasted.to_string());
    }
    rows
}

fn table(sides: &[Side<'_>]) -> String {
    let rows = rows(sides);
    let width = |text: &str| text.chars().count();
    let first = rows.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    let mut text = String::new();
    if sides.len() > 1 {
        let _ = write!(text, "  {:first$}", "");
        sides.iter().for_each(|(name, _)| {
            let _ = write!(text, "  {name:>14}");
        });
        text.push('\n');
    }
    for (name, values) in rows {
        let _ = write!(text, "  {name:first$}");
        values.iter().for_each(|value| {
            let _ = write!(text, "  {value:>14}");
        });
        text.push('\n');
    }
    text
}

fn plots(scenario: &Scenario, summary: &Summary) -> String {
    let series = &summary.series;
    let success = |p: &Point| {
        let ended = p.good + p.bad;
        if ended > 0.0 { p.good / ended } else { 1.0 }
    };
    let queue = |p: &Point| p.queue.iter().sum::<f64>();
    let lines = [
        plot("attempts/s", series, &|p| p.attempts, None),
        plot("goodput/s", series, &|p| p.good, None),
        plot("success", series, &success, Some(1.0)),
        plot("queue", series, &queue, None),
        plot("p99 in s", series, &|p| p.p99, None),
    ];
    let mut text = lines.concat();
    let marks = marks(scenario);
    if !marks.trim().is_empty() {
        let _ = writeln!(text, "  {:>11} {marks}", "trigger");
    }
    text
}

/// A line of bars; each is the mean of what it stands for.
fn plot(name: &str, series: &[Point], value: &dyn Fn(&Point) -> f64, most: Option<f64>) -> String {
    let columns = WIDTH.min(series.len().max(1));
    let mean = |column: usize| {
        let from = column * series.len() / columns;
        let until = ((column + 1) * series.len() / columns).max(from + 1).min(series.len());
        let part = series.get(from..until).unwrap_or_default();
        part.iter().map(value).sum::<f64>() / part.len().max(1) as f64
    };
    let means: Vec<f64> = (0..columns).map(mean).collect();
    let highest = most.unwrap_or_else(|| means.iter().copied().fold(0.0, f64::max));
    let bar = |n: &f64| {
        let share = if highest > 0.0 { n / highest } else { 0.0 };
        BARS[((share * 8.0).round() as usize).min(8)]
    };
    let bars: String = means.iter().map(bar).collect();
    let top = if highest >= 100.0 { format!("{highest:.0}") } else { format!("{highest:.2}") };
    format!("  {name:>11} {bars} max {top}\n")
}

/// A mark below each column in which a trigger is on.
fn marks(scenario: &Scenario) -> String {
    let length = scenario.length.get() as f64;
    let mut marks = vec![' '; WIDTH];
    for trigger in &scenario.triggers {
        let column = |n: u64| (n as f64 / length * WIDTH as f64) as usize;
        let (from, until) =
            (column(trigger.at.get()), column(trigger.at.get() + trigger.length.get()));
        let mark = kind(&trigger.kind).chars().next().unwrap_or('x').to_ascii_uppercase();
        marks.iter_mut().take(until.max(from + 1)).skip(from).for_each(|m| *m = mark);
    }
    marks.into_iter().collect::<String>().trim_end().to_owned()
}

/// The name of a kind of trigger.
#[must_use]
pub fn kind(kind: &TriggerKind) -> &'static str {
    match kind {
        TriggerKind::Spike(..) => "spike",
        TriggerKind::Pause(_) => "pause",
        TriggerKind::Capacity(..) => "loss of capacity",
        TriggerKind::Errors(..) => "errors",
        TriggerKind::Slow(..) => "slowness",
        TriggerKind::Crash(_) => "outage",
        TriggerKind::Deploy(..) => "deploy",
        TriggerKind::Loss(..) => "message loss",
    }
}
