//! The workflows of runs whose events are being streamed. A definition takes much more memory than its
//! text, and there may be a stream for each of many.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::service::SharedState;
use retrial::engine::{CommandError, World};
use retrial::run::{RunId, RunState};
use retrial::workflow::Workflow;

/// The longest definition, in bytes of JSON, that a stream keeps for itself.
const SMALL: usize = 4 * 1024;
/// The most large definitions in memory for all streams together.
const MOST_LARGE: usize = 4;

/// The large definitions that streams used last.
#[derive(Debug, Default)]
pub(super) struct LargeWorkflows(Mutex<VecDeque<(RunId, Arc<Workflow>)>>);

impl LargeWorkflows {
    fn get(&self, run: RunId) -> Option<Arc<Workflow>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(of, _)| *of == run).map(|(_, workflow)| Arc::clone(workflow))
    }

    fn put(&self, run: RunId, workflow: &Arc<Workflow>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(of, _)| *of != run);
        all.push_back((run, Arc::clone(workflow)));
        if all.len() > MOST_LARGE {
            all.pop_front();
        }
    }
}

/// The workflow of a stream's run: a small one itself, a large one read again when others took its
/// place.
pub(super) enum StreamWorkflow<W: World> {
    Small(Arc<Workflow>),
    Large(SharedState<W>),
}

impl<W: World> StreamWorkflow<W> {
    pub(super) fn new(service: &SharedState<W>, state: &RunState) -> Self {
        let workflow = state.workflow();
        if is_small(workflow) {
            return Self::Small(Arc::clone(workflow));
        }
        service.large.put(state.id(), workflow);
        Self::Large(Arc::clone(service))
    }

    pub(super) async fn get(&self, run: RunId) -> Result<Arc<Workflow>, CommandError> {
        let service = match self {
            Self::Small(workflow) => return Ok(Arc::clone(workflow)),
            Self::Large(service) => service,
        };
        if let Some(workflow) = service.large.get(run) {
            return Ok(workflow);
        }
        let state = service.engine.state(run).await?;
        service.large.put(run, state.workflow());
        Ok(Arc::clone(state.workflow()))
    }
}

/// Takes so many bytes and fails at the next.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_small(workflow: &Workflow) -> bool {
    serde_json::to_writer(Room(SMALL), workflow).is_ok()
}
