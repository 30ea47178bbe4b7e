//! The scratch copy: a tree that follows the source by content, so that files without changes are
//! not built again.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::patch::Patch;
use super::process::{Ended, Processes};
use super::suites;
use super::tree::Tree;
use super::workspace::{Workspace, WorkspaceError};
use retrial_sim::unstable::capsule::Capsule;
use retrial_sim::unstable::report::SeedReport;
use retrial_sim::unstable::scenario::Scenario;
use retrial_sim::unstable::sweep::{Sweep, Worker};

/// The most that a build may take; the first one builds every dependency.
const BUILD: Duration = Duration::from_secs(30 * 60);
/// The most that one suite may take.
const SUITE: Duration = Duration::from_secs(5 * 60);
/// The most that packing up may take.
const SHRINK: Duration = Duration::from_secs(20 * 60);
/// The real seconds after which a seed is called stuck.
const WATCHDOG: Duration = Duration::from_secs(20);
/// Seeds that are run before it is asked whether one failed.
const BATCH: u64 = 16;
/// The seed of property tests, so that their cases are the same for every mutant.
const CASES: &str = "1";

/// A scratch copy.
pub struct Scratch {
    source: Tree,
    folder: PathBuf,
    jobs: usize,
    processes: Processes,
    worker: Option<Worker>,
    /// The room of what was planted.
    room: String,
}

impl Scratch {
    /// A copy of `source` in `folder`, which may hold one from before.
    ///
    /// # Errors
    /// When the folder can't be made.
    pub fn new(source: Tree, folder: &Path, jobs: usize, processes: Processes) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        Ok(Self { source, folder, jobs, processes, worker: None, room: String::new() })
    }

    /// Whether `patch` applies to the source.
    ///
    /// # Errors
    /// What git says where it does not.
    pub fn check(&self, patch: &Patch) -> Result<(), WorkspaceError> {
        self.apply(patch, self.source.root(), &["--check"])
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn sweep_of(&self, seeds: Vec<u64>) -> Sweep {
        let program = self.folder.join("target/mutant/retrial-sim");
        Sweep { seeds, ..Sweep::new(program, self.jobs, WATCHDOG) }
    }

    /// Makes the copy equal to the source. A file that is equal already is not written.
    fn follow(&self) -> io::Result<()> {
        let tree = self.tree();
        for (file, bytes) in self.source.files() {
            let to = tree.join(file);
            if std::fs::read(&to).ok().as_ref() != Some(bytes) {
                to.parent().map(std::fs::create_dir_all).transpose()?;
                std::fs::write(&to, bytes)?;
            }
        }
        let wanted: BTreeSet<PathBuf> = self.source.files().keys().map(|f| tree.join(f)).collect();
        let mut folders = vec![tree];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if !wanted.contains(&path) {
                    std::fs::remove_file(path)?;
                }
            }
        }
        Ok(())
    }

    fn apply(&self, patch: &Patch, to: &Path, more: &[&str]) -> Result<(), WorkspaceError> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), &patch.diff)?;
        let mut git = Command::new("git");
        // Within another repository's folder it would take no notice of the files.
        git.current_dir(to).env("GIT_CEILING_DIRECTORIES", &self.folder);
        git.arg("apply").args(more).arg(file.path());
        let ended = self.processes.run(&mut git, SUITE)?;
        if ended.is_well() {
            Ok(())
        } else {
            Err(WorkspaceError::DoesNotApply(ended.err.trim().into()))
        }
    }

    fn cargo(&self, arguments: &[&str]) -> Result<Ended, WorkspaceError> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(self.tree()).args(arguments).args(["--locked", "--profile", "mutant"]);
        cargo.env("CARGO_TARGET_DIR", self.folder.join("target"));
        // They would replace the flags of .cargo/config.toml.
        cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        let ended = self.processes.run(&mut cargo, BUILD)?;
        if ended.is_well() {
            Ok(ended)
        } else {
            Err(WorkspaceError::DoesNotBuild(complaint(&ended)))
        }
    }

    fn suites(&self, names: &[&str]) -> Result<Vec<Built>, WorkspaceError> {
        let mut arguments = vec!["test", "--no-run", "--message-format=json"];
        names.iter().for_each(|name| arguments.extend(["--test", name]));
        let said = self.cargo(&arguments)?.out;
        let built: Vec<Built> =
            said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        // Each package may have one of that name.
        let of = |name: &str| -> Vec<Built> {
            built.iter().filter(|b| b.target.name == name).cloned().collect()
        };
        if names.iter().any(|name| of(name).is_empty()) {
            return Err(WorkspaceError::DoesNotBuild(
                "Cargo names no program for a suite".to_owned(),
            ));
        }
        Ok(names.iter().flat_map(|name| of(name)).collect())
    }

    /// The test that fails in a suite, if one does.
    fn failing(&self, suite: &Built) -> Result<Option<String>, WorkspaceError> {
        let package = suite.manifest_path.parent().map(Path::to_owned).unwrap_or_default();
        let mut program = Command::new(&suite.executable);
        program.current_dir(&package).env("CARGO_MANIFEST_DIR", &package);
        program.env("CI", "1").env("INSTA_UPDATE", "no").env("PROPTEST_RNG_SEED", CASES);
        let ended = self.processes.run(&mut program, SUITE)?;
        let said = || format!("{}: {}", suite.target.name, failure(&ended));
        Ok(if ended.is_well() { None } else { Some(said()) })
    }
}

/// Cargo's message about a program that it built.
#[derive(Clone, Deserialize)]
struct Built {
    executable: PathBuf,
    manifest_path: PathBuf,
    target: Named,
}

#[derive(Clone, Deserialize)]
struct Named {
    name: String,
}

impl Workspace for Scratch {
    fn plant(&mut self, patch: &Patch) -> Result<(), WorkspaceError> {
        self.worker = None;
        self.room.clone_from(&patch.room);
        std::fs::create_dir_all(self.tree())?;
        self.follow()?;
        self.apply(patch, &self.tree(), &[])
    }

    fn build(&mut self) -> Result<(), WorkspaceError> {
        self.cargo(&["build", "--bin", "retrial-sim"]).map(drop)
    }

    fn sweep(&mut self, seeds: u64) -> Result<Option<SeedReport>, WorkspaceError> {
        let mut from = 0;
        while from < seeds {
            let until = seeds.min(from + BATCH);
            let reports = self.sweep_of((from..until).collect()).run(|_| {})?;
            let failing = reports.into_iter().filter(|report| report.verdict.is_failure());
            if let Some(first) = failing.min_by_key(|report| report.seed) {
                return Ok(Some(first));
            }
            from = until;
        }
        Ok(None)
    }

    fn run(&mut self, scenario: &Scenario) -> Result<SeedReport, WorkspaceError> {
        let sweep = self.sweep_of(Vec::new());
        Ok(sweep.run_scenario(&mut self.worker, scenario)?)
    }

    fn test(&mut self) -> Result<Option<String>, WorkspaceError> {
        for names in suites::in_order(&self.room).iter().filter(|names| !names.is_empty()) {
            for suite in self.suites(names)? {
                if let Some(failed) = self.failing(&suite)? {
                    return Ok(Some(failed));
                }
            }
        }
        Ok(None)
    }

    fn shrink(&mut self, seed: u64, folder: &Path) -> Result<Capsule, WorkspaceError> {
        std::fs::create_dir_all(folder)?;
        let mut program = Command::new(self.sweep_of(Vec::new()).program);
        program.args(["shrink", &seed.to_string(), "--into"]).arg(folder);
        let ended = self.processes.run(&mut program, SHRINK)?;
        if !ended.is_well() {
            return Err(WorkspaceError::NotShrunk(ended.err.trim().to_owned()));
        }
        let written = ended.out.split(".json: ").next().map(|path| format!("{path}.json"));
        Capsule::read(Path::new(&written.unwrap_or_default())).map_err(WorkspaceError::NotShrunk)
    }
}

/// The first error of a build.
fn complaint(ended: &Ended) -> String {
    if ended.status.is_none() {
        return "its time was up".to_owned();
    }
    let at = ended.err.lines().position(|line| line.starts_with("error"));
    ended.err.lines().skip(at.unwrap_or(0)).take(6).collect::<Vec<_>>().join("\n")
}

/// Which test failed: the first by name, as tests end in no particular order.
fn failure(ended: &Ended) -> String {
    let name = |line: &str| {
        let test = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(test.trim_end_matches(" - should panic").to_owned())
    };
    match (ended.out.lines().filter_map(name).min(), ended.status) {
        (Some(test), _) => test,
        (None, None) => "a test that does not end".to_owned(),
        (None, Some(status)) => format!("ended in the middle of a test: {status}"),
    }
}
