//! A sweep: a parent with worker processes. A worker runs one seed after another, each on a fresh
//! thread; the parent's watchdog ends a worker that makes no progress, calls the seed stuck and goes
//! on. A loop that never yields can't be unwound from within.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::report::{SeedReport, Verdict};

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
}

struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<io::Result<String>>,
}

impl Sweep {
    /// Runs every seed; `seen` hears of each as it ends, in no particular order.
    ///
    /// # Errors
    /// When worker processes can't be started.
    pub fn run(&self, seen: impl Fn(&SeedReport) + Sync) -> io::Result<Vec<SeedReport>> {
        let queue = Mutex::new(VecDeque::from(self.seeds.clone()));
        let reports = Mutex::new(Vec::new());
        let work = || -> io::Result<()> {
            let mut worker = None;
            while let Some(seed) = lock(&queue).pop_front() {
                let report = self.run_seed(&mut worker, seed)?;
                seen(&report);
                lock(&reports).push(report);
            }
            if let Some(Worker { mut child, stdin, .. }) = worker {
                drop(stdin);
                child.wait()?;
            }
            Ok(())
        };
        let jobs = self.jobs.clamp(1, self.seeds.len().max(1));
        thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|w| {
                w.join().unwrap_or_else(|_| Err(io::Error::other("a sweep thread panicked")))
            })
        })?;
        Ok(reports.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn run_seed(&self, slot: &mut Option<Worker>, seed: u64) -> io::Result<SeedReport> {
        let mut worker = match slot.take() {
            Some(worker) => worker,
            None => self.start()?,
        };
        let asked = writeln!(worker.stdin, "{seed}").and_then(|()| worker.stdin.flush());
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
                worker.child.kill()?;
                worker.child.wait()?;
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
