//! The scratch copy: a tree that follows the source by content, so that files without changes are
//! not built again.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::patch::Patch;
use super::record::named;
use super::suites::{self, SUITES, Suite};
use super::switches::{PLANTED, Switches};
use super::workspace::{Ran, Workspace, WorkspaceError};
use crate::process::{BUILD, Ended, Processes, cargo};
use crate::tree::Tree;
use retrial_sim::unstable::capsule::Capsule;
use retrial_sim::unstable::report::SeedReport;
use retrial_sim::unstable::scenario::Scenario;
use retrial_sim::unstable::sweep::{Sweep, Worker};

/// The most that one suite may take.
const SUITE: Duration = Duration::from_secs(5 * 60);
/// The most that packing up may take.
const SHRINK: Duration = Duration::from_secs(20 * 60);
/// The real seconds after which a seed is called stuck.
const WATCHDOG: Duration = Duration::from_secs(20);
/// Seeds that are run before it is asked whether one failed.
const BATCH: u64 = 16;
/// So much of a fingerprint tells whether a history is another one.
const HISTORY: usize = 8;
/// Where the simulation is built.
const SIMULATION: &str = "target/mutant/retrial-sim";
/// The one with switches.
const SWITCHED: &str = "retrial-sim";
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
    /// Mutants for which switches shall be made.
    waiting: Vec<Patch>,
    switches: Switches,
    /// The number of the switch that is on: 0 where none is. None where the copy has no switches.
    on: Option<u32>,
}

impl Scratch {
    /// A copy of `source` in `folder`, which may hold one from before.
    ///
    /// # Errors
    /// When the folder can't be made.
    pub fn new(source: Tree, folder: &Path, jobs: usize, processes: Processes) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        Ok(Self {
            source,
            folder,
            jobs,
            processes,
            worker: None,
            room: String::new(),
            waiting: Vec::new(),
            switches: Switches::default(),
            on: None,
        })
    }

    /// Builds these mutants together, each behind a switch, as soon as the first of them is wanted.
    /// Those that can't stand behind one are built alone.
    pub fn together<'a>(&mut self, mutants: impl IntoIterator<Item = &'a Patch>) {
        self.waiting = mutants.into_iter().cloned().collect();
    }

    /// Whether `patch` applies to the source.
    ///
    /// # Errors
    /// What git says where it does not.
    pub fn check(&self, patch: &Patch) -> Result<(), WorkspaceError> {
        self.apply(patch, self.source.root(), &["--check"])
    }

    fn tree(&self) -> PathBuf {
        self.folder.join(if self.on.is_some() { "switched" } else { "tree" })
    }

    /// The program of the simulation, as it was built last.
    fn program(&self) -> PathBuf {
        match self.on {
            Some(_) => self.folder.join("planted"),
            None => self.folder.join(SIMULATION),
        }
    }

    /// Makes the program that has this switch on.
    fn switch(&mut self, number: u32) -> io::Result<()> {
        self.on = Some(number);
        let simulation = self.folder.join(SWITCHED);
        let text =
            format!("#!/bin/sh\n{PLANTED}={number} exec '{}' \"$@\"\n", simulation.display());
        std::fs::write(self.program(), text)?;
        std::fs::set_permissions(self.program(), Permissions::from_mode(0o755))
    }

    /// Makes switches for the mutants that wait, and builds all that will be wanted.
    fn make_switches(&mut self) -> Result<(), WorkspaceError> {
        let mut mutants = Vec::new();
        for patch in std::mem::take(&mut self.waiting) {
            let text = self.patched(&patch)?;
            mutants.push((patch.name, patch.file, text));
        }
        while !mutants.is_empty() {
            let source = |file: &str| str::from_utf8(self.source.files().get(file)?).ok();
            let all = mutants.iter().map(|(name, file, text)| (&**name, &**file, text.clone()));
            self.switches = Switches::new(source, all);
            self.on = Some(0);
            self.follow()?;
            let built = self.ended(&["build", "--bin", "retrial-sim"])?;
            let built = if built.is_well() { self.ended(&building(&SUITES))? } else { built };
            if built.is_well() {
                // For whoever wants to start a program with one of them: RETRIAL_PLANTED=NUMBER.
                std::fs::write(self.folder.join("numbers"), self.switches.listed())?;
                // A mutant that is built alone takes its place.
                std::fs::copy(self.folder.join(SIMULATION), self.folder.join(SWITCHED))?;
                break;
            }
            let blamed = self.switches.blamed(&built.err);
            if blamed.is_empty() {
                return Err(WorkspaceError::DoesNotBuild(complaint(&built)));
            }
            mutants.retain(|(name, ..)| !blamed.contains(&name.as_str()));
        }
        Ok(())
    }

    /// The text of the mutant's file with the mutant.
    fn patched(&self, patch: &Patch) -> Result<String, WorkspaceError> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join(&patch.file);
        file.parent().map(std::fs::create_dir_all).transpose()?;
        std::fs::write(&file, self.source.files().get(&patch.file).map_or(&[][..], Vec::as_slice))?;
        self.apply(patch, folder.path(), &[])?;
        Ok(std::fs::read_to_string(&file)?)
    }

    fn sweep_of(&self, seeds: Vec<u64>) -> Sweep {
        Sweep { seeds, ..Sweep::new(self.program(), self.jobs, WATCHDOG) }
    }

    /// Makes the copy equal to the source.
    fn follow(&self) -> io::Result<()> {
        let switched = |file: &str| self.on.and_then(|_| self.switches.file(file));
        self.source.copy(&self.tree(), switched)
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
        let ended = self.ended(arguments)?;
        if ended.is_well() {
            Ok(ended)
        } else {
            Err(WorkspaceError::DoesNotBuild(complaint(&ended)))
        }
    }

    fn ended(&self, arguments: &[&str]) -> io::Result<Ended> {
        let mut cargo = cargo(&self.tree(), &self.folder.join("target"), arguments);
        // Cargo takes the packages of two copies for the same ones unless something else differs.
        match self.on {
            Some(_) => cargo.env("RUSTC_WORKSPACE_WRAPPER", "env"),
            None => cargo.env_remove("RUSTC_WORKSPACE_WRAPPER"),
        };
        self.processes.run(&mut cargo, BUILD)
    }

    /// Builds suites: each with its programs, as each package may have one of that name.
    fn suites(&self, suites: &[Suite]) -> Result<Vec<(Suite, Built)>, WorkspaceError> {
        let said = self.cargo(&building(suites))?.out;
        let built: Vec<Built> =
            said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut programs = Vec::new();
        for suite in suites {
            let before = programs.len();
            let its = |built: &&Built| built.profile.test && built.target.name == suite.name;
            let named = built.iter().filter(its);
            programs.extend(named.map(|built| (*suite, built.clone())));
            if programs.len() == before {
                return Err(WorkspaceError::DoesNotBuild(format!(
                    "Cargo names no program for the suite `{suite}`"
                )));
            }
        }
        Ok(programs)
    }

    /// Builds suites and runs them until a test fails, among those that are `asked` for.
    fn first_failing(
        &self,
        suites: &[Suite],
        asked: &[&str],
    ) -> Result<Option<String>, WorkspaceError> {
        for (suite, built) in self.suites(suites)? {
            if let Some(failed) = self.failing(suite, &built, asked)? {
                return Ok(Some(failed));
            }
        }
        Ok(None)
    }

    /// The test that fails in a suite, if one does, among those that are `asked` for.
    fn failing(
        &self,
        suite: Suite,
        built: &Built,
        asked: &[&str],
    ) -> Result<Option<String>, WorkspaceError> {
        let package = built.manifest_path.parent().map(Path::to_owned).unwrap_or_default();
        let mut program = Command::new(&built.executable);
        program
            .args(suite.only)
            .args(asked)
            .current_dir(&package)
            .env("CARGO_MANIFEST_DIR", &package);
        program.env("CI", "1").env("INSTA_UPDATE", "no").env("PROPTEST_RNG_SEED", CASES);
        // Many tests wait, for servers and processes.
        program.env("RUST_TEST_THREADS", (2 * self.jobs).to_string()).env_remove("DATABASE_URL");
        program.env(PLANTED, self.on.unwrap_or(0).to_string());
        let ended = self.processes.run(&mut program, SUITE)?;
        let said = || format!("{}: {}", suite.name, failure(&ended));
        Ok(if ended.is_well() { None } else { Some(said()) })
    }
}

/// What Cargo is asked for these suites.
fn building(suites: &[Suite]) -> Vec<&'static str> {
    let mut arguments = vec!["test", "--no-run", "--message-format=json-render-diagnostics"];
    for suite in suites {
        match suite.name {
            // Cargo takes no names here: it builds all libraries.
            library if library.starts_with("retrial") => arguments.push("--lib"),
            name => arguments.extend(["--test", name]),
        }
    }
    // Said twice it is an error.
    arguments.dedup();
    arguments
}

/// Cargo's message about a program that it built.
#[derive(Clone, Deserialize)]
struct Built {
    executable: PathBuf,
    manifest_path: PathBuf,
    target: Named,
    profile: Profile,
}

#[derive(Clone, Deserialize)]
struct Named {
    name: String,
}

#[derive(Clone, Deserialize)]
struct Profile {
    /// Whether it is a program of tests.
    test: bool,
}

impl Workspace for Scratch {
    fn clear(&mut self) -> Result<(), WorkspaceError> {
        self.worker = None;
        self.make_switches()?;
        self.on = None;
        if !self.switches.is_empty() {
            self.switch(0)?;
        }
        Ok(self.follow()?)
    }

    fn plant(&mut self, patch: &Patch) -> Result<(), WorkspaceError> {
        self.worker = None;
        self.room.clone_from(&patch.room);
        self.make_switches()?;
        self.on = None;
        if let Some(number) = self.switches.number(&patch.name) {
            self.switch(number)?;
            return Ok(self.follow()?);
        }
        self.follow()?;
        self.apply(patch, &self.tree(), &[])
    }

    fn build(&mut self) -> Result<(), WorkspaceError> {
        self.cargo(&["build", "--bin", "retrial-sim"]).map(drop)
    }

    fn sweep(&mut self, seeds: u64) -> Result<Ran, WorkspaceError> {
        let mut ran = Ran::default();
        while (ran.histories.len() as u64) < seeds {
            let from = ran.histories.len() as u64;
            let until = seeds.min(from + BATCH);
            let mut reports = self.sweep_of((from..until).collect()).run(|_| {})?;
            reports.sort_by_key(|report| report.seed);
            for report in reports {
                ran.histories.push(report.fingerprint.chars().take(HISTORY).collect());
                if report.verdict.is_failure() {
                    return Ok(Ran { failed: Some(report), ..ran });
                }
            }
        }
        Ok(ran)
    }

    fn run(&mut self, scenario: &Scenario) -> Result<SeedReport, WorkspaceError> {
        let sweep = self.sweep_of(Vec::new());
        Ok(sweep.run_scenario(&mut self.worker, scenario)?)
    }

    fn test(&mut self, likely: Option<&str>) -> Result<Option<String>, WorkspaceError> {
        let order = suites::in_order(&self.room);
        if let Some((name, test)) = likely.and_then(named) {
            let its = order.iter().flatten().copied().filter(|suite| suite.name == name);
            let failed = self.first_failing(&its.collect::<Vec<_>>(), &[test, "--exact"])?;
            if failed.is_some() {
                return Ok(failed);
            }
        }
        for suites in order.iter().filter(|suites| !suites.is_empty()) {
            let failed = self.first_failing(suites, &[])?;
            if failed.is_some() {
                return Ok(failed);
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
