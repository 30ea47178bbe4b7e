//! A world as one page for a browser: a lane per node and endpoint, attempts as bars, faults as
//! shaded spans, and each broken promise with the events that prove it.
//!
//! Decides which parts of a world are shown, and where on the timeline. Must never judge: the
//! findings come from the oracles. The page shows no secret of its scenario. The data is made here;
//! `page.js` draws it and needs nothing else. To show one more thing, give it a kind in `model`,
//! build it in `bars` or `faults` and draw it in `page.js`.

mod bars;
mod events;
mod faults;
mod lanes;
mod mask;
mod model;
mod write;

use retrial::time::{Mono, Nanos};

pub use model::{
    Bar, BarEnd, BarKind, Curve, Detail, Entry, EventAt, Finding, Lane, LaneKind, Line, Mark,
    MarkKind, Page, Run, Span, SpanKind, Strikes,
};

use crate::blame::Blame;
use crate::evidence::{Bound, Evidence};
use crate::history::{History, shortened};
use crate::oracle::{Promise, termination};
use crate::report::{Breach, SeedReport};
use crate::scenario::Scenario;
use crate::trace::Kind;
use crate::world::ScenarioRun;
use events::Events;
use lanes::Lanes;
use mask::Mask;

/// The largest time that a browser's numbers hold exactly, in nanoseconds: 104 days.
const LATEST: u64 = 1 << 53;

impl Page {
    /// The page of `scenario` and its result. If the world broke off, the page has only its
    /// history.
    #[must_use]
    pub fn of(scenario: &Scenario, lived: &ScenarioRun) -> Self {
        let ScenarioRun { report, history, evidence } = lived;
        let mask = Mask::new(&scenario.secrets);
        let mut lanes = Lanes::of(scenario);
        let events = evidence.as_ref().map(|e| Events::of(e, &mut lanes)).unwrap_or_default();
        let mut marks = events.marks(&mask);
        marks.extend(history_marks(history, evidence.is_some(), &mut lanes, &mask));
        marks.extend(faults::jumps(scenario, &mut lanes));
        let mut bars = bars::of_tasks(&events, &mask);
        let mut spans = faults::windows(scenario, &mut lanes);
        if let Some(evidence) = evidence {
            bars.extend(bars::of_arrivals(evidence, &events, &mut lanes, &mask));
            spans.extend(faults::deaths(evidence, &mut lanes));
        }
        let findings: Vec<Finding> =
            report.breaches.iter().map(|breach| finding(breach, &events, &mask)).collect();
        let lines = upright(scenario, report, evidence.as_ref());
        marks.sort_by_key(|mark| (mark.at, mark.number));
        bars.sort_by_key(|bar| bar.from);
        Self {
            title: format!("Seed {}: {}", report.seed, report.verdict.words()),
            holds: !report.verdict.is_failure(),
            facts: facts(report),
            until: last(report, &marks, &bars, &lines),
            runs: events.runs().iter().map(|run| mask.run(run)).collect(),
            lanes: lanes.named(&mask),
            lines,
            bars,
            spans,
            marks,
            findings,
            blame: None,
            strikes: strikes(report),
            scenario: mask.text(&serde_json::to_string_pretty(scenario).unwrap_or_default()),
        }
    }
}

/// The curve of `blame`, for the page of the same world.
#[must_use]
pub fn curve(blame: &Blame, history: &History, secrets: &[String]) -> Curve {
    let mask = Mask::new(secrets);
    let entry = blame.entry.and_then(|number| {
        let line = history.lines().get(usize::try_from(number).ok()?.checked_sub(1)?)?;
        let name = format!("{}: {}", mask.text(&line.lane), shortened(&mask.text(&line.text)));
        Some(Entry { number, at: exact(line.at), name })
    });
    Curve { points: blame.curve.clone(), entry }
}

/// A time as the page holds it.
fn exact(at: Mono) -> u64 {
    at.as_nanos().min(LATEST)
}

/// The history's lines. Those of events are left to the evidence, where there is one.
fn history_marks(history: &History, told: bool, lanes: &mut Lanes, mask: &Mask) -> Vec<Mark> {
    let lines = history.lines().iter().filter(|line| !(told && line.kind == Kind::Event));
    let mark = |line: &crate::trace::Line| Mark {
        lane: match line.kind {
            Kind::Input => lanes.of_people(),
            _ => lanes.of_name(&line.lane),
        },
        at: exact(line.at),
        kind: line.kind.into(),
        name: mask.text(&line.text),
        run: None,
        number: None,
        details: Vec::new(),
    };
    lines.map(mark).collect()
}

fn finding(breach: &Breach, events: &Events, mask: &Mask) -> Finding {
    let promise = Promise::ALL.into_iter().find(|p| p.to_string() == breach.oracle);
    let promised = match promise {
        Some(promise) => promise.says(),
        None => {
            "The world runs to its end: nothing panics, nothing turns in circles, and nothing \
                 of a dead node lives on."
        }
    };
    let event = |proof: &crate::oracle::event_refs::EventRef| {
        Some(EventAt { run: events.place(proof.run)?, number: proof.number.0 })
    };
    Finding {
        oracle: breach.oracle.clone(),
        promise: promised.to_owned(),
        reason: breach.reason.clone(),
        text: mask.text(&breach.text),
        proof: breach.proof.iter().filter_map(event).collect(),
    }
}

/// The entries that concern all lanes.
fn upright(scenario: &Scenario, report: &SeedReport, evidence: Option<&Evidence>) -> Vec<Line> {
    let mut lines = vec![Line { at: exact(scenario.heal_at), name: "everything heals".to_owned() }];
    let bound = evidence.map(|e| (e.phases.healed_at, e.phases.bound));
    let overdue = [termination::STUCK, termination::LATE];
    let late = report.breaches.iter().any(|b| overdue.contains(&b.reason.as_str()));
    if let (Some((healed, Bound::Within(bound))), true) = (bound, late) {
        let name = "every run must have ended".to_owned();
        lines.push(Line { at: exact(healed.after(bound)), name });
    }
    lines
}

fn facts(report: &SeedReport) -> Vec<Detail> {
    let mut facts = vec![Detail::new("seed", report.seed)];
    facts.push(Detail::new("simulated time", report.simulated));
    facts.push(Detail::new("runs that ended", report.runs));
    facts.push(Detail::new("attempts", report.attempts));
    let judged: u64 = report.judged.values().sum();
    facts.push(Detail::new("things judged", judged));
    facts.push(Detail::new("retrial-sim", env!("CARGO_PKG_VERSION")));
    if !report.fingerprint.is_empty() {
        facts.push(Detail::new("fingerprint", &report.fingerprint));
    }
    facts
}

fn strikes(report: &SeedReport) -> Vec<Strikes> {
    let struck = |kind| report.struck.get(kind).copied().unwrap_or(0);
    let drawn = report.drawn.iter();
    drawn.map(|(kind, n)| Strikes { kind: *kind, drawn: *n, struck: struck(kind) }).collect()
}

/// Where the timeline ends.
fn last(report: &SeedReport, marks: &[Mark], bars: &[Bar], lines: &[Line]) -> u64 {
    let ended = report.simulated.max(Nanos::new(1)).get().min(LATEST);
    let marks = marks.iter().map(|mark| mark.at);
    let bars = bars.iter().map(|bar| bar.until.unwrap_or(bar.from));
    marks.chain(bars).chain(lines.iter().map(|line| line.at)).max().unwrap_or(0).max(ended)
}
