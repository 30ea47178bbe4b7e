//! Builds the simulation with a mark in each branch of the core, runs seeds, and counts.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use retrial_sim::unstable::sweep::Sweep;

use super::marks::{Branch, Marked};
use crate::process::{BUILD, Processes, cargo};
use crate::tree::Tree;

/// Where what seeds and tests took is kept.
const SEEDS: &str = "taken-by-seeds";
const TESTED: &str = "taken-by-tests";
/// Where the marked sources are.
const MARKED: &str = "crates/core/src/";
/// The core's tests; those of its bounds take no other branches, and long.
const TESTS: [&str; 11] = [
    "test",
    "-p",
    "retrial-core",
    "--all-features",
    "--lib",
    "--test",
    "dialect",
    "--test",
    "policy",
    "--test",
    "run",
];
/// The real seconds after which a seed is called stuck.
const WATCHDOG: Duration = Duration::from_secs(120);

/// The branches of the core, by file, in the order of the text.
#[derive(Clone, Debug)]
pub struct Counts {
    /// How many seeds were run.
    pub seeds: u64,
    /// Each branch.
    pub branches: Vec<Counted>,
}

/// A branch, and what takes it.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Its file, below `crates/core/src`.
    pub file: String,
    /// The branch.
    pub branch: Branch,
    /// In how many seeds it is taken.
    pub seeds: u64,
    /// Whether a test of the core takes it.
    pub is_tested: bool,
}

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// A file of the core is no Rust.
    #[error("{file}: {error}")]
    Unread {
        /// The file.
        file: String,
        /// What is wrong with it.
        error: syn::Error,
    },
    /// The marked copy does not build, or a seed or a test fails in it.
    #[error("in the marked copy {0} fails:\n{1}")]
    Failed(String, String),
    /// What is recorded is not of these branches.
    #[error("what is recorded in {0} is of another source, or nothing: count anew")]
    Stale(String),
    /// Files or processes.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Runs these seeds and the core's tests in a marked copy of `tree`. The copy, its build and the records
/// of what was taken stay in `folder`.
///
/// # Errors
/// When the copy does not build, or a seed or a test fails.
pub fn record(
    tree: &Tree,
    folder: &Path,
    (seeds, jobs): (u64, usize),
    processes: &Processes,
) -> Result<(), CountError> {
    std::fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let records = folder.join("records");
    let (mut files, branches) = marked(tree)?;
    if let Some(root) = files.get_mut(&format!("{MARKED}lib.rs")) {
        root.push_str(&recorder(&records, branches.len()));
    }
    tree.copy(&folder.join("tree"), |file| files.get(file).map(String::as_str))?;

    ask_cargo(&folder, &["build", "--bin", "retrial-sim"], processes)?;
    clear(&records)?;
    std::fs::create_dir(&records)?;
    let program = folder.join("target/mutant/retrial-sim");
    let sweep = Sweep { seeds: (0..seeds).collect(), ..Sweep::new(program, jobs, WATCHDOG) };
    let failed = sweep.run(|_| {})?.iter().filter(|report| report.verdict.is_failure()).count();
    if failed > 0 {
        return Err(CountError::Failed(format!("{failed} of {seeds} seeds"), String::new()));
    }
    keep(&records, &folder.join(SEEDS))?;
    ask_cargo(&folder, &TESTS, processes)?;
    Ok(keep(&records, &folder.join(TESTED))?)
}

/// Counts what was recorded in `folder`.
///
/// # Errors
/// When nothing was, or it was of another source.
pub fn count(tree: &Tree, folder: &Path) -> Result<Counts, CountError> {
    let (_, mut branches) = marked(tree)?;
    let seeds = read(&folder.join(SEEDS), &mut branches, |counted| counted.seeds += 1)?;
    read(&folder.join(TESTED), &mut branches, |counted| counted.is_tested = true)?;
    Ok(Counts { seeds, branches })
}

fn clear(records: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(records) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn keep(records: &Path, to: &Path) -> io::Result<()> {
    clear(to)?;
    std::fs::rename(records, to)?;
    std::fs::create_dir(records)
}

/// The core's files with marks, and their branches in the order of the marks.
fn marked(tree: &Tree) -> Result<(BTreeMap<String, String>, Vec<Counted>), CountError> {
    let (mut files, mut branches) = (BTreeMap::new(), Vec::new());
    for (path, bytes) in tree.files() {
        let Some(file) = path.strip_prefix(MARKED).filter(|file| file.ends_with(".rs")) else {
            continue;
        };
        let marked = Marked::new(&String::from_utf8_lossy(bytes), branches.len())
            .map_err(|error| CountError::Unread { file: path.clone(), error })?;
        let counted =
            |branch| Counted { file: file.to_owned(), branch, seeds: 0, is_tested: false };
        branches.extend(marked.branches.into_iter().map(counted));
        files.insert(path.clone(), marked.text);
    }
    Ok((files, branches))
}

/// What the core gets: a bit for each branch. A process has one world at a time: what its main thread
/// does before belongs to the thread that the world then gets, which writes all down as it ends.
fn recorder(records: &Path, branches: usize) -> String {
    let bytes = branches.div_ceil(8);
    format!(
        r#"
static TAKEN: [std::sync::atomic::AtomicU8; {bytes}] = [const {{ std::sync::atomic::AtomicU8::new(0) }}; {bytes}];

/// Remembers that a branch was taken.
#[doc(hidden)]
pub fn taken(branch: usize) {{
    use std::sync::atomic::Ordering::Relaxed;
    let (byte, bit) = (&TAKEN[branch / 8], 1 << (branch % 8));
    if byte.load(Relaxed) & bit == 0 {{
        byte.fetch_or(bit, Relaxed);
    }}
    // There is none any more while the thread ends.
    let _ = WORLD.try_with(|_| ());
}}

thread_local! {{ static WORLD: World = World(std::thread::current().name() != Some("main")); }}

struct World(bool);

impl Drop for World {{
    fn drop(&mut self) {{
        use std::io::Write as _;
        if self.0 {{
            let record: Vec<u8> = TAKEN.iter().map(|byte| byte.swap(0, std::sync::atomic::Ordering::Relaxed)).collect();
            let file = std::path::Path::new({records:?}).join(std::process::id().to_string());
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
            file.write_all(&record).unwrap();
        }}
    }}
}}
"#
    )
}

fn ask_cargo(folder: &Path, asked: &[&str], processes: &Processes) -> Result<(), CountError> {
    let mut cargo = cargo(&folder.join("tree"), &folder.join("target"), asked);
    let ended = processes.run(cargo.env_remove("RUSTC_WORKSPACE_WRAPPER"), BUILD)?;
    let said = || format!("{}{}", ended.out, ended.err);
    if ended.is_well() {
        Ok(())
    } else {
        Err(CountError::Failed(format!("`cargo {}`", asked.join(" ")), said()))
    }
}

/// Tells of each branch in each thread's record that the thread took it, and says how many threads
/// there were.
fn read(
    records: &Path,
    branches: &mut [Counted],
    taken: impl Fn(&mut Counted),
) -> Result<u64, CountError> {
    let size = branches.len().div_ceil(8);
    let stale = || CountError::Stale(records.display().to_string());
    let mut threads = 0;
    for file in std::fs::read_dir(records).map_err(|_| stale())? {
        let bytes = std::fs::read(file?.path())?;
        if bytes.len() % size != 0 {
            return Err(stale());
        }
        for record in bytes.chunks(size) {
            threads += 1;
            for (number, counted) in branches.iter_mut().enumerate() {
                if record[number / 8] >> (number % 8) & 1 == 1 {
                    taken(counted);
                }
            }
        }
    }
    if threads == 0 { Err(stale()) } else { Ok(threads) }
}
