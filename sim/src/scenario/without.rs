//! A scenario without one kind of fault.

use super::{Reply, Scenario};
use crate::fault::FaultKind;

impl Scenario {
    /// The same world in which nothing of `kind` goes wrong: scheduled faults are left out, replies
    /// become successes, clocks are made true. All else stays, so that what differs is owed to the
    /// kind alone.
    #[must_use]
    pub fn without(&self, kind: FaultKind) -> Self {
        let mut world = self.clone();
        world.faults.retain(|fault| fault.kind != kind);
        for endpoint in &mut world.endpoints {
            let scripts = endpoint.scripts.iter_mut().flatten();
            for reply in scripts.chain([&mut endpoint.then]) {
                if reply.fault() != Some(kind) {
                    continue;
                }
                match kind {
                    // It is the delay that is the fault.
                    FaultKind::LateSuccess => *reply = Reply::SuccessTrue,
                    _ => *reply.last_mut() = Reply::SuccessTrue,
                }
            }
        }
        for clock in &mut world.clocks {
            match kind {
                FaultKind::Skew => clock.skew_ns = 0,
                FaultKind::Jump => clock.jumps.clear(),
                FaultKind::Drift => clock.drift_ppm = 0,
                _ => {}
            }
        }
        world
    }
}

impl Reply {
    fn last_mut(&mut self) -> &mut Self {
        match self {
            Self::Delay { then, .. } => then.last_mut(),
            other => other,
        }
    }
}
