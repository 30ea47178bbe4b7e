//! The result of a check, for a reader.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use super::replay::Test;
use crate::capsule::{Capsule, Shrinking};
use crate::report::{Breach, SeedReport, SweepReport};

/// The most lines of a history that are shown; a capsule's file holds all.
const MOST_LINES: usize = 120;
/// Of these, so many from the end.
const LAST_LINES: usize = 40;
/// The most things found that are shown.
const MOST_FOUND: usize = 5;

/// A check in which everything held.
#[derive(Clone, Debug)]
pub struct Passed {
    name: String,
    /// The totals of the seeds.
    pub report: SweepReport,
    /// How often each own fault was drawn.
    pub drawn: BTreeMap<String, u64>,
    /// How often each own fault struck.
    pub struck: BTreeMap<String, u64>,
    /// The rare cases that the workflow's runs may meet, and that no seed judged.
    pub never_judged: Vec<&'static str>,
}

impl Passed {
    pub(super) fn new(
        name: &str,
        report: SweepReport,
        drawn: BTreeMap<String, u64>,
        struck: BTreeMap<String, u64>,
    ) -> Self {
        Self { name: name.to_owned(), report, drawn, struck, never_judged: Vec::new() }
    }

    /// Names what was not judged of what runs may meet.
    pub(super) fn beside(self, may_meet: &BTreeSet<&'static str>) -> Self {
        Self { never_judged: self.report.never_judged(may_meet), ..self }
    }

    /// The gaps: parts that should have been tested and were not.
    pub(super) fn untested(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if self.report.attempts == 0 {
            gaps.push("no attempt was started".to_owned());
        }
        for (name, drawn) in &self.drawn {
            if self.struck.get(name).copied().unwrap_or(0) == 0 {
                gaps.push(format!("the fault `{name}` was drawn {drawn} times and never struck"));
            }
        }
        gaps
    }
}

/// One line, one more for each kind of fault that was drawn and never struck, and one for the rare
/// cases that no seed judged.
impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, report, struck, .. } = self;
        let strikes: u64 = report.struck.values().chain(struck.values()).sum();
        write!(
            f,
            "check `{name}` held: {} seeds, {} runs, {} attempts, {strikes} faults struck",
            report.seeds, report.runs, report.attempts
        )?;
        for (kind, drawn) in &report.drawn {
            if report.struck.get(kind).copied().unwrap_or(0) == 0 {
                write!(f, "\n  the fault {kind} was drawn {drawn} times and never struck")?;
            }
        }
        match self.never_judged.is_empty() {
            true => Ok(()),
            false => write!(f, "\n  never judged: {}", self.never_judged.join(", ")),
        }
    }
}

/// A check that failed, or could not be run. Shown, it is all that a reader needs.
#[derive(Clone, Debug)]
pub struct Failed(Box<Details>);

/// The report of a failed check.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Details {
    /// The whole report, for a reader.
    pub text: String,
    /// The failing seed; `None` where none was at fault.
    pub seed: Option<u64>,
    /// The findings in its smallest world.
    pub found: Vec<Breach>,
    /// The file that the smallest world was written to.
    pub file: Option<PathBuf>,
    /// How far it was shrunk.
    pub shrinking: Option<Shrinking>,
    /// The page of the smallest world, for a browser.
    pub page: Option<PathBuf>,
    /// The history of the smallest world.
    pub history: Vec<String>,
}

impl Deref for Failed {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl From<Details> for Failed {
    fn from(finding: Details) -> Self {
        Self(Box::new(finding))
    }
}

impl Failed {
    pub(super) fn refused(name: &str, wrong: &[String]) -> Self {
        Self::nothing(format!("check `{name}` can't be run:{}", listed(wrong)))
    }

    pub(super) fn untested(name: &str, gaps: &[String]) -> Self {
        Self::nothing(format!(
            "check `{name}` found nothing but tested too little:{}",
            listed(gaps)
        ))
    }

    fn nothing(text: String) -> Self {
        Details { text, ..Details::default() }.into()
    }

    fn of(report: &SeedReport, text: String) -> Self {
        let (seed, found) = (Some(report.seed), report.breaches.clone());
        Details { text, seed, found, ..Details::default() }.into()
    }

    /// A world that can't be shrunk, for each try would take too long.
    pub(super) fn unshrunk(name: &str, report: &SeedReport, test: &Test) -> Self {
        let mut text = head(name, report.seed, report.verdict.words(), &report.breaches);
        text += &commands("\nthe same seed again:", &test.with_seed(report.seed));
        Self::of(report, text)
    }

    /// A world that failed once and not again.
    pub(super) fn unsteady(name: &str, report: &SeedReport, test: &Test) -> Self {
        let mut text = head(name, report.seed, report.verdict.words(), &report.breaches);
        text += "\nthe same world held when it ran again: something in it depends on \
                 more than its seed, such as state that worlds share, hash order, or real time\n";
        text += &commands("the same seed again:", &test.with_seed(report.seed));
        Self::of(report, text)
    }

    pub(super) fn again(
        name: &str,
        report: &SeedReport,
        capsule: Option<&Capsule>,
        lines: &[String],
    ) -> Self {
        let mut text = history(lines);
        text += &head(name, report.seed, report.verdict.words(), &report.breaches);
        if let Some(capsule) = capsule {
            text += match (capsule.fingerprint == report.fingerprint, capsule.cause.is_in(report)) {
                (true, _) => "as it was written down: the same fingerprint\n",
                (false, true) => "found as it was written down; the fingerprint is another\n",
                (false, false) => "what was written down is not found any more\n",
            };
        }
        let (seed, found) = (Some(report.seed), report.breaches.clone());
        Details { text, seed, found, history: lines.to_vec(), ..Details::default() }.into()
    }

    pub(super) fn shrunk(
        name: &str,
        seed: u64,
        capsule: &Capsule,
        page: Option<String>,
        test: &Test,
    ) -> Self {
        let Shrinking { tried, is_smallest, from, to } = capsule.shrinking;
        let mut text = head(name, seed, capsule.verdict.words(), &capsule.breaches);
        let _ = writeln!(
            text,
            "\nshrunk to {} and {} of {} and {} ({tried} worlds tried{}):",
            counted(to.faults, "fault"),
            counted(to.operations, "run"),
            from.faults,
            from.operations,
            if is_smallest { "" } else { "; there may be smaller ones" },
        );
        text += &history(&capsule.history);
        let file = test.file(name, seed);
        let written = write(&file, &json(capsule));
        let page = page.and_then(|html| {
            let page = file.with_extension("html");
            write(&page, &html).is_ok().then_some(page)
        });
        if let Some(page) = &page {
            let _ = writeln!(text, "\nin a browser: {}", page.display());
        }
        match &written {
            Ok(()) => text += &commands("\nthe same again:", &test.with_capsule(&file)),
            Err(error) => {
                let _ = writeln!(text, "\n{}: can't be written: {error}", file.display());
            }
        }
        text += &commands("the whole seed, as it was drawn:", &test.with_seed(seed));
        Details {
            text,
            seed: Some(seed),
            found: capsule.breaches.clone(),
            file: written.is_ok().then_some(file),
            page,
            shrinking: Some(capsule.shrinking),
            history: capsule.history.clone(),
        }
        .into()
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim_end())
    }
}

impl std::error::Error for Failed {}

fn counted(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

fn listed(items: &[String]) -> String {
    items.iter().map(|item| format!("\n  {}", item.replace('\n', "\n  "))).collect()
}

fn head(name: &str, seed: u64, verdict: &str, found: &[Breach]) -> String {
    let mut text = format!("check `{name}`: seed {seed} {verdict}\n");
    for breach in found.iter().take(MOST_FOUND) {
        let _ = writeln!(text, "  {} ({}): {}", breach.oracle, breach.reason, breach.text);
    }
    if found.len() > MOST_FOUND {
        let _ = writeln!(text, "  and {} more", found.len() - MOST_FOUND);
    }
    text
}

fn history(lines: &[String]) -> String {
    let mut text = String::new();
    let left_out = lines.len().saturating_sub(MOST_LINES);
    for (at, line) in lines.iter().enumerate() {
        let from_end = lines.len() - at;
        if left_out > 0 && from_end <= LAST_LINES + left_out && from_end > LAST_LINES {
            if from_end == LAST_LINES + 1 {
                let _ = writeln!(text, "      ... {left_out} lines left out");
            }
            continue;
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

fn commands(title: &str, commands: &[String]) -> String {
    let each: String = commands.iter().map(|command| format!("  {command}\n")).collect();
    format!("{title}\n{each}")
}

/// A capsule's maps have text keys, so it can be written.
fn json(capsule: &Capsule) -> String {
    serde_json::to_string_pretty(capsule).unwrap_or_default() + "\n"
}

pub(super) fn write(file: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(file, text)
}
