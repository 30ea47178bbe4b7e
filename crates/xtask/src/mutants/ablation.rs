//! Which kinds of faults a failing seed needs: its scenario runs again once for each kind
//! that it drew, without that kind.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::workspace::{Workspace, WorkspaceError};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::scenario::Scenario;

/// The results of leaving out each kind of fault in turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ablation {
    /// Whether the world fails when it is given as data. It does not where the mutant changes what
    /// the seed draws; then nothing was left out.
    pub replays: bool,
    /// The kinds that the seed drew.
    pub drawn: BTreeSet<FaultKind>,
    /// Those without which every promise held.
    pub needed: BTreeSet<FaultKind>,
}

impl Ablation {
    /// Leaves out each kind that `scenario` has, one at a time, in the world of `lab`.
    ///
    /// # Errors
    /// When no process can be started.
    pub fn of(scenario: &Scenario, workspace: &mut impl Workspace) -> Result<Self, WorkspaceError> {
        let drawn = scenario.kinds();
        let mut needed = BTreeSet::new();
        if !workspace.run(scenario)?.verdict.is_failure() {
            return Ok(Self { replays: false, drawn, needed });
        }
        for kind in &drawn {
            if !workspace.run(&scenario.without(*kind))?.verdict.is_failure() {
                needed.insert(*kind);
            }
        }
        Ok(Self { replays: true, drawn, needed })
    }
}
