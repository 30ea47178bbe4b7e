//! A seed is one history: the same in two processes, in any folder and environment, alone or as one
//! of many, kept or only hashed. D4, promise of the fingerprint.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use retrial_sim::unstable::report::{SeedReport, SweepReport};
use retrial_sim::unstable::source::Source;
use retrial_sim::unstable::world::run_seed;

/// One embedded engine and several nodes on a shared store are both among them.
const SEEDS: [u64; 6] = [0, 1, 2, 5, 7, 11];

fn program(folder: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retrial-sim"));
    command.current_dir(folder).env_clear().envs(variables.iter().copied());
    command
}

/// What `repro` prints of `seed`.
fn repro(seed: u64, folder: &Path, variables: &[(&str, &str)]) -> String {
    let run = program(folder, variables).args(["repro", &seed.to_string()]).output().unwrap();
    assert!(run.status.success(), "seed {seed}: {run:?}");
    String::from_utf8(run.stdout).unwrap()
}

/// The last line of what `repro` prints, without its word.
fn fingerprint(printed: &str) -> &str {
    let last = printed.lines().last().unwrap();
    last.strip_prefix("fingerprint ").unwrap_or_else(|| panic!("{last}"))
}

/// What one worker process answers to `seeds`, in this order.
fn worker(seeds: &[u64]) -> Vec<SeedReport> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retrial-sim"));
    let piped = command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut asked = child.stdin.take().unwrap();
    seeds.iter().for_each(|seed| writeln!(asked, "{seed}").unwrap());
    drop(asked);
    let answered = child.wait_with_output().unwrap();
    assert!(answered.status.success());
    let text = String::from_utf8(answered.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn by_seed(reports: &[SeedReport]) -> BTreeMap<u64, &SeedReport> {
    reports.iter().map(|r| (r.seed, r)).collect()
}

#[test]
fn d4_two_processes_print_the_same_history() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let elsewhere = [
        ("LANG", "de_DE.UTF-8"),
        ("TZ", "Asia/Kathmandu"),
        ("HOME", "/nowhere"),
        ("RUST_LOG", "trace"),
        ("RETRY_MAX_RETRIES", "7"),
        ("MADSIM_TEST_SEED", "99"),
        ("MADSIM_TEST_JOBS", "3"),
    ];
    let mut prints = Vec::new();
    for seed in SEEDS {
        let first = repro(seed, here.path(), &[]);
        assert!(first.lines().count() > 100, "seed {seed} has hardly a history");
        assert!(first == repro(seed, there.path(), &elsewhere), "seed {seed} differs");
        prints.push(fingerprint(&first).to_owned());
    }
    prints.sort();
    prints.dedup();
    assert_eq!(prints.len(), SEEDS.len(), "two seeds with one fingerprint");
}

#[test]
fn d4_the_kth_seed_of_a_worker_is_that_seed_alone() {
    let forth = worker(&SEEDS);
    let mut turned = SEEDS;
    turned.reverse();
    let back = worker(&turned);
    assert_eq!(by_seed(&forth), by_seed(&back));
    let folder = tempfile::tempdir().unwrap();
    for report in &forth {
        let alone = repro(report.seed, folder.path(), &[]);
        assert_eq!(fingerprint(&alone), report.fingerprint, "seed {}", report.seed);
    }
    // The same seed twice in one worker.
    let twice = worker(&[3, 3]);
    assert_eq!(twice[0], twice[1]);
}

#[test]
fn keeping_lines_changes_nothing() {
    for seed in SEEDS {
        let (kept, history) = run_seed(&Source::Drawn, seed, true);
        let (hashed, nothing) = run_seed(&Source::Drawn, seed, false);
        assert_eq!(kept, hashed, "seed {seed}");
        assert!(nothing.lines().is_empty() && history.lines().len() > 100);
        let folder = tempfile::tempdir().unwrap();
        let printed = repro(seed, folder.path(), &[]);
        assert!(printed.starts_with(&history.words()), "seed {seed}");
        assert_eq!(fingerprint(&printed), kept.fingerprint);
    }
}

/// A world that is over leaves nothing behind: 64 of them take no more memory than a few.
#[test]
fn worlds_that_are_over_leave_no_memory_behind() {
    // An arena for each thread would ask for 64 MB of addresses before anything is in it.
    let limit = "ulimit -v 80000; MALLOC_ARENA_MAX=1 exec \"$0\" run --seeds 64 --jobs 1";
    let run = Command::new("sh").args(["-c", limit, env!("CARGO_BIN_EXE_retrial-sim")]).output();
    let run = run.unwrap();
    assert!(run.status.success(), "{run:?}");
}

#[test]
fn the_sweeps_fingerprint_is_that_of_its_seeds_in_any_number_of_processes() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = (20..26).map(|seed| run_seed(&Source::Drawn, seed, false).0).collect();
    let alone = SweepReport::of(seeds);
    for jobs in ["1", "3"] {
        let arguments = ["run", "--seeds", "20..26", "--jobs", jobs, "--json", "sweep.json"];
        let run = program(folder.path(), &[]).args(arguments).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        let json = std::fs::read_to_string(folder.path().join("sweep.json")).unwrap();
        assert_eq!(serde_json::from_str::<SweepReport>(&json).unwrap(), alone, "{jobs} jobs");
    }
}
