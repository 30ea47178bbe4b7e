//! The commands over a store.

use serde_json::Value;

use super::endpoint::{Answer, Endpoint};
use super::workspace::{Done, Workspace, one_step};

const STORE: &str = ".retrial/w.redb";
const ONCE: &str =
    "args = { card = \"${input.card}\" }\nwork_config = { max_retries = 1, backoff = 10 }";
const SLOW: &str = "work_config = { max_retries = 3, backoff = 60000 }";

impl Workspace {
    pub(super) fn well(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        done.out
    }

    pub(super) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.well(&[args, &["--json"]].concat())).unwrap()
    }

    fn refused(&self, args: &[&str], code: i32, words: &str) -> Done {
        let done = self.run(args);
        assert_eq!(done.code, Some(code), "{args:?}: {done:?}");
        assert!(done.err.contains(words), "{args:?}: {}", done.err);
        done
    }

    /// The id of the only run, or of the newest.
    pub(super) fn newest(&self) -> String {
        let runs = self.json(&["list"])["runs"].as_array().unwrap().clone();
        runs.last().unwrap()["run"].as_str().unwrap().to_owned()
    }

    /// Runs `w.toml` until its first retry waits, and kills it.
    fn left_waiting(&self) -> String {
        let mut going = self.start(&["run", "w.toml"]);
        going.until("Retrying");
        going.kill();
        self.newest()
    }
}

/// Fails everything until it is mended.
fn broken() -> (Endpoint, std::sync::Arc<std::sync::atomic::AtomicBool>) {
    let mended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_mended = std::sync::Arc::clone(&mended);
    let endpoint =
        Endpoint::new(move |_| match is_mended.load(std::sync::atomic::Ordering::SeqCst) {
            true => Answer::Status(200, r#"{"success":true}"#),
            false => Answer::Status(503, r#"{"error":"busy token=hunter2"}"#),
        });
    (endpoint, mended)
}

fn with_card(endpoint: &Endpoint) -> Workspace {
    let workspace = Workspace::with_step(&endpoint.url("/x"), ONCE);
    let done = workspace.run(&["run", "w.toml", "--input", r#"{"card":"4111-1111"}"#]);
    assert_eq!(done.code, Some(1), "{done:?}");
    workspace
}

#[test]
fn c17_the_inspector_shows_the_last_error_the_retry_history_and_each_class() {
    let (endpoint, _) = broken();
    let workspace = with_card(&endpoint);
    let run = workspace.newest();
    let text = workspace.well(&["inspect", &run[..8]]);
    for wanted in [
        &format!("Run {run} of w: failed"),
        "_last_error: 503 (retryable) at fetch, attempt 2: ",
        "  fetch  failed",
        "    fetch: failed, 2 attempts",
        "      attempt 1 at ",
        " 503 ServerError (retryable): ",
        "        ↻ retried after 0.0s, because of failure: 503",
        "      given up: all attempts are used up",
        &format!("Dead letters: {run}/0/0"),
    ] {
        assert!(text.contains(wanted), "`{wanted}` is missing:\n{text}");
    }
    let json = workspace.json(&["inspect", &run]);
    assert_eq!(json["_last_error"]["code"], "503");
    let history = &json["steps"][0]["tasks"][0]["history"];
    assert_eq!(history[0]["error"]["class"], "retryable");
    assert_eq!(history[0]["retry"]["kind"], "failure");
    assert_eq!(history[1]["attempt"], 2);
    for shown in [text, json.to_string()] {
        assert!(!shown.contains("hunter2") && !shown.contains("4111-1111"), "{shown}");
    }
}

#[test]
fn h17_the_inspector_adds_up_what_attempts_cost() {
    let endpoint = Endpoint::new(|seen| match seen.nth {
        1 => Answer::Cost(503, 1_750_000),
        _ => Answer::Cost(200, 2_000_000),
    });
    let workspace = Workspace::with_step(&endpoint.url("/x"), ONCE);
    workspace.well(&["run", "w.toml", "--input", r#"{"card":"4111-1111"}"#]);
    let text = workspace.well(&["inspect", &workspace.newest()]);
    assert!(text.contains("\nCost: 3.75\n"), "{text}");
    assert!(text.contains("\n    fetch: succeeded, 2 attempts, cost 3.75\n"), "{text}");
}

#[test]
fn c18_letters_are_listed_shown_redriven_once_and_discarded() {
    let (endpoint, mended) = broken();
    let workspace = with_card(&endpoint);
    let run = workspace.newest();
    let letter = format!("{run}/0/0");
    assert!(workspace.well(&["dlq", "list"]).contains(&letter));
    assert_eq!(workspace.well(&["dlq", "list", "--code", "404"]), "No dead letters.\n");
    let shown = workspace.well(&["dlq", "show", &run[..8]]);
    assert!(shown.contains(r#"Arguments (masked): {"card":"***"}"#), "{shown}");
    assert_eq!(workspace.json(&["dlq", "show", &letter])["payload"]["card"], "***");

    mended.store(true, std::sync::atomic::Ordering::SeqCst);
    let before = endpoint.seen().len();
    let redriven = workspace.well(&["dlq", "redrive", &run[..8], "--run"]);
    assert!(redriven.contains("[RUN COMPLETED]"), "{redriven}");
    let seen = endpoint.seen();
    assert_eq!(seen[before..].iter().map(|s| &*s.body).collect::<Vec<_>>(), [&*seen[0].body]);
    let second = workspace.refused(&["dlq", "redrive", &letter], 2, "was redriven before, by run ");
    assert!(second.err.contains("retrial inspect"), "{}", second.err);
    workspace.refused(&["dlq", "discard", &letter], 2, "was redriven before");
    assert_eq!(workspace.json(&["list"])["runs"][1]["redrives"], *letter);

    mended.store(false, std::sync::atomic::Ordering::SeqCst);
    workspace.run(&["run", "w.toml", "--new"]);
    let other = format!("{}/0/0", workspace.newest());
    workspace.well(&["dlq", "discard", &other, "--reason", "no use"]);
    workspace.refused(&["dlq", "redrive", &other], 2, "was discarded");
    let all = workspace.json(&["dlq", "list", "--all"]);
    let status = |n: usize| all["letters"][n]["status"].as_str().unwrap().to_owned();
    assert_eq!([status(0), status(1)], ["redriven", "discarded"]);
    assert_eq!(
        workspace.well(&["dlq", "redrive", "--all"]),
        "0 waiting letters match the filters.\n"
    );
}

/// What a redriving left unfinished is taken up by its id.
#[test]
fn c18_a_redriven_run_is_run_later_by_its_id() {
    let (endpoint, mended) = broken();
    let workspace = with_card(&endpoint);
    let said = workspace.well(&["dlq", "redrive", "--all"]);
    mended.store(true, std::sync::atomic::Ordering::SeqCst);
    let run = workspace.newest();
    assert!(
        said.contains(&format!("`retrial run --resume {run} --store {STORE}` runs it")),
        "{said}"
    );
    let done = workspace.well(&["run", "--resume", &run, "--store", STORE]);
    assert!(done.starts_with(&format!("Resuming run {run} of w: ")), "{done}");
    workspace.refused(&["run", "--resume", &run], 2, "has ended (completed)");
}

#[test]
fn h17_a_paused_run_waits_for_its_resuming() {
    let (endpoint, mended) = broken();
    let workspace = Workspace::with_step(&endpoint.url("/x"), SLOW);
    let run = workspace.left_waiting();
    let said = workspace.well(&["pause", &run[..8], "--reason", "password=hunter2 wait for Ann"]);
    assert!(said.contains("retries are paused until `retrial resume "), "{said}");
    let shown = workspace.well(&["inspect", &run]);
    assert!(shown.contains("Retries are paused: ") && shown.contains("wait for Ann"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(workspace.well(&["list", "--phase", "paused"]).contains(&run));
    let refused = workspace.refused(&["run", "w.toml"], 2, "are paused");
    assert!(refused.err.contains("retrial resume"), "{}", refused.err);
    workspace.well(&["resume", &run]);
    mended.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(workspace.well(&["list", "--phase", "running"]).contains(&run));
    workspace.refused(&["fail", &run, "--step", "nosuch"], 2, "has no step `nosuch`");
    let said = workspace.well(&["fail", &run, "--step", "fetch", "--reason", "enough"]);
    assert!(said.contains("and so did the run"), "{said}");
    assert!(workspace.well(&["inspect", &run]).contains("given up: it was failed by hand"));
    workspace.refused(&["pause", &run], 2, "has ended (failed)");
    workspace.refused(&["cancel", &run], 2, "has ended (failed)");
}

#[test]
fn a12_runs_are_deactivated_activated_archived_and_cancelled() {
    let (endpoint, _) = broken();
    let workspace = Workspace::with_step(&endpoint.url("/x"), SLOW);
    let run = workspace.left_waiting();
    workspace.refused(&["archive", &run], 2, "has work left");
    workspace.well(&["deactivate", &run]);
    workspace.refused(&["run", "--resume", &run], 2, "is deactivated");
    workspace.well(&["archive", &run]);
    workspace.well(&["archive", &run]);
    assert!(workspace.well(&["list"]).contains("deactivated (archived)"));
    assert!(workspace.well(&["inspect", &run]).contains(", archived "));
    workspace.well(&["activate", &run]);
    assert!(!workspace.well(&["list"]).contains("archived"));
    workspace.well(&["cancel", &run, "--reason", "enough"]);
    assert!(workspace.well(&["list", "--phase", "cancelled"]).contains(&run));
}

#[test]
fn x9_old_runs_are_pruned() {
    let (endpoint, mended) = broken();
    let workspace = with_card(&endpoint);
    mended.store(true, std::sync::atomic::Ordering::SeqCst);
    workspace.well(&["run", "w.toml", "--key", "order 7"]);
    assert_eq!(workspace.well(&["prune", "--older-than", "1h"]), "Pruned 0 runs.\n");
    assert_eq!(
        workspace.well(&["prune", "--older-than", "0s", "--archived-only"]),
        "Pruned 0 runs.\n"
    );
    // The first one's letter waits.
    assert_eq!(workspace.well(&["prune", "--older-than", "0s"]), "Pruned 1 run.\n");
    assert_eq!(workspace.json(&["list"])["runs"].as_array().unwrap().len(), 1);
    assert_eq!(
        workspace.well(&["prune", "--older-than", "0s", "--with-letters"]),
        "Pruned 1 run.\n"
    );
    assert_eq!(workspace.well(&["list"]), "No runs.\n");
    assert_eq!(workspace.well(&["dlq", "list", "--all"]), "No dead letters.\n");
    workspace.refused(&["prune", "--older-than", "30"], 2, "has no unit");
}

#[test]
fn x8_a_key_leads_to_the_first_run_or_to_a_conflict() {
    let (endpoint, mended) = broken();
    mended.store(true, std::sync::atomic::Ordering::SeqCst);
    let workspace = Workspace::with_step(&endpoint.url("/x"), ONCE);
    let first = workspace.well(&["run", "w.toml", "--key", "order 7"]);
    let again = workspace.well(&["run", "w.toml", "--key", "order 7"]);
    let run = workspace.newest();
    assert!(first.contains(&run), "{first}");
    let said = format!("Run {run} of w was submitted under this key before: completed.\n");
    assert!(again.starts_with(&said) && again.contains("Result of fetch: "), "{again}");
    assert_eq!(endpoint.seen().len(), 1);
    let other = ["run", "w.toml", "--key", "order 7", "--input", r#"{"card":1}"#];
    workspace.refused(
        &other,
        2,
        &format!("the key `order 7` belongs to run {run}, which has another"),
    );
    workspace.well(&["run", "w.toml", "--key", "order 8"]);
    assert_eq!(endpoint.seen().len(), 2);
}

#[test]
fn x8_input_nested_too_deeply_is_refused_before_it_is_stored() {
    let (endpoint, _) = broken();
    let workspace = Workspace::with_step(&endpoint.url("/x"), ONCE);
    let nested = |depth: usize| format!(r#"{{"card":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    workspace.refused(&["run", "w.toml", "--input", &nested(90)], 2, "nested too deeply");
    workspace.refused(&["list"], 3, "there is no store");
}

#[test]
fn what_is_not_there_or_not_clear_is_said_so() {
    let (endpoint, mended) = broken();
    mended.store(true, std::sync::atomic::Ordering::SeqCst);
    let workspace = Workspace::with_step(&endpoint.url("/x"), ONCE);
    workspace.refused(&["list"], 3, "there is no store in .retrial/");
    workspace.refused(&["list", "--store", "no.redb"], 3, "there is no store at `no.redb`");
    assert!(!workspace.path("no.redb").exists(), "looking makes no store");
    workspace.well(&["run", "w.toml"]);
    workspace.well(&["run", "w.toml"]);
    workspace.refused(&["inspect", "zzz"], 2, "no run begins with `zzz`");
    workspace.refused(&["inspect", ""], 2, "several ids begin with ``");
    workspace.refused(&["dlq", "show", "zzz"], 2, "no dead letter begins with `zzz`");
    workspace.refused(
        &["dlq", "show", &format!("{}/0/0", workspace.newest())],
        2,
        "is not in the store",
    );
    workspace.write("v.toml", one_step(&endpoint.url("/x"), ONCE).replace("\"w\"", "\"v\""));
    workspace.well(&["run", "v.toml"]);
    workspace.refused(&["list"], 2, "there are several stores: .retrial/v.redb, .retrial/w.redb");
    workspace.well(&["list", "--store", STORE]);
}

#[test]
fn a_store_in_use_says_so() {
    let (endpoint, _) = broken();
    let workspace = Workspace::with_step(&endpoint.url("/x"), SLOW);
    let mut going = workspace.start(&["run", "w.toml"]);
    going.until("Retrying");
    workspace.refused(&["list"], 3, "is open in another process");
    going.kill();
    workspace.well(&["list"]);
}

/// Which record is damaged is said, and the rest is listed.
#[test]
fn decision_19_a_damaged_run_is_named_and_the_others_are_listed() {
    let (endpoint, mended) = broken();
    mended.store(true, std::sync::atomic::Ordering::SeqCst);
    let workspace = Workspace::with_step(&endpoint.url("/x"), ONCE);
    workspace.write("v.toml", one_step(&endpoint.url("/x"), ONCE).replace("\"w\"", "\"rotten\""));
    workspace.well(&["run", "w.toml", "--store", "s.redb"]);
    workspace.well(&["run", "v.toml", "--store", "s.redb"]);
    let runs = workspace.json(&["list", "--store", "s.redb"])["runs"].clone();
    let mut bytes = std::fs::read(workspace.path("s.redb")).unwrap();
    let needle = br#""workflow":"rotten""#;
    let places = bytes.windows(needle.len()).enumerate().filter(|(_, w)| w == needle);
    let places: Vec<_> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at + 13] ^= 1);
    workspace.write("s.redb", &bytes);
    let listed = workspace.run(&["list", "--store", "s.redb"]);
    let bad = runs[1]["run"].as_str().unwrap();
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.out.contains(runs[0]["run"].as_str().unwrap()), "{}", listed.out);
    assert!(listed.err.contains(&format!("run {bad} in the store is damaged")), "{}", listed.err);
    workspace.refused(&["inspect", bad, "--store", "s.redb"], 3, "is damaged");
    workspace.well(&["inspect", runs[0]["run"].as_str().unwrap(), "--store", "s.redb"]);
}

#[test]
fn runs_are_found_by_key_code_and_time_and_dealt_with_together() {
    let (endpoint, _) = broken();
    let workspace = with_card(&endpoint);
    for key in ["order 7", "order 8"] {
        workspace.run(&["run", "w.toml", "--key", key]);
    }
    let letters = workspace.well(&["dlq", "list", "--since", "1h"]);
    assert_eq!(letters.lines().count(), 4, "{letters}");
    assert!(letters.lines().next().unwrap().ends_with("STATUS   MESSAGE"), "{letters}");
    assert!(letters.contains("HTTP 503 Service Unavailable: busy"), "{letters}");
    assert_eq!(workspace.well(&["dlq", "list", "--until", "1h"]), "No dead letters.\n");
    let found = |filters: &[&str]| {
        let listed = workspace.json(&[&["list"], filters].concat());
        let keys = listed["runs"].as_array().unwrap().iter();
        keys.map(|run| run["key"].as_str().unwrap_or("none").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&["--key", "order 8"]), ["order 8"]);
    assert_eq!(found(&["--key", "order"]), [""; 0]);
    assert_eq!(found(&["--code", "503"]), ["none", "order 7", "order 8"]);
    assert_eq!(found(&["--code", "404"]), [""; 0]);
    assert_eq!(found(&["--since", "1h"]).len(), 3);
    assert_eq!(found(&["--until", "1h"]), [""; 0]);
    assert_eq!(found(&["--since", "2100-01-01T00:00:00Z"]), [""; 0]);
    let table = workspace.well(&["list", "--key", "order 7"]);
    assert!(table.lines().next().unwrap().ends_with("LETTERS  ERROR  KEY"), "{table}");
    assert!(table.trim_end().ends_with("503    order 7"), "{table}");
    let plain = std::fs::read_to_string(workspace.path("w.toml")).unwrap();
    workspace.write("s.toml", format!("search = [\"card\"]\n{plain}"));
    let input = ["--input", r#"{"card":"4111"}"#];
    workspace.run(&[&["run", "s.toml", "--store", STORE, "--key", "order 9"], &input[..]].concat());
    assert_eq!(found(&["--field", "card=4111"]), ["order 9"]);
    assert_eq!(found(&["--field", "card=4111-1111"]), [""; 0]);
    let none = workspace.well(&["list", "--field", "card=4"]);
    assert!(none.starts_with("No runs. Fields are found that the workflow declared"), "{none}");
    workspace.refused(&["list", "--field", "card"], 2, "write NAME=VALUE");
    workspace.refused(&["list", "--since", "lately"], 2, "such as 2h, or a time such as");

    let all = ["dlq", "discard", "--all", "--code", "503"];
    let said = workspace.well(&[&all[..], &["--count"]].concat());
    assert_eq!(said, "4 waiting letters match the filters.\n");
    let said = workspace.well(&all);
    assert!(said.starts_with("4 waiting letters match the filters.\nLetter "), "{said}");
    assert_eq!(said.matches(" is discarded.\n").count(), 4);
    assert_eq!(workspace.well(&all), "0 waiting letters match the filters.\n");
    workspace.refused(&["dlq", "discard"], 2, "required");
}

#[test]
fn paused_runs_that_match_are_resumed_together() {
    let (endpoint, _) = broken();
    let workspace = Workspace::with_step(&endpoint.url("/x"), SLOW);
    let run = workspace.left_waiting();
    workspace.well(&["pause", &run]);
    let none = workspace.well(&["resume", "--all", "--workflow", "other"]);
    assert_eq!(none, "0 paused runs match the filters.\n");
    let count = workspace.well(&["resume", "--all", "--count"]);
    assert_eq!(count, "1 paused run matches the filters.\n");
    assert!(workspace.well(&["list", "--phase", "paused"]).contains(&run));
    let said = workspace.well(&["resume", "--all", "--since", "1h"]);
    assert!(said.contains(&format!("Run {run}: retries resume. ")), "{said}");
    assert!(workspace.well(&["list", "--phase", "running"]).contains(&run));
}
