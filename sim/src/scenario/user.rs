//! The part of a scenario that belongs to a user's check. Code is not part of it: a replay needs
//! the test that defines it.

use retrial::time::{Mono, Nanos};
use serde::{Deserialize, Serialize};

/// The part of a scenario that a user's check brings. With it all registered functions are the
/// user's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserPart {
    /// The check's name.
    pub check: String,
    /// The longest time that an attempt takes once all has healed.
    pub longest_attempt: Nanos,
    /// The most items of a list that the user's own code gives.
    #[serde(default = "UserPart::longest_list")]
    pub longest_list: u64,
    /// The strikes of the user's own kinds of faults.
    #[serde(default)]
    pub faults: Vec<UserStrike>,
}

impl UserPart {
    /// The most items of a list, unless set.
    pub(crate) fn longest_list() -> u64 {
        100
    }
}

/// One strike of a user's kind of fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserStrike {
    /// The fault's name.
    pub name: String,
    /// When it begins.
    pub from: Mono,
    /// How long it lasts; it ends when everything heals at the latest.
    pub lasts: Nanos,
    /// The random bits that the fault gets.
    pub chance: u64,
}
