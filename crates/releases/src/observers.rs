//! Observers of this release for an engine of the older one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use older::observe::{Notice, Observer};
use older::run::RunId;
use retrial_sim::unstable::retrial::observe as newer;
use retrial_sim::unstable::retrial::time::Timestamp;
use retrial_sim::unstable::retrial::workflow::Workflow;

use crate::across;

pub(crate) struct OfOlder {
    observers: Vec<Arc<dyn newer::Observer>>,
    /// The definitions that were read, by run.
    workflows: Mutex<BTreeMap<RunId, Arc<Workflow>>>,
}

impl OfOlder {
    pub(crate) fn new(observers: Vec<Arc<dyn newer::Observer>>) -> Self {
        Self { observers, workflows: Mutex::default() }
    }
}

impl Observer for OfOlder {
    fn tell(&self, notice: &Notice<'_>) {
        let workflow = {
            let mut read = self.workflows.lock().unwrap_or_else(PoisonError::into_inner);
            let of_run = read.entry(notice.run);
            Arc::clone(of_run.or_insert_with(|| across(&**notice.workflow)))
        };
        let event = across(notice.event);
        let told = newer::Notice {
            run: across(&notice.run),
            workflow: &workflow,
            number: across(&notice.number),
            at: Timestamp::from_nanos(notice.at.as_nanos()),
            event: &event,
        };
        self.observers.iter().for_each(|observer| observer.tell(&told));
    }
}
