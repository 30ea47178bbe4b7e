//! A simulated node's runtime passes the suite that every runtime passes, also where its clocks are
//! wrong.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use madsim::runtime::Handle;
use retrial::runtime::conformance::{Case, Harness, PANICS, cases};
use retrial::time::{Mono, Nanos};
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::records::Records;
use retrial_sim::unstable::runtime::{
    ClockPlan, DiskLatency, Drift, PollCounter, RuntimePlan, SimRuntime, run_seed,
};

const LIMIT: Nanos = Nanos::from_secs(3_600);
const POLLS: u64 = 1_000_000;

/// A node with this plan.
struct OnANode(RuntimePlan);

impl OnANode {
    fn incarnation(&self, incarnation: u32) -> SimRuntime {
        let name = format!("life {incarnation}");
        let (node, incarnation) = (
            Handle::current().create_node().name(&name).build(),
            Incarnation::new(&name, incarnation),
        );
        let records = Records::new(false, POLLS);
        SimRuntime::new(
            &incarnation,
            node,
            &self.0,
            &PollCounter::default(),
            &DiskLatency::default(),
            &records,
        )
    }
}

impl Harness for OnANode {
    type Runtime = SimRuntime;

    fn runtime(&self) -> SimRuntime {
        self.incarnation(0)
    }

    fn another(&self) -> SimRuntime {
        self.incarnation(1)
    }
}

/// What is wrong, by case, each in a world of its own.
fn failing(plan: &RuntimePlan) -> Vec<String> {
    let names = cases::<OnANode>().into_iter().map(|case| case.name).enumerate();
    let wrong = names.filter_map(|(number, name)| {
        let plan = plan.clone();
        let ran = run_seed(number as u64, LIMIT, move || async move {
            let Case { run, .. } = cases::<OnANode>().swap_remove(number);
            run(&OnANode(plan)).await
        });
        let why = match ran {
            Ok(verdict) => verdict.err()?,
            Err(panic) => panic.message,
        };
        Some(format!("{name}: {why}"))
    });
    wrong.collect()
}

/// A panic of blocking work is the seed's verdict: no simulated node outlives one.
#[test]
fn a_simulated_node_conforms() {
    let panics = [format!("blocking_work_that_panics_is_lost: {PANICS}")];
    assert_eq!(failing(&RuntimePlan::default()), panics);
    for ppm in [-300_000, -20, 20, 300_000] {
        let drift = Drift::ppm(ppm).unwrap();
        let clock = ClockPlan { drift, origin: Mono::from_nanos(99), ..ClockPlan::default() };
        let plan = RuntimePlan { clock, chance: 5, priorities: None };
        assert_eq!(failing(&plan), panics, "{ppm}");
    }
}
