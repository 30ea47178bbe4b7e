//! What happens to one run, event by event, on the pure heart in virtual time. Each test names the
//! rows of the specification that it proves.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use crate::run_support;

use retrial_core::failure::{Failure, NetworkFault};
use retrial_core::policy::Policy;
use retrial_core::run::{Event, Input, Lapse, Outcome, StepPhase, TaskId, TaskPhase, Token};
use retrial_core::time::Nanos;
use retrial_core::workflow::{StepIx, Workflow, WorkflowError};
use run_support::build::{Flow, change, doubling, once, transient};
use run_support::show::{history, show};
use run_support::world::{World, token_of};
use run_support::{Shot, fails, gives, hangs, lost, ok, status};
use serde_json::{Value, json};

fn task(step: u16, item: u32) -> TaskId {
    TaskId { step: StepIx(step), item }
}

/// One step `a` under `policy` whose attempts go as `shots`.
fn one(policy: Policy, shots: impl IntoIterator<Item = Shot>) -> World {
    plays(Flow::new().step("a", policy).build(), [("a", 0, shots.into_iter().collect())])
}

/// A run of `workflow`, with scripts for some tasks, at its start.
fn set<const N: usize>(workflow: Workflow, scripts: [(&str, u32, Vec<Shot>); N]) -> World {
    let mut world = World::new(workflow, 7);
    for (id, item, shots) in scripts {
        world.script(id, item, shots);
    }
    world
}

/// A run of `workflow` to its end.
fn plays<const N: usize>(workflow: Workflow, scripts: [(&str, u32, Vec<Shot>); N]) -> World {
    let mut world = set(workflow, scripts);
    assert!(world.run(1_000), "the run goes on and on:\n{}", history(&world));
    assert!(world.state.outcome().is_some(), "the run is stuck:\n{}", history(&world));
    world.check_queue();
    world
}

fn phase(world: &World, id: &str) -> StepPhase {
    let at = world.state.workflow().place_of(id).expect("a step");
    world.state.steps()[at.index()].phase
}

fn last_error(world: &World, id: &str) -> Option<String> {
    let at = world.state.workflow().place_of(id).expect("a step");
    world.state.steps()[at.index()].last_error.as_ref().map(|e| e.code.to_string())
}

mod arguments;
mod budgets;
mod conditions;
mod contracts;
mod damage;
mod definitions;
mod errors;
mod grammar;
mod group_timing;
mod ids;
mod inputs;
mod letters;
mod partial;
mod policies;
mod quarantine;
mod replay;
mod rollback;
mod rollback_by_hand;
mod runs;
mod spent;
mod steps;
mod tasks;
mod timing;
