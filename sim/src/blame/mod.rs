//! Finds the entry of a history after which a failure is certain, or nearly so.
//!
//! Decides where a history is forked, and how often. Must never know why a world fails: the caller
//! runs the worlds, and their reports say whether the same cause is found. What is drawn anew after a
//! fork says `variation`, as far as it stands in the scenario, and [`Fork`] for all else. To draw one
//! more thing anew, add it to one of these.

mod variation;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use retrial::time::Mono;
use serde::{Deserialize, Serialize};

use self::variation::Variations;
use crate::capsule::Cause;
use crate::history::History;
use crate::report::SeedReport;
use crate::scenario::{Fork, Scenario};
use crate::trace::{Kind, Line};

/// How often worlds fail that are alike up to one entry of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Likelihood {
    /// So many entries of the history happened as they did.
    pub after: u64,
    /// When the last of them did, true time.
    pub at: Mono,
    /// The worlds that failed for the same cause.
    pub failing: u64,
    /// The worlds that were tried.
    pub of: u64,
}

impl Likelihood {
    /// From 0 to 1; 0 if no world was tried.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.failing as f64 / self.of.max(1) as f64
    }

    fn is_certain(&self) -> bool {
        self.rate() >= CERTAIN
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blame {
    /// By the number of entries. The first one is of worlds in which all is drawn anew.
    pub curve: Vec<Likelihood>,
    /// The first entry after which the failure is certain, counted from 1; none if it is certain from
    /// the start on.
    pub entry: Option<u64>,
    /// The worlds that were run.
    pub tried: u64,
    /// Those of them whose history was another before the fork, which say nothing.
    pub strayed: u64,
}

impl Blame {
    /// The counts, each with the entry of `history` that it is after, and what is blamed.
    #[must_use]
    pub fn words(&self, history: &History) -> String {
        let mut text = String::from("fails       after entry\n");
        for Likelihood { after, failing, of, .. } in &self.curve {
            let entry = history.entry(*after).unwrap_or_else(|| "the start".to_owned());
            let sign = if self.entry == Some(*after) { '>' } else { ' ' };
            let _ = writeln!(text, "{sign}{failing:>4} of {of:<4}{after:>6} {entry}");
        }
        let _ = match self.entry {
            Some(entry) => writeln!(text, "the failure is certain after entry {entry}"),
            None => writeln!(text, "the failure is certain from the start on"),
        };
        let Self { tried, strayed, .. } = self;
        let _ = writeln!(text, "{tried} worlds tried, {strayed} of them strayed before the fork");
        text
    }
}

/// How many worlds are tried at one place of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Samples {
    /// While the entry is sought.
    pub coarse: u64,
    /// In its neighbourhood.
    pub fine: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self { coarse: 16, fine: 32 }
    }
}

/// How many entries before and after the first guess are looked at closely.
const NEIGHBOURS: usize = 4;
/// How many places the curve has beside those.
const PLACES: usize = 16;
/// Where so many of the worlds fail, the failure is called certain.
const CERTAIN: f64 = 0.95;

/// Finds the entry of `history` after which it is certain that `scenario` fails of `cause`. `alone` runs
/// one scenario and returns its history; `run` runs many and returns their reports in any order.
///
/// # Errors
/// What `run` returns.
pub fn blame<E>(
    scenario: &Scenario,
    history: &History,
    cause: &Cause,
    samples: Samples,
    alone: impl FnMut(Scenario) -> History,
    run: impl FnMut(Vec<Scenario>) -> Result<Vec<SeedReport>, E>,
) -> Result<Blame, E> {
    let lines = history.lines();
    let places = places(lines);
    let variations = Variations::new(scenario, lines, alone);
    let (curve, asked) = (BTreeMap::new(), BTreeMap::new());
    let mut search = Search { lines, cause, variations, run, curve, asked };
    let coarse = samples.coarse;
    let later = &places[1..];
    for nth in 0..=PLACES {
        search.at(places[nth * later.len() / PLACES], coarse)?;
    }
    let entry = match search.at(0, coarse)?.is_certain() || later.is_empty() {
        true => None,
        false => {
            let guess = search.first_certain(later, coarse)?;
            let near = guess.saturating_sub(NEIGHBOURS)..(guess + NEIGHBOURS).min(later.len());
            search.first_certain_of_all(&later[near], samples.fine)?
        }
    };
    let curve: Vec<Likelihood> = search.curve.into_values().collect();
    let tried = search.asked.into_values().sum();
    let strayed = tried - curve.iter().map(|point| point.of).sum::<u64>();
    Ok(Blame { curve, entry, tried, strayed })
}

/// After how many entries a history may be forked: at its start, and after what a reader would name as
/// a cause.
fn places(lines: &[Line]) -> Vec<u64> {
    let named = |line: &Line| matches!(line.kind, Kind::Input | Kind::Event | Kind::Fault);
    let all = (1..).zip(lines).filter(|(_, line)| named(line)).map(|(after, _)| after);
    [0].into_iter().chain(all).collect()
}

struct Search<'a, R> {
    lines: &'a [Line],
    cause: &'a Cause,
    variations: Variations<'a>,
    run: R,
    curve: BTreeMap<u64, Likelihood>,
    /// How many worlds were asked for at a place, those that strayed included.
    asked: BTreeMap<u64, u64>,
}

impl<E, R: FnMut(Vec<Scenario>) -> Result<Vec<SeedReport>, E>> Search<'_, R> {
    /// How likely the failure is after so many entries, from so many worlds or as many as were tried.
    fn at(&mut self, after: u64, samples: u64) -> Result<Likelihood, E> {
        let last = usize::try_from(after).ok().and_then(|n| self.lines.get(n.checked_sub(1)?));
        let (at, mark) = last.map_or((Mono::from_nanos(0), 0), |line| (line.at, line.mark));
        let asked = self.asked.entry(after).or_default();
        let chances = *asked + 1..samples + 1;
        *asked = samples.max(*asked);
        let worlds = chances.map(|chance| self.variations.after(Fork { after, chance }, at));
        let nothing = Likelihood { after, at, failing: 0, of: 0 };
        let point = self.curve.entry(after).or_insert(nothing);
        for report in (self.run)(worlds.collect())? {
            // A world that was broken off says nothing of its fork.
            if report.fork_mark.is_none_or(|found| found == mark) {
                point.of += 1;
                point.failing += u64::from(self.cause.is_in(&report));
            }
        }
        Ok(*point)
    }

    /// By bisection, the place in `places` after which the failure is certain.
    fn first_certain(&mut self, places: &[u64], samples: u64) -> Result<usize, E> {
        let (mut low, mut high) = (0, places.len() - 1);
        while low < high {
            let middle = low.midpoint(high);
            match self.at(places[middle], samples)?.is_certain() {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Ok(low)
    }

    /// The first of `places` after which the failure is certain, each looked at; the last one if it is
    /// after none.
    fn first_certain_of_all(&mut self, places: &[u64], samples: u64) -> Result<Option<u64>, E> {
        let mut first = None;
        for place in places {
            if self.at(*place, samples)?.is_certain() {
                first.get_or_insert(*place);
            }
        }
        Ok(first.or(places.last().copied()))
    }
}
