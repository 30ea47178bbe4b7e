//! One mutant: its seeds, and its tests where every seed held.

use super::ablation::Ablation;
use super::cache::Cache;
use super::lab::{Lab, LabError};
use super::patch::Patch;
use super::record::{Found, Outcome, Swept, Tested};
use retrial_sim::capsule::Cause;
use retrial_sim::report::SeedReport;
use retrial_sim::workload;

/// What becomes of `patch`. What `cache` knows is not run again.
pub(super) fn trial(patch: &Patch, lab: &mut impl Lab, cache: &Cache) -> Result<Outcome, LabError> {
    let Swept { seeds, found } = swept(patch, lab, cache)?;
    if let Some(found) = found {
        return Ok(Outcome::Seed(found));
    }
    Ok(match tested(patch, lab, cache)?.failed {
        Some(test) => Outcome::Test { seeds, test },
        None => Outcome::Survived { seeds },
    })
}

/// What its seeds come to.
pub(super) fn swept(patch: &Patch, lab: &mut impl Lab, cache: &Cache) -> Result<Swept, LabError> {
    if let Some(known) = cache.swept(patch) {
        return Ok(known);
    }
    lab.plant(patch)?;
    lab.build()?;
    let seeds = cache.seeds();
    let found = match lab.sweep(seeds)? {
        Some(report) => Some(found(&report, lab)?),
        None => None,
    };
    let swept = Swept { seeds, found };
    cache.keep_swept(patch, swept.clone())?;
    Ok(swept)
}

fn tested(patch: &Patch, lab: &mut impl Lab, cache: &Cache) -> Result<Tested, LabError> {
    if let Some(known) = cache.tested(patch) {
        return Ok(known);
    }
    lab.plant(patch)?;
    let tested = Tested { failed: lab.test()? };
    cache.keep_tested(patch, tested.clone())?;
    Ok(tested)
}

fn found(report: &SeedReport, lab: &mut impl Lab) -> Result<Found, LabError> {
    let unsaid = || Cause { oracle: "world".to_owned(), reason: report.verdict.words().to_owned() };
    let Cause { oracle, reason } = Cause::of(report).unwrap_or_else(unsaid);
    let ablation = Ablation::of(&workload::draw(report.seed), lab)?;
    Ok(Found { seed: report.seed, verdict: report.verdict, oracle, reason, ablation })
}
