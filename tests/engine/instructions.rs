//! What a run costs at most: one step that does nothing, on the memory store, from its submission
//! until somebody has its outcome.
//!
//! Callgrind counts instructions of the processor: about the same in each run, however busy the
//! machine is. It runs all of it some 50 times slower, so the runs are few.

use std::process::Command;
use std::sync::Arc;

use retrial::engine::{Config, Engine};
use retrial::runtime::TokioRuntime;
use retrial::store::MemoryStore;
use retrial::time::Nanos;
use retrial::workflow::Workflow;
use retrial_testkit::bench_support::{actions, complete, workflow};
use tokio::runtime::{Builder, Runtime};

/// The most instructions of one run. Lower it with what a change saves; raise it with a reason.
const BUDGET: u64 = if cfg!(debug_assertions) { 720_000 } else { 160_000 };

const RUNS: u64 = 200;

/// Set in the process that callgrind runs.
const CHILD: &str = "RETRIAL_COUNT_RUNS";

type Memory = (TokioRuntime, MemoryStore<TokioRuntime>, retrial::action::Registry);

/// Callgrind counts only while this runs.
#[inline(never)]
fn counted(tokio: &Runtime, engine: &Engine<Memory>, workflow: &Arc<Workflow>) {
    tokio.block_on(complete(engine, workflow, RUNS));
}

fn work_off() {
    let tokio = Builder::new_current_thread().enable_all().build().unwrap();
    // Nothing may depend on how long it takes.
    let config = Config { poll: Nanos::from_secs(3_600), ..Config::default() };
    let engine = tokio.block_on(async {
        let runtime = TokioRuntime::current();
        let store = MemoryStore::new(runtime.clone());
        Engine::start(runtime, store, actions(), config, Vec::new()).await
    });
    counted(&tokio, &engine, &workflow(None));
}

#[test]
#[ignore = "needs valgrind: apt-get install valgrind"]
fn a_run_keeps_to_its_budget_of_instructions() {
    #[allow(clippy::disallowed_methods, reason = "the process that starts this one sets it")]
    let is_child = std::env::var_os(CHILD).is_some();
    if is_child {
        return work_off();
    }
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("out");
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=engine::instructions::counted"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "instructions::a_run_keeps_to_its_budget_of_instructions"])
        .env(CHILD, "1")
        .output()
        .expect("valgrind is not installed: apt-get install valgrind");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = std::fs::read_to_string(&counts).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).unwrap();
    let each = total.parse::<u64>().unwrap() / RUNS;
    println!("{each} instructions a run");
    assert!(each > 0, "nothing was counted");
    assert!(each <= BUDGET, "a run takes {each} instructions; its budget is {BUDGET}");
}
