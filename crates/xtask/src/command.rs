//! The command `mutants`: plants bugs, sees what finds them, and writes docs/mutants.md.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use retrial_sim::unstable::sweep::{Shard, cores};
use xtask::branches;
use xtask::mutants::{self, Cache, Keys, Outcome, Patch, Results, Scratch, Set};
use xtask::{Processes, Tree};

#[derive(Args)]
pub(crate) struct Mutants {
    /// How many seeds to run for each mutant, from 0, until one fails.
    #[arg(long, default_value_t = 400)]
    seeds: u64,
    /// Try only the K-th of N parts of the mutants, K from 1.
    #[arg(long, conflicts_with = "only")]
    shard: Option<Shard>,
    /// Try only the mutant of this name; may be given again.
    #[arg(long)]
    only: Vec<String>,
    /// Take mutants at random until so many are shrunk and packed up.
    #[arg(long, requires = "capsules", conflicts_with_all = ["only", "shard"])]
    sample: Option<usize>,
    /// The seed of their order; drawn and printed if absent.
    #[arg(long, requires = "sample")]
    draw: Option<u64>,
    /// Where a sample's capsules, tests and reports are written, in a folder a mutant.
    #[arg(long, requires = "sample")]
    capsules: Option<PathBuf>,
    /// Where the copy, its builds and the results are kept.
    #[arg(long, default_value = "target/mutants")]
    scratch: PathBuf,
    /// The page to write when every mutant has a result.
    #[arg(long, default_value = "docs/mutants.md")]
    doc: PathBuf,
    /// Worker processes of a sweep; the default is one a core.
    #[arg(long)]
    jobs: Option<usize>,
}

#[derive(Args)]
pub(crate) struct Branches {
    /// How many seeds to run, from 0.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// Write the page from what the last run recorded.
    #[arg(long)]
    recorded: bool,
    /// Where the copy, its build and what was recorded are kept.
    #[arg(long, default_value = "target/branches")]
    scratch: PathBuf,
    /// The page to write.
    #[arg(long, default_value = "docs/branches.md")]
    doc: PathBuf,
    /// Worker processes of the sweep; the default is one a core.
    #[arg(long)]
    jobs: Option<usize>,
}

/// Ends with 0 where each branch is taken or has a reason, 1 where not.
pub(crate) fn branches(asked: &Branches) -> Result<ExitCode, Box<dyn Error>> {
    let tree = Tree::around(Path::new("."))?;
    let processes = Processes::default();
    end_with(processes.clone())?;
    let jobs = asked.jobs.unwrap_or_else(cores);
    if !asked.recorded {
        branches::record(&tree, &asked.scratch, (asked.seeds, jobs), &processes)?;
    }
    let counts = branches::count(&tree, &asked.scratch)?;
    mutants::write_whole(&asked.doc, branches::page(&counts).as_bytes())?;
    let faults = branches::faults(&counts);
    faults.iter().for_each(|fault| println!("{fault}"));
    Ok(ExitCode::from(u8::from(!faults.is_empty())))
}

/// From so many on it takes less time to build all mutants at once.
const TOGETHER: usize = 4;

/// Ends with 0 where enough are killed and each survivor is explained, 1 where not.
pub(crate) fn mutants(asked: &Mutants) -> Result<ExitCode, Box<dyn Error>> {
    let tree = Tree::around(Path::new("."))?;
    let set = Set::read(&tree.root().join("sim/mutants"))?;
    let processes = Processes::default();
    end_with(processes.clone())?;
    std::fs::create_dir_all(&asked.scratch)?;
    let lock = File::create(asked.scratch.join("lock"))?;
    lock.try_lock().map_err(|e| format!("{} is in use: {e}", asked.scratch.display()))?;
    let keys = Keys::of(&tree, asked.seeds);
    let cache = Cache::new(&asked.scratch.join("results"), keys);
    let jobs = asked.jobs.unwrap_or_else(cores);
    let mut workspace = Scratch::new(tree, &asked.scratch, jobs, processes)?;
    all_apply(&set, &workspace)?;

    let say = |patch: &Patch, outcome: &Outcome| println!("{}: {}", patch.name, outcome.words());
    if let (Some(count), Some(folder)) = (asked.sample, &asked.capsules) {
        mutants::control(&set, &mut workspace, &cache, say)?;
        return sample(asked, &set, (count, folder), &mut workspace, &cache);
    }
    let chosen: Vec<&Patch> = match (&asked.only[..], asked.shard) {
        ([], None) => set.mutants.iter().collect(),
        ([], Some(shard)) => mutants::shard(&set, shard).collect(),
        (names, _) => named(&set, names)?,
    };
    if chosen.len() >= TOGETHER {
        workspace.together(set.all());
    }
    mutants::run(&set, chosen, &mut workspace, &cache, say)?;
    conclude(&set, &cache, &asked.doc)
}

fn all_apply(set: &Set, workspace: &Scratch) -> Result<(), String> {
    let wrong = set.all().filter_map(|patch| {
        workspace.check(patch).err().map(|error| format!("{}: {error}", patch.name))
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn named<'a>(set: &'a Set, names: &[String]) -> Result<Vec<&'a Patch>, String> {
    let find = |name: &String| set.mutants.iter().find(|patch| patch.name == *name);
    names
        .iter()
        .map(|name| find(name).ok_or_else(|| format!("there is no mutant `{name}`")))
        .collect()
}

/// The page about bugs that the authors did not choose. Its first paragraph is the score.
const BLIND: &str = "docs/blind-mutants.md";

/// What stands after the title.
fn first_paragraph(page: &str) -> &str {
    page.split("\n\n").nth(1).unwrap_or_default()
}

fn conclude(set: &Set, cache: &Cache, doc: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let results = match Results::of(set, cache) {
        Ok(results) => results,
        Err(missing) => {
            println!("{} of {} have no result yet", missing.len(), set.mutants.len());
            return Ok(ExitCode::SUCCESS);
        }
    };
    println!("{} of {} killed", results.killed(), results.mutants.len());
    let score = first_paragraph(&std::fs::read_to_string(BLIND)?).to_owned();
    mutants::write_whole(doc, mutants::page(&score, &results).as_bytes())?;
    let faults = results.faults();
    faults.iter().for_each(|fault| println!("{fault}"));
    Ok(ExitCode::from(u8::from(!faults.is_empty())))
}

#[expect(clippy::disallowed_methods, reason = "the command is no simulated path")]
fn sample(
    asked: &Mutants,
    set: &Set,
    (count, folder): (usize, &Path),
    workspace: &mut Scratch,
    cache: &Cache,
) -> Result<ExitCode, Box<dyn Error>> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let drawn = u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(0);
    let chance = asked.draw.unwrap_or(drawn);
    println!("drawn with --draw {chance}");
    let begun = Instant::now();
    let clock = || Duration::from_secs(begun.elapsed().as_secs());
    let folder = std::path::absolute(folder)?;
    let seen = |red: &mutants::Red| println!("{}: {}", red.name, red.outcome.words());
    let all =
        mutants::sample(&set.mutants, (count, chance), &folder, workspace, cache, clock, seen)?;
    print!("{}", mutants::table(&all));
    let packed = all.iter().filter(|red| red.shrinking.is_some()).count();
    Ok(ExitCode::from(u8::from(packed < count)))
}

/// Hears the signals that would end this process, and ends with it what it has started.
#[expect(clippy::disallowed_methods, reason = "the command is no simulated path")]
fn end_with(processes: Processes) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    std::thread::spawn(move || {
        let heard = runtime.block_on(async {
            let (Ok(mut interrupt), Ok(mut terminate)) =
                (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
            else {
                return std::future::pending().await;
            };
            tokio::select! {
                biased;
                _ = interrupt.recv() => 130,
                _ = terminate.recv() => 143,
            }
        });
        processes.end_all();
        std::process::exit(heard);
    });
    Ok(())
}
