//! Processes that end in time, with all that they have started.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// The most that a build may take; the first one builds every dependency.
pub(crate) const BUILD: Duration = Duration::from_secs(30 * 60);

/// Cargo in a copy of the source, with the profile of planted bugs.
pub(crate) fn cargo(copy: &Path, target: &Path, arguments: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(copy).args(arguments).args(["--locked", "--profile", "mutant"]);
    cargo.env("CARGO_TARGET_DIR", target);
    // They would replace the flags of .cargo/config.toml.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo
}

/// The running processes, each in its own process group. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Processes(Arc<Mutex<BTreeSet<i32>>>);

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// None where its time was up.
    pub(crate) status: Option<ExitStatus>,
    /// Its standard output.
    pub(crate) out: String,
    /// Its standard error.
    pub(crate) err: String,
}

impl Ended {
    /// Whether it ended by itself and well.
    pub(crate) fn is_well(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

impl Processes {
    /// Runs `command` to its end, or ends it after `limit` of real time.
    pub(crate) fn run(&self, command: &mut Command, limit: Duration) -> io::Result<Ended> {
        let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
        // Signals of the terminal don't reach the group: see `end_all`.
        let mut child = command.process_group(0).spawn()?;
        let group = Pid::from_child(&child);
        self.running().insert(group.as_raw_nonzero().get());
        let status = thread::scope(|scope| {
            let (send, ended) = channel();
            scope.spawn(move || send.send(child.wait()));
            let status = ended.recv_timeout(limit);
            if status.is_err() {
                end(group);
            }
            status.ok().transpose()
        });
        self.running().remove(&group.as_raw_nonzero().get());
        Ok(Ended { status: status?, out: text(&mut out)?, err: text(&mut err)? })
    }

    /// Ends all that run, for a process that is about to end itself.
    pub fn end_all(&self) {
        self.running().iter().filter_map(|raw| Pid::from_raw(*raw)).for_each(end);
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end(group: Pid) {
    // One that has ended by itself is as good.
    let _ = kill_process_group(group, Signal::KILL);
}

fn text(file: &mut std::fs::File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test panics")]

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_process_says_is_kept() {
        let ended = Processes::default()
            .run(&mut shell("echo one; echo two >&2; exit 3"), Duration::from_secs(60))
            .unwrap();
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("one\n", "two\n"));
        assert_eq!(ended.status.and_then(|s| s.code()), Some(3));
        assert!(!ended.is_well());
    }

    /// The child would hold standard output open and never stop writing to it.
    #[test]
    fn a_process_that_hangs_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child");
        let script = format!("sleep 3600 & echo $! > {}; wait", file.display());
        let processes = Processes::default();
        let ended = processes.run(&mut shell(&script), Duration::from_secs(1)).unwrap();
        assert!(ended.status.is_none());
        let child = std::fs::read_to_string(&file).unwrap();
        let state = shell(&format!("ps -o stat= -p {}", child.trim())).output().unwrap();
        let state = String::from_utf8(state.stdout).unwrap();
        assert!(state.trim().is_empty() || state.starts_with('Z'), "{state}");
        assert!(processes.running().is_empty());
    }
}
