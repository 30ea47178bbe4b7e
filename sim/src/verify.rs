//! Proves determinism: runs every seed twice, in two processes whose surroundings differ, and
//! compares their histories byte for byte.

use std::fmt::Write as _;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::report::{SeedReport, SweepReport};
use crate::sweep::{Surroundings, Sweep};

/// Seeds whose histories are kept at a time.
const BATCH: u64 = 64;
/// The real time after which a seed is called stuck.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Where the two histories of a seed part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line, from 1; the first says what was drawn.
    pub line: usize,
    /// The line in the first history, without its mark; empty where that has ended.
    pub one: String,
    /// The line in the second history.
    pub other: String,
}

impl Difference {
    /// The first difference of two marked histories; none where they are equal.
    #[must_use]
    pub fn first(one: &str, other: &str) -> Option<Self> {
        let (mut ones, mut others) = (one.lines(), other.lines());
        let mut line = 0;
        loop {
            line += 1;
            match (ones.next(), others.next()) {
                (None, None) => return None,
                (one, other) if one == other => {}
                (one, other) => {
                    let plain = |line: Option<&str>| unmarked(line.unwrap_or_default()).to_owned();
                    return Some(Self { line, one: plain(one), other: plain(other) });
                }
            }
        }
    }
}

fn unmarked(line: &str) -> &str {
    match line.split_once(' ') {
        Some((mark, rest)) if mark.len() == 16 => rest,
        _ => line,
    }
}

/// A seed that was not one history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    /// The seed.
    pub seed: u64,
    /// The first difference of its histories; `None` if they are equal and only the reports differ.
    pub at: Option<Difference>,
}

/// The result of running seeds twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Seeds compared.
    pub seeds: u64,
    /// Lines compared.
    pub lines: u64,
    /// Those that were not one history, lowest first.
    pub differing: Vec<Differing>,
    /// Over every seed's fingerprint.
    pub fingerprint: String,
}

impl Receipt {
    /// Runs `seeds` twice. `program` is a worker if called as one; `seen` is called after every few
    /// seeds.
    ///
    /// # Errors
    /// When processes can't be started or files not be written.
    pub fn of(
        seeds: Range<u64>,
        scenario: Option<&Path>,
        program: &Path,
        jobs: usize,
        seen: impl Fn(u64),
    ) -> io::Result<Self> {
        let (here, there) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let scenario = scenario.map(Path::canonicalize).transpose()?;
        let sweep = |seeds: Vec<u64>, jobs, folder: &Path, variables: &[_]| Sweep {
            seeds,
            scenario: scenario.clone(),
            surroundings: Surroundings {
                folder: Some(folder.to_owned()),
                variables: Some(variables.to_vec()),
                histories: Some(folder.to_owned()),
            },
            ..Sweep::new(program.to_owned(), jobs, WATCHDOG)
        };
        let mut receipt = Self::default();
        let mut all = Vec::new();
        let mut from = seeds.start;
        while from < seeds.end {
            let batch = from..seeds.end.min(from.saturating_add(BATCH));
            let together = sweep(batch.clone().collect(), jobs, there.path(), &ELSEWHERE);
            let mut together = together.run(|_| {})?;
            together.sort_by_key(|report| report.seed);
            for of_many in together {
                let seed = of_many.seed;
                let alone = sweep(vec![seed], 1, here.path(), &[]).run(|_| {})?;
                receipt.compare(alone, &of_many, [here.path(), there.path()])?;
                all.push(of_many);
            }
            seen(batch.end - batch.start);
            from = batch.end;
        }
        receipt.fingerprint = SweepReport::of(all).fingerprint;
        Ok(receipt)
    }

    fn compare(
        &mut self,
        alone: Vec<SeedReport>,
        of_many: &SeedReport,
        folders: [&Path; 2],
    ) -> io::Result<()> {
        let seed = of_many.seed;
        let [one, other] = folders.map(|folder| taken(&file(folder, seed)));
        let (one, other) = (one?, other?);
        self.seeds += 1;
        self.lines += one.lines().count() as u64;
        let at = Difference::first(&one, &other);
        if at.is_some() || alone.first() != Some(of_many) {
            self.differing.push(Differing { seed, at });
        }
        Ok(())
    }

    /// In words.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { seeds, lines, differing, fingerprint } = self;
        let mut text = String::new();
        for Differing { seed, at } in differing {
            let _ = match at {
                None => writeln!(text, "seed {seed}: one history, judged in two ways"),
                Some(Difference { line, one, other }) => writeln!(
                    text,
                    "seed {seed} parts at line {line}:\n  alone    {one}\n  of many  {other}"
                ),
            };
        }
        let wrong = differing.len();
        let _ = writeln!(text, "{seeds} seeds ran twice, {lines} lines: {wrong} differ");
        let _ = writeln!(text, "fingerprint {fingerprint}");
        text
    }
}

/// Surroundings that no seed may notice. A worker that is alone has no environment at all.
const ELSEWHERE: [(&str, &str); 6] = [
    ("HOME", "/nowhere"),
    ("LANG", "de_DE.UTF-8"),
    ("NO_COLOR", "1"),
    ("RETRIAL_LOG", "trace"),
    ("RETRY_MAX_RETRIES", "7"),
    ("TZ", "Asia/Kathmandu"),
];

/// The file of a seed's history.
#[must_use]
pub fn file(folder: &Path, seed: u64) -> PathBuf {
    folder.join(format!("{seed}.history"))
}

/// A file's text, and no more of the file. A seed that broke off has left none.
fn taken(path: &Path) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => std::fs::remove_file(path).map(|()| text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}
