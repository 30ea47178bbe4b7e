//! The strikes of a user's own kinds of faults.

use std::sync::Arc;

use crate::clock::until;
use crate::scenario::{Scenario, UserStrike};
use crate::user::{UserCode, World, strike};

/// Makes every strike of the scenario happen at its time, if the test brought its kind.
pub(super) fn start(scenario: &Scenario, own: &Arc<UserCode>, world: &World) {
    for planned in scenario.own.iter().flat_map(|own| &own.faults) {
        let (planned, own, world) = (planned.clone(), Arc::clone(own), world.clone());
        let heal_at = scenario.heal_at;
        drop(madsim::task::spawn(async move {
            until(planned.from).await;
            if planned.from < heal_at {
                let ends = planned.from.after(planned.lasts).min(heal_at);
                carry_out(&planned, &own, &world, ends).await;
            }
        }));
    }
}

async fn carry_out(planned: &UserStrike, own: &UserCode, world: &World, ends: retrial::time::Mono) {
    let Some(begun) = own.fault(&planned.name).and_then(|f| strike(f, world, planned)) else {
        return;
    };
    until(ends).await;
    begun.end();
}
