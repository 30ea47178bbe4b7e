//! What a program is asked, and what it answers.
//!
//! `PROGRAM PHASE JOBS AT_ONCE [fail] [shared]`, with the database in `DATABASE_URL`. The phases `setup`,
//! `submit` and `work` are processes apart. The last two print the seconds that they took.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The allocator of every program in Rust: what frees in one thread what another took has its price
/// in that of glibc.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a program may take. Then it is stuck.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is asked of a program.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `setup`, `submit` or `work`.
    pub phase: String,
    /// How many jobs.
    pub jobs: u64,
    /// How many at once.
    pub at_once: usize,
    /// Whether each job fails once.
    pub fail: bool,
    /// Whether another process works on the same jobs.
    pub shared: bool,
    /// The database.
    pub url: String,
}

impl Asked {
    /// Reads arguments and environment.
    pub fn read() -> Self {
        let all: Vec<String> = std::env::args().skip(1).collect();
        let [phase, jobs, at_once, rest @ ..] = &all[..] else {
            panic!("usage: PROGRAM PHASE JOBS AT_ONCE [fail] [shared]")
        };
        Self {
            phase: phase.clone(),
            jobs: jobs.parse().expect("JOBS"),
            at_once: at_once.parse().expect("AT_ONCE"),
            fail: rest.iter().any(|word| word == "fail"),
            shared: rest.iter().any(|word| word == "shared"),
            url: std::env::var("DATABASE_URL").expect("DATABASE_URL"),
        }
    }

    /// The first numbers of batches of `size`, each with the number after its last.
    pub fn batches(&self, size: u64) -> impl Iterator<Item = (u64, u64)> {
        let jobs = self.jobs;
        (0..jobs).step_by(size as usize).map(move |first| (first, (first + size).min(jobs)))
    }
}

static DONE: AtomicU64 = AtomicU64::new(0);
static ATTEMPTS: Mutex<Option<HashMap<u64, u32>>> = Mutex::new(None);

/// A handler has done a job.
pub fn done() {
    DONE.fetch_add(1, Ordering::Relaxed);
}

/// The number of this attempt at a job, from 1, for peers whose handlers are not told it.
pub fn attempt(job: u64) -> u32 {
    let mut attempts = ATTEMPTS.lock().unwrap();
    let attempt = attempts.get_or_insert_default().entry(job).or_default();
    *attempt += 1;
    *attempt
}

/// Waits until the handlers have done all jobs, and then until the database says that none is left.
pub async fn worked_off(asked: &Asked, mut left: impl AsyncFnMut() -> i64) {
    let work = async {
        while !asked.shared && DONE.load(Ordering::Relaxed) < asked.jobs {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let pause = Duration::from_millis(if asked.shared { 10 } else { 3 });
        while left().await > 0 {
            tokio::time::sleep(pause).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, work).await;
    let done = DONE.load(Ordering::Relaxed);
    assert!(in_time.is_ok(), "stuck: {done} of {} done", asked.jobs);
}

/// Says how long it took.
pub fn took(since: Instant) {
    println!("{}", since.elapsed().as_secs_f64());
}
