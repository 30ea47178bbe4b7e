//! What befalls a server from without.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use retrial_testkit::postgres_server::{Server, Setup, Stop};

/// A server that keeps what it has acknowledged when its processes die, though not when the machine
/// does.
pub(crate) fn start() -> Server {
    let settings = vec![("synchronous_commit".to_owned(), "on".to_owned())];
    Server::start_as(Setup { settings, ..Setup::default() })
}

/// Kills all its processes at once and starts it again.
pub(crate) fn kill_and_start_again(server: &mut Server) {
    for pid in processes(server) {
        // One that its parent's death has ended is gone already.
        let _ = kill_process(pid, Signal::KILL);
    }
    while processes(server).iter().any(|pid| is_alive(*pid)) {
        std::thread::yield_now();
    }
    server.stop(Stop::Crash);
    server.start_again();
}

/// The most bytes that a file of its may have from now on; as many as it likes without. It is what
/// `ulimit -f` would have said before the server started.
pub(crate) fn limit_files(server: &Server, bytes: Option<u64>) {
    let limit = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
    let owner = fs::metadata(server.folder()).unwrap();
    for pid in processes(server) {
        let mut prlimit = Command::new("prlimit");
        prlimit.arg(format!("--fsize={limit}:")).arg(format!("--pid={}", pid.as_raw_nonzero()));
        if rustix::process::getuid().as_raw() != owner.uid() {
            // Even root may not change the limits of another user's processes everywhere.
            prlimit.uid(owner.uid()).gid(owner.gid());
        }
        // A process that has ended meanwhile needs none.
        let set = prlimit.output().unwrap();
        assert!(set.status.success() || !is_alive(pid), "{set:?}");
    }
}

/// Its first process and all whose parent that is.
fn processes(server: &Server) -> Vec<Pid> {
    let pid_file = server.folder().join("data/postmaster.pid");
    let Ok(text) = fs::read_to_string(pid_file) else { return Vec::new() };
    let first: i32 = text.lines().next().unwrap().parse().unwrap();
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        (pid == first || status(pid)?.1 == first).then_some(pid)
    });
    all.filter_map(Pid::from_raw).collect()
}

fn is_alive(pid: Pid) -> bool {
    status(pid.as_raw_nonzero().get()).is_some_and(|(state, _)| state != 'Z')
}

/// State and parent of a process.
fn status(pid: i32) -> Option<(char, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in brackets, may hold anything.
    let mut after = text.rsplit_once(')')?.1.split_whitespace();
    Some((after.next()?.chars().next()?, after.next()?.parse().ok()?))
}
