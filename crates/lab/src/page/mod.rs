//! A report as one page for a browser: drawn here as SVG, so that it needs no script and no network.
//!
//! Decides which charts there are. Must never compute a figure. To add a chart, add it to `charts`.

mod svg;

use std::fmt::Write as _;

use crate::change::Tried;
use crate::judge::Verdict;
use crate::map::Map;
use crate::model::Scenario;
use crate::search::Found;
use crate::summary::{Point, Summary};
use crate::terminal;

const STYLE: &str = include_str!("page.css");

/// The page of one or two sides, each with its name, scenario and figures.
#[must_use]
pub fn report(sides: &[(&str, &Scenario, &Summary)], tried: Option<&[Tried]>) -> String {
    let mut body = String::new();
    for (name, _, summary) in sides {
        let of = if sides.len() > 1 { format!("{name}: ") } else { String::new() };
        let class = summary.verdict.word();
        let text = escaped(&format!("{of}{}", terminal::verdict(summary)));
        let _ = write!(body, "<p class=\"verdict {class}\">{text}</p>");
    }
    if let Some(tried) = tried {
        body.push_str(&changes(tried));
    }
    body.push_str("<div class=\"sides\">");
    let all: Vec<Vec<Chart<'_>>> = sides.iter().map(|(_, _, summary)| charts(summary)).collect();
    for ((name, scenario, _), own) in sides.iter().zip(&all) {
        let title = if sides.len() > 1 { name } else { "Over time" };
        let _ = write!(body, "<section><h2>{}</h2><div class=\"charts\">", escaped(title));
        for chart in own {
            // Both sides have the same scale.
            let same = all.iter().flatten().filter(|other| other.title == chart.title);
            let most = chart.most.unwrap_or(same.map(Chart::highest).fold(0.0, f64::max) * 1.05);
            body.push_str(&svg::figure(scenario, &chart.title, &chart.lines, most));
        }
        body.push_str("</div></section>");
    }
    body.push_str("</div>");
    body.push_str(&table(sides));
    let title = sides.first().map_or("", |(_, _, s)| s.verdict.word());
    whole(&format!("Policy laboratory: {title}"), &body)
}

/// The page of a map.
#[must_use]
pub fn map(map: &Map) -> String {
    let class = if map.safe_load.is_some() { "recovers" } else { "metastable" };
    let mut body = format!("<p class=\"verdict {class}\">{}</p>", escaped(&map.words()));
    for verdict in
        [Verdict::Recovers, Verdict::Vulnerable, Verdict::Metastable, Verdict::Overloaded]
    {
        let many = map.count(verdict);
        let _ = write!(
            body,
            "<p class=\"key {0}\">{0}: {many} cells. {1}</p>",
            verdict.word(),
            verdict.sentence()
        );
    }
    let columns: Vec<String> = map.loads.iter().map(|n| format!("{n:.2}")).collect();
    let rows: Vec<String> = map.triggers.iter().rev().map(|n| format!("{n:.2}")).collect();
    let cell = |row: usize, column: usize| {
        let row = map.triggers.len() - 1 - row;
        let cell = map.cell(row, column);
        let (load, trigger) = (map.loads[column], map.triggers[row]);
        let says = format!(
            "load {load:.2}, trigger {trigger:.2}: {}, {} of {} seeds recover",
            cell.verdict.word(),
            cell.recovered,
            cell.seeds
        );
        (cell.verdict.word().to_owned(), says)
    };
    let grid = svg::grid(&columns, &rows, &cell);
    let _ = write!(
        body,
        "<figure><figcaption>Load (to the right) against the length of the trigger (upwards), as multiples of the file's</figcaption>{grid}</figure>"
    );
    whole("Policy laboratory: map", &body)
}

/// The page of a search.
#[must_use]
pub fn search(found: &Found) -> String {
    let mut body = String::from("<h2>Success against load</h2><figure>");
    let dots: Vec<_> = found
        .all
        .iter()
        .enumerate()
        .map(|(at, one)| {
            let class = if found.front.contains(&at) { "front" } else { "" };
            (
                one.load,
                one.success,
                class.to_owned(),
                format!("{}: {}", one.words, one.verdict.word()),
            )
        })
        .collect();
    body.push_str(&svg::scatter(&dots));
    body.push_str("</figure><h2>The front</h2><div class=\"wide\"><table><thead><tr><th>policy</th><th>success</th><th>calls per task</th><th>verdict</th></tr></thead>");
    for one in found.front.iter().filter_map(|at| found.all.get(*at)) {
        let _ = write!(
            body,
            "<tr><th>{}</th><td>{:.2} %</td><td>{:.3}</td><td>{}</td></tr>",
            escaped(&one.words),
            one.success * 100.0,
            one.load,
            one.verdict.word()
        );
    }
    body.push_str("</table></div>");
    whole("Policy laboratory: search", &body)
}

/// One chart of a report.
struct Chart<'s> {
    title: String,
    lines: Vec<svg::Line<'s>>,
    /// The end of its scale, where it is always the same.
    most: Option<f64>,
}

impl Chart<'_> {
    fn highest(&self) -> f64 {
        self.lines.iter().flat_map(|(_, _, values)| values.iter().copied()).fold(0.0, f64::max)
    }
}

fn charts(summary: &Summary) -> Vec<Chart<'_>> {
    let series = &summary.series;
    let of = |value: &dyn Fn(&Point) -> f64| series.iter().map(value).collect::<Vec<f64>>();
    let success = |p: &Point| {
        let ended = p.good + p.bad;
        if ended > 0.0 { p.good / ended * 100.0 } else { 100.0 }
    };
    let queue = |p: &Point| p.queue.iter().sum::<f64>();
    let mut charts = Vec::new();
    let mut add = |title: &str, lines: Vec<svg::Line<'static>>, most| {
        charts.push(Chart { title: title.to_owned(), lines, most });
    };
    let load = vec![("two", "offered", of(&|p| p.offered)), ("one", "served", of(&|p| p.good))];
    add("Load, tasks a second", load, None);
    let attempts =
        vec![("one", "all", of(&|p| p.attempts)), ("bad", "retries", of(&|p| p.retries))];
    add("Attempts a second", attempts, None);
    add("Success, per cent", vec![("one", "of tasks that ended", of(&success))], Some(100.0));
    let latency = vec![("one", "median", of(&|p| p.p50)), ("two", "99 %", of(&|p| p.p99))];
    add("Latency, seconds", latency, None);
    add("Queue, requests", vec![("one", "waiting", of(&queue))], None);
    let wasted = vec![("bad", "requests", of(&|p| p.wasted))];
    add("Work for nobody a second", wasted, None);
    for (at, service) in summary.services.iter().enumerate().filter(|_| summary.services.len() > 1)
    {
        let load = of(&|p| p.load.get(at).copied().unwrap_or(0.0));
        let title = format!("Requests a second at {}", service.name);
        add(&title, vec![("one", "requests", load)], None);
    }
    if series.iter().any(|p| p.tokens.is_some()) {
        let tokens = of(&|p| p.tokens.unwrap_or(0.0));
        let lines = vec![("one", "tokens", tokens), ("bad", "denied a second", of(&|p| p.denied))];
        add("Retry budget, tokens", lines, None);
    }
    if series.iter().any(|p| p.open > 0.0 || p.waiting > 0.0) {
        let open = vec![
            ("one", "open breakers", of(&|p| p.open)),
            ("two", "calls held", of(&|p| p.waiting)),
        ];
        add("Guards", open, None);
    }
    charts
}

fn changes(tried: &[Tried]) -> String {
    let text = terminal::changes(tried);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let items: String = lines.map(|line| format!("<li>{}</li>", escaped(line.trim()))).collect();
    format!("<div class=\"changes\">{}<ul>{items}</ul></div>", escaped(first))
}

fn table(sides: &[(&str, &Scenario, &Summary)]) -> String {
    let plain: Vec<terminal::Side<'_>> = sides.iter().map(|(name, _, s)| (*name, *s)).collect();
    let mut text = String::from("<h2>Figures</h2><div class=\"wide\"><table>");
    if sides.len() > 1 {
        text.push_str("<thead><tr><th></th>");
        sides.iter().for_each(|(name, ..)| {
            let _ = write!(text, "<th>{}</th>", escaped(name));
        });
        text.push_str("</tr></thead>");
    }
    for (name, values) in terminal::rows(&plain) {
        let _ = write!(text, "<tr><th>{}</th>", escaped(&name));
        values.iter().for_each(|value| {
            let _ = write!(text, "<td>{}</td>", escaped(value));
        });
        text.push_str("</tr>");
    }
    text + "</table></div>"
}

fn whole(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n\
         <footer>retrial-lab {}. The shaded stretches are triggers. Means over all seeds.</footer>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        title = escaped(title),
    )
}

/// A text in which nothing is markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
