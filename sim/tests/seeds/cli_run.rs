//! The command line of a sweep: what it accepts, what it prints and writes, and how it ends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use retrial::time::Nanos;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::oracle::Promise;
use retrial_sim::unstable::report::{Breach, SeedReport, SweepReport, Verdict};
use retrial_sim::unstable::source::Source;
use retrial_sim::unstable::sweep::Sweep;
use retrial_sim::unstable::world::run_seed;
use tempfile::TempDir;

/// How a call of the program ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn run_in(folder: &Path, arguments: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retrial-sim"));
    let ran = command.current_dir(folder).args(arguments.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: ran.status.code().unwrap(), out: text(ran.stdout), err: text(ran.stderr) }
}

pub(crate) fn run(arguments: &str) -> Ran {
    run_in(tempfile::tempdir().unwrap().path(), arguments)
}

/// A workflow of one step with this policy, its endpoint scripted by `simulate`.
pub(crate) fn scenario(retry: &str, simulate: &str) -> String {
    format!(
        r#"workflow = "pay"

[actions.charge]
http = "POST https://pay.example/charge"

[[steps]]
id = "charge"
action = "charge"
goal = true
{retry}

[simulate]
{simulate}
"#
    )
}

pub(crate) const THRICE: &str = r#"retry = "[retry: 2, backoff: 1s] [timeout: 2s]""#;
pub(crate) const CALM: &str = "faults = []\nruns = 1\nheal_after_ms = 1000\n\
    endpoints.charge.replies = [\"success_true\"]";

pub(crate) fn folder_with(name: &str, text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), text).unwrap();
    folder
}

fn report(folder: &Path) -> SweepReport {
    let json = std::fs::read_to_string(folder.join("report.json")).unwrap();
    serde_json::from_str(&json).unwrap()
}

fn alone(seeds: impl Iterator<Item = u64>) -> SweepReport {
    SweepReport::of(seeds.map(|seed| run_seed(&Source::Drawn, seed, false).0).collect())
}

#[test]
fn a_sweep_in_which_all_held_ends_with_0() {
    let ran = run("run --seeds 4");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("seeds                  4 (4 all promises held)\n"), "{}", ran.out);
    for promise in Promise::ALL {
        assert!(ran.out.contains(&format!("\n  {promise} ")), "{promise} in {}", ran.out);
    }
    // Four seeds need not have tested everything.
    assert!(!ran.out.contains("nothing tested"), "{}", ran.out);
    assert_eq!(ran.err, "", "no progress bar without a terminal");
}

#[test]
fn bad_usage_ends_with_2() {
    for bad in [
        "",
        "sweep",
        "run --seeds x",
        "run --seeds -1",
        "run --seeds 0",
        "run --seeds 7..7",
        "run --seeds 9..7",
        "run --seeds 1..x",
        "run --shard 0/2",
        "run --shard 3/2",
        "run --shard 2",
        "run --shard x/2",
        "run --jobs x",
        "run --watchdog x",
        "run --order some",
        "run --order any --more crash",
        "run --unknown",
        "run 5",
        "repro",
        "repro x",
        "repro 1 2",
    ] {
        let ran = run(bad);
        assert_eq!(ran.code, 2, "`{bad}` gave {ran:?}");
        assert!(!ran.err.is_empty() && ran.out.is_empty(), "`{bad}` gave {ran:?}");
    }
}

#[test]
fn a_users_workflow_is_simulated() {
    let simulate = r#"nodes = 2
runs = 3
faults = ["crash", "server_error"]
heal_after_ms = 5000
[simulate.endpoints.charge]
replies = [{ status = { code = 503 } }, { status = { code = 503 } }]"#;
    let folder = folder_with("pay.toml", &scenario(THRICE, simulate));
    let ran = run_in(folder.path(), "run --seeds 6 --scenario pay.toml --json report.json");
    assert_eq!(ran.code, 0, "{ran:?}");
    let report = report(folder.path());
    assert_eq!((report.seeds, report.runs), (6, 18));
    // Two failures a run, unless a crash took a place among the three attempts.
    assert!(report.attempts >= 2 * 18 && report.attempts <= 3 * 18, "{report:?}");
    let kinds: Vec<_> = report.struck.keys().copied().collect();
    assert!(kinds.contains(&FaultKind::ServerError), "{kinds:?}");
    assert!(report.drawn.keys().all(|k| [FaultKind::Crash, FaultKind::ServerError].contains(k)));
    let history = run_in(folder.path(), "repro 2 --scenario pay.toml");
    assert!(history.out.contains("\"event\":\"retry_scheduled\""), "{}", history.out);
    assert!(history.out.contains("all promises held\nfingerprint "));
}

#[test]
fn d4_a_repro_prints_the_whole_history_and_ends_as_the_seed_did() {
    let ran = run("repro 5");
    let last: Vec<&str> = ran.out.lines().rev().take(2).collect();
    assert_eq!((ran.code, last[1]), (0, "seed 5: all promises held"));
    let (alone, _) = run_seed(&Source::Drawn, 5, false);
    assert_eq!(last[0], format!("fingerprint {}", alone.fingerprint));
    assert!(ran.out.starts_with("drawn {\"seed\":5,"));
    for sign in ["input", "event", "message", "disk"] {
        assert!(ran.out.contains(&format!(" {sign:<7} ")), "no {sign}");
    }
}

/// A sweep in an order of tasks that is asked for runs the worlds that a replay in that order shows.
#[test]
fn d4_seeds_are_run_in_the_order_of_tasks_that_is_asked_for() {
    let fingerprint = |ran: &Ran| ran.out.lines().last().unwrap().to_owned();
    let replayed = ["any", "lasting", "anew"].map(|order| run(&format!("repro 5 --order {order}")));
    for (order, replay) in ["any", "lasting", "anew"].iter().zip(&replayed) {
        let source = Source::InOrder(order.parse().unwrap());
        let (alone, _) = run_seed(&source, 5, false);
        assert_eq!(fingerprint(replay), format!("fingerprint {}", alone.fingerprint));
        let swept = run(&format!("run --seeds 5..6 --order {order}"));
        assert!(swept.out.starts_with("seeds                  1 (1 all promises held)"));
        let one = SweepReport::of(vec![alone]);
        assert!(swept.out.contains(&one.fingerprint), "{}", swept.out);
    }
    let [any, lasting, anew] = replayed.map(|replay| fingerprint(&replay));
    assert!(any != lasting && lasting != anew && anew != any);
}

/// A sweep of 64 seeds in which nothing can strike although something should have.
#[test]
fn a_full_sweep_that_tested_nothing_ends_with_5() {
    // One engine on its own disk has no network to the store.
    let tame = "nodes = 1\nruns = 1\nheal_after_ms = 1000\nfaults = [\"store_duplicate\"]\n\
        endpoints.charge.replies = [\"success_true\"]";
    let folder = folder_with("pay.toml", &scenario(THRICE, tame));
    let sweep = |rest: &str| run_in(folder.path(), &format!("run --scenario pay.toml {rest}"));
    let full = sweep("--seeds 64");
    assert_eq!(full.code, 5, "{full:?}");
    assert!(full.out.contains("\nnothing tested: no fault struck\n"), "{}", full.out);
    for small in ["--seeds 63", "--seeds 64 --shard 1/1", "--seeds 128 --shard 2/2"] {
        let ran = sweep(small);
        assert_eq!(ran.code, 0, "{small}: {ran:?}");
        assert!(ran.out.contains("\nnote: no fault struck\n"), "{small}: {}", ran.out);
    }
    // Where the user wants no faults, none are missed.
    let folder = folder_with("pay.toml", &scenario(THRICE, CALM));
    let ran = run_in(folder.path(), "run --scenario pay.toml --seeds 64");
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn shards_part_the_seeds_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for part in 1..=3 {
        let arguments = format!("run --seeds 3..11 --shard {part}/3 --json report.json");
        assert_eq!(run_in(folder.path(), &arguments).code, 0);
        let shard = report(folder.path());
        // The fingerprint stands for exactly these seeds.
        assert_eq!(shard, alone((3..11).filter(|seed| seed % 3 == part - 1)), "part {part}");
        count += shard.seeds;
    }
    assert_eq!(count, 8);
}

#[test]
fn the_number_of_jobs_changes_nothing_that_is_printed() {
    let printed: Vec<String> =
        ["1", "2", "9"].map(|jobs| run(&format!("run --seeds 5..9 --jobs {jobs}")).out).into();
    assert!(printed.iter().all(|out| *out == printed[0]), "{printed:#?}");
    assert!(printed[0].starts_with("seeds                  4 ("));
    // N seeds are 0..N.
    assert_eq!(run("run --seeds 3").out, run("run --seeds 0..3").out);
}

#[test]
fn the_json_report_says_what_the_summary_says() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run_in(folder.path(), "run --seeds 3 --json report.json");
    let text = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "attempts",
        "drawn",
        "failing",
        "features",
        "fingerprint",
        "found",
        "judged",
        "retries",
        "runs",
        "seeds",
        "simulated",
        "struck",
        "verdicts",
    ];
    assert_eq!(keys, expected);
    assert_eq!(json["seeds"], 3);
    assert_eq!(json["verdicts"], serde_json::json!({ "held": 3 }));
    assert_eq!(json["failing"], serde_json::json!([]));
    assert!(ran.out.contains(json["fingerprint"].as_str().unwrap()));
    assert_eq!(report(folder.path()), alone(0..3));
}

/// Unlimited retries against an endpoint that never heals: the policy's own doing.
#[test]
fn a_run_that_may_go_on_for_ever_is_unbounded_by_policy() {
    let unlimited = "work_config = { max_retries = -1, backoff = 20000 }";
    let broken = "faults = []\nruns = 1\nheal_after_ms = 1000\nendpoints_heal = false\n\
        endpoints.charge.then = { status = { code = 503 } }";
    let folder = folder_with("pay.toml", &scenario(unlimited, broken));
    let ran = run_in(folder.path(), "run --seeds 2 --scenario pay.toml");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("2 (2 unbounded by policy)"), "{}", ran.out);
    let one = run_in(folder.path(), "repro 1 --scenario pay.toml");
    assert_eq!(one.code, 0);
    assert!(one.out.contains("\nseed 1: unbounded by policy\n"));
    // Bounded, the same endpoint is a failed run and nothing more.
    let folder = folder_with("pay.toml", &scenario(THRICE, broken));
    let ran = run_in(folder.path(), "run --seeds 2 --scenario pay.toml");
    assert_eq!((ran.code, ran.out.contains("2 (2 all promises held)")), (0, true), "{ran:?}");
}

/// A world so large that it can't be done in the second that the watchdog gives it.
#[test]
fn the_watchdog_calls_a_seed_stuck_and_goes_on() {
    let items: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
    let large = scenario(
        "for_each = \"${input.items}\"\nargs = { item = \"${item}\" }",
        "faults = []\nnodes = 3\nruns = 100\nheal_after_ms = 1000\n\
        endpoints.charge.replies = [\"success_true\"]",
    );
    let input = format!("[input]\nitems = [{}]\n\n[simulate]", items.join(", "));
    let folder = folder_with("large.toml", &large.replace("[simulate]", &input));
    let ran = run_in(folder.path(), "run --seeds 7..9 --jobs 2 --watchdog 1 --scenario large.toml");
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.out.starts_with("seeds                  2 (2 stuck)\n"), "{}", ran.out);
    let again = "cargo run --release -p retrial-sim -- repro --scenario large.toml";
    let at = |seed: u64| ran.out.find(&format!("\nseed {seed} stuck: {again} {seed}\n")).unwrap();
    assert!(at(7) < at(8), "lowest first: {}", ran.out);
    assert!(ran.out.contains("watchdog (stuck): no end within 1 s of real time"));
}

/// A worker that dies under a seed is as bad as a panic in it.
#[test]
fn a_worker_that_ends_in_the_middle_of_a_seed_counts_as_a_panic() {
    let sweep = Sweep::new("true".into(), 1, Duration::from_secs(60));
    let sweep = Sweep { seeds: vec![3, 4], ..sweep };
    let report = SweepReport::of(sweep.run(|_| ()).unwrap());
    assert_eq!((report.exit_code(true), report.failing.len()), (4, 2));
    let words = report.words("again", None);
    assert!(words.contains("\nseed 3 panicked: again 3\n  worker (panicked): the worker ended"));
}

fn seed(seed: u64, verdict: Verdict) -> SeedReport {
    let breach = |oracle: &str| Breach {
        oracle: oracle.to_owned(),
        reason: "why".to_owned(),
        text: "because".to_owned(),
        proof: Vec::new(),
    };
    SeedReport {
        breaches: verdict.is_failure().then(|| breach("sequence")).into_iter().collect(),
        simulated: Nanos::from_secs(1),
        struck: BTreeMap::from([(FaultKind::Crash, 1)]),
        judged: Promise::ALL.iter().map(|p| (p.to_string(), 1)).collect(),
        ..SeedReport::broken_off(seed, verdict, "", String::new())
    }
}

#[test]
fn of_several_kinds_of_failure_4_comes_before_1_before_3() {
    use Verdict::{Held, Panicked, Stuck, Unbounded, Wrong};
    let all: [(&[Verdict], u8); 9] = [
        (&[Held, Held], 0),
        (&[Held, Unbounded], 0),
        (&[Held, Stuck], 3),
        (&[Wrong, Held], 1),
        (&[Held, Panicked], 4),
        (&[Stuck, Wrong], 1),
        (&[Stuck, Panicked], 4),
        (&[Wrong, Panicked, Held], 4),
        (&[Panicked, Wrong, Stuck], 4),
    ];
    for (verdicts, expected) in all {
        let seeds = verdicts.iter().zip(0..).map(|(v, n)| seed(n, *v)).collect();
        let report = SweepReport::of(seeds);
        assert_eq!(report.exit_code(true), expected, "{verdicts:?}");
        assert_eq!(report.exit_code(false), expected, "{verdicts:?}");
    }
}

#[test]
fn what_went_wrong_comes_before_what_was_not_tested() {
    let silent = |verdict| SeedReport { judged: BTreeMap::new(), ..seed(1, verdict) };
    let held = SweepReport::of(vec![silent(Verdict::Held)]);
    assert_eq!((held.exit_code(true), held.exit_code(false)), (5, 0));
    assert_eq!(held.untested().len(), Promise::ALL.len());
    let stuck = SweepReport::of(vec![silent(Verdict::Stuck)]);
    assert_eq!(stuck.exit_code(true), 3);
    let unstruck = SeedReport { struck: BTreeMap::new(), ..seed(1, Verdict::Held) };
    assert_eq!(SweepReport::of(vec![unstruck]).untested(), ["no fault struck"]);
}

#[test]
fn d4_failing_seeds_are_listed_lowest_first_with_their_command() {
    let report = SweepReport::of(vec![
        seed(9, Verdict::Wrong),
        seed(2, Verdict::Held),
        seed(4, Verdict::Panicked),
    ]);
    let words = report.words("cargo run -- repro", None);
    let tail = words.split_once("\n\n").unwrap().1;
    let expected = "seed 4 panicked: cargo run -- repro 4\n  sequence (why): because\n\n\
        seed 9 wrong: cargo run -- repro 9\n  sequence (why): because\n";
    assert_eq!(tail, expected);
    assert!(words.contains("  sequence                    3 / 2\n"), "{words}");
}

#[test]
fn a_text_makes_a_range_of_its_own() {
    let range = |text: &str| {
        let ran = run(&format!("run --seeds 3@{text} --jobs 1"));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        let line = ran.out.lines().find(|line| line.starts_with("range ")).unwrap();
        let (from, to) = line.trim_start_matches("range").trim().split_once("..").unwrap();
        (from.parse::<u64>().unwrap(), to.parse::<u64>().unwrap())
    };
    let (from, to) = range("3a84fd2");
    assert_eq!((to - from, range("3a84fd2")), (3, (from, to)));
    assert_ne!(range("3a84fd3").0, from);
    let none = run("run --seeds 0@3a84fd2");
    assert_eq!(none.code, 2);
    assert!(none.err.contains("holds no seeds"), "{none:?}");
}

/// Who reads the output may have enough of it, as `head` does.
#[test]
fn output_that_nobody_reads_is_no_error() {
    for arguments in ["repro 3", "run --seeds 3..4"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_retrial-sim"));
        let ran = command.args(arguments.split(' ')).stdout(writer).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        assert_eq!(String::from_utf8(ran.stderr).unwrap(), "");
    }
}
