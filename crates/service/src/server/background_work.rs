//! Work on definitions, away from the threads that read and write connections: a hostile definition
//! must not delay anybody else's request.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::Settings;
use super::problem::{Kind, Problem};
use super::service::ServiceState;
use retrial::engine::World;
use retrial::runtime::Runtime;

/// How many requests may wait for their turn. Each holds a body in memory.
const WAITING: usize = 64;

/// The places of work that takes long.
#[derive(Debug)]
pub(super) struct WorkSlots {
    /// One permit for each piece of work that may run at once: two for each processor, so that
    /// neither work of the other requests nor a disk leaves a processor idle.
    working: Arc<Semaphore>,
    /// The same and those that wait.
    taken: Semaphore,
}

impl WorkSlots {
    pub(super) fn new() -> Self {
        let working = 2 * std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            working: Arc::new(Semaphore::new(working)),
            taken: Semaphore::new(working + WAITING),
        }
    }
}

impl<W: World> ServiceState<W> {
    /// Runs `work` on a blocking thread once it has its turn. The wait ends with the request's
    /// time for an answer. Work that has begun keeps its place to its end, also when the client has
    /// gone.
    pub(super) async fn away<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Settings) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = || {
            let detail = "too many definitions are being read; try again later";
            Problem::new(Kind::Busy, detail)
        };
        let _place = self.work_slots.taken.try_acquire().map_err(|_| busy())?;
        let working = Arc::clone(&self.work_slots.working).acquire_owned().await;
        let working = working.map_err(|_| busy())?;
        let service = Arc::clone(self);
        let done = self.engine.runtime().blocking(move || {
            let done = work(&service.settings);
            drop(working);
            done
        });
        done.await.unwrap_or_else(|lost| Err(Problem::new(Kind::Fault, lost.to_string())))
    }
}
