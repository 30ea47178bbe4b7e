//! The seam to the scratch copy: everything of a trial that takes time, files and processes.

use std::io;
use std::path::Path;

use super::patch::Patch;
use super::record::History;
use retrial_sim::unstable::capsule::Capsule;
use retrial_sim::unstable::report::SeedReport;
use retrial_sim::unstable::scenario::Scenario;

/// A place in which one mutant after another is built and run.
pub trait Workspace {
    /// Makes the copy what the source is.
    ///
    /// # Errors
    /// When files can't be written.
    fn clear(&mut self) -> Result<(), WorkspaceError>;

    /// Makes the copy what the source is, but for `patch`.
    ///
    /// # Errors
    /// When it does not apply, or files can't be written.
    fn plant(&mut self, patch: &Patch) -> Result<(), WorkspaceError>;

    /// Builds the simulation of what was planted.
    ///
    /// # Errors
    /// When it does not build.
    fn build(&mut self) -> Result<(), WorkspaceError>;

    /// Runs seeds from 0 to below `seeds` until one fails. After [`Workspace::build`].
    ///
    /// # Errors
    /// When no process can be started.
    fn sweep(&mut self, seeds: u64) -> Result<Ran, WorkspaceError>;

    /// Runs one world. After [`Workspace::build`].
    ///
    /// # Errors
    /// When no process can be started.
    fn run(&mut self, scenario: &Scenario) -> Result<SeedReport, WorkspaceError>;

    /// Builds and runs the suites on what was planted, one after another, until a test fails: that
    /// one. A test that is `likely` to fail, such as `engine: pause::h12`, comes first and alone.
    ///
    /// # Errors
    /// When they do not build, or can't be started.
    fn test(&mut self, likely: Option<&str>) -> Result<Option<String>, WorkspaceError>;

    /// Shrinks a failing seed into `folder`, with all that is written for it. After [`Workspace::build`].
    ///
    /// # Errors
    /// When nothing was written.
    fn shrink(&mut self, seed: u64, folder: &Path) -> Result<Capsule, WorkspaceError>;
}

/// Seeds that were run.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// The lowest that failed.
    pub failed: Option<SeedReport>,
    /// The histories from seed 0 to the one that failed; of all where none did.
    pub histories: Vec<History>,
}

/// Why a trial has no result.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The patch is not one on this source.
    #[error("it does not apply: {0}")]
    DoesNotApply(String),
    /// The mutant does not build.
    #[error("it does not build: {0}")]
    DoesNotBuild(String),
    /// A failing seed was not packed up.
    #[error("it was not shrunk: {0}")]
    NotShrunk(String),
    /// Files or processes.
    #[error(transparent)]
    Io(#[from] io::Error),
}
