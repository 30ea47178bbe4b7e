//! What shrinking leaves, by made-up failures over drawn scenarios. No world is run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use retrial_sim::unstable::runtime::mix;
use retrial_sim::unstable::scenario::{Cancel, Scenario};
use retrial_sim::unstable::shrink::{Shrunk, Size, shrink};
use retrial_sim::unstable::workload::{draw, workflow};

const SEEDS: u64 = 60;
const ENOUGH: u64 = 20_000;

/// Everything that names something names something that is there.
fn check_sense(scenario: &Scenario) {
    let nodes = scenario.topology.nodes();
    for (place, text) in scenario.workflows.iter().enumerate() {
        workflow(place, text).unwrap_or_else(|e| panic!("workflow {place}: {e}\n{}", text.text));
    }
    let submissions = scenario.submissions.len();
    for submission in &scenario.submissions {
        assert!(submission.workflow < scenario.workflows.len() && submission.node < nodes);
    }
    for Cancel { submission, node, .. } in &scenario.cancels {
        assert!(*submission < submissions && *node < nodes);
    }
    for rest in &scenario.deactivations {
        assert!(rest.submission < submissions && rest.node < nodes);
    }
    for pause in &scenario.interventions.pauses {
        assert!(pause.submission < submissions && pause.node < nodes);
    }
    for by_hand in &scenario.interventions.by_hand {
        assert!(by_hand.submission < submissions && by_hand.node < nodes);
    }
    assert!(
        scenario.interventions.letter_rounds.iter().all(|letter_round| letter_round.node < nodes)
    );
    assert_eq!(scenario.clocks.len(), scenario.topology.clocks() as usize);
}

#[test]
fn whatever_is_left_out_what_is_left_makes_sense() {
    for seed in 0..SEEDS {
        let mut n = 0;
        let by_chance = |scenario: &Scenario| {
            check_sense(scenario);
            n += 1;
            mix(seed, n).is_multiple_of(3)
        };
        let before = Size::of(&draw(seed));
        let Shrunk { scenario, .. } = shrink(draw(seed), 300, by_chance);
        check_sense(&scenario);
        let after = Size::of(&scenario);
        assert!(after.faults <= before.faults && after.steps <= before.steps);
    }
}

#[test]
fn one_fault_is_left_of_many() {
    let mut shrunk = 0;
    for seed in 0..SEEDS {
        let scenario = draw(seed);
        let Some(fault) = scenario.faults.last().copied() else { continue };
        let fails =
            |s: &Scenario| s.faults.iter().any(|f| f.kind == fault.kind && f.when == fault.when);
        let Shrunk { scenario, is_smallest, .. } = shrink(scenario, ENOUGH, fails);
        assert!(is_smallest);
        let left = Size::of(&scenario);
        assert_eq!((left.faults, left.operations, left.steps), (1, 0, 0), "seed {seed}");
        assert!(scenario.workflows.is_empty() && scenario.endpoints.is_empty());
        shrunk += 1;
    }
    assert!(shrunk > 10, "only {shrunk} seeds drew a fault");
}

/// The workflow that is needed keeps the step that is needed, alone where others can go.
#[test]
fn one_run_and_one_step_are_left_of_many() {
    let mut alone = 0;
    for seed in 0..SEEDS {
        let scenario = draw(seed);
        let asked = scenario.submissions.last().unwrap().clone();
        let id = workflow(0, &scenario.workflows[asked.workflow]).unwrap().steps()[0].id.clone();
        let fails = |s: &Scenario| {
            let texts = s.submissions.iter().filter(|s| s.at == asked.at).map(|s| s.workflow);
            let mut steps =
                texts.flat_map(|at| workflow(at, &s.workflows[at]).unwrap().steps().to_vec());
            steps.any(|step| step.id == id)
        };
        let Shrunk { scenario, is_smallest, .. } = shrink(scenario, ENOUGH, fails);
        assert!(is_smallest);
        let left = Size::of(&scenario);
        assert_eq!((left.faults, left.operations), (0, 1), "seed {seed}: {scenario:#?}");
        assert_eq!((scenario.workflows.len(), scenario.topology.nodes()), (1, 1), "seed {seed}");
        alone += u32::from(left.steps == 1);
    }
    assert!(u64::from(alone) > SEEDS / 2, "only {alone} were left alone");
}

/// What is done to a run follows it to its new place.
#[test]
fn a_cancel_follows_its_run() {
    let mut followed = 0;
    for seed in 0..4 * SEEDS {
        let scenario = draw(seed);
        let Some(cancel) = scenario.cancels.last().copied() else { continue };
        let asked = scenario.submissions[cancel.submission].at;
        let fails = |s: &Scenario| {
            let mine = s.cancels.iter().filter(|c| c.at == cancel.at);
            mine.map(|c| s.submissions[c.submission].at).any(|at| at == asked)
        };
        let Shrunk { scenario, .. } = shrink(scenario, ENOUGH, fails);
        assert_eq!((scenario.submissions.len(), scenario.cancels.len()), (1, 1), "seed {seed}");
        followed += u32::from(cancel.submission > 0);
    }
    assert!(followed > 0, "no cancel of a later run was drawn");
}

#[test]
fn tries_are_bounded_and_that_is_said() {
    let mut asked = 0;
    let all = |_: &Scenario| {
        asked += 1;
        true
    };
    let Shrunk { tried, is_smallest, .. } = shrink(draw(1), 3, all);
    assert_eq!((tried, asked, is_smallest), (3, 3, false));
}
