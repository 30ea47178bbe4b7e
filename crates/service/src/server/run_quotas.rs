//! What each token's submissions may take.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::caller::Caller;
use super::problem::{Kind, Problem};
use super::service::ServiceState;
use retrial::engine::World;
use retrial::run::RunId;
use retrial::runtime::Runtime;
use retrial::store::Store;
use retrial::time::{Mono, Nanos};

/// How often the runs of a token that is at its limit are looked at again.
const LOOK_AGAIN: Nanos = Nanos::from_secs(1);

/// The unfinished runs that each token with a limit has submitted to this node since it started.
#[derive(Debug, Default)]
pub(super) struct RunQuotas(Mutex<BTreeMap<String, RunQuota>>);

#[derive(Debug, Default)]
struct RunQuota {
    entries: BTreeMap<u64, Entry>,
    next: u64,
    looked: Option<Mono>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// `None` while it is being submitted.
    run: Option<RunId>,
    bytes: u64,
}

/// Room of a token for one run. Dropping it gives the room back, unless [`Room::keep`] was called.
#[derive(Debug)]
pub(super) struct Room<'s> {
    run_quotas: &'s RunQuotas,
    name: String,
    entry: Option<u64>,
}

impl RunQuotas {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, RunQuota>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunQuota {
    /// Which limit has no room for so many bytes more.
    fn full(&self, caller: &Caller, bytes: u64) -> Option<String> {
        let used: u64 = self.entries.values().map(|entry| entry.bytes).sum();
        let (count, name) = (self.entries.len() as u64, caller.name());
        if let Some(most) = caller.unfinished().filter(|most| count >= *most) {
            return Some(format!(
                "{count} runs of `{name}` are unfinished and its limit is {most}"
            ));
        }
        let most = caller.bytes().filter(|most| used.saturating_add(bytes) > *most)?;
        Some(format!("the unfinished runs of `{name}` have {used} bytes and its limit is {most}"))
    }
}

impl Room<'_> {
    /// Keeps the room until the run has ended.
    pub(super) fn keep(mut self, run: RunId) {
        let Some(entry) = self.entry.take() else { return };
        let mut all = self.run_quotas.lock();
        let quota = all.entry(std::mem::take(&mut self.name)).or_default();
        quota.entries.entry(entry).and_modify(|entry| entry.run = Some(run));
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry
            && let Some(quota) = self.run_quotas.lock().get_mut(&self.name)
        {
            quota.entries.remove(&entry);
        }
    }
}

impl<W: World> ServiceState<W> {
    /// Room for a run whose submission has so many bytes; a problem if the caller's limits have
    /// none. Runs that have ended meanwhile make room.
    pub(super) async fn room_for(
        &self,
        caller: &Caller,
        bytes: usize,
    ) -> Result<Room<'_>, Problem> {
        let (name, bytes) = (caller.name().to_owned(), bytes as u64);
        if caller.unfinished().is_none() && caller.bytes().is_none() {
            return Ok(Room { run_quotas: &self.run_quotas, name, entry: None });
        }
        let now = self.engine.runtime().now();
        let mut looked = Vec::new();
        if let Some(quota) = self.run_quotas.lock().get_mut(&name)
            && quota.full(caller, bytes).is_some()
            && quota.looked.is_none_or(|at| now.since(at) >= LOOK_AGAIN)
        {
            quota.looked = Some(now);
            looked = quota.entries.iter().filter_map(|(n, e)| Some((*n, e.run?))).collect();
        }
        for (entry, run) in looked {
            let page = self.engine.store().heads(Some(run.before()), 1).await?;
            let goes_on = page.runs.iter().any(|h| h.run == run && !h.phase.is_terminal());
            if !goes_on && !page.damaged.contains(&run) {
                let mut all = self.run_quotas.lock();
                all.get_mut(&name).and_then(|quota| quota.entries.remove(&entry));
            }
        }
        let mut all = self.run_quotas.lock();
        let quota = all.entry(name.clone()).or_default();
        if let Some(full) = quota.full(caller, bytes) {
            return Err(Problem::new(Kind::TooManyRuns, format!("{full}; try again later")));
        }
        let entry = quota.next;
        quota.next += 1;
        quota.entries.insert(entry, Entry { run: None, bytes });
        Ok(Room { run_quotas: &self.run_quotas, name, entry: Some(entry) })
    }
}
