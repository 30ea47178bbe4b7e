//! From red to a capsule: mutants taken at random, each shrunk and packed up.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::cache::Cache;
use super::campaign::CampaignError;
use super::patch::Patch;
use super::record::Outcome;
use super::trial::trial;
use super::workspace::{Workspace, WorkspaceError};
use retrial_sim::unstable::capsule::{Capsule, Shrinking};
use retrial_sim::unstable::runtime::mix;

/// A mutant that went from red to a capsule, or one that no seed finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Red {
    /// The mutant.
    pub name: String,
    /// Its result.
    pub outcome: Outcome,
    /// How far its failure was shrunk; none where no seed fails.
    pub shrinking: Option<Shrinking>,
    /// The real time from the mutant's build, in whole seconds; zero where no seed fails.
    pub took: Duration,
}

/// Takes mutants in an order that `chance` draws until `count` of them have a capsule in `folder`,
/// each in a separate folder. `clock` reads real time; `seen` gets each result.
///
/// # Errors
/// When a mutant does not build, or is not shrunk.
pub fn sample<'a>(
    mutants: &'a [Patch],
    (count, chance): (usize, u64),
    folder: &Path,
    workspace: &mut impl Workspace,
    cache: &Cache,
    clock: impl Fn() -> Duration,
    mut seen: impl FnMut(&Red),
) -> Result<Vec<Red>, CampaignError> {
    let mut order: Vec<(u64, &'a Patch)> =
        (0..).zip(mutants).map(|(place, patch)| (mix(chance, place), patch)).collect();
    order.sort_by_key(|(drawn, _)| *drawn);
    let mut all = Vec::new();
    let mut packed = 0;
    for (_, patch) in order {
        if packed == count {
            break;
        }
        let begun = clock();
        let failed = |error| CampaignError::Workspace { name: patch.name.clone(), error };
        let (outcome, capsule) = pack(patch, folder, workspace, cache).map_err(failed)?;
        packed += usize::from(capsule.is_some());
        let took = if capsule.is_some() { clock().saturating_sub(begun) } else { Duration::ZERO };
        let shrinking = capsule.map(|capsule| capsule.shrinking);
        let red = Red { name: patch.name.clone(), outcome, shrinking, took };
        seen(&red);
        all.push(red);
    }
    Ok(all)
}

fn pack(
    patch: &Patch,
    folder: &Path,
    workspace: &mut impl Workspace,
    cache: &Cache,
) -> Result<(Outcome, Option<Capsule>), WorkspaceError> {
    let outcome = trial(patch, workspace, cache)?;
    let Outcome::Seed(found) = &outcome else { return Ok((outcome, None)) };
    // Its outcome may have been known without a build.
    workspace.plant(patch)?;
    workspace.build()?;
    let capsule = workspace.shrink(found.seed, &folder.join(&patch.name))?;
    Ok((outcome, Some(capsule)))
}

/// A table of what came of it, in words.
#[must_use]
pub fn table(all: &[Red]) -> String {
    let mut text = String::new();
    let (mut packed, mut smallest) = (0, 0);
    for Red { name, outcome, shrinking, took } in all {
        let _ = write!(text, "{name:<40} {:<48} ", outcome.words());
        let Some(Shrinking { tried, is_smallest, from, to }) = shrinking else {
            text.push_str("no seed to shrink\n");
            continue;
        };
        packed += 1;
        smallest += usize::from(*is_smallest);
        let _ = writeln!(
            text,
            "faults {} to {}, operations {} to {}, steps {} to {}; {tried} tried, {} s",
            from.faults,
            to.faults,
            from.operations,
            to.operations,
            from.steps,
            to.steps,
            took.as_secs()
        );
    }
    let _ = writeln!(text, "{packed} packed up; of {smallest} nothing more can be left out");
    text
}
