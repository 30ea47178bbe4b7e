//! A simulated runtime for an engine of the older release.

use std::future::Future;

use older::runtime::{Runtime, Task, WorkLost};
use older::time::{Mono, Timestamp};
use retrial_sim::unstable::retrial::runtime as newer;
use retrial_sim::unstable::retrial::time;
use retrial_sim::unstable::runtime::SimRuntime;

#[derive(Clone)]
pub(crate) struct OfOlder(pub(crate) SimRuntime);

impl Runtime for OfOlder {
    fn now(&self) -> Mono {
        Mono::from_nanos(newer::Runtime::now(&self.0).as_nanos())
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_nanos(newer::Runtime::wall(&self.0).as_nanos())
    }

    fn random(&self) -> u64 {
        newer::Runtime::random(&self.0)
    }

    fn sleep_until(&self, at: Mono) -> impl Future<Output = ()> + Send {
        newer::Runtime::sleep_until(&self.0, time::Mono::from_nanos(at.as_nanos()))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        let mut spawned = Spawned(Some(newer::Runtime::spawn(&self.0, future)));
        Task::new(move || drop(spawned.0.take()))
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, WorkLost>> + Send {
        let done = newer::Runtime::blocking(&self.0, work);
        async move { done.await.map_err(|_| WorkLost) }
    }
}

/// A task that runs on when this is dropped, as one does that is detached.
struct Spawned(Option<newer::Task>);

impl Drop for Spawned {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.detach();
        }
    }
}
