//! A report as one page for a browser, drawn as SVG: it needs no script and no network.

use std::fmt::Write as _;

use super::against::{Comparison, Interval};
use super::report::{Percentiles, Report, Round, number};

const STYLE: &str = include_str!("page.css");

/// A chart's size, in its own units. Small, so that letters stay readable on a phone.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 20.0;

pub(super) fn html(report: &Report, compared: Option<&Comparison>) -> String {
    let mut body = String::new();
    if let Some(compared) = compared {
        let class = if compared.is_worse() { "verdict worse" } else { "verdict" };
        let _ = write!(body, "<p class=\"{class}\">{}</p>", escaped(&compared.verdict()));
    }
    body.push_str("<div class=\"charts\">");
    body.push_str(&by_round("Runs a second, by round", report, &Round::runs_per_second));
    body.push_str(&by_round("Submitted a second, by round", report, &Round::submit_per_second));
    body.push_str(&latencies(&report.due_to_start_ms, &report.start_to_end_ms));
    body.push_str("</div>");
    if let Some(compared) = compared {
        body.push_str("<h2>Against the earlier bench</h2>");
        let mut rows = compared.rows();
        let header = if rows.is_empty() { Vec::new() } else { rows.remove(0) };
        body.push_str(&table(&header, &rows));
    }
    body.push_str("<h2>Figures</h2>");
    body.push_str(&table(&[], &report.rows()));
    whole(&format!("Retrial bench: {}", report.title()), &body)
}

/// A bar for each round, and their interval behind them.
fn by_round(title: &str, report: &Report, of: &dyn Fn(&Round) -> f64) -> String {
    let values: Vec<f64> = report.rounds.iter().map(of).collect();
    let most = values.iter().copied().fold(0.0, f64::max).max(1e-9) * 1.05;
    let (wide, high) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let y = |value: f64| HEIGHT - BOTTOM - value / most * high;
    let step = wide / values.len().max(1) as f64;
    let mut marks = String::new();
    for (at, value) in values.iter().enumerate() {
        let x = LEFT + (at as f64 + 0.1) * step;
        let _ = write!(
            marks,
            "<rect class=\"one\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>round {}: {}</title></rect>",
            y(*value),
            step * 0.8,
            value / most * high,
            at + 1,
            number(*value)
        );
    }
    if let Some(Interval { low, high: top, .. }) = Interval::of(values.iter().copied()) {
        let _ = write!(
            marks,
            "<rect class=\"band\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{wide}\" height=\"{:.1}\"><title>interval: {} to {}</title></rect>",
            y(top),
            (y(low) - y(top)).max(1.0),
            number(low),
            number(top)
        );
    }
    let right = format!("{} rounds", values.len());
    figure(title, "", &format!("{}{marks}", axes(&number(most), "0", &right)))
}

/// Both lengths of time by percentile, on a logarithmic scale.
fn latencies(due_to_start: &Percentiles, start_to_end: &Percentiles) -> String {
    let both = [("one", due_to_start.named()), ("two", start_to_end.named())];
    let all = || both.iter().flat_map(|(_, named)| named.map(|(_, ms)| ms.max(1e-3)));
    // Whole powers of ten around all values.
    let low = all().fold(f64::INFINITY, f64::min).log10().floor();
    let high = all().fold(0.0, f64::max).log10().ceil().max(low + 1.0);
    let step = (WIDTH - LEFT - RIGHT) / 5.0;
    let mut marks = axes(&power(high), &power(low), "");
    for (at, (name, _)) in due_to_start.named().iter().enumerate() {
        let x = LEFT + (at as f64 + 0.5) * step;
        let _ = write!(
            marks,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
            HEIGHT - 6.0
        );
    }
    for (nth, (class, named)) in both.iter().enumerate() {
        for (at, (name, ms)) in named.iter().enumerate() {
            let share = (ms.max(1e-3).log10() - low) / (high - low);
            let tall = (share * (HEIGHT - TOP - BOTTOM)).max(1.0);
            let x = LEFT + (at as f64 + 0.15 + 0.35 * nth as f64) * step;
            let _ = write!(
                marks,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\"><title>{name}: {} ms</title></rect>",
                HEIGHT - BOTTOM - tall,
                step * 0.35,
                number(*ms)
            );
        }
    }
    let keys =
        "<span class=\"key one\">due to start</span><span class=\"key two\">start to end</span>";
    figure("Latency, ms", keys, &marks)
}

fn power(of_ten: f64) -> String {
    number(10_f64.powf(of_ten))
}

fn figure(title: &str, keys: &str, marks: &str) -> String {
    let title = escaped(title);
    format!(
        "<figure><figcaption>{title}{keys}</figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{marks}</svg></figure>"
    )
}

/// The axes with what their ends stand for.
fn axes(top: &str, low: &str, right: &str) -> String {
    let (bottom, end) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    format!(
        "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{end}\"/>\
         <text x=\"{0}\" y=\"{1}\" text-anchor=\"end\">{top}</text>\
         <text x=\"{0}\" y=\"{bottom}\" text-anchor=\"end\">{low}</text>\
         <text x=\"{end}\" y=\"{2}\" text-anchor=\"end\">{right}</text>",
        LEFT - 4.0,
        TOP + 9.0,
        HEIGHT - 6.0
    )
}

/// A table. Its last column says what has changed where there is a header.
fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let mut text = String::from("<div class=\"wide\"><table>");
    if !header.is_empty() {
        let cells: String =
            header.iter().map(|name| format!("<th>{}</th>", escaped(name))).collect();
        let _ = write!(text, "<thead><tr>{cells}</tr></thead>");
    }
    for row in rows {
        let cell = |(at, value): (usize, &String)| match at {
            0 => format!("<th>{}</th>", escaped(value)),
            3 => format!("<td class=\"{0}\">{0}</td>", escaped(value)),
            _ => format!("<td>{}</td>", escaped(value)),
        };
        let cells: String = row.iter().enumerate().map(cell).collect();
        let _ = write!(text, "<tr>{cells}</tr>");
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
         <footer>retrial {}. Medians of the rounds, with the interval of the median at 95 %; \
         percentiles are of all rounds.</footer>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        title = escaped(title),
    )
}

/// A text in which nothing is markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
