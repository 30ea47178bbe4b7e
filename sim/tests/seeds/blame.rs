//! What is blamed for a failure, by made-up failures of worlds in which every promise holds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::convert::Infallible;

use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::blame::{Blame, Samples, blame};
use retrial_sim::unstable::capsule::Cause;
use retrial_sim::unstable::history::History;
use retrial_sim::unstable::report::{Breach, SeedReport, Verdict};
use retrial_sim::unstable::scenario::{Fork, Scenario};
use retrial_sim::unstable::trace::Kind;
use retrial_sim::unstable::workload::draw;
use retrial_sim::unstable::world::run_scenario;

const FEW: Samples = Samples { coarse: 8, fine: 16 };

fn cause() -> Cause {
    Cause { oracle: "made up".to_owned(), reason: "by a test".to_owned() }
}

/// Blames a failure that is there where `fails`. Every world must hold in truth.
fn blamed(scenario: &Scenario, fails: impl Fn(&SeedReport) -> bool) -> (Blame, History) {
    let (_, history) = run_scenario(scenario.clone(), true);
    let Cause { oracle, reason } = cause();
    let breach = Breach { oracle, reason, text: String::new(), proof: Vec::new() };
    let judged = |world: Scenario| {
        let (report, _) = run_scenario(world.clone(), false);
        let held = !report.verdict.is_failure();
        assert!(held, "{:?} in {}", report.breaches, serde_json::to_string(&world).unwrap());
        match fails(&report) {
            true => {
                SeedReport { verdict: Verdict::Wrong, breaches: vec![breach.clone()], ..report }
            }
            false => report,
        }
    };
    let alone = |world| run_scenario(world, true).1;
    let run = |worlds: Vec<Scenario>| Ok(worlds.into_iter().map(judged).collect());
    let Ok::<_, Infallible>(found) = blame(scenario, &history, &cause(), FEW, alone, run);
    (found, history)
}

#[test]
fn a_forked_world_is_as_before_up_to_its_fork_and_another_after_it() {
    let mut others = 0;
    for seed in 0..12 {
        let scenario = draw(seed);
        let (_, before) = run_scenario(scenario.clone(), true);
        let marks = |history: &History| history.lines().iter().map(|l| l.mark).collect::<Vec<_>>();
        let before = marks(&before);
        for tenth in [0, 1, 4, 9] {
            let after = before.len() * tenth / 10;
            let fork = Some(Fork { after: after as u64, chance: seed });
            let (report, forked) = run_scenario(Scenario { fork, ..scenario.clone() }, true);
            let forked = marks(&forked);
            assert_eq!(forked[..after], before[..after], "seed {seed} after {after}");
            let mark = after.checked_sub(1).map_or(0, |last| before[last]);
            assert_eq!(report.fork_mark, Some(mark));
            assert!(!report.verdict.is_failure(), "{:?}", report.breaches);
            others += usize::from(forked != before);
        }
    }
    assert!(others > 40, "only {others} of 48 went on in another way");
}

/// The entries of crashes that struck, counted from 1.
fn crashes(history: &History) -> Vec<u64> {
    let crash = |kind: Kind, text: &str| kind == Kind::Fault && text.ends_with("crashed");
    let all = (1..).zip(history.lines()).filter(|(_, line)| crash(line.kind, &line.text));
    all.map(|(number, _)| number).collect()
}

#[test]
fn the_crash_is_blamed_for_what_every_crash_brings_about() {
    let lone = |s: &Scenario| {
        let crashes = s.faults.iter().filter(|fault| fault.kind == FaultKind::Crash).count();
        crashes == 1 && s.submissions.len() == 1 && s.faults.len() > 5
    };
    let worlds = (0..2_000).map(draw).filter(lone).filter_map(|scenario| {
        let (_, history) = run_scenario(scenario.clone(), true);
        let [crash] = crashes(&history)[..] else { return None };
        Some((scenario, history, crash))
    });
    // Every sample lives through a world.
    let short = worlds.take(24).min_by_key(|(_, history, _)| history.lines().len());
    let (scenario, history, crash) = short.unwrap();
    let (found, _) = blamed(&scenario, |r| r.struck.contains_key(&FaultKind::Crash));
    assert_eq!(found.entry, Some(crash), "{}", found.words(&history));
    let (first, last) = (found.curve.first().unwrap(), found.curve.last().unwrap());
    assert!(first.rate() < 0.9 && last.failing == last.of, "{}", found.words(&history));
    assert!(found.strayed * 10 < found.tried, "{}", found.words(&history));
}

#[test]
fn nothing_is_blamed_for_what_always_happens() {
    let (found, history) = blamed(&draw(12), |_| true);
    assert_eq!(found.entry, None);
    assert!(found.words(&history).contains("certain from the start on"));
}
