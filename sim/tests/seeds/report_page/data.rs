//! The data of a page: its lanes, bars, spans and marks against what the world left behind.

use retrial::run::{Event, Version};
use retrial_sim::unstable::oracle::event_refs::EventRef;
use retrial_sim::unstable::page::{BarEnd, BarKind, LaneKind, MarkKind, Page, SpanKind};
use retrial_sim::unstable::report::{Breach, Verdict};
use retrial_sim::unstable::scenario::Topology;
use retrial_sim::unstable::workload::draw;
use retrial_sim::unstable::world::{ScenarioRun, run_with_evidence};

use super::fixture::{HOSTILE, SECRET, lived, page, scenario};

fn seconds(at: u64) -> f64 {
    (at / 1_000_000) as f64 / 1_000.0
}

/// Every bar, with its lane: kind, from and until in seconds, end, name.
fn bars(page: &Page) -> String {
    let bar = |bar: &retrial_sim::unstable::page::Bar| {
        let (lane, until) = (&page.lanes[bar.lane].name, bar.until.map(seconds));
        let (from, numbers) = (seconds(bar.from), &bar.numbers);
        format!("{lane} {:?} {from} {until:?} {:?} {} {numbers:?}\n", bar.kind, bar.end, bar.name)
    };
    page.bars.iter().map(bar).collect()
}

#[test]
fn a15_bars_are_the_attempts_and_delays_of_the_history() {
    let page = page();
    insta::assert_snapshot!(bars(&page), @"
    node-0 Due 0.5 Some(0.506) Well charge 1 [1, 2]
    node-0 Attempt 0.506 Some(0.529) Badly charge 1 [2, 3]
    /charge Arrival 0.521 Some(0.521) Badly charge 1 [2]
    node-0 Delay 0.529 Some(1.029) Well charge 2 [4, 5]
    node-0 Due 1.029 Some(1.034) Well charge 2 [4, 5]
    node-0 Attempt 1.034 Some(1.054) Badly charge 2 [5, 6]
    /charge Arrival 1.048 Some(1.048) Badly charge 2 [5]
    node-0 Delay 1.054 Some(2.054) Well charge 3 [7, 8]
    node-0 Due 2.054 Some(2.711) Well charge 3 [7, 8]
    node-0 Attempt 2.711 Some(2.721) Badly charge 3 [8, 9]
    node-0 Delay 2.721 Some(4.719) Well charge 4 [10, 11]
    node-0 Attempt 4.719 Some(4.743) Well charge 4 [11, 12]
    /charge Arrival 4.733 Some(4.733) Well charge 4 [11]
    ");
    let lanes: Vec<&str> = page.lanes.iter().map(|lane| lane.name.as_str()).collect();
    assert_eq!(lanes, ["users", "node-0", "endpoints", "/charge"]);
}

#[test]
fn faults_shade_the_lanes_that_they_hit() {
    let page = page();
    let span = |span: &retrial_sim::unstable::page::Span| {
        let (lane, until) = (&page.lanes[span.lane].name, span.until.map(seconds));
        format!("{lane} {:?} {} {until:?} {}\n", span.kind, seconds(span.from), span.name)
    };
    insta::assert_snapshot!(page.spans.iter().map(span).collect::<String>(), @r#"
    node-0 Window 2.6 Some(3.0) refuse with endpoints
    endpoints Window 2.6 Some(3.0) refuse with node-0
    node-0 Still 4 Some(4.5) pause
    node-0 Dead 1.3 Some(1.701) life 0 is over
    "#);
    let clock = page.marks.iter().find(|mark| mark.kind == MarkKind::Clock).unwrap();
    assert_eq!((seconds(clock.at), clock.name.as_str()), (0.7, "the wall clock jumps back by 5s"));
    assert!(page.marks.iter().any(|m| m.kind == MarkKind::Fault && m.name.starts_with("refuse: ")));
    assert_eq!((page.lines.len(), seconds(page.lines[0].at)), (1, 6.0));
}

/// The finding says what was promised and names the events that hold the secret.
#[test]
fn a_finding_is_linked_to_its_events() {
    let (lived, page) = (lived(), page());
    assert_eq!((lived.report.verdict, page.holds), (Verdict::Wrong, false));
    let evidence = lived.evidence.unwrap();
    let holds = |event: &Event| match event {
        Event::AttemptFailed { failure, .. } => failure.message().contains(SECRET),
        Event::AttemptStarted { retry: Some(retry), .. } => retry.original_error.contains(SECRET),
        _ => false,
    };
    let events = evidence.runs[0].events.iter().zip(0..);
    let expected: Vec<u64> = events.filter(|(e, _)| holds(&e.event)).map(|(_, n)| n).collect();
    assert_eq!(expected.len(), 2);
    let mut proved: Vec<u64> = Vec::new();
    for finding in page.findings.iter().filter(|f| f.reason == "secret_stored") {
        assert_eq!(finding.oracle, "silence");
        assert!(finding.promise.starts_with("Secrets in errors"), "{}", finding.promise);
        let [proof] = finding.proof[..] else { panic!("{finding:?}") };
        let mark = page.marks.iter().find(|m| (m.run, m.number) == (Some(0), Some(proof.number)));
        assert!(finding.text.contains(&format!("#{}", mark.unwrap().number.unwrap())));
        proved.push(proof.number);
    }
    assert_eq!(proved, expected);
}

#[test]
fn c14_no_secret_of_its_scenario_stands_in_a_page() {
    let html = page().html();
    assert!(!html.contains(SECRET));
    assert!(html.contains("HTTP 503 Service Unavailable: ***"), "it was there to be masked");
}

/// The data can't end its script element, and is what it was when it is read back.
#[test]
fn hostile_text_stays_data() {
    let page = page();
    let html = page.html();
    let (before, after) = html.split_once(r#"<script id="data" type="application/json">"#).unwrap();
    let (data, rest) = after.split_once("</script>").unwrap();
    assert!(!data.contains(['<', '>', '&']), "nothing in it is markup");
    assert_eq!((before.matches("<script").count(), rest.matches("<script").count()), (0, 1));
    let read: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(read, serde_json::to_value(&page).unwrap());
    let texts = page.marks.iter().flat_map(|mark| &mark.details);
    assert!(texts.into_iter().any(|d| d.value.contains("<img src=x onerror=")), "{HOSTILE}");
    assert!(html.contains("default-src 'none'") && !html.contains("http-equiv=\"refresh\""));
}

/// Of drawn worlds: a lane for each node and endpoint, a bar for each start of an attempt on a lane
/// of a node, one for each arrival, and a mark for each event.
#[test]
fn pages_of_drawn_worlds_hold_what_the_worlds_left_behind() {
    let mut shared = 0;
    for seed in [0, 3, 41, 119] {
        let scenario = draw(seed);
        let lived = run_with_evidence(scenario.clone(), true);
        let page = Page::of(&scenario, &lived);
        let evidence = lived.evidence.unwrap();
        shared += u32::from(scenario.topology != Topology::Embedded);
        let lanes = |kind| page.lanes.iter().filter(|lane| lane.kind == kind).count();
        assert_eq!(lanes(LaneKind::Node), scenario.topology.nodes() as usize);
        assert_eq!(lanes(LaneKind::Endpoint), scenario.endpoints.len(), "seed {seed}");
        assert_eq!(lanes(LaneKind::Other), 0, "{:?}", page.lanes);
        let bars = |kind| page.bars.iter().filter(move |bar| bar.kind == kind);
        assert_eq!(bars(BarKind::Attempt).count() as u64, lived.report.attempts, "seed {seed}");
        assert_eq!(bars(BarKind::Arrival).count(), evidence.ledger.len());
        assert!(bars(BarKind::Attempt).all(|b| page.lanes[b.lane].kind == LaneKind::Node));
        let events = || evidence.runs.iter().flat_map(|run| &run.events).map(|r| &r.event);
        let succeeded = events().filter(|e| matches!(e, Event::TaskSucceeded { .. })).count();
        let well = bars(BarKind::Attempt).filter(|bar| bar.end == BarEnd::Well).count();
        assert_eq!(well, succeeded, "seed {seed}");
        let marks = page.marks.iter().filter(|m| m.kind == MarkKind::Event).count();
        assert_eq!(marks, events().count(), "seed {seed}");
        let deaths =
            evidence.lifespans.iter().filter(|incarnation| incarnation.died.is_some()).count();
        assert_eq!(page.spans.iter().filter(|s| s.kind == SpanKind::Dead).count(), deaths);
        assert!(page.bars.iter().all(|b| b.until.is_none_or(|u| b.from <= u && u <= page.until)));
        assert!(page.holds && page.findings.is_empty());
        let html = page.html();
        assert!(scenario.secrets.iter().all(|secret| !html.contains(secret)), "seed {seed}");
    }
    assert!(shared > 0, "no store of its own among them");
}

/// Of a world that broke off, what is known is shown.
#[test]
fn a_world_that_broke_off_has_a_page() {
    let lived = lived();
    let whole = Page::of(&scenario(), &lived);
    let broken = Page::of(&scenario(), &ScenarioRun { evidence: None, ..lived });
    assert_eq!(broken.bars, []);
    let events = |page: &Page| page.marks.iter().filter(|m| m.kind == MarkKind::Event).count();
    assert_eq!(events(&broken), events(&whole));
    assert!(broken.findings.iter().all(|finding| finding.proof.is_empty()));
}

#[test]
fn what_proves_a_breach_is_kept_and_may_be_missing() {
    let breach = lived().report.breaches.into_iter().find(|b| !b.proof.is_empty()).unwrap();
    let text = serde_json::to_string(&breach).unwrap();
    assert_eq!(serde_json::from_str::<Breach>(&text).unwrap(), breach);
    let old = r#"{"oracle":"silence","reason":"secret_stored","text":"event #1"}"#;
    assert_eq!(serde_json::from_str::<Breach>(old).unwrap().proof, [] as [EventRef; 0]);
    assert!(breach.proof.iter().all(|proof| proof.number > Version::START));
}
