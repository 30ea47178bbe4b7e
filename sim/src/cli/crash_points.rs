//! `retrial-sim crash-points`.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use retrial_sim::unstable::crash_points::Points;
use retrial_sim::unstable::report::SeedReport;
use retrial_sim::unstable::scenario::Scenario;
use retrial_sim::unstable::sweep::{Sweep, cores};

use super::output::print;
use super::{CrashPoints, capsules, progress};

/// The real seconds after which one world is called stuck.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Runs every crash point of each requested world.
pub(crate) fn crash(asked: &CrashPoints) -> Result<ExitCode, Box<dyn Error>> {
    let jobs = asked.jobs.unwrap_or_else(cores);
    let sweep = Sweep::new(std::env::current_exe()?, jobs, WATCHDOG);
    let mut failing = Vec::new();
    for what in &asked.what {
        let (scenario, _) = capsules::scenario_of(what, asked.scenario.as_deref())?;
        failing.extend(of_world(&sweep, what, scenario)?);
    }
    if let Some(folder) = &asked.capsules {
        capsules::of_failures(&sweep, &failing, folder)?;
    }
    Ok(ExitCode::from(u8::from(!failing.is_empty())))
}

/// The worlds that failed.
fn of_world(
    sweep: &Sweep,
    what: &str,
    scenario: Scenario,
) -> Result<Vec<(Scenario, SeedReport)>, Box<dyn Error>> {
    let points = Points::of(scenario)?;
    let worlds: Vec<Scenario> = points.scenarios().collect();
    let bar = progress(worlds.len() as u64);
    let count = worlds.len();
    let ran = sweep.run_scenarios(worlds, |_| bar.inc(1))?;
    bar.finish_and_clear();
    let died = ran.iter().filter(|(_, report)| !report.struck.is_empty()).count();
    let (failing, held): (Vec<_>, Vec<_>) =
        ran.into_iter().partition(|(_, report)| report.verdict.is_failure());
    print(format_args!("{}\n", named(what)))?;
    for (place, steps) in points.steps() {
        let place = place.node();
        print(format_args!("  {place:<8} {} polls, {} disk calls\n", steps.polls, steps.calls))?;
    }
    print(format_args!("  {count} worlds, in {died} of them a node died: {} held\n", held.len()))?;
    for (scenario, report) in &failing {
        let fault = serde_json::to_string(&scenario.faults)?;
        print(format_args!("  {} {fault}\n", report.verdict.words()))?;
        for breach in &report.breaches {
            print(format_args!("    {} ({}): {}\n", breach.oracle, breach.reason, breach.text))?;
        }
    }
    Ok(failing)
}

fn named(what: &str) -> String {
    match Path::new(what).exists() {
        true => what.to_owned(),
        false => format!("seed {what}"),
    }
}
