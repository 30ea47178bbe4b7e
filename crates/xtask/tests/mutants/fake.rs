//! A workspace without builds: a table says what finds which mutant.

use std::collections::BTreeMap;
use std::path::Path;

use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::capsule::{Capsule, Cause, FORMAT, Shrinking};
use retrial_sim::unstable::report::{SeedReport, Verdict};
use retrial_sim::unstable::scenario::Scenario;
use retrial_sim::unstable::shrink::Size;
use xtask::mutants::{Patch, Ran, Set, Workspace, WorkspaceError};

/// What finds a mutant.
#[derive(Clone, Debug)]
pub(crate) enum Killer {
    /// This seed, as long as its world has this kind of fault; always where none is given.
    Seed(u64, Option<FaultKind>),
    /// This test.
    Test(&'static str),
    /// Nothing.
    Nothing,
    /// It is no program.
    Compiler,
}

#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) killers: BTreeMap<String, Killer>,
    /// What was done, a line each.
    pub(crate) log: Vec<String>,
    /// After so many lines the process is killed.
    pub(crate) dies_after: Option<usize>,
    pub(crate) planted: Option<Killer>,
}

impl Fake {
    pub(crate) fn new(killers: &[(&str, Killer)]) -> Self {
        let mut all = BTreeMap::from([
            ("harmless".to_owned(), Killer::Nothing),
            ("glaring".to_owned(), Killer::Seed(0, None)),
        ]);
        all.extend(killers.iter().map(|(name, killer)| ((*name).to_owned(), killer.clone())));
        Self { killers: all, ..Self::default() }
    }

    fn note(&mut self, line: String) -> Result<(), WorkspaceError> {
        if self.dies_after.is_some_and(|most| self.log.len() >= most) {
            return Err(WorkspaceError::Io(std::io::Error::other("killed")));
        }
        self.log.push(line);
        Ok(())
    }

    fn killer(&self) -> Killer {
        self.planted.clone().unwrap()
    }
}

fn wrong(seed: u64) -> SeedReport {
    SeedReport::broken_off(seed, Verdict::Wrong, "sequence", "it came early".to_owned())
}

impl Workspace for Fake {
    fn clear(&mut self) -> Result<(), WorkspaceError> {
        self.note("clear".to_owned())?;
        self.planted = Some(self.killers.get("clean").cloned().unwrap_or(Killer::Nothing));
        Ok(())
    }

    fn plant(&mut self, patch: &Patch) -> Result<(), WorkspaceError> {
        self.note(format!("plant {}", patch.name))?;
        self.planted = Some(self.killers[&patch.name].clone());
        Ok(())
    }

    fn build(&mut self) -> Result<(), WorkspaceError> {
        match self.killer() {
            Killer::Compiler => Err(WorkspaceError::DoesNotBuild("error: expected `;`".to_owned())),
            _ => self.note("build".to_owned()),
        }
    }

    fn sweep(&mut self, seeds: u64) -> Result<Ran, WorkspaceError> {
        self.note(format!("sweep {seeds}"))?;
        let failed = match self.killer() {
            Killer::Seed(seed, _) if seed < seeds => Some(wrong(seed)),
            _ => None,
        };
        let ran = failed.as_ref().map_or(seeds, |report| report.seed + 1);
        let changed = |seed: u64| failed.as_ref().is_some_and(|report| report.seed == seed);
        let history =
            |seed: u64| if changed(seed) { format!("{seed}, changed") } else { seed.to_string() };
        let histories = (0..ran).map(history).collect();
        Ok(Ran { failed, histories })
    }

    fn run(&mut self, scenario: &Scenario) -> Result<SeedReport, WorkspaceError> {
        Ok(match self.killer() {
            Killer::Seed(seed, None) => wrong(seed),
            Killer::Seed(seed, Some(kind)) if scenario.kinds().contains(&kind) => wrong(seed),
            _ => SeedReport { verdict: Verdict::Held, breaches: vec![], ..wrong(scenario.seed) },
        })
    }

    fn test(&mut self, likely: Option<&str>) -> Result<Option<String>, WorkspaceError> {
        let first = likely.map(|test| format!(", {test} first")).unwrap_or_default();
        self.note(format!("test{first}"))?;
        Ok(match self.killer() {
            Killer::Test(name) => Some(name.to_owned()),
            _ => None,
        })
    }

    fn shrink(&mut self, seed: u64, folder: &Path) -> Result<Capsule, WorkspaceError> {
        self.note(format!("shrink {seed} into {}", folder.file_name().unwrap().display()))?;
        let size = |faults| Size { faults, operations: 3, steps: 2 };
        Ok(Capsule {
            capsule: FORMAT,
            version: String::new(),
            commit: None,
            cause: Cause { oracle: "sequence".to_owned(), reason: "wrong".to_owned() },
            verdict: Verdict::Wrong,
            breaches: vec![],
            fingerprint: String::new(),
            shrinking: Shrinking { tried: 40, is_smallest: true, from: size(9), to: size(1) },
            scenario: retrial_sim::unstable::workload::draw(seed),
            history: vec![],
        })
    }
}

pub(crate) fn patch(name: &str, line: u64) -> Patch {
    let room = name.split('_').next().unwrap();
    let file = format!("src/{room}/x.rs");
    let text = format!(
        "Breaks: W8: {name}.\nSeen: https://github.com/a/b/issues/{line} it went on.\n\n\
         diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n@@ -{line},1 +{line},1 @@\n-a\n+b\n"
    );
    Patch::control(name, &text).unwrap()
}

/// A set of these mutants.
pub(crate) fn set(names: &[&str]) -> Set {
    let mutants = (1..).zip(names).map(|(line, name)| patch(name, line)).collect();
    Set { mutants, harmless: patch("harmless", 1), glaring: patch("glaring", 1) }
}
