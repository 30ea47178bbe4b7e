//! `retrial bench`: what it counts, writes, compares and leaves behind.

use std::fs;
use std::process::Command;
use std::time::Duration;

use retrial_testkit::postgres_server::Server;
use serde_json::{Value, json};

use crate::workspace::{Done, Workspace, done};

/// Runs a bench whose default store is in the folder `tmp`.
fn bench(workspace: &Workspace, args: &[&str]) -> Done {
    done(command(workspace, args))
}

fn command(workspace: &Workspace, args: &[&str]) -> Command {
    let tmp = workspace.path("tmp");
    fs::create_dir_all(&tmp).unwrap();
    let mut command = workspace.command(&[&["bench"], args].concat());
    command.env("TMPDIR", tmp);
    command
}

/// Runs one that must succeed, and gives its JSON.
fn report(workspace: &Workspace, args: &[&str]) -> Value {
    let done = bench(workspace, &[args, &["--json", "out.json"]].concat());
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{args:?}: {done:?}");
    assert_eq!(left(workspace), [""; 0], "{args:?} leaves its store behind");
    serde_json::from_slice(&fs::read(workspace.path("out.json")).unwrap()).unwrap()
}

/// What is in the folder of stores.
fn left(workspace: &Workspace) -> Vec<String> {
    let found = fs::read_dir(workspace.path("tmp")).unwrap();
    found.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

fn sum(report: &Value, field: &str) -> u64 {
    report["rounds"].as_array().unwrap().iter().map(|round| round[field].as_u64().unwrap()).sum()
}

/// Every submitted run has ended well, and the figures fit together.
fn check(report: &Value, runs: u64, tasks: u64, attempts: u64) {
    for (field, wanted) in [("runs", runs), ("tasks", tasks), ("attempts", attempts)] {
        assert_eq!(report[field], wanted, "{field}: {report:#}");
        assert_eq!(sum(report, field), wanted, "{field}: {report:#}");
    }
    assert_eq!(report["failed_runs"], 0, "{report:#}");
    for field in ["runs_per_second", "tasks_per_second", "submit_per_second", "cpu_seconds"] {
        assert!(report[field].as_f64().unwrap() > 0.0, "{field}: {report:#}");
    }
    for field in ["transactions_per_run", "wal_bytes_per_run", "rss_bytes"] {
        assert!(report.as_object().unwrap().contains_key(field), "{field}: {report:#}");
    }
    for field in ["due_to_start_ms", "start_to_end_ms"] {
        let all = ["p50", "p90", "p99", "p999", "max"];
        let all = all.map(|name| report[field][name].as_f64().unwrap());
        assert!(all[0] > 0.0 && all.is_sorted(), "{field}: {report:#}");
    }
    assert!(report["machine"]["cpus"].as_u64().unwrap() > 0);
    assert!(report["machine"]["os"].is_string() && report["machine"]["arch"].is_string());
}

#[test]
fn every_run_of_each_workload_ends_and_is_counted() {
    let workspace = Workspace::new();
    for store in [&[][..], &["--store", "memory"]] {
        let measured = |args: &[&str]| {
            let report = report(&workspace, &[args, store, &["--concurrency", "16"]].concat());
            assert_eq!(report["workload"], args[1]);
            assert_eq!(report["store"], if store.is_empty() { "redb" } else { "memory" });
            report
        };
        check(&measured(&["--workload", "noop", "--runs", "61"]), 61, 61, 61);
        check(&measured(&["--workload", "retry", "--runs", "20"]), 20, 20, 40);
        let fan_out = ["--workload", "fan-out", "--runs", "12", "--items", "30"];
        check(&measured(&fan_out), 12, 360, 360);
        // Of 30 runs a third fails once.
        check(&measured(&["--workload", "storm", "--runs", "30"]), 30, 30, 40);
        let pending = ["--workload", "pending", "--runs", "20", "--items", "25"];
        check(&measured(&pending), 20, 20, 20);
    }
}

#[test]
fn a_rate_gives_as_many_runs_as_it_says() {
    let workspace = Workspace::new();
    let report = report(&workspace, &["--rate", "400", "--for", "200ms", "--workload", "storm"]);
    check(&report, 80, 80, 80 + 5 * 5 + 5);
    assert_eq!(report["rate"], 400);
}

#[test]
fn several_nodes_share_the_work() {
    let workspace = Workspace::new();
    check(&report(&workspace, &["--nodes", "3", "--runs", "90"]), 90, 90, 90);
    let open = ["--nodes", "2", "--runs", "40", "--rate", "1000", "--store", "memory"];
    check(&report(&workspace, &open), 40, 40, 40);
}

#[test]
fn a_time_that_is_over_at_once_still_leaves_an_interval() {
    let workspace = Workspace::new();
    let report = report(
        &workspace,
        &["--for", "1ms", "--workload", "fan-out", "--items", "500", "--store", "memory"],
    );
    assert_eq!(report["rounds"].as_array().unwrap().len(), 6);
    check(&report, 12, 6_000, 6_000);
}

/// Writes what was measured as `before.json`, its times taken `times` by round, and compares.
fn against(workspace: &Workspace, measured: &Value, times: impl Fn(usize) -> f64) -> Done {
    let mut before = measured.clone();
    for (nth, round) in before["rounds"].as_array_mut().unwrap().iter_mut().enumerate() {
        for field in ["submit_seconds", "work_seconds", "cpu_seconds"] {
            round[field] = json!(round[field].as_f64().unwrap() * times(nth));
        }
        for field in ["due_to_start_ms", "start_to_end_ms"] {
            for value in round[field].as_object_mut().unwrap().values_mut() {
                *value = json!(value.as_f64().unwrap() * times(nth));
            }
        }
    }
    workspace.write("before.json", before.to_string());
    bench(workspace, &[&SMALL[..], &["--against", "before.json", "--html", "page.html"]].concat())
}

const SMALL: [&str; 4] = ["--store", "memory", "--runs", "200"];

#[test]
fn a_bench_that_is_worse_than_another_ends_with_1() {
    let workspace = Workspace::new();
    let measured = report(&workspace, &SMALL);
    let worse = against(&workspace, &measured, |_| 1e-4);
    assert_eq!((worse.code, worse.err.as_str()), (Some(1), ""), "{worse:?}");
    assert!(worse.out.contains("Worse than before: runs a second; submitted a second; due"));
    assert!(fs::read_to_string(workspace.path("page.html")).unwrap().contains("Worse than before"));
    let better = against(&workspace, &measured, |_| 1e4);
    assert_eq!(better.code, Some(0), "{better:?}");
    assert!(better.out.contains("Not worse than before.\n"), "{}", better.out);
    assert_eq!(better.out.matches(" better\n").count(), 7, "{}", better.out);
    // As wide as this, each interval has the other one in it.
    let like = against(&workspace, &measured, |nth| [1e-4, 1e4][nth % 2]);
    assert_eq!(like.code, Some(0), "{like:?}");
    assert_eq!(like.out.matches(" same\n").count(), 7, "{}", like.out);
}

#[test]
fn only_what_is_alike_is_compared() {
    let workspace = Workspace::new();
    let _ = report(&workspace, &SMALL);
    fs::rename(workspace.path("out.json"), workspace.path("before.json")).unwrap();
    let refused = |args: &[&str], what: &str| {
        let done = bench(&workspace, &[args, &["--against", "before.json"]].concat());
        assert_eq!(done.code, Some(2), "{args:?}: {done:?}");
        assert!(done.err.contains(what), "{args:?}: {}", done.err);
    };
    refused(&["--runs", "200"], "its store differs");
    refused(&["--store", "memory", "--workload", "retry"], "its workload differs");
    refused(&["--store", "memory", "--rate", "10"], "its rate differs");
    refused(&["--store", "memory", "--nodes", "2"], "its nodes differs");
    refused(&["--store", "memory", "--concurrency", "8"], "its concurrency differs");
    refused(&["--store", "memory", "--runs", "5"], "at least 6 runs");
    workspace.write("before.json", "{}");
    refused(&SMALL, "is not the report of a bench: missing field");
    fs::remove_file(workspace.path("before.json")).unwrap();
    refused(&SMALL, "can't be read");
}

#[test]
fn what_can_not_be_measured_is_refused() {
    let workspace = Workspace::new();
    workspace.write("there.redb", "mine");
    for (args, code, what) in [
        (&["--store", "there.redb"][..], 2, "`there.redb` exists"),
        (&["--store", "nowhere/x.redb"], 3, "nowhere/x.redb"),
        (&["--store", "http://127.0.0.1:1"], 2, "a bench needs a store, not a service"),
        (&["--store", "postgres://u:planted@127.0.0.1:1/db"], 3, "127.0.0.1:1"),
        (&["--store", "postgres://u:planted@127.0.0.1:1/db?no=1"], 2, "an option is not known"),
        (&["--workload", "nosuch"], 2, "possible values: noop, retry, fan-out, storm, pending"),
        (&["--items", "3"], 2, "the workload `noop` has no items"),
        (&["--workload", "fan-out", "--items", "10001"], 2, "at most 10000 items"),
        (&["--runs", "0"], 2, "0 is not in 1..=1000000"),
        (&["--runs", "1000001"], 2, "1000001 is not in"),
        (&["--runs", "9", "--for", "1s"], 2, "cannot be used with"),
        (&["--for", "0s"], 2, "a bench takes some time"),
        (&["--for", "2d"], 2, "at most 24h"),
        (&["--nodes", "65"], 2, "65 is not in 1..=64"),
        (&["--workload", "fan-out", "--runs", "1000000"], 2, "100000000 tasks; at most 10000000"),
        (&["--rate", "1000000", "--for", "1h"], 2, "3600000000 tasks"),
        (&["--runs", "6", "--store", "memory", "--json", "no/x"], 2, "`no/x` can't be written"),
    ] {
        let done = bench(&workspace, args);
        assert_eq!(done.code, Some(code), "{args:?}: {done:?}");
        assert!(done.err.contains(what), "{args:?}: {}", done.err);
        assert!(!done.err.contains("planted"), "{}", done.err);
    }
    assert_eq!(fs::read(workspace.path("there.redb")).unwrap(), b"mine");
    assert_eq!(left(&workspace), [""; 0]);
}

#[test]
fn the_page_needs_nothing_else() {
    let workspace = Workspace::new();
    let report = report(&workspace, &[&SMALL[..], &["--html", "page.html"]].concat());
    let page = fs::read_to_string(workspace.path("page.html")).unwrap();
    for promised in [
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
        "content=\"default-src 'none'; style-src 'unsafe-inline'\"",
        "@media (prefers-color-scheme: dark)",
        "noop in memory, 1 node, 256 at once, submitted before",
        "<title>round 10: ",
        "<span class=\"key two\">start to end</span>",
        "<th>runs</th><td>200 in 10 rounds</td>",
    ] {
        assert!(page.contains(promised), "{promised}: {page}");
    }
    assert_eq!(page.matches("<svg ").count(), 3);
    for alien in ["<script", "http:", "https:", "url(", "NaN", "inf"] {
        assert!(!page.contains(alien), "{alien}: {page}");
    }
    let each = report["runs_per_second"].as_f64().unwrap();
    assert!(page.contains(&format!("<th>runs a second</th><td>{each:.0} (")), "{each}: {page}");
}

#[test]
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "a user who looks again, outside the engine")]
fn interrupted_it_leaves_nothing_behind() {
    let workspace = Workspace::new();
    let mut child = command(&workspace, &["--for", "1h", "--json", "out.json"]).spawn().unwrap();
    while left(&workspace).is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(left(&workspace), [""; 0]);
    assert!(!workspace.path("out.json").exists());
}

#[test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
fn on_a_database_it_counts_transactions_and_removes_its_schema() {
    let (server, workspace) = (Server::start(), Workspace::new());
    let url = server.url("postgres");
    let mut reports = ["1", "2"]
        .map(|nodes| report(&workspace, &["--store", &url, "--nodes", nodes, "--runs", "600"]));
    for report in &mut reports {
        check(report, 600, 600, 600);
        assert_eq!(report["store"], "postgres");
        for field in ["transactions_per_run", "wal_bytes_per_run"] {
            assert!(report[field].as_f64().unwrap() > 0.0, "{field}: {report:#}");
        }
        // Each run is a submission and at least two commits, some of them shared.
        assert!(report["transactions_per_run"].as_f64().unwrap() < 3.0, "{report:#}");
        assert!(report["machine"]["server"].as_str().unwrap().starts_with("PostgreSQL "));
    }
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let schemas = tokio.block_on(async {
        let client = server.client("postgres").await;
        let text = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'retrial%'";
        client.query(text, &[]).await.unwrap().len()
    });
    assert_eq!(schemas, 0);
}
