//! `retrial-sim explore`.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use indicatif::ProgressBar;
use retrial::dialect::parse_duration;
use retrial_sim::unstable::capsule::Cause;
use retrial_sim::unstable::explore::Explorer;
use retrial_sim::unstable::report::{SeedReport, SweepReport};
use retrial_sim::unstable::scenario::Scenario;
use retrial_sim::unstable::source::Source;
use retrial_sim::unstable::sweep::{Sweep, cores};
use sha2::{Digest as _, Sha256};

use super::output::print;
use super::{capsules, progress};

/// How many worlds are run at a time, whatever the number of workers: what is tried next depends on it.
const BATCH: u64 = 32;
/// The real time after which a world is given up. Bred worlds may be large, and on a busy machine a
/// large one takes many times as long; one that is given up shows nothing.
const WATCHDOG: Duration = Duration::from_secs(120);

#[derive(Args)]
pub(crate) struct Explore {
    /// How long to look, such as `10m`.
    #[arg(long = "for", value_name = "LENGTH", default_value = "1m", value_parser = length)]
    length: Duration,
    /// Ends after so many worlds, if that comes first. Those of the corpus do not count: with 0 nothing
    /// else is run.
    #[arg(long)]
    worlds: Option<u64>,
    /// Ends once a world has failed, and packs nothing up: for comparing ways of looking.
    #[arg(long)]
    until_failure: bool,
    /// A folder of scenarios that are worth keeping. Begins with them, and leaves there as few as show
    /// what all have shown.
    #[arg(long, value_name = "FOLDER")]
    corpus: Option<PathBuf>,
    /// Simulate this workflow file instead of drawn workflows.
    #[arg(long)]
    scenario: Option<PathBuf>,
    /// Of a hundred scenarios so many are bred, and the others drawn.
    #[arg(long, default_value_t = 75, value_parser = clap::value_parser!(u64).range(0..=100))]
    bred: u64,
    /// The number that all drawing begins from; another one each time if absent.
    #[arg(long)]
    chance: Option<u64>,
    /// Worker processes; by default one for each core.
    #[arg(long)]
    jobs: Option<usize>,
    /// The first failure of each cause is shrunk and written here as a capsule, a test and an HTML page.
    #[arg(long, value_name = "FOLDER", default_value = "failures")]
    capsules: PathBuf,
}

fn length(text: &str) -> Result<Duration, String> {
    parse_duration(text).map(|length| Duration::from_nanos(length.get()))
}

/// Runs what is bred until the time is up, and says what came of it.
#[expect(clippy::disallowed_methods, reason = "this is the edge: how long to look is real time")]
pub(crate) fn explore(asked: &Explore) -> Result<ExitCode, Box<dyn Error>> {
    let source = Source::read(asked.scenario.as_deref())?;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
    let chance = asked.chance.unwrap_or_else(|| u64::from(now()));
    let jobs = asked.jobs.unwrap_or_else(cores);
    let sweep = Sweep::new(std::env::current_exe()?, jobs, WATCHDOG);
    let mut found = Found {
        explorer: Explorer::new(&source, chance, asked.bred),
        sweep: Sweep { shows: true, ..sweep },
        parts: Vec::new(),
        first_failure: None,
        failing: Vec::new(),
        bar: progress(0),
    };
    let end = Instant::now() + asked.length;
    let files = asked.corpus.as_deref().map_or_else(|| Ok(Vec::new()), read)?;
    let failed = found.run(files.iter().map(|(_, scenario)| scenario.clone()).collect())?;
    let mut left = asked.worlds.unwrap_or(u64::MAX);
    let is_over = |found: &Found<'_>| asked.until_failure && found.first_failure.is_some();
    while left > 0 && Instant::now() < end && !is_over(&found) {
        let batch = BATCH.min(left);
        left -= batch;
        let worlds = (0..batch).map(|_| found.explorer.try_next()).collect();
        found.run(worlds)?;
    }
    let Found { explorer, sweep, parts, first_failure, failing, bar, .. } = found;
    bar.finish_and_clear();
    let total = SweepReport::total(parts);
    let held = total.seeds - total.failing.len() as u64;
    print(format_args!("chance                 {chance}\n"))?;
    print(format_args!("worlds                 {} ({held} all promises held)\n", total.seeds))?;
    if let Some(world) = first_failure {
        print(format_args!("first to fail          {world}\n"))?;
    }
    print(format_args!("showed                 {} different things\n", explorer.things()))?;
    print(format_args!("kept                   {} scenarios\n", explorer.kept()))?;
    if let Some(folder) = &asked.corpus {
        let kept = write(folder, &explorer.cover())?;
        for (file, scenario) in files {
            // What fails stays, to be looked at.
            if !kept.contains(&file) && !failed.contains(&scenario) {
                std::fs::remove_file(file)?;
            }
        }
        let few = kept.len();
        print(format_args!("corpus                 {few} of them in {}\n", folder.display()))?;
    }
    for breach in failing.iter().filter_map(|(_, report)| report.breaches.first()) {
        print(format_args!("{} ({}): {}\n", breach.oracle, breach.reason, breach.text))?;
    }
    if !asked.until_failure {
        let sweep = Sweep { shows: false, ..sweep };
        capsules::of_failures(&sweep, &failing, &asked.capsules)?;
    }
    Ok(ExitCode::from(total.exit_code(false)))
}

/// What was found so far.
struct Found<'s> {
    explorer: Explorer<'s>,
    sweep: Sweep,
    parts: Vec<SweepReport>,
    /// The number of the first world that failed, from 1.
    first_failure: Option<u64>,
    /// The first of each cause.
    failing: Vec<(Scenario, SeedReport)>,
    bar: ProgressBar,
}

impl Found<'_> {
    /// Runs these worlds, and gives back those that failed.
    fn run(&mut self, worlds: Vec<Scenario>) -> Result<Vec<Scenario>, Box<dyn Error>> {
        self.bar.inc_length(worlds.len() as u64);
        let ran = self.sweep.run_scenarios(worlds, |_| self.bar.inc(1))?;
        let (mut reports, mut failed) = (Vec::new(), Vec::new());
        let before: u64 = self.parts.iter().map(|part| part.seeds).sum();
        for (number, (scenario, mut report)) in (before + 1..).zip(ran) {
            let shown = std::mem::take(&mut report.shown);
            let cause = Cause::of(&report);
            let is_its = |(_, known): &(_, SeedReport)| Cause::of(known) == cause;
            if cause.is_none() {
                self.explorer.saw(scenario, shown);
            } else {
                self.first_failure.get_or_insert(number);
                // What is bred from it would fail as well.
                failed.push(scenario.clone());
                if !self.failing.iter().any(is_its) {
                    self.failing.push((scenario, report.clone()));
                }
            }
            let things = self.explorer.things();
            self.bar.set_message(format!("{things} things shown"));
            reports.push(report);
        }
        self.parts.push(SweepReport::of(reports));
        Ok(failed)
    }
}

/// The scenarios of a folder, which need not be there, in the order of their files' names.
fn read(folder: &Path) -> Result<Vec<(PathBuf, Scenario)>, Box<dyn Error>> {
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| format!("{}: {error}", folder.display()))?,
    };
    let files: Result<BTreeSet<PathBuf>, _> = entries.map(|file| file.map(|f| f.path())).collect();
    let is_json = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "json");
    let scenario = |file: PathBuf| -> Result<_, Box<dyn Error>> {
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("{}: the file can't be read: {error}", file.display()))?;
        let scenario = serde_json::from_str(&text)
            .map_err(|error| format!("{}: it is no scenario: {error}", file.display()))?;
        Ok((file, scenario))
    };
    files?.into_iter().filter(is_json).map(scenario).collect()
}

/// Writes each scenario to a file that is named after its content.
fn write(folder: &Path, keep: &[&Scenario]) -> Result<BTreeSet<PathBuf>, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let mut kept = BTreeSet::new();
    for scenario in keep {
        let text = serde_json::to_string(scenario)? + "\n";
        let digest = Sha256::digest(&text);
        let name: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let file = folder.join(format!("{name}.json"));
        std::fs::write(&file, text)?;
        kept.insert(file);
    }
    Ok(kept)
}
