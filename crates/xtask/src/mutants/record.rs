//! The result of one mutant, as a file stores it.

use serde::{Deserialize, Serialize};

use super::ablation::Ablation;
use retrial_sim::unstable::report::Verdict;

/// The result of the seeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swept {
    /// How many seeds were to be run, from 0.
    pub seeds: u64,
    /// The lowest that failed; none where all held.
    pub found: Option<Found>,
    /// The histories of those that were run, from 0 to the one that failed.
    pub histories: Vec<History>,
}

/// Tells whether two histories are the same one: the beginning of a seed's fingerprint.
pub type History = String;

/// How many histories a mutant changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differ {
    /// So many differ from those without it.
    pub differ: u64,
    /// Of so many.
    pub of: u64,
}

impl Differ {
    /// What differs between histories of the same seeds.
    #[must_use]
    pub fn between(with: &[History], without: &[History]) -> Self {
        let pairs = || with.iter().zip(without);
        let differ = pairs().filter(|(with, without)| with != without).count() as u64;
        Self { differ, of: pairs().count() as u64 }
    }
}

/// A seed that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// How it ended.
    pub verdict: Verdict,
    /// The oracle that found it first.
    pub oracle: String,
    /// Its reason.
    pub reason: String,
    /// Which kinds of faults it takes.
    pub ablation: Ablation,
}

/// The result of the test suites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tested {
    /// The first test that failed, with its suite before it; none where all passed.
    pub failed: Option<String>,
}

/// The suite and the test in what failed. None where a suite failed without a test of its own that did,
/// such as one whose time was up.
#[must_use]
pub(super) fn named(failed: &str) -> Option<(&str, &str)> {
    failed.split_once(": ").filter(|(_, test)| !test.contains(' '))
}

/// The result of one mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A seed failed.
    Seed(Found),
    /// Every seed held; a test failed.
    Test {
        /// How many seeds held.
        seeds: u64,
        /// The test, with its suite before it.
        test: String,
    },
    /// Every seed held and every test passed.
    Survived {
        /// How many seeds held.
        seeds: u64,
    },
}

impl Outcome {
    /// Whether something found it.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        !matches!(self, Self::Survived { .. })
    }

    /// In words: `seed 14: sequence (wrong_backoff)`.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Seed(Found { seed, oracle, reason, .. }) => {
                format!("seed {seed}: {oracle} ({reason})")
            }
            Self::Test { test, .. } => format!("test {test}"),
            Self::Survived { seeds } => format!("survived {seeds} seeds and all tests"),
        }
    }
}
