//! `retrial-sim blame`.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use retrial_sim::unstable::blame::{self, Samples};
use retrial_sim::unstable::capsule::{Cause, NothingFails};
use retrial_sim::unstable::page::{self, Page};
use retrial_sim::unstable::sweep::{Sweep, cores};
use retrial_sim::unstable::world;

use super::output::print;
use super::{capsules, progress};

#[derive(Args)]
pub(crate) struct Blame {
    /// The seed, or a capsule file.
    what: String,
    /// Simulate this workflow file instead of drawn workflows.
    #[arg(long)]
    scenario: Option<PathBuf>,
    /// How many worlds are tried at one place of the history; twice as many around the entry.
    #[arg(long, default_value_t = Samples::default().coarse, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    samples: u64,
    /// Worker processes; by default one for each core.
    #[arg(long)]
    jobs: Option<usize>,
    /// Also write the counts as JSON to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// The folder to write the HTML page to.
    #[arg(long, default_value = ".")]
    into: PathBuf,
}

/// Finds the entry, prints the counts around it and writes the page.
pub(crate) fn blame(asked: &Blame) -> Result<ExitCode, Box<dyn Error>> {
    let (scenario, capsule) = capsules::scenario_of(&asked.what, asked.scenario.as_deref())?;
    let sweep =
        Sweep::new(std::env::current_exe()?, asked.jobs.unwrap_or_else(cores), capsules::WATCHDOG);
    // In a process of its own: what never ends must not hang this one.
    let report = sweep.run_scenario(&mut None, &scenario)?;
    let cause = capsule.map(|c| c.cause).filter(|cause| cause.is_in(&report));
    let cause = cause.or_else(|| Cause::of(&report)).ok_or(NothingFails)?;
    if report.fingerprint.is_empty() {
        return Err(format!("{}: its world was broken off, and left no history", asked.what).into());
    }
    let lived = world::run_with_evidence(scenario.clone(), true);
    let bar = progress(0);
    let samples = Samples { coarse: asked.samples, fine: 2 * asked.samples };
    let found = blame::blame(
        &scenario,
        &lived.history,
        &cause,
        samples,
        |scenario| world::run_scenario(scenario, true).1,
        |worlds| {
            bar.inc_length(worlds.len() as u64);
            let ran = sweep.run_scenarios(worlds, |_| bar.inc(1))?;
            Ok::<_, std::io::Error>(ran.into_iter().map(|(_, report)| report).collect())
        },
    )?;
    bar.finish_and_clear();
    print(format_args!("{} ({})\n{}", cause.oracle, cause.reason, found.words(&lived.history)))?;
    if let Some(file) = &asked.json {
        std::fs::write(file, serde_json::to_vec_pretty(&found)?)?;
    }
    let curve = page::curve(&found, &lived.history, &scenario.secrets);
    let page = Page { blame: Some(curve), ..Page::of(&scenario, &lived) };
    let name = format!("{}_blame", cause.name(scenario.seed));
    let file = capsules::write_page(&asked.into, &name, &page)?;
    print(format_args!("{}\n", file.display()))?;
    Ok(ExitCode::SUCCESS)
}
