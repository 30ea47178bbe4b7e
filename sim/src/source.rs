//! Where scenarios come from: drawn from seeds, or from a user's workflow file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::fault::FaultKind;
use crate::oracle::features_of;
use crate::scenario::Scenario;
use crate::workload;
use crate::workload::{TaskOrder, UserPlan, UserPlanError};

/// Where scenarios come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Everything is drawn from the seed.
    Drawn,
    /// The same, with further faults of one kind.
    More(FaultKind),
    /// The same, with the tasks of each node in another order.
    InOrder(TaskOrder),
    /// The workflow is the user's; the rest is drawn, within what its `[simulate]` table says.
    File {
        /// The file, as it was named.
        path: PathBuf,
        /// Its content.
        plan: Box<UserPlan>,
    },
}

impl Source {
    /// The source that `--scenario` names.
    ///
    /// # Errors
    /// When the file can't be read or its text is wrong.
    pub fn read(scenario: Option<&Path>) -> Result<Self, UserPlanError> {
        let Some(path) = scenario else { return Ok(Self::Drawn) };
        let text = std::fs::read_to_string(path).map_err(|e| {
            UserPlanError::Other(format!("{}: the file can't be read: {e}", path.display()))
        })?;
        let plan = UserPlan::parse(&path.display().to_string(), &text)?;
        Ok(Self::File { path: path.to_owned(), plan: Box::new(plan) })
    }

    /// The scenario of `seed`.
    #[must_use]
    pub fn scenario(&self, seed: u64) -> Scenario {
        match self {
            Self::Drawn => workload::draw(seed),
            Self::More(kind) => workload::draw_more(seed, *kind),
            Self::InOrder(order) => workload::draw_in_order(seed, *order),
            Self::File { plan, .. } => plan.scenario(seed),
        }
    }

    /// Whether no fault can strike.
    #[must_use]
    pub fn is_fault_free(&self) -> bool {
        matches!(self, Self::File { plan, .. } if plan.is_fault_free())
    }

    /// The rare cases that its runs may meet; `None` for all.
    #[must_use]
    pub fn features(&self) -> Option<BTreeSet<&'static str>> {
        match self {
            Self::Drawn | Self::More(_) | Self::InOrder(_) => None,
            Self::File { plan, .. } => plan.workflow().map(|workflow| features_of(&workflow)),
        }
    }

    /// The command that reproduces a seed, less the seed.
    #[must_use]
    pub fn repro_command(&self) -> String {
        let base = "cargo run --release -p retrial-sim -- repro";
        match self {
            Self::Drawn => base.to_owned(),
            Self::InOrder(order) => format!("{base} --order {order}"),
            Self::More(kind) => format!("{base} --more {kind}"),
            Self::File { path, .. } => format!("{base} --scenario {}", path.display()),
        }
    }
}
