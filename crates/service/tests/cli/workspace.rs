//! A folder of its own, and the binary run in it.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use retrial::run::{Event, Recorded, decode};
use retrial::runtime::TokioRuntime;
use retrial::store::{RedbStore, RunPhase, Store};
use tempfile::TempDir;

pub(crate) struct Workspace(TempDir);

/// A process that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    pub(crate) fn first_line(&self) -> &str {
        self.out.lines().next().unwrap_or_default()
    }
}

/// A process at work. Ends with the test.
pub(crate) struct Going {
    child: Live,
    out: BufReader<ChildStdout>,
}

/// A process that does not outlive the test.
pub(crate) struct Live(Child);

/// What a store holds of one run.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) phase: RunPhase,
    pub(crate) events: Vec<Recorded>,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A lab with `w.toml`: the single step `fetch` of the action `get`, with these lines more.
    pub(crate) fn with_step(url: &str, policy: &str) -> Self {
        let workspace = Self::new();
        workspace.write("w.toml", one_step(url, policy));
        workspace
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_retrial"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        for name in retrial::dialect::Environment::NAMES.iter().chain(&[
            "RETRIAL_LOG",
            "RETRIAL_STORE",
            "RETRIAL_TOKEN",
            "RETRIAL_TOKEN_FILE",
        ]) {
            command.env_remove(name);
        }
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        done(self.command(args))
    }

    /// Starts the binary and leaves it at work, its lines at hand as they come.
    pub(crate) fn start(&self, args: &[&str]) -> Going {
        self.launch(&[args, &["--output", "detailed"]].concat())
    }

    /// The same for a command that has nothing to print in detail.
    pub(crate) fn launch(&self, args: &[&str]) -> Going {
        let mut child = self.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Going { child: Live(child), out }
    }

    /// What the store file `name` holds, by the runs' creation.
    pub(crate) fn stored(&self, name: &str) -> Vec<Stored> {
        let path = self.path(name);
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(async {
            let store = RedbStore::open(TokioRuntime::current(), path).await.unwrap();
            let mut heads = store.heads(None, 100).await.unwrap().runs;
            heads.sort_by_key(|head| head.created);
            let mut all = Vec::new();
            for head in heads {
                let loaded = store.load(head.run, None).await.unwrap().unwrap();
                assert!(loaded.snapshot.is_none(), "these histories are short");
                let events = loaded.tail.events.iter().map(|bytes| decode(bytes).unwrap());
                let events = events.collect();
                all.push(Stored { phase: head.phase, events });
            }
            store.close().await;
            all
        })
    }
}

pub(crate) fn one_step(url: &str, policy: &str) -> String {
    format!(
        "workflow = \"w\"\n[actions.get]\nhttp = \"POST {url}\"\n\
         [[steps]]\nid = \"fetch\"\naction = \"get\"\n{policy}\n"
    )
}

pub(crate) fn done(mut command: Command) -> Done {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Going {
    /// Reads lines until one holds `wanted`; gives all of them.
    pub(crate) fn until(&mut self, wanted: &str) -> String {
        let mut all = String::new();
        loop {
            let before = all.len();
            self.out.read_line(&mut all).unwrap();
            assert!(all.len() > before, "it ended without `{wanted}`:\n{all}");
            if all[before..].contains(wanted) {
                return all;
            }
        }
    }

    /// Closes the reading end of its stdout and lets it go on.
    pub(crate) fn hang_up(self) -> Live {
        self.child
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.0.kill().unwrap();
        self.child.wait();
    }

    /// Waits for the end: the code and what was still to come on stdout.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait(), rest)
    }
}

impl Live {
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stored {
    /// Each scheduled retry with the start that followed it: no attempt starts before it is due.
    pub(crate) fn check_delays(&self) {
        let mut scheduled = None;
        for recorded in &self.events {
            match &recorded.event {
                Event::RetryScheduled { task, attempt, delay, .. } => {
                    scheduled = Some((*task, *attempt, recorded.at.after(*delay)));
                }
                Event::AttemptStarted { task, attempt, .. } if *attempt > 1 => {
                    let (of, number, due) = scheduled.take().unwrap();
                    assert_eq!((of, number), (*task, *attempt));
                    assert!(recorded.at >= due, "attempt {attempt} at {}, due {due}", recorded.at);
                }
                _ => {}
            }
        }
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.events.iter().map(|recorded| recorded.event.name()).collect()
    }
}
