//! C16, H17: metrics through the `metrics` facade, by Prometheus' conventions, with labels from
//! bounded sets.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use retrial::failure::Failure;
use retrial::guard::Alert;
use retrial::observe::Observer;
use retrial::observe::metrics::{KNOWN_CODES, Kind, METRICS, Metrics};
use retrial::policy::GiveUp;
use retrial::run::{Event, Outcome};

use crate::fixtures::*;

/// What a recorder hears while `told` happens, a line a series, sorted.
fn heard(told: impl FnOnce(&Metrics)) -> String {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || told(&Metrics::new()));
    shown(&snapshotter)
}

fn shown(snapshotter: &Snapshotter) -> String {
    let series = snapshotter.snapshot().into_vec();
    let mut lines: Vec<String> = series
        .iter()
        .map(|(key, _, _, value)| {
            let key = key.key();
            let labels = key.labels().map(|l| format!("{}={}", l.key(), l.value()));
            let labels = labels.collect::<Vec<_>>().join(",");
            let value = match value {
                DebugValue::Counter(n) => n.to_string(),
                DebugValue::Gauge(n) => n.to_string(),
                DebugValue::Histogram(all) => format!("{all:?}"),
            };
            format!("{}{{{labels}}} {value}\n", key.name())
        })
        .collect();
    lines.sort();
    lines.concat()
}

const ALERT: Alert = Alert { threshold: 500_000, burnt: 1_250_000, failures: 5, calls: 400 };

/// A task that fails, one that recovers, one that ends at once.
fn told(metrics: &impl Observer) {
    let busy = Failure::http(503, "busy");
    let mut events = failing(item(EACH, 0), Some(3), &[2_000, 4_000]);
    events.push((7_500, gave_up(item(EACH, 0), 3, GiveUp::Exhausted, &slow())));
    let t = task(FETCH);
    events.extend([
        (0, started(t, 1, Some(3))),
        (500, failed(t, 1, busy, true)),
        (500, scheduled(t, 2, 1_000)),
        (1_500, started(t, 2, Some(3))),
        (1_750, succeeded(t, 2)),
        (0, started(task(ONCE), 1, Some(1))),
        (250, succeeded(task(ONCE), 1)),
        (300, Event::TaskCancelled { task: task(POLL) }),
        (7_000, Event::ErrorBudgetBurnt { task: t, attempt: 1, alert: ALERT, webhook: None }),
        (8_000, ended(Outcome::Failed { error: context(&slow(), 3) })),
    ]);
    tell(metrics, run(1), &events);
}

#[test]
fn c16_h17_retries_errors_timeouts_and_attempts_until_success_are_counted() {
    assert_snapshot!(heard(told), @r"
    retrial_attempt_duration_seconds{action=do_each,outcome=failure} [0.5, 0.5, 0.5]
    retrial_attempt_duration_seconds{action=do_fetch_data,outcome=failure} [0.5]
    retrial_attempt_duration_seconds{action=do_fetch_data,outcome=success} [0.25]
    retrial_attempt_duration_seconds{action=do_once,outcome=success} [0.25]
    retrial_attempts_total{action=do_each,outcome=failure,code=TIMEOUT} 3
    retrial_attempts_total{action=do_fetch_data,outcome=failure,code=503} 1
    retrial_attempts_total{action=do_fetch_data,outcome=success,code=none} 1
    retrial_attempts_total{action=do_once,outcome=success,code=none} 1
    retrial_error_budget_alerts_total{action=do_fetch_data} 1
    retrial_retries_total{action=do_each,kind=timeout} 2
    retrial_retries_total{action=do_fetch_data,kind=timeout} 1
    retrial_retry_delay_seconds{action=do_each} [2.0, 4.0]
    retrial_retry_delay_seconds{action=do_fetch_data} [1.0]
    retrial_runs_total{workflow=etl,outcome=failed} 1
    retrial_task_attempts{action=do_fetch_data} [2.0]
    retrial_task_attempts{action=do_once} [1.0]
    retrial_task_time_seconds{action=do_each,spent=failing} [1.5]
    retrial_task_time_seconds{action=do_each,spent=waiting} [4.0]
    retrial_task_time_seconds{action=do_fetch_data,spent=failing} [0.5]
    retrial_task_time_seconds{action=do_fetch_data,spent=waiting} [2.0]
    retrial_task_time_seconds{action=do_fetch_data,spent=working} [0.25]
    retrial_task_time_seconds{action=do_once,spent=working} [0.25]
    retrial_tasks_total{action=do_each,outcome=failed} 1
    retrial_tasks_total{action=do_fetch_data,outcome=succeeded} 1
    retrial_tasks_total{action=do_once,outcome=succeeded} 1
    retrial_tasks_total{action=do_poll,outcome=cancelled} 1
    retrial_timeouts_total{action=do_each} 3
    ");
}

#[test]
fn c16_labels_come_from_bounded_sets() {
    let fail = |code: &str| {
        let failure = Failure::new(code, "no");
        let told = heard(|m| tell(m, run(1), &[(0, failed(task(FETCH), 1, failure, false))]));
        let (_, label) = told.split_once("code=").unwrap();
        label.split_once(',').map_or_else(|| label.split_once('}').unwrap().0, |l| l.0).to_owned()
    };
    for code in KNOWN_CODES.iter().chain(&["404", "599"]) {
        assert_eq!(fail(code), *code);
    }
    for code in ["user-4711", "OUT_OF_STOCK", "40", "4040", "４０４", "a=b", "{x}", ""] {
        assert_eq!(fail(code), "other", "{code}");
    }
    let own = heard(|_| {
        let metrics = Metrics::new().with_codes(["OUT_OF_STOCK"]);
        let failure = Failure::new("OUT_OF_STOCK", "none left");
        tell(&metrics, run(1), &[(0, failed(task(FETCH), 1, failure, false))]);
    });
    assert!(own.contains("code=OUT_OF_STOCK"), "{own}");
}

/// Definitions come from outside as well: a program that makes up a workflow a run must not fill the
/// memory of whoever collects.
#[test]
fn c16_so_do_names() {
    let told = heard(|metrics| {
        for n in 0..1_100 {
            end_of(metrics, &format!("w{n}"));
        }
    });
    assert_eq!(told.matches("retrial_runs_total{workflow=w").count(), 1_000);
    assert!(told.contains("retrial_runs_total{workflow=other,outcome=completed} 100"), "{told}");
}

fn end_of(metrics: &Metrics, name: &str) {
    use retrial::observe::Notice;
    use retrial::run::Version;
    use retrial::workflow::{Workflow, WorkflowParts};
    let parts = WorkflowParts { name: name.to_owned(), ..WorkflowParts::from(workflow()) };
    let workflow = std::sync::Arc::new(Workflow::try_from(parts).unwrap());
    let event = ended(Outcome::Completed);
    let (run, number, at) = (run(1), Version(9), Default::default());
    metrics.tell(&Notice { run, workflow: &workflow, number, at, event: &event });
}

/// The page lists every metric with kind, labels and meaning, and nothing else.
#[test]
fn c16_the_page_lists_every_metric() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let page = fs::read_to_string(path).unwrap();
    let mut expected = String::new();
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, help) = (metric.name, metric.help);
        let _ = writeln!(expected, "| `{name}` | {kind} | {} | {help} |", labels.join(", "));
    }
    let listed: String =
        page.lines().filter(|l| l.starts_with("| `retrial_")).map(|l| format!("{l}\n")).collect();
    assert_eq!(listed, expected, "docs/metrics.md");
    for code in KNOWN_CODES {
        assert!(page.contains(&format!("`{code}`")), "docs/metrics.md does not name {code}");
    }
}

/// Names as Prometheus has them: counters end in `_total`, units are base units and stand in names.
#[test]
fn c16_names_follow_the_conventions() {
    for metric in METRICS {
        let name = metric.name;
        assert!(name.starts_with("retrial_"), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        let seconds = metric.unit == metrics::Unit::Seconds;
        assert_eq!(name.ends_with("_seconds"), seconds, "{name}");
    }
    let names: Vec<_> = METRICS.iter().map(|m| m.name).collect();
    let told = heard(told);
    for line in told.lines() {
        let name = line.split('{').next().unwrap();
        assert!(names.contains(&name), "{name} is not listed");
    }
}
