//! A short history as its reader sees it: one step whose endpoint is busy once. No fault is drawn, so
//! all that is here is the engine's own doing. A15, H9.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::collections::BTreeMap;

use retrial::time::{Mono, Nanos};
use retrial_sim::unstable::history::History;
use retrial_sim::unstable::report::Verdict;
use retrial_sim::unstable::scenario::{
    EndpointPlan, Format, Interventions, NodeClock, Reply, Scenario, Submission, Topology,
    WorkflowText,
};
use retrial_sim::unstable::trace::Kind;
use retrial_sim::unstable::world::run_scenario;

const WORKFLOW: &str = r#"workflow = "pay"

[actions.charge]
http = "POST http://api.test/charge"

[[steps]]
id = "charge"
action = "charge"
args = { amount = "${input.amount}" }
retry = "[retry: 2, backoff: 2s] [timeout: 5s]"
"#;

fn at(millis: u64) -> Mono {
    Mono::from_nanos(Nanos::from_millis(millis).get())
}

fn scenario() -> Scenario {
    let text = WORKFLOW.to_owned();
    let busy = Reply::Status { code: 503, retry_after: None, body: "busy".to_owned() };
    let input = serde_json::json!({ "amount": 12 }).as_object().cloned().unwrap();
    Scenario {
        seed: 1,
        topology: Topology::Embedded,
        lease: Nanos::from_secs(30),
        clocks: vec![NodeClock::default()],
        workflows: vec![WorkflowText {
            format: Format::Toml,
            text,
            actions: None,
            builder: BTreeMap::new(),
        }],
        endpoints: vec![EndpointPlan {
            path: "/charge".to_owned(),
            scripts: vec![vec![busy]],
            then: Reply::Echo,
            cost: None,
        }],
        submissions: vec![Submission { at: at(500), node: 0, workflow: 0, input, key: None }],
        cancels: vec![],
        deactivations: vec![],
        interventions: Interventions::default(),
        faults: vec![],
        heal_at: at(10_000),
        endpoints_heal: true,
        places: None,
        attempt_timeout: None,
        quarantine_after: None,
        lane_idle: None,
        sync_takes: None,
        missing_functions: vec![],
        secrets: vec![],
        priorities: None,
        own: None,
        fork: None,
    }
}

/// The lines of this kind, as `repro` prints them, less what is finer than a millisecond.
fn lines(history: &History, kind: Kind) -> String {
    let all = history.lines().iter().filter(|line| line.kind == kind);
    let shown = all.map(|line| {
        let millis = line.at.as_nanos() / 1_000_000;
        let (run, at) = ("\"run\":\"", "\"at\":\"");
        let text = without(&without(&line.text, run), at);
        format!("{millis:>5} {} {text}\n", line.lane)
    });
    shown.collect()
}

/// The text without the field that begins so.
fn without(text: &str, field: &str) -> String {
    match text.split_once(field) {
        Some((before, rest)) => {
            let after = rest.split_once('"').unwrap().1;
            format!("{before}{}", after.strip_prefix(',').unwrap_or(after))
        }
        None => text.to_owned(),
    }
}

#[test]
fn a15_a_history_tells_when_and_why_a_retry_happened() {
    let (report, history) = run_scenario(scenario(), true);
    assert_eq!((report.verdict, report.struck.len()), (Verdict::Held, 1), "{:#?}", report.breaches);
    insta::assert_snapshot!(lines(&history, Kind::Event), @r#"
     500 node-0 {"event":"run_created","input":{"amount":"***"},"number":0,"schema":1,"steps":1,"workflow":"pay"}
     500 node-0 {"event":"step_entered","number":1,"schema":1,"step":"charge","tasks":1,"workflow":"pay"}
     506 node-0 {"action":"charge","attempt":1,"event":"attempt_started","is_retry":false,"number":2,"retries_left":2,"retry_attempt":0,"schema":1,"step":"charge","timeout_ms":5000,"workflow":"pay"}
     532 node-0 {"action":"charge","attempt":1,"error":{"code":"503","kind":"failure","message":"HTTP 503 Service Unavailable: busy","retryable":true,"type":"ServerError"},"event":"attempt_failed","is_retry":false,"number":3,"retry_attempt":0,"schema":1,"step":"charge","took":0.0227699,"will_retry":true,"workflow":"pay"}
     532 node-0 {"action":"charge","attempt":2,"backoff":2.0,"event":"retry_scheduled","is_retry":true,"next_attempt":2,"number":4,"reason":"503","retry_attempt":1,"retry_delay":2.0,"retry_kind":"failure","schema":1,"step":"charge","workflow":"pay"}
    2529 node-0 {"action":"charge","attempt":2,"event":"attempt_started","is_retry":true,"number":5,"original_error":"503: HTTP 503 Service Unavailable: busy","retries_left":1,"retry_attempt":1,"retry_delay":2.0,"schema":1,"step":"charge","timeout_ms":5000,"workflow":"pay"}
    2553 node-0 {"action":"charge","attempt":2,"event":"task_succeeded","is_retry":true,"number":6,"result":"***","retry_attempt":1,"schema":1,"spent":{"failing":0.0227699,"total":2.043449062,"waiting":2.000000733,"working":0.020678429},"step":"charge","total_attempts":2,"workflow":"pay"}
    2553 node-0 {"event":"step_succeeded","number":7,"schema":1,"step":"charge","workflow":"pay"}
    2553 node-0 {"event":"run_ended","number":8,"outcome":"completed","schema":1,"workflow":"pay"}
    "#);
    insta::assert_snapshot!(lines(&history, Kind::Input), @r#"
      500 users run a300cc6e-9ec7-4353-aa7b-404a9dc3f8d8 of workflow 0 is asked for
      500 users run a300cc6e-9ec7-4353-aa7b-404a9dc3f8d8 is acknowledged
    10000 net the network heals
    10000 endpoints the endpoint heals
    10000 store the way to the store heals
    10000 world everything heals
    "#);
}

/// The history begins with what was drawn, as data that can be run again.
#[test]
fn what_was_drawn_can_be_read_back_and_run_again() {
    let (report, history) = run_scenario(scenario(), true);
    let words = history.words();
    let drawn = words.lines().next().unwrap().strip_prefix("drawn ").unwrap();
    let read: Scenario = serde_json::from_str(drawn).unwrap();
    assert_eq!(read, scenario());
    let (again, _) = run_scenario(read, false);
    assert_eq!(again.fingerprint, report.fingerprint);
}
