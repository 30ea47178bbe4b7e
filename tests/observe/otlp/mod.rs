//! Traces as a collector gets them. Two threads a test: one of them waits for the collector.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use crate::fixtures;
use retrial_testkit::collector;

use std::collections::BTreeMap;

use collector::{Accepted, Collector};
use fixtures::{
    EACH, FETCH, created, ended, failed, item, run, scheduled, slow, started, succeeded, task, tell,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;
use retrial::failure::Failure;
use retrial::net::TcpConnect;
use retrial::observe::otlp::{OtlpError, Traces, traces};
use retrial::run::{Event, Outcome};
use retrial::runtime::{Runtime as _, Task, TokioRuntime};
use serde_json::json;

/// The events' origin, in milliseconds.
const ORIGIN: u64 = 1_700_000_000_000;

fn exporting(to: &str) -> (Traces, Task) {
    let runtime = TokioRuntime::current();
    let (traces, export) = traces(to, "node-7", TcpConnect::new()).unwrap();
    (traces, runtime.spawn(export.run(runtime.clone())))
}

fn decoded(accepted: &Accepted) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest::decode(accepted.body.as_slice()).unwrap()
}

/// The spans of a request, by name and start.
fn spans(request: &ExportTraceServiceRequest) -> Vec<Span> {
    let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    let mut spans: Vec<Span> = scopes.flat_map(|scope| scope.spans.clone()).collect();
    spans.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
    spans
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, String> {
    let shown = |value: &Option<AnyValue>| match value.as_ref().and_then(|v| v.value.clone()) {
        Some(Value::StringValue(text)) => text,
        Some(Value::BoolValue(yes)) => yes.to_string(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    all.iter().map(|pair| (pair.key.clone(), shown(&pair.value))).collect()
}

/// Name, start and end in milliseconds from the origin, and status of each.
fn told(spans: &[Span]) -> Vec<(&str, u64, u64, StatusCode)> {
    let ms = |nanos: u64| nanos / 1_000_000 - ORIGIN;
    spans
        .iter()
        .map(|span| {
            let status = span.status.as_ref().map_or(StatusCode::Unset, |s| s.code());
            let (from, to) = (ms(span.start_time_unix_nano), ms(span.end_time_unix_nano));
            (span.name.as_str(), from, to, status)
        })
        .collect()
}

/// Two attempts of half a second that fail, the third succeeds after a quarter.
fn twice_failing() -> Vec<(u64, Event)> {
    let leaky = Failure::new("503", "busy, said Bearer sk-planted-secret-123");
    vec![
        (0, created(json!({ "list": [], "password": "planted-secret" }))),
        (0, started(task(FETCH), 1, Some(3))),
        (500, failed(task(FETCH), 1, leaky, true)),
        (500, scheduled(task(FETCH), 2, 2_000)),
        (2_500, started(task(FETCH), 2, Some(3))),
        (3_000, failed(task(FETCH), 2, slow(), true)),
        (3_000, scheduled(task(FETCH), 3, 4_000)),
        (7_000, started(task(FETCH), 3, Some(3))),
        (7_250, succeeded(task(FETCH), 3)),
        (7_300, ended(Outcome::Completed)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_one_trace_of_its_attempts_and_delays() {
    let collector = Collector::new(&[]);
    let (traces, _export) = exporting(&collector.url());
    tell(&traces, run(1), &twice_failing());
    drop(traces);
    let accepted = collector.next();
    assert!(accepted.head.starts_with("post /v1/traces http/1.1\r\n"), "{}", accepted.head);
    assert!(accepted.head.contains("content-type: application/x-protobuf\r\n"));
    let request = decoded(&accepted);
    let spans = spans(&request);
    use StatusCode::{Error, Ok, Unset};
    assert_eq!(
        told(&spans),
        [
            ("fetch_data", 0, 500, Error),
            ("etl", 0, 7_300, Ok),
            ("fetch_data delay", 500, 2_500, Unset),
            ("fetch_data", 2_500, 3_000, Error),
            ("fetch_data delay", 3_000, 7_000, Unset),
            ("fetch_data", 7_000, 7_250, Ok),
        ]
    );
    let root = spans[1].clone();
    assert!(root.parent_span_id.is_empty());
    for span in &spans {
        assert_eq!(span.trace_id, run(1).to_bytes(), "a trace is named as its run");
        if span.span_id != root.span_id {
            assert_eq!(span.parent_span_id, root.span_id);
        }
    }
    let ids: std::collections::BTreeSet<_> = spans.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), spans.len());
    let first = attributes(&spans[0].attributes);
    for (key, value) in [
        ("retrial.run.id", run(1).to_string().as_str()),
        ("retrial.workflow", "etl"),
        ("retrial.step", "fetch_data"),
        ("retrial.action", "do_fetch_data"),
        ("retrial.attempt", "1"),
        ("retrial.outcome", "failure"),
        ("retrial.will_retry", "true"),
        ("error.type", "503"),
    ] {
        assert_eq!(first.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(attributes(&spans[2].attributes)["retrial.backoff_ms"], "2000");
    let resource = request.resource_spans[0].resource.clone().unwrap();
    let resource = attributes(&resource.attributes);
    assert_eq!(resource["service.name"], "retrial");
    assert_eq!(resource["service.instance.id"], "node-7");
    let sent = String::from_utf8_lossy(&accepted.body).into_owned();
    assert!(sent.contains("busy, said"), "the message is exported");
    assert!(!sent.contains("planted-secret"), "without what is secret in it");
}

/// What another node did before belongs to the same trace, under the same parent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_takes_a_run_over_continues_its_trace() {
    let collector = Collector::new(&[]);
    let whole = twice_failing();
    let (before, after) = whole.split_at(5);
    let mut seen = Vec::new();
    let mut roots = Vec::new();
    for part in [before, after] {
        let (traces, _export) = exporting(&collector.url());
        tell(&traces, run(1), part);
        drop(traces);
        let accepted = collector.next();
        let of_part = spans(&decoded(&accepted));
        roots.extend(of_part.iter().map(|span| span.parent_span_id.clone()));
        seen.extend(of_part);
    }
    roots.sort();
    roots.dedup();
    let root = seen.iter().find(|span| span.name == "etl").unwrap();
    assert_eq!(roots, [Vec::new(), root.span_id.clone()]);
    assert_eq!(attributes(&root.attributes)["retrial.start_unknown"], "true");
    assert_eq!(seen.len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_is_named_and_a_failed_run_says_why() {
    let collector = Collector::new(&[]);
    let (traces, _export) = exporting(&collector.url());
    let error = fixtures::context(&slow(), 1);
    let events = [
        (0, created(json!({ "list": [1, 2, 3] }))),
        (500, failed(item(EACH, 2), 1, slow(), false)),
        (500, ended(Outcome::Failed { error })),
    ];
    tell(&traces, run(2), &events);
    drop(traces);
    let accepted = collector.next();
    let spans = spans(&decoded(&accepted));
    let attempt = spans.iter().find(|span| span.name == "each[2]").unwrap();
    assert_eq!(attributes(&attempt.attributes)["retrial.item"], "2");
    let root = spans.iter().find(|span| span.name == "etl").unwrap();
    assert_eq!(attributes(&root.attributes)["retrial.outcome"], "failed");
    assert_eq!(root.status.clone().unwrap().message, "Connection timeout");
}

/// Refused twice, the same spans come a third time, none doubled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_collector_refuses_is_sent_again() {
    let collector = Collector::new(&[503, 429]);
    let (traces, _export) = exporting(&collector.url());
    tell(&traces, run(3), &twice_failing());
    drop(traces);
    let accepted = collector.next();
    assert_eq!(spans(&decoded(&accepted)).len(), 6);
}

/// Nobody answers: telling never waits, and what no longer fits is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_hangs_holds_nobody_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (traces, _export) = exporting(&format!("http://{}", silent.local_addr().unwrap()));
    let story = twice_failing();
    for n in 0..10_000 {
        tell(&traces, run(n), &story);
    }
    assert!(traces.dropped() > 40_000, "{} of 60000 spans dropped", traces.dropped());
}

#[test]
fn an_address_that_makes_no_sense_is_refused() {
    for address in ["collector:4318", "http://", "http://collector:99999"] {
        let refused = traces(address, "node", TcpConnect::new());
        assert!(matches!(refused, Err(OtlpError::Url(_))), "{address}");
    }
}
