//! Charts as SVG: lines over time with shaded triggers, grids, and points.

use std::fmt::Write as _;

use super::escaped;
use crate::model::Scenario;
use crate::terminal::kind;

/// A chart's size, in its own units. Small, so that letters stay readable on a phone.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 42.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 20.0;

/// One line of a chart: its class in the style sheet, its name, its values.
pub(super) type Line<'l> = (&'l str, &'l str, Vec<f64>);

/// A figure with lines over the scenario's time.
pub(super) fn figure(scenario: &Scenario, title: &str, lines: &[Line<'_>], most: f64) -> String {
    let highest =
        lines.iter().flat_map(|(_, _, values)| values.iter().copied()).fold(0.0, f64::max);
    let most = most.max(1e-9);
    let mut text = format!("<figure><figcaption>{}", escaped(title));
    for (class, name, _) in lines {
        let _ = write!(text, "<span class=\"key {class}\">{}</span>", escaped(name));
    }
    let _ = write!(
        text,
        "</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} over time, at most {}\">",
        escaped(title),
        number(highest)
    );
    text.push_str(&triggers(scenario));
    text.push_str(&axes(&number(most), &seconds(scenario.length.get())));
    for (class, name, values) in lines {
        let _ = write!(
            text,
            "<polyline class=\"line {class}\" points=\"{}\"><title>{}</title></polyline>",
            points(values, most),
            escaped(name)
        );
    }
    text + "</svg></figure>"
}

fn points(values: &[f64], most: f64) -> String {
    let step = (WIDTH - LEFT - RIGHT) / values.len().max(1) as f64;
    let mut text = String::new();
    for (at, value) in values.iter().enumerate() {
        let x = LEFT + (at as f64 + 0.5) * step;
        let y = HEIGHT - BOTTOM - (value / most).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM);
        let _ = write!(text, "{x:.1},{y:.1} ");
    }
    text
}

fn triggers(scenario: &Scenario) -> String {
    let mut text = String::new();
    let length = scenario.length.get().max(1) as f64;
    for trigger in &scenario.triggers {
        let x = LEFT + trigger.at.get() as f64 / length * (WIDTH - LEFT - RIGHT);
        let wide = trigger.length.get() as f64 / length * (WIDTH - LEFT - RIGHT);
        let _ = write!(
            text,
            "<rect class=\"trigger\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"><title>{}</title></rect>",
            wide.max(1.0),
            HEIGHT - TOP - BOTTOM,
            kind(&trigger.kind)
        );
    }
    text
}

/// The axes with what their ends stand for.
fn axes(top: &str, right: &str) -> String {
    let (bottom, end) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    format!(
        "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{end}\"/>\
         <text x=\"{0}\" y=\"{1}\" text-anchor=\"end\">{top}</text>\
         <text x=\"{0}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\
         <text x=\"{end}\" y=\"{2}\" text-anchor=\"end\">{right}</text>",
        LEFT - 4.0,
        TOP + 9.0,
        HEIGHT - 6.0
    )
}

fn seconds(nanos: u64) -> String {
    retrial_core::time::Nanos::new(nanos).to_string()
}

/// A number in a few characters.
pub(super) fn number(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e4 => format!("{:.0}k", n / 1e3),
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 1.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

/// A grid of cells, each with its class and what it says, rows from the top; below and beside it what
/// the columns and rows stand for.
pub(super) fn grid(
    columns: &[String],
    rows: &[String],
    cell: &dyn Fn(usize, usize) -> (String, String),
) -> String {
    let (wide, high) = ((WIDTH - LEFT - RIGHT) / columns.len().max(1) as f64, 22.0);
    let height = TOP + BOTTOM + high * rows.len() as f64;
    let mut text = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"The verdict for each load and trigger\">"
    );
    for (row, name) in rows.iter().enumerate() {
        let y = TOP + row as f64 * high;
        let _ = write!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 4.0,
            y + 15.0,
            escaped(name)
        );
        for column in 0..columns.len() {
            let x = LEFT + column as f64 * wide;
            let (class, says) = cell(row, column);
            let _ = write!(
                text,
                "<rect class=\"cell {class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high}\"><title>{}</title></rect>",
                escaped(&says)
            );
        }
    }
    let every = columns.len().div_ceil(8).max(1);
    for (at, name) in columns.iter().enumerate().step_by(every) {
        let x = LEFT + (at as f64 + 0.5) * wide;
        let _ = write!(
            text,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            height - 6.0,
            escaped(name)
        );
    }
    text + "</svg>"
}

/// Points by two figures; each with its class and what it says. `x` grows to the right from 1.
pub(super) fn scatter(points: &[(f64, f64, String, String)]) -> String {
    let most = points.iter().map(|(x, ..)| *x).fold(1.0, f64::max) * 1.05;
    let mut text = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Success by load\">"
    );
    text.push_str(&axes("100 %", &format!("{} calls per task", number(most))));
    for (load, success, class, says) in points {
        let x = LEFT + load / most * (WIDTH - LEFT - RIGHT);
        let y = HEIGHT - BOTTOM - success.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM);
        let _ = write!(
            text,
            "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{}</title></circle>",
            escaped(says)
        );
    }
    text + "</svg>"
}
