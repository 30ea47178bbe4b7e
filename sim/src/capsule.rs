//! A capsule: one failure and everything that is needed to reproduce it. It holds the scenario as
//! data, so it stays valid when seeds draw other worlds later.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::report::{Breach, SeedReport, Verdict};
use crate::scenario::Scenario;
use crate::shrink::{Shrunk, Size, shrink};
use crate::world::run_scenario;

/// The format that this program writes and reads.
pub const FORMAT: u32 = 1;

/// The identity of a failure while it is shrunk: the oracle that found it and its reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cause {
    /// The oracle.
    pub oracle: String,
    /// Its reason, a short stable code.
    pub reason: String,
}

impl Cause {
    /// The first thing that was found; none where all held.
    #[must_use]
    pub fn of(report: &SeedReport) -> Option<Self> {
        let found = report.breaches.first().filter(|_| report.verdict.is_failure())?;
        Some(Self { oracle: found.oracle.clone(), reason: found.reason.clone() })
    }

    /// The name of what is written of it, where `seed` fails of it.
    #[must_use]
    pub fn name(&self, seed: u64) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        format!("seed_{seed}_{}_{}", self.oracle, self.reason).chars().map(plain).collect()
    }

    /// Whether it is among what was found.
    #[must_use]
    pub fn is_in(&self, report: &SeedReport) -> bool {
        report.verdict.is_failure()
            && report.breaches.iter().any(|b| b.oracle == self.oracle && b.reason == self.reason)
    }
}

/// How far a failure was shrunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shrinking {
    /// Scenarios that were tried.
    pub tried: u64,
    /// Whether nothing more could be left out.
    pub is_smallest: bool,
    /// The size as it was drawn.
    pub from: Size,
    /// The size now.
    pub to: Size,
}

/// A failing scenario with what is needed to reproduce it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capsule {
    /// [`FORMAT`].
    pub capsule: u32,
    /// The version of retrial-sim that wrote it.
    pub version: String,
    /// The commit that it failed at, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The cause of the failure.
    pub cause: Cause,
    /// How it ended.
    pub verdict: Verdict,
    /// Everything that was found.
    pub breaches: Vec<Breach>,
    /// The running hash over everything that happened.
    pub fingerprint: String,
    /// The things that were left out.
    pub shrinking: Shrinking,
    /// The world.
    pub scenario: Scenario,
    /// The history, one line each, for a reader. The program does not read it.
    #[serde(default)]
    pub history: Vec<String>,
}

impl Capsule {
    /// Shrinks `scenario` by at most `tries` and packs it up. `run` runs a scenario and
    /// judges it.
    ///
    /// # Errors
    /// When nothing fails, or `run` does.
    pub fn pack<E: From<NothingFails>>(
        scenario: Scenario,
        tries: u64,
        mut run: impl FnMut(&Scenario) -> Result<SeedReport, E>,
    ) -> Result<Self, E> {
        let cause = Cause::of(&run(&scenario)?).ok_or(NothingFails)?;
        let from = Size::of(&scenario);
        let mut broken = None;
        let fails = |candidate: &Scenario| match run(candidate) {
            Ok(report) => cause.is_in(&report),
            Err(error) => {
                broken.get_or_insert(error);
                false
            }
        };
        let Shrunk { scenario, tried, is_smallest } = shrink(scenario, tries, fails);
        if let Some(error) = broken {
            return Err(error);
        }
        let report = run(&scenario)?;
        Ok(Self {
            capsule: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: None,
            verdict: report.verdict,
            breaches: report.breaches,
            fingerprint: report.fingerprint,
            shrinking: Shrinking { tried, is_smallest, from, to: Size::of(&scenario) },
            cause,
            scenario,
            history: Vec::new(),
        })
    }

    /// The capsule in this file.
    ///
    /// # Errors
    /// A text that names the file and says what is wrong.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("{}: the file can't be read: {e}", path.display()))?;
        Self::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// The capsule in this text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let capsule: Self =
            serde_json::from_str(text).map_err(|e| format!("it is no capsule: {e}"))?;
        match capsule.capsule {
            FORMAT => Ok(capsule),
            other => Err(format!("it has format {other}; this program reads {FORMAT}")),
        }
    }

    /// The name of its files and its test: `seed_12_durability_never_told`.
    #[must_use]
    pub fn name(&self) -> String {
        self.cause.name(self.scenario.seed)
    }

    /// Whether the world in it holds today.
    ///
    /// # Errors
    /// What was found.
    pub fn holds(self) -> Result<(), String> {
        let name = self.name();
        let (report, _) = run_scenario(self.scenario, false);
        if !report.verdict.is_failure() {
            return Ok(());
        }
        let found =
            report.breaches.iter().map(|b| format!("{} ({}): {}", b.oracle, b.reason, b.text));
        let found: Vec<String> = found.collect();
        Err(format!("{name} is {}:\n{}", report.verdict.words(), found.join("\n")))
    }

    /// A test, ready to be committed beside the capsule's file where the feature `unstable` is on.
    #[must_use]
    pub fn test(&self) -> String {
        let name = self.name();
        let Cause { oracle, reason } = &self.cause;
        let caused = self.breaches.iter().find(|b| b.oracle == *oracle && b.reason == *reason);
        let what = caused.map(|b| b.text.replace('\n', " ")).unwrap_or_default();
        format!(
            "/// {oracle} `{reason}`: {what}\n#[test]\nfn {name}() -> Result<(), String> {{\n    \
             use retrial_sim::unstable::capsule::Capsule;\n\n    \
             Capsule::parse(include_str!(\"{name}.json\"))?.holds()\n}}\n"
        )
    }
}

/// The scenario does not fail, so there is no capsule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("every promise holds: there is nothing to pack up")]
pub struct NothingFails;
