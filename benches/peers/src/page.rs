//! The report as one page for a browser, which needs no script and no network.

use std::fmt::Write as _;

use crate::report::{Report, Spread, Summary};

const STYLE: &str = "
:root { --ground: #fbfbf9; --ink: #22262b; --quiet: #5d646c; --edge: #dcdfe2; --one: #1f5fbf; --own: #2f7d5a; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #16181b; --ink: #e4e6e8; --quiet: #9aa1a9; --edge: #343a41; --one: #7fb0ff; --own: #58b489; }
}
body { margin: 0 auto; padding: 1rem; max-width: 75rem; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: 0.2rem 0.8rem; border-bottom: 1px solid var(--edge); font-weight: 400; font-variant-numeric: tabular-nums; }
thead th { font-weight: 650; }
svg { display: block; width: 100%; max-width: 50rem; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg rect { fill: var(--one); } svg .own { fill: var(--own); }
svg line { stroke: var(--quiet); }
p { color: var(--quiet); }";

/// Where the bars begin and end, and how far one is below the other.
const LEFT: f64 = 150.0;
const RIGHT: f64 = 700.0;
const STEP: f64 = 24.0;

pub(crate) fn html(report: &Report) -> String {
    let all = report.summaries();
    let mut page = String::from("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">");
    page += "<meta name=\"viewport\" content=\"width=device-width\">";
    let _ = write!(page, "<title>Retrial beside its peers</title><style>{STYLE}</style>");
    page += "<h1>Retrial beside its peers</h1>";
    let Report { machine, jobs, at_once, .. } = report;
    let _ = write!(page, "<p>{}. {jobs} jobs a round, {at_once} at once.</p>", escaped(machine));
    page += "<h2>Jobs a second</h2>";
    page += &bars(&all);
    page +=
        "<p>A bar is the median of the rounds, its line reaches from the least to the most.</p>";
    page += "<h2>Figures</h2>";
    page += &table(&all);
    page += "<p>The ratio of a peer is Retrial's rate divided by its, in the same round. That of a case \
        of Retrial's own is its rate divided by that of the case <code>retrial</code>. Transactions, \
        bytes and processor time, of server and clients, are of submission and work together.</p>";
    page + "</html>\n"
}

fn bars(all: &[Summary]) -> String {
    let most = all.iter().map(|s| s.rate.most).fold(1.0, f64::max);
    let x = |rate: f64| LEFT + rate / most * (RIGHT - LEFT);
    let mut marks = String::new();
    for (at, Summary { case, rate, .. }) in all.iter().enumerate() {
        let y = at as f64 * STEP;
        let (class, middle) = (if case.starts_with("retrial") { "own" } else { "peer" }, y + 10.0);
        let Spread { median, least, most } = *rate;
        let _ = write!(
            marks,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{case}</text>\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{:.0}\" width=\"{:.1}\" height=\"16\"/>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{median:.0}</text>",
            LEFT - 8.0,
            y + 14.0,
            y + 2.0,
            x(median) - LEFT,
            x(least),
            x(most),
            x(most) + 6.0,
            y + 14.0,
        );
    }
    let high = all.len() as f64 * STEP;
    format!("<svg viewBox=\"0 0 {:.0} {high:.0}\">{marks}</svg>", RIGHT + 60.0)
}

fn table(all: &[Summary]) -> String {
    let heads = [
        "case",
        "what",
        "jobs a second",
        "ratio",
        "least ratio",
        "submitted a second",
        "ratio",
        "transactions a job",
        "WAL a job",
        "processor time a job",
    ];
    let row = |cells: &[String], tag: &str| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let mut text = String::from("<div class=\"wide\"><table><thead>");
    text += &row(&heads.map(str::to_owned), "th");
    text += "</thead><tbody>";
    for s in all {
        let cells = [
            s.case.to_owned(),
            s.about.to_owned(),
            format!("{:.0}", s.rate.median),
            s.ratio.map(|r| format!("{:.2}", r.median)).unwrap_or_default(),
            s.ratio.map(|r| format!("{:.2}", r.least)).unwrap_or_default(),
            format!("{:.0}", s.submit.median),
            s.submit_ratio.map(|r| format!("{:.2}", r.median)).unwrap_or_default(),
            format!("{:.2}", s.transactions),
            format!("{:.0} B", s.wal),
            format!("{:.0} us", s.cpu),
        ];
        text += &row(&cells, "td");
    }
    text + "</tbody></table></div>"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
