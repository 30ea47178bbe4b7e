//! What things cost at most: a verdict, an event read back, a run that does nothing, and a task of a
//! wide run beside one of a narrow run.
//!
//! Callgrind counts instructions of the processor: about the same in each run, however busy the
//! machine is. It runs all of it some 50 times slower, so the repetitions are few. Lower a budget with
//! what a change saves; raise it with a reason.

use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;

use retrial::engine::{Config, Engine};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Functions, Jitter, Matcher, Policy, Used, Verdict};
use retrial::run::{Input, RunId, RunState, TaskId, Token, decode, encode};
use retrial::runtime::TokioRuntime;
use retrial::store::MemoryStore;
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::StepIx;
use retrial_testkit::bench_support::{actions, complete, workflow};
use serde_json::{Map, Value, json};
use tokio::runtime::Builder;

use crate::kit::fan_out;

/// The most instructions of each: as tests are built, with assertions; the same where
/// `scripts/lint.sh` builds them, for what is generic is compiled here; and as a release is.
const RUN: u64 = budget(229_000, 247_000, 117_000);
const VERDICT: u64 = budget(690, 740, 450);
const EVENT: u64 = budget(5_800, 5_800, 3_300);

const fn budget(tests: u64, unoptimised: u64, release: u64) -> u64 {
    match (cfg!(debug_assertions), cfg!(unoptimised)) {
        (true, false) => tests,
        (true, true) => unoptimised,
        (false, _) => release,
    }
}

/// Set to a number in the process that callgrind runs.
const CHILD: &str = "RETRIAL_COUNT";

/// Callgrind counts only while this runs.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
}

/// What callgrind has written.
struct Counts(String);

impl Counts {
    fn total(&self) -> u64 {
        let total = self.0.lines().find_map(|line| line.strip_prefix("totals: ")).unwrap();
        total.parse().unwrap()
    }

    /// Fails if each of `many` took more than `budget`.
    fn check(&self, what: &str, many: u64, budget: u64) {
        let each = self.total() / many;
        println!("{each} instructions for {what}");
        assert!(each > 0, "nothing was counted");
        assert!(each <= budget, "{what} takes {each} instructions; its budget is {budget}");
    }
}

/// The instructions of what `work` does within [`counted`], for so many repetitions. `None` in the
/// process that callgrind runs, which does the work.
fn counts(test: &str, many: u64, work: impl FnOnce(u64)) -> Option<Counts> {
    #[allow(clippy::disallowed_methods, reason = "the process that starts this one sets it")]
    if let Some(many) = std::env::var_os(CHILD) {
        let many = many.into_string().unwrap().parse().unwrap();
        work(many);
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=engine::instructions::counted"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &format!("instructions::{test}")])
        .env(CHILD, many.to_string())
        .output()
        .expect("valgrind is not installed: apt-get install valgrind");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Some(Counts(std::fs::read_to_string(out).unwrap()))
}

type Memory = (TokioRuntime, MemoryStore<TokioRuntime>, retrial::action::Registry);

/// Submits runs and waits for their outcomes.
fn work_off(workflow: &Arc<retrial::workflow::Workflow>, runs: u64) {
    let tokio = Builder::new_current_thread().enable_all().build().unwrap();
    // Nothing may depend on how long it takes.
    let config = Config { poll: Nanos::from_secs(3_600), ..Config::default() };
    let engine: Engine<Memory> = tokio.block_on(async {
        let runtime = TokioRuntime::current();
        let store = MemoryStore::new(runtime.clone());
        Engine::start(runtime, store, actions(), config, Vec::new()).await
    });
    counted(&mut || tokio.block_on(complete(&engine, workflow, runs)));
}

#[test]
#[ignore = "needs valgrind: apt-get install valgrind"]
fn a_run_keeps_to_its_budget_of_instructions() {
    let runs = 200;
    let test = "a_run_keeps_to_its_budget_of_instructions";
    let Some(counts) = counts(test, runs, |runs| work_off(&workflow(None), runs)) else { return };
    counts.check("a run that does nothing", runs, RUN);
}

/// Tasks of a narrow run, and how many times as many a wide one has.
const NARROW: u64 = 1_000;
/// No step fans out over more than 10,000 items.
const TIMES: u64 = 10;

#[test]
#[ignore = "needs valgrind: apt-get install valgrind; takes a minute"]
fn a_task_of_a_wide_run_costs_as_much_as_one_of_a_narrow_run() {
    let test = "a_task_of_a_wide_run_costs_as_much_as_one_of_a_narrow_run";
    let fan = |items: u64| {
        let items: Vec<u64> = (0..items).collect();
        work_off(&workflow(Some(json!(items))), 1);
    };
    let Some(narrow) = counts(test, NARROW, fan) else { return };
    let Some(wide) = counts(test, NARROW * TIMES, fan) else { return };
    let [narrow, wide] = [narrow.total() / NARROW, wide.total() / NARROW / TIMES];
    println!("{narrow} instructions for a task of a narrow run, {wide} for one of a wide run");
    assert!(10 * wide <= 13 * narrow, "{wide} instructions instead of {narrow}");
}

#[test]
#[ignore = "needs valgrind: apt-get install valgrind"]
fn a_verdict_keeps_to_its_budget_and_allocates_nothing() {
    let many = 1_000;
    let test = "a_verdict_keeps_to_its_budget_and_allocates_nothing";
    let Some(counts) = counts(test, many, give_verdicts) else { return };
    // Each function that was called is named once, after its number.
    assert!(!counts.0.contains(") malloc\n"), "a verdict allocates");
    counts.check("a verdict", many, VERDICT);
}

fn give_verdicts(many: u64) {
    let backoff = Backoff::exponential(Nanos::from_millis(100)).with_cap(Nanos::from_secs(30));
    let built = Policy::builder()
        .attempts(1_000_000)
        .matcher(Matcher::retryable())
        .backoff(backoff.with_jitter(Jitter::Full))
        .build();
    let (policy, functions) = (built.unwrap(), Functions::default());
    let failure = Failure::http(503, "busy");
    let now = Timestamp::from_nanos(1_000_000_000_000);
    let mut retries = 0;
    counted(&mut || {
        for n in 0..many {
            let attempt = 1 + (n % 8) as u32;
            let used = Used {
                attempt,
                idempotent: true,
                timeout_retries: 0,
                by_rule: &[],
                previous: None,
                first_started: now,
            };
            let chance = TaskId::FIRST.chance(7, attempt);
            let verdict = policy.verdict(black_box(&failure), &used, now, chance, &functions);
            retries += u64::from(matches!(verdict, Verdict::Retry { .. }));
        }
    });
    assert_eq!(retries, many);
}

#[test]
#[ignore = "needs valgrind: apt-get install valgrind"]
fn an_event_read_back_keeps_to_its_budget_of_instructions() {
    let items = 200;
    let test = "an_event_read_back_keeps_to_its_budget_of_instructions";
    let Some(counts) = counts(test, items, |items| read_back(items as u32)) else { return };
    // Each item starts, fails, waits, starts and succeeds, and before and after them a few more.
    counts.check("an event read back", EVENTS_OF_AN_ITEM * items, EVENT);
}

const EVENTS_OF_AN_ITEM: u64 = 5;

/// Decodes and folds the history of one run.
fn read_back(items: u32) {
    let (run, functions) = (RunId::from_random(1, 1), Functions::default());
    let mut now = Timestamp::from_nanos(1_700_000_000_000_000_000);
    let workflow = fan_out(items, crate::kit::patient(3));
    let (mut state, mut log) = RunState::create(run, 7, workflow, Map::new(), now).unwrap();
    for attempt in [1, 2] {
        for item in 0..items {
            let task = TaskId { step: StepIx(0), item };
            let token = Token::from_random(u64::from(item), u64::from(attempt));
            let claimed = Input::Claimed { task, attempt, token, default_timeout: None };
            let failure = Failure::http(503, "busy, try again later");
            let end = match attempt {
                1 => Input::Failed { task, token, failure, denied: false },
                _ => Input::Succeeded { task, token, result: Arc::new(Value::Null) },
            };
            for input in [claimed, end] {
                now = now.after(Nanos::from_millis(1));
                log.extend(state.handle(&input, now, &functions).unwrap());
            }
        }
    }
    assert!(log.len() as u64 >= EVENTS_OF_AN_ITEM * u64::from(items));
    let stored: Vec<_> = log.iter().map(encode).collect();
    let mut read = None;
    counted(&mut || {
        let log: Vec<_> = black_box(&stored).iter().map(|bytes| decode(bytes).unwrap()).collect();
        read = Some(RunState::replay(run, &log).unwrap());
    });
    assert_eq!(read.unwrap().version(), state.version());
}
