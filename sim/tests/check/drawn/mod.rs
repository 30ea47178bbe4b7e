//! Workflows of every shape that the file can say, drawn, with services that answer anything: a
//! correct engine is never found wrong. What sweeps draw is tame beside it.
//!
//! `RETRIAL_DRAWN=1000..2000` checks those in place of the first few; a workflow that is found wrong
//! is shown with its number and its text.

mod graph;
mod policies;
mod services;

use std::fmt::Write as _;
use std::ops::Range;

use retrial::time::Nanos;
use retrial_sim::check::{Check, Failed, FaultKind, Gap, Passed};
use retrial_sim::unstable::report::SweepReport;
use serde_json::json;

/// SplitMix64: each number is a workflow.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'p>(&mut self, of: &[&'p str]) -> &'p str {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    /// Some of these, each by chance.
    pub(super) fn some<'p>(&mut self, percent: u64, of: &[&'p str]) -> Vec<&'p str> {
        of.iter().copied().filter(|_| self.chance(percent)).collect()
    }
}

/// The workflows to check; the first of them where nothing else is asked for.
#[expect(clippy::disallowed_methods, reason = "whoever runs the test says how much of it")]
fn asked(first: u64) -> Range<u64> {
    let Ok(text) = std::env::var("RETRIAL_DRAWN") else { return 0..first };
    let ends: Vec<u64> = text.split("..").map(|end| end.parse().unwrap()).collect();
    match ends[..] {
        [one] => one..one + 1,
        [from, until] => from..until,
        _ => panic!("RETRIAL_DRAWN is a number or a range"),
    }
}

fn checked(number: u64, text: &str) -> Result<Passed, Failed> {
    let mut dice = Dice(number ^ 0xD1CE);
    let check =
        Check::new(&format!("drawn {number}")).allow(Gap::ALL).workflow_file("w.toml", text);
    let runs = u32::try_from(1 + dice.below(3)).unwrap();
    let check = check.functions(services::functions).tries(0).runs(runs..=runs + 1);
    let check = check.seeds(1 + dice.below(6));
    let check = check.heal_after(Nanos::from_millis(2_000 + dice.below(15_000)));
    let check = check.service("shop.test", services::moody).service("store", services::good);
    let input = json!({
        "rows": [1, 2, 3], "none": [], "deep": { "rows": ["a", { "b": [4] }] }, "name": "Ann",
    });
    let check = if dice.chance(70) { check.input(input) } else { check };
    // Worlds of one seed are alike, so each workflow has other kinds of faults.
    let kinds: Vec<_> = FaultKind::ALL.into_iter().filter(|_| dice.chance(50)).collect();
    let check = if dice.chance(70) { check.faults(kinds) } else { check };
    let check = if dice.chance(30) { check.fault(services::Meddler) } else { check };
    check.outcome()
}

#[test]
fn whatever_is_drawn_holds() {
    let (mut held, mut idle, mut wrong) = (Vec::new(), Vec::new(), String::new());
    for number in asked(24) {
        let text = graph::workflow(&mut Dice(number));
        match checked(number, &text) {
            Ok(passed) => held.push(passed.report),
            Err(found) if found.seed.is_none() => idle.push(found.to_string()),
            Err(found) => writeln!(wrong, "workflow {number}:\n{text}\n{found}\n").unwrap(),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(held.len() > idle.len(), "in most nothing was tested: {idle:#?}");
    let sum = |of: fn(&SweepReport) -> u64| held.iter().map(of).sum::<u64>();
    println!(
        "{} workflows held in {} worlds: {} runs, {} attempts; in {} nothing was tested",
        held.len(),
        sum(|report| report.seeds),
        sum(|report| report.runs),
        sum(|report| report.attempts),
        idle.len()
    );
}
