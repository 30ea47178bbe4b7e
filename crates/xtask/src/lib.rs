//! Tools for those who maintain Retrial. Users need none of it.

pub mod branches;
pub mod mutants;
mod process;
mod tree;

pub use process::Processes;
pub use tree::Tree;
