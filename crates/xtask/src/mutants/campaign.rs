//! Runs many mutants: the controls first, then one after another, then the totals.

use std::collections::BTreeMap;

use super::cache::Cache;
use super::patch::Patch;
use super::record::{Differ, Outcome, Swept};
use super::set::Set;
use super::trial::{swept, trial};
use super::workspace::{Ran, Workspace, WorkspaceError};
use retrial_sim::unstable::sweep::Shard;

/// How many in a hundred must be killed.
const ENOUGH: usize = 95;

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The judges are not to be trusted.
    #[error("void: {0}. What the other mutants come to means nothing")]
    Void(String),
    /// Mutants that are none, a line each.
    #[error("{}", .0.join("\n"))]
    Broken(Vec<String>),
    /// Files or processes.
    #[error("{name}: {error}")]
    Workspace {
        /// The mutant at hand.
        name: String,
        /// The cause.
        error: WorkspaceError,
    },
}

/// Sees that every seed holds without a mutant, that a harmless one survives, and that a glaring one is
/// killed.
///
/// # Errors
/// [`CampaignError::Void`] where that is not so.
pub fn control(
    set: &Set,
    workspace: &mut impl Workspace,
    cache: &Cache,
    mut seen: impl FnMut(&Patch, &Outcome),
) -> Result<(), CampaignError> {
    clean(workspace, cache)?;
    for (patch, must_die) in [(&set.harmless, false), (&set.glaring, true)] {
        let failed = |error| CampaignError::Workspace { name: patch.name.clone(), error };
        let outcome = trial(patch, workspace, cache).map_err(failed)?;
        seen(patch, &outcome);
        if outcome.is_killed() != must_die {
            return Err(CampaignError::Void(format!(
                "the {} mutant: {}",
                patch.name,
                outcome.words()
            )));
        }
    }
    Ok(())
}

/// Tries each of `mutants`: all of them by seeds, then by tests those that survived the seeds.
/// Calls `seen` with each result as it arrives. Results in `cache` are not computed again. The
/// controls come first each time: their seeds before other seeds, their tests before other tests.
///
/// # Errors
/// [`CampaignError::Void`] as soon as a control says so. Mutants that don't apply or don't build are named at the end, when all others were tried. Files
/// and processes that fail end it at once.
pub fn run<'a>(
    set: &Set,
    mutants: impl IntoIterator<Item = &'a Patch>,
    workspace: &mut impl Workspace,
    cache: &Cache,
    mut seen: impl FnMut(&Patch, &Outcome),
) -> Result<(), CampaignError> {
    clean(workspace, cache)?;
    let harmless = |error| CampaignError::Workspace { name: set.harmless.name.clone(), error };
    if swept(&set.harmless, workspace, cache).map_err(harmless)?.found.is_some() {
        return control(set, workspace, cache, seen);
    }
    let (mut held, mut broken) = (Vec::new(), Vec::new());
    for patch in mutants {
        match ended(patch, swept(patch, workspace, cache), &mut broken)? {
            Some(Swept { found: Some(found), .. }) => seen(patch, &Outcome::Seed(found)),
            Some(_) => held.push(patch),
            None => {}
        }
    }
    control(set, workspace, cache, &mut seen)?;
    for patch in held {
        if let Some(outcome) = ended(patch, trial(patch, workspace, cache), &mut broken)? {
            seen(patch, &outcome);
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(CampaignError::Broken(broken)) }
}

/// Sees that every seed holds without a mutant, and keeps the histories.
fn clean(workspace: &mut impl Workspace, cache: &Cache) -> Result<(), CampaignError> {
    if cache.clean().is_some() {
        return Ok(());
    }
    let failed = |error| CampaignError::Workspace { name: "no mutant".to_owned(), error };
    workspace.clear().map_err(failed)?;
    workspace.build().map_err(failed)?;
    let Ran { failed: broken, histories } = workspace.sweep(cache.seeds()).map_err(failed)?;
    if let Some(report) = broken {
        return Err(CampaignError::Void(format!("seed {} fails without a mutant", report.seed)));
    }
    cache.keep_clean(histories).map_err(|error| failed(error.into()))
}

/// The outcome of a mutant; `None` if it is no valid mutant, which `broken` then says.
fn ended<T>(
    patch: &Patch,
    ended: Result<T, WorkspaceError>,
    broken: &mut Vec<String>,
) -> Result<Option<T>, CampaignError> {
    match ended {
        Ok(value) => Ok(Some(value)),
        Err(WorkspaceError::Io(error)) => {
            let (name, error) = (patch.name.clone(), WorkspaceError::Io(error));
            Err(CampaignError::Workspace { name, error })
        }
        Err(error) => {
            broken.push(format!("{}: {error}", patch.name));
            Ok(None)
        }
    }
}

/// The mutants of one shard. All shards together are all mutants.
pub fn shard(set: &Set, shard: Shard) -> impl Iterator<Item = &Patch> {
    (0..).zip(&set.mutants).filter(move |(number, _)| shard.has(*number)).map(|(_, patch)| patch)
}

/// The results of all mutants.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    /// By name.
    pub mutants: Vec<(&'a Patch, Outcome)>,
    /// What each changes in the histories of the seeds that were run.
    pub differ: BTreeMap<&'a str, Differ>,
    /// How many seeds were run, from 0.
    pub seeds: u64,
    /// Of the code that they were planted in.
    pub code: String,
}

impl<'a> Results<'a> {
    /// The results of all mutants in `cache`.
    ///
    /// # Errors
    /// The names of the mutants without a result.
    pub fn of(set: &'a Set, cache: &Cache) -> Result<Self, Vec<&'a str>> {
        let known = set.mutants.iter().map(|patch| (patch, cache.outcome(patch)));
        let (mut mutants, mut missing) = (Vec::new(), Vec::new());
        for (patch, outcome) in known {
            match outcome {
                Some(outcome) => mutants.push((patch, outcome)),
                None => missing.push(patch.name.as_str()),
            }
        }
        let differ = set
            .mutants
            .iter()
            .filter_map(|patch| Some((patch.name.as_str(), cache.differ(patch)?)));
        let (differ, seeds, code) = (differ.collect(), cache.seeds(), cache.code().to_owned());
        if missing.is_empty() { Ok(Self { mutants, differ, seeds, code }) } else { Err(missing) }
    }

    /// How many were killed.
    #[must_use]
    pub fn killed(&self) -> usize {
        self.mutants.iter().filter(|(_, outcome)| outcome.is_killed()).count()
    }

    /// How many histories a mutant changes, where no seed finds it.
    #[must_use]
    pub fn unseen(&self, patch: &Patch, outcome: &Outcome) -> u64 {
        match outcome {
            Outcome::Seed(_) => 0,
            _ => self.changed(patch),
        }
    }

    /// In how many seeds a mutant changes the history.
    #[must_use]
    pub fn changed(&self, patch: &Patch) -> u64 {
        self.differ.get(patch.name.as_str()).map_or(0, |found| found.differ)
    }

    /// The faults of the results, one line each: too few killed, survivors and blind spots without a
    /// reason, reasons for those that are none.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let all = self.mutants.len();
        if self.killed() * 100 < all * ENOUGH {
            faults.push(format!("{} of {all} killed: fewer than {ENOUGH} in 100", self.killed()));
        }
        for (patch, outcome) in &self.mutants {
            let name = &patch.name;
            match (outcome.is_killed(), &patch.survives) {
                (false, None) => faults.push(format!("{name} survives: say why in `Survives:`")),
                (true, Some(_)) => faults.push(format!("{name} is killed: take `Survives:` out")),
                _ => {}
            }
            match (self.unseen(patch, outcome), &patch.unseen) {
                (1.., None) => {
                    faults.push(format!("{name} is a blind spot: say why in `Unseen:`"));
                }
                (0, Some(_)) => {
                    faults.push(format!("{name} is no blind spot: take `Unseen:` out"));
                }
                _ => {}
            }
        }
        faults
    }
}
