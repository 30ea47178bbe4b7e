//! The selection by environment variables in a check, and the commands that repeat it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::capsule::Capsule;

/// Runs one seed and shows its history.
const SEED: &str = "RETRIAL_SEED";
/// How many seeds, or which: `1000` or `200..300`.
const SEEDS: &str = "RETRIAL_SEEDS";
/// Where the page of one seed or capsule is written.
const PAGE: &str = "RETRIAL_PAGE";
/// Replays a capsule's scenario.
const CAPSULE: &str = "RETRIAL_CAPSULE";

/// The seeds or the capsule that a check runs.
pub(super) enum Selection {
    /// These seeds.
    Seeds(Vec<u64>),
    /// One seed, with its history.
    Seed(u64),
    /// One scenario, with its history.
    Capsule(Box<Capsule>),
}

/// The selection in the environment for the check `name`; `seeds` seeds by default.
pub(super) fn selection(name: &str, seeds: u64) -> Result<Selection, String> {
    if let Some(file) = env::var_os(CAPSULE) {
        let capsule = Capsule::read(Path::new(&file))?;
        if capsule.scenario.own.as_ref().is_some_and(|own| own.check == name) {
            return Ok(Selection::Capsule(Box::new(capsule)));
        }
    }
    if let Some(text) = env::var_os(SEED) {
        return number(SEED, &text).map(Selection::Seed);
    }
    match env::var_os(SEEDS) {
        Some(text) => range(&text).map(Selection::Seeds),
        None => Ok(Selection::Seeds((0..seeds).collect())),
    }
}

/// The file for the page of what runs alone, if one is asked for.
pub(super) fn page_file() -> Option<PathBuf> {
    env::var_os(PAGE).map(PathBuf::from)
}

fn number(name: &str, text: &OsString) -> Result<u64, String> {
    let shown = text.to_string_lossy();
    shown.parse().map_err(|_| format!("{name} must be a number, not `{shown}`"))
}

fn range(text: &OsString) -> Result<Vec<u64>, String> {
    let shown = text.to_string_lossy();
    let read = match shown.split_once("..") {
        Some((from, until)) => from.parse().ok().zip(until.parse().ok()),
        None => shown.parse().ok().map(|count| (0, count)),
    };
    match read {
        Some((from, until)) if from < until => Ok((from..until).collect()),
        _ => Err(format!("{SEEDS} must be a number or a range such as 200..300, not `{shown}`")),
    }
}

/// The test that a check runs in, if it is known.
pub(super) struct Test {
    package: Option<String>,
    /// As the test harness names it.
    name: Option<String>,
    /// An example instead.
    example: Option<String>,
    folder: PathBuf,
}

impl Test {
    /// The test of this thread.
    pub(super) fn here() -> Self {
        let program = env::current_exe().unwrap_or_default();
        let folder = program.parent();
        let is_example = folder.is_some_and(|at| at.ends_with("examples"));
        // target/debug/deps/test-0123456789abcdef, or target/debug/examples/name.
        let is_built = is_example || folder.is_some_and(|at| at.ends_with("deps"));
        let target = program.ancestors().nth(3).filter(|_| is_built);
        let stem = program.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Self {
            package: env::var_os("CARGO_PKG_NAME").map(|name| name.to_string_lossy().into_owned()),
            name: of_thread().or_else(of_arguments),
            example: stem.filter(|stem| is_example && !stem.contains('-')),
            folder: target.map_or_else(env::temp_dir, Path::to_owned).join("retrial-checks"),
        }
    }

    /// Where the capsule of a failure is written.
    pub(super) fn file(&self, check: &str, seed: u64) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let check: String = check.chars().map(plain).collect();
        self.folder.join(format!("{check}-seed-{seed}.json"))
    }

    /// The commands that replay a capsule, a line each.
    pub(super) fn with_capsule(&self, file: &Path) -> Vec<String> {
        self.commands(&format!("{CAPSULE}={}", file.display()))
    }

    /// The commands that run a seed again.
    pub(super) fn with_seed(&self, seed: u64) -> Vec<String> {
        self.commands(&format!("{SEED}={seed}"))
    }

    fn commands(&self, variable: &str) -> Vec<String> {
        let of = self.package.as_ref().map(|name| format!(" -p {name}")).unwrap_or_default();
        if let Some(example) = &self.example {
            return vec![format!("{variable} cargo run{of} --example {example}")];
        }
        match &self.name {
            Some(name) => vec![
                format!("{variable} cargo test{of} -- --exact {name} --nocapture"),
                format!("{variable} cargo nextest run{of} -E 'test(={name})' --no-capture"),
            ],
            None => vec![
                format!("{variable} cargo test{of} -- --nocapture"),
                format!("{variable} cargo nextest run{of} --no-capture"),
            ],
        }
    }
}

/// The test harness names a test's thread after it.
fn of_thread() -> Option<String> {
    let thread = std::thread::current();
    thread.name().filter(|name| *name != "main").map(str::to_owned)
}

/// A harness with one thread runs tests on its main one; nextest says which test it means.
fn of_arguments() -> Option<String> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let exact = arguments.iter().any(|argument| argument == "--exact");
    arguments.into_iter().find(|argument| exact && !argument.starts_with('-'))
}
