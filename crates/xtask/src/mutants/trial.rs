//! One mutant: its seeds, and its tests where every seed held.

use super::ablation::Ablation;
use super::cache::Cache;
use super::patch::Patch;
use super::record::{Found, Outcome, Swept, Tested};
use super::workspace::{Ran, Workspace, WorkspaceError};
use retrial_sim::unstable::capsule::Cause;
use retrial_sim::unstable::report::SeedReport;
use retrial_sim::unstable::workload;

/// The outcome of `patch`. Results in `cache` are not computed again.
pub(super) fn trial(
    patch: &Patch,
    workspace: &mut impl Workspace,
    cache: &Cache,
) -> Result<Outcome, WorkspaceError> {
    let Swept { seeds, found, .. } = swept(patch, workspace, cache)?;
    if let Some(found) = found {
        return Ok(Outcome::Seed(found));
    }
    Ok(match tested(patch, workspace, cache)?.failed {
        Some(test) => Outcome::Test { seeds, test },
        None => Outcome::Survived { seeds },
    })
}

/// The outcome of its seeds.
pub(super) fn swept(
    patch: &Patch,
    workspace: &mut impl Workspace,
    cache: &Cache,
) -> Result<Swept, WorkspaceError> {
    if let Some(known) = cache.swept(patch) {
        return Ok(known);
    }
    workspace.plant(patch)?;
    workspace.build()?;
    let seeds = cache.seeds();
    let Ran { failed, histories } = workspace.sweep(seeds)?;
    let found = failed.map(|report| found(&report, workspace)).transpose()?;
    let swept = Swept { seeds, found, histories };
    cache.keep_swept(patch, swept.clone())?;
    Ok(swept)
}

fn tested(
    patch: &Patch,
    workspace: &mut impl Workspace,
    cache: &Cache,
) -> Result<Tested, WorkspaceError> {
    if let Some(known) = cache.tested(patch) {
        return Ok(known);
    }
    workspace.plant(patch)?;
    let tested = Tested { failed: workspace.test(cache.failed_last(patch).as_deref())? };
    cache.keep_tested(patch, tested.clone())?;
    Ok(tested)
}

fn found(report: &SeedReport, workspace: &mut impl Workspace) -> Result<Found, WorkspaceError> {
    let unsaid = || Cause { oracle: "world".to_owned(), reason: report.verdict.words().to_owned() };
    let Cause { oracle, reason } = Cause::of(report).unwrap_or_else(unsaid);
    let ablation = Ablation::of(&workload::draw(report.seed), workspace)?;
    Ok(Found { seed: report.seed, verdict: report.verdict, oracle, reason, ablation })
}
