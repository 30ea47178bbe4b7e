//! Kinds of faults that a user adds.

use std::sync::Arc;

use retrial::time::Nanos;

use super::World;
use crate::scenario::UserStrike;
use crate::trace::Kind;

/// A kind of fault that a user adds. The seed draws when it strikes and the scenario records it, so it
/// is shrunk and replayed like any other.
pub trait UserFault: Send + Sync + 'static {
    /// Its name: the same in every world.
    fn name(&self) -> &str;

    /// Begins it, and says whether it took hold: `false` where there was nothing to strike.
    /// `chance` is 64 bits of the strike's own.
    fn begin(&self, world: &World, chance: u64) -> bool;

    /// Ends it; called once after each `begin` that took hold, when everything heals at the latest.
    fn end(&self, world: &World) {
        let _ = world;
    }

    /// The longest that one strike lasts; each is drawn from a hundredth of that on.
    fn longest(&self) -> Nanos {
        Nanos::from_secs(4)
    }

    /// The most strikes in one world; each world has 1 or more of those that have the fault at all.
    fn most(&self) -> u32 {
        3
    }
}

/// A strike that took hold.
pub(crate) struct ActiveFault {
    fault: Arc<dyn UserFault>,
    world: World,
}

impl ActiveFault {
    /// Ends the strike.
    pub(crate) fn end(self) {
        self.world.write(Kind::Fault, &format!("{} ends", self.fault.name()));
        self.fault.end(&self.world);
    }
}

/// Begins `strike`, and counts it where it takes hold.
pub(crate) fn strike(
    fault: &Arc<dyn UserFault>,
    world: &World,
    strike: &UserStrike,
) -> Option<ActiveFault> {
    let took_hold = fault.begin(world, strike.chance);
    let says = if took_hold { "begins" } else { "finds nothing to strike" };
    world.write(Kind::Fault, &format!("{} {says}", strike.name));
    took_hold.then(|| {
        world.count_strike(&strike.name);
        ActiveFault { fault: Arc::clone(fault), world: world.clone() }
    })
}
