//! A user's own workflow in the simulated world.

use crate::scenario::Scenario;

/// What a user's file says.
#[derive(Clone, Debug)]
pub struct UserPlan {}

impl UserPlan {
    /// x
    /// # Errors
    pub fn parse(_file: &str, _text: &str) -> Result<Self, String> {
        Ok(Self {})
    }
    /// x
    #[must_use]
    pub fn scenario(&self, seed: u64) -> Scenario {
        crate::workload::draw(seed)
    }
    /// x
    #[must_use]
    pub fn is_fault_free(&self) -> bool {
        false
    }
}
