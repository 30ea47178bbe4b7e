//! The mutation score of the simulation: which of many planted bugs it finds.
//!
//! Decides what a mutant is, when it counts as killed, which results still hold, and what
//! docs/mutants.md says. Must never know how a bug looks or which check should find it: a mutant is
//! a patch on the code and two lines about it, and is judged by seeds and tests that know nothing
//! of it. What touches the world (the scratch copy, builds, processes) stands behind [`Workspace`].
//!
//! To add a mutant, put `ROOM_WHAT.patch` into `sim/mutants`: the heads `Breaks:` and `Seen:`, an
//! empty line, and what `git diff` prints. To add a suite of tests, name it in [`SUITES`].

mod ablation;
mod bodies;
mod cache;
mod campaign;
mod page;
mod patch;
mod record;
mod sample;
mod scratch;
mod set;
mod suites;
mod switches;
mod trial;
mod workspace;

pub use ablation::Ablation;
pub use cache::{Cache, Keys, write_whole};
pub use campaign::{CampaignError, Results, control, run, shard};
pub use page::page;
pub use patch::{Patch, PatchError};
pub use record::{Differ, Found, History, Outcome, Swept, Tested};
pub use sample::{Red, sample, table};
pub use scratch::Scratch;
pub use set::{Set, SetError};
pub use suites::{SUITES, Suite};
pub use workspace::{Ran, Workspace, WorkspaceError};
