//! Which branches of the core the simulation takes, and in how many of its seeds.
//!
//! Decides what a branch is, how it is counted, and what docs/branches.md says. Must never know what
//! a branch is for.
//!
//! A copy of the source gets a mark in each branch, which sets a bit. The thread of a seed's world
//! writes the bits down as it ends.

mod count;
mod marks;
mod page;
mod reasons;

pub use count::{CountError, Counted, Counts, count, record};
pub use marks::Branch;
pub use page::{faults, page};
