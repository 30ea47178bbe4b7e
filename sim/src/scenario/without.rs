//! A scenario without one kind of fault.

use super::{Reply, Scenario};
use crate::fault::FaultKind;

impl Scenario {
    /// The same world without faults of `kind`: scheduled faults are left out, replies become
    /// successes, clocks become true. All else stays, so only the kind explains a difference.
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
