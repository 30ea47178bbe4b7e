//! The machine that a bench ran on, and what the bench used of it.

use std::fs;

use retrial::store::postgres::ServerUse;
use retrial::time::Nanos;
use serde::{Deserialize, Serialize};

/// What figures depend on. What the system does not say is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    /// The system.
    pub(super) os: String,
    /// The kind of processor.
    pub(super) arch: String,
    /// The processor's model.
    pub(super) cpu: Option<String>,
    /// How many threads can run at once.
    pub(super) cpus: usize,
    /// The memory in bytes.
    pub(super) memory_bytes: Option<u64>,
    /// The version of the database server, which may be on another machine.
    pub(super) server: Option<String>,
}

impl Machine {
    pub(super) fn this(server: Option<ServerUse>) -> Self {
        let cpu = field("/proc/cpuinfo", "model name");
        Self {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpu,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kilobytes("/proc/meminfo", "MemTotal"),
            server: server.map(|used| format!("PostgreSQL {}", used.version)),
        }
    }

    /// In one line.
    pub(super) fn words(&self) -> String {
        let Self { os, arch, cpu, cpus, memory_bytes, server } = self;
        let mut words = format!("{os} {arch}, {cpus} processors");
        if let Some(cpu) = cpu {
            words.push_str(&format!(" ({cpu})"));
        }
        if let Some(bytes) = memory_bytes {
            words.push_str(&format!(", {} MB of memory", bytes / 1_000_000));
        }
        if let Some(server) = server {
            words.push_str(&format!(", {server}"));
        }
        words
    }
}

/// The processor time that this process has used.
pub(super) fn processor_time() -> Nanos {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    Nanos::from_secs(part(used.tv_sec)).saturating_add(Nanos::new(part(used.tv_nsec)))
}

/// The most memory that this process has had at once, in bytes.
pub(super) fn most_memory() -> Option<u64> {
    kilobytes("/proc/self/status", "VmHWM")
}

fn kilobytes(file: &str, name: &str) -> Option<u64> {
    let text = field(file, name)?;
    text.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

/// The first line `name: value` of a file of Linux.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let mut values =
        text.lines().filter_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    values.next().map(|value| value.trim().to_owned())
}
