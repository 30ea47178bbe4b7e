//! Load against trigger: where the system recovers.
//!
//! Decides which cells there are and what the highest safe load is. Must never judge a cell itself.

use std::fmt::Write as _;

use serde::Serialize;

use crate::judge::{Verdict, judge};
use crate::model::Scenario;

/// The most values of one axis.
pub const MOST_STEPS: u32 = 100;

/// The verdict of one load and one trigger.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cell {
    /// The verdict.
    pub verdict: Verdict,
    /// The seeds that recovered.
    pub recovered: u32,
    /// The seeds that ran.
    pub seeds: u32,
}

/// The verdicts of all loads and triggers, as multiples of those of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Map {
    /// The loads, ascending.
    pub loads: Vec<f64>,
    /// The lengths of the triggers, ascending.
    pub triggers: Vec<f64>,
    /// By trigger, then by load.
    pub cells: Vec<Cell>,
    /// The highest load up to which each trigger is recovered from.
    pub safe_load: Option<f64>,
}

/// A range of values: `0.4..1.2/9` has nine of them.
///
/// # Errors
/// What is wrong, and what to write.
pub fn values(text: &str) -> Result<Vec<f64>, String> {
    let help = "; write FROM..TO/STEPS, such as 0.4..1.2/9, or one number";
    let number = |text: &str| {
        let found = text.trim().parse::<f64>().ok().filter(|n| (0.0..=1_000.0).contains(n));
        found.ok_or_else(|| format!("`{text}` is no number from 0 to 1000{help}"))
    };
    let Some((from, rest)) = text.split_once("..") else { return Ok(vec![number(text)?]) };
    let (until, steps) =
        rest.split_once('/').ok_or_else(|| format!("`{text}` has no steps{help}"))?;
    let (from, until) = (number(from)?, number(until)?);
    let steps = steps.trim().parse::<u32>().ok().filter(|n| (2..=MOST_STEPS).contains(n));
    let steps =
        steps.ok_or_else(|| format!("the steps are no number from 2 to {MOST_STEPS}{help}"))?;
    if until <= from {
        return Err(format!("`{text}` does not ascend{help}"));
    }
    let step = (until - from) / f64::from(steps - 1);
    Ok((0..steps).map(|n| from + step * f64::from(n)).collect())
}

/// Judges each load with each trigger.
#[must_use]
pub fn map(scenario: &Scenario, loads: &[f64], triggers: &[f64], seeds: u32, jobs: usize) -> Map {
    let mut cells = Vec::new();
    for trigger in triggers {
        for load in loads {
            let changed = scenario.clone().with_load(*load).with_trigger(*trigger);
            let judged = judge(&changed, seeds, jobs);
            let (verdict, recovered) = (judged.verdict, judged.recovered);
            cells.push(Cell { verdict, recovered, seeds });
        }
    }
    let (loads, triggers) = (loads.to_vec(), triggers.to_vec());
    let mut map = Map { loads, triggers, cells, safe_load: None };
    let safe = |column: usize| {
        (0..map.triggers.len()).all(|row| map.cell(row, column).verdict == Verdict::Recovers)
    };
    let safe = (0..map.loads.len()).take_while(|column| safe(*column)).last();
    map.safe_load = safe.and_then(|column| map.loads.get(column).copied());
    map
}

impl Map {
    /// The cell of a trigger and a load, by their places.
    #[must_use]
    pub fn cell(&self, trigger: usize, load: usize) -> Cell {
        self.cells[trigger * self.loads.len() + load]
    }

    /// How many cells have this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cells.iter().filter(|cell| cell.verdict == verdict).count()
    }

    /// The highest safe load in a sentence.
    #[must_use]
    pub fn words(&self) -> String {
        match self.safe_load {
            Some(load) => format!(
                "The highest safe load is {load:.2} times that of the file: up to there it recovers from each of these triggers."
            ),
            None => {
                "No load here is safe: at the lowest one it does not recover from each trigger."
                    .to_owned()
            }
        }
    }

    /// The map in characters, the longest trigger on top.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.words());
        for (row, trigger) in self.triggers.iter().enumerate().rev() {
            let _ = write!(text, "  {trigger:>7.2} ");
            for column in 0..self.loads.len() {
                text.push_str(match self.cell(row, column).verdict {
                    Verdict::Recovers => " . ",
                    Verdict::Vulnerable => " v ",
                    Verdict::Metastable => " M ",
                    Verdict::Overloaded => " O ",
                });
            }
            text.push('\n');
        }
        let ends = self.loads.first().zip(self.loads.last());
        if let Some((first, last)) = ends {
            let _ = writeln!(text, "  trigger  load {first:.2} to {last:.2}");
        }
        text + "\n  . recovers  v vulnerable  M metastable  O overloaded\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(values("0.5..1.5/3").unwrap(), [0.5, 1.0, 1.5]);
        assert_eq!(values("2").unwrap(), [2.0]);
        for wrong in ["", "1..2", "2..1/3", "1..2/1", "1..2/1000", "x..2/3", "-1", "nan", "1e9"] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }
}
