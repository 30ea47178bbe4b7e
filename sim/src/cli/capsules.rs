//! Writes failures as capsules, and reads them.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use retrial_sim::unstable::capsule::{Capsule, Cause, NothingFails};
use retrial_sim::unstable::page::Page;
use retrial_sim::unstable::report::{SeedReport, SweepReport};
use retrial_sim::unstable::scenario::Scenario;
use retrial_sim::unstable::source::Source;
use retrial_sim::unstable::sweep::Sweep;
use retrial_sim::unstable::world::{self, ScenarioRun};

use super::output::print;
use super::{Report, Shrink};

/// The most scenarios tried while one is shrunk, unless set.
pub(crate) const TRIES: u64 = 2_000;
/// The most capsules that one sweep writes.
const MOST: usize = 5;
/// The real seconds after which one of many tries is called stuck.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(20);

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
enum PackError {
    #[error(transparent)]
    NothingFails(#[from] NothingFails),
    #[error("a worker can't be started: {0}")]
    Worker(#[from] io::Error),
}

/// What a seed or a capsule's file means, and the capsule where it is one.
pub(crate) fn scenario_of(
    what: &str,
    scenario: Option<&Path>,
) -> Result<(Scenario, Option<Capsule>), Box<dyn Error>> {
    if let Ok(seed) = what.parse() {
        return Ok((Source::read(scenario)?.scenario(seed), None));
    }
    let capsule = Capsule::read(Path::new(what))?;
    if let Some(own) = &capsule.scenario.own {
        let name = &own.check;
        return Err(format!(
            "{what}: it is of the check `{name}`, whose code only its own test has: run that with \
             RETRIAL_CAPSULE={what}"
        )
        .into());
    }
    Ok((capsule.scenario.clone(), Some(capsule)))
}

/// Whether a replay of a capsule gave the same result.
pub(crate) fn compared(capsule: &Capsule, report: &SeedReport) -> String {
    let Cause { oracle, reason } = &capsule.cause;
    if report.fingerprint == capsule.fingerprint {
        return "same fingerprint as in the capsule".to_owned();
    }
    match capsule.cause.is_in(report) {
        true => format!(
            "{oracle} ({reason}) is found again; the fingerprint differs from the capsule's"
        ),
        false => format!("{oracle} ({reason}) is not found"),
    }
}

/// Shrinks one failure and writes it.
pub(crate) fn shrink(asked: &Shrink) -> Result<ExitCode, Box<dyn Error>> {
    let (scenario, _) = scenario_of(&asked.what, asked.scenario.as_deref())?;
    let sweep = Sweep::new(std::env::current_exe()?, 1, WATCHDOG);
    print(format_args!("{}\n", pack(&sweep, scenario, asked.tries, &asked.into)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Packs up what a sweep found.
pub(crate) fn of_sweep(
    source: &Source,
    sweep: &Sweep,
    report: &SweepReport,
    folder: &Path,
) -> Result<(), Box<dyn Error>> {
    let failing = report.failing.iter().map(|f| (source.scenario(f.seed), f.clone()));
    of_failures(sweep, &failing.collect::<Vec<_>>(), folder)
}

/// Shrinks the first failure of each cause and writes them.
pub(crate) fn of_failures(
    sweep: &Sweep,
    failures: &[(Scenario, SeedReport)],
    folder: &Path,
) -> Result<(), Box<dyn Error>> {
    let mut causes = BTreeSet::new();
    for (scenario, report) in failures {
        let Some(cause) = Cause::of(report) else { continue };
        if causes.len() < MOST && causes.insert(cause) {
            print(format_args!("{}\n", pack(sweep, scenario.clone(), TRIES, folder)?))?;
        }
    }
    Ok(())
}

/// Writes the page of a seed or capsule, whether or not it fails, and says where.
pub(crate) fn report(asked: &Report) -> Result<ExitCode, Box<dyn Error>> {
    let (scenario, _) = scenario_of(&asked.what, asked.scenario.as_deref())?;
    let lived = world::run_with_evidence(scenario.clone(), true);
    let name = match Cause::of(&lived.report) {
        Some(cause) => cause.name(scenario.seed),
        None => format!("seed_{}", scenario.seed),
    };
    let file = write_page(&asked.into, &name, &Page::of(&scenario, &lived))?;
    print(format_args!("{}: {}\n", file.display(), lived.report.verdict.words()))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page of this name into `folder`, which need not be there, and says where.
pub(crate) fn write_page(folder: &Path, name: &str, page: &Page) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let file = folder.join(format!("{name}.html"));
    std::fs::write(&file, page.html())?;
    Ok(file)
}

/// The report of a capsule that is not run again.
fn report_of(capsule: &Capsule) -> SeedReport {
    let (seed, breaches) = (capsule.scenario.seed, capsule.breaches.clone());
    let report = SeedReport::broken_off(seed, capsule.verdict, "world", String::new());
    SeedReport { breaches, ..report }
}

/// Writes a capsule, its test and its page, and says so.
fn pack(
    sweep: &Sweep,
    scenario: Scenario,
    tries: u64,
    folder: &Path,
) -> Result<String, Box<dyn Error>> {
    let mut worker = None;
    let run = |scenario: &Scenario| -> Result<SeedReport, PackError> {
        Ok(sweep.run_scenario(&mut worker, scenario)?)
    };
    let mut capsule = Capsule::pack(scenario, tries, run)?;
    capsule.commit = commit();
    // Without one it broke off, and could do so to this process too.
    let lived = match capsule.fingerprint.is_empty() {
        true => ScenarioRun::unseen(&capsule.scenario, report_of(&capsule)),
        false => world::run_with_evidence(capsule.scenario.clone(), true),
    };
    capsule.history = lived.history.words().lines().skip(1).map(str::to_owned).collect();
    write_page(folder, &capsule.name(), &Page::of(&capsule.scenario, &lived))?;
    let file = |ending: &str| -> PathBuf { folder.join(format!("{}.{ending}", capsule.name())) };
    std::fs::write(file("json"), serde_json::to_string_pretty(&capsule)? + "\n")?;
    std::fs::write(file("rs"), capsule.test())?;
    let (from, to) = (capsule.shrinking.from, capsule.shrinking.to);
    Ok(format!(
        "{}: {} faults, {} operations and {} steps of {}, {} and {} ({} tried{})",
        file("json").display(),
        to.faults,
        to.operations,
        to.steps,
        from.faults,
        from.operations,
        from.steps,
        capsule.shrinking.tried,
        if capsule.shrinking.is_smallest { "" } else { "; there may be smaller ones" },
    ))
}

/// The commit of the working folder, where there is one.
fn commit() -> Option<String> {
    let git = Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
    let text = String::from_utf8(git.stdout).ok().filter(|_| git.status.success())?;
    Some(text.trim().to_owned())
}
