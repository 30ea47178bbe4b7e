//! A sweep: a parent with worker processes. A worker runs one seed after another, each on a fresh
//! thread; the parent's watchdog ends a worker that makes no progress, records the seed as stuck
//! and continues. A loop that never yields can't be stopped from within its process.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::report::{SeedReport, Verdict};
use crate::scenario::Scenario;

/// How a sweep is run.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The seeds, lowest first.
    pub seeds: Vec<u64>,
    /// Worker processes.
    pub jobs: usize,
    /// The wall-clock time after which a worker's seed is called stuck.
    pub watchdog: Duration,
    /// The program that is a worker when called as `worker`.
    pub program: PathBuf,
    /// Passed to the workers.
    pub scenario: Option<PathBuf>,
    /// Whether reports say what histories show.
    pub shows: bool,
    /// The environment of the workers.
    pub surroundings: Surroundings,
}

/// The environment of workers. It must not change any result.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Their working folder; the parent's where none is given.
    pub folder: Option<PathBuf>,
    /// Their environment, in place of the parent's.
    pub variables: Option<Vec<(&'static str, &'static str)>>,
    /// Where they write each seed's history, marked.
    pub histories: Option<PathBuf>,
}

/// A process that runs each seed it gets, one a line. It ends when this is dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<io::Result<String>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Whether it had ended before makes no difference.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One part of many seeds, as `K/N` names it: the K-th of N, K from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    part: u64,
    of: u64,
}

impl Shard {
    /// Whether the item with this number, from 0, is in it.
    #[must_use]
    pub fn has(self, number: u64) -> bool {
        number % self.of == self.part - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a shard: write K/N with K from 1 to N");
        let (part, of) = text.split_once('/').ok_or_else(wrong)?;
        let (part, of) = (part.parse().map_err(|_| wrong())?, of.parse().map_err(|_| wrong())?);
        if part == 0 || part > of { Err(wrong()) } else { Ok(Self { part, of }) }
    }
}

/// How many processes can run at once on this machine.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Sweep {
    /// No seed yet: `jobs` workers of `program`, for scenarios or for seeds that are added.
    #[must_use]
    pub fn new(program: PathBuf, jobs: usize, watchdog: Duration) -> Self {
        let (scenario, shows, surroundings) = (None, false, Surroundings::default());
        Self { seeds: Vec::new(), jobs, watchdog, program, scenario, shows, surroundings }
    }

    /// Runs every seed. Calls `seen` with each result as it arrives, in no particular order.
    ///
    /// # Errors
    /// When worker processes can't be started.
    pub fn run(&self, seen: impl Fn(&SeedReport) + Sync) -> io::Result<Vec<SeedReport>> {
        let one = |slot: &mut Option<Worker>, seed: &u64| self.run_seed(slot, *seed);
        let ran = self.share_out(self.seeds.clone(), one, seen)?;
        Ok(ran.into_iter().map(|(_, report)| report).collect())
    }

    /// Runs every scenario. Calls `seen` with each result as it arrives. Returns each with its
    /// report, in their order.
    ///
    /// # Errors
    /// When worker processes can't be started.
    pub fn run_scenarios(
        &self,
        scenarios: Vec<Scenario>,
        seen: impl Fn(&SeedReport) + Sync,
    ) -> io::Result<Vec<(Scenario, SeedReport)>> {
        let scenarios: Vec<_> = scenarios.into_iter().enumerate().collect();
        let one = |slot: &mut Option<Worker>, (_, scenario): &(usize, Scenario)| {
            self.run_scenario(slot, scenario)
        };
        let mut ran = self.share_out(scenarios, one, seen)?;
        ran.sort_by_key(|((place, _), _)| *place);
        Ok(ran.into_iter().map(|((_, scenario), report)| (scenario, report)).collect())
    }

    /// Shares `work` out among the workers.
    fn share_out<T: Send>(
        &self,
        work: Vec<T>,
        one: impl Fn(&mut Option<Worker>, &T) -> io::Result<SeedReport> + Sync,
        seen: impl Fn(&SeedReport) + Sync,
    ) -> io::Result<Vec<(T, SeedReport)>> {
        let jobs = self.jobs.clamp(1, work.len().max(1));
        let queue = Mutex::new(VecDeque::from(work));
        let reports = Mutex::new(Vec::new());
        let work = || -> io::Result<()> {
            let mut worker = None;
            loop {
                let Some(next) = lock(&queue).pop_front() else { return Ok(()) };
                let report = one(&mut worker, &next)?;
                seen(&report);
                lock(&reports).push((next, report));
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|w| {
                w.join().unwrap_or_else(|_| Err(io::Error::other("a sweep thread panicked")))
            })
        })?;
        Ok(reports.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs one scenario in a worker process, which is kept in `slot` for the next.
    ///
    /// # Errors
    /// When a worker process can't be started.
    pub fn run_scenario(
        &self,
        slot: &mut Option<Worker>,
        scenario: &Scenario,
    ) -> io::Result<SeedReport> {
        let text = serde_json::to_string(scenario).map_err(io::Error::other)?;
        self.ask(slot, scenario.seed, &text)
    }

    fn run_seed(&self, slot: &mut Option<Worker>, seed: u64) -> io::Result<SeedReport> {
        self.ask(slot, seed, &seed.to_string())
    }

    /// Sends a line to a worker: a seed, or a scenario in JSON.
    fn ask(&self, slot: &mut Option<Worker>, seed: u64, line: &str) -> io::Result<SeedReport> {
        let mut worker = match slot.take() {
            Some(worker) => worker,
            None => self.start()?,
        };
        let asked = writeln!(worker.stdin, "{line}").and_then(|()| worker.stdin.flush());
        let answer = match asked {
            Ok(()) => worker.lines.recv_timeout(self.watchdog),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        match answer {
            Ok(Ok(line)) => {
                *slot = Some(worker);
                serde_json::from_str(&line).map_err(io::Error::other)
            }
            Ok(Err(error)) => Err(error),
            Err(RecvTimeoutError::Timeout) => {
                drop(worker);
                let text = format!("no end within {} s of real time", self.watchdog.as_secs());
                Ok(SeedReport::broken_off(seed, Verdict::Stuck, "watchdog", text))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = worker.child.wait()?;
                let text = format!("the worker ended in the middle of the seed: {status}");
                Ok(SeedReport::broken_off(seed, Verdict::Panicked, "worker", text))
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the parent is no simulated path")]
    fn start(&self) -> io::Result<Worker> {
        let mut command = Command::new(&self.program);
        command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(file) = &self.scenario {
            command.arg("--scenario").arg(file);
        }
        if self.shows {
            command.arg("--shows");
        }
        let Surroundings { folder, variables, histories } = &self.surroundings;
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        if let Some(variables) = variables {
            command.env_clear().envs(variables.iter().copied());
        }
        if let Some(histories) = histories {
            command.arg("--histories").arg(histories);
        }
        let mut child = command.spawn()?;
        let missing = || io::Error::other("the worker has no pipes");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Worker { child, stdin, lines })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
