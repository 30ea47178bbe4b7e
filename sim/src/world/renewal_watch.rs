//! The store as one node asks it, with an eye on whether the node renews the leases that it holds.
//!
//! A node renews all of them each third of a lease, until the outcome of the attempt is stored or
//! refused. A lease that nobody renewed for two thirds of its length, while its node could
//! have, and that its node then still took for its own, was left out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use retrial::run::{RunId, TaskId, Token};
use retrial::store::{
    Answer, Commit, Committed, Fence, Holding, QueueChange, Request, Store, StoreError,
};
use retrial::time::{Mono, Nanos, Timestamp};

use super::recording_store::Seen;
use crate::clock::{true_now, try_true_now};
use crate::incarnation::Incarnation;
use crate::sync::lock;

type Place = (RunId, TaskId);

/// A lease that the node holds, as far as it has been told.
#[derive(Debug)]
struct Hold {
    token: Token,
    /// The longest time without a renewal.
    most: Nanos,
    /// When it was renewed last. Time in which the node could not have done so does not count.
    since: Mono,
    /// How often the node was halted by then.
    halts: u64,
    was_left_out: bool,
}

#[derive(Debug, Default)]
struct Holds {
    all: BTreeMap<Place, Hold>,
    /// How many renewals wait for their answers. Until then the node begins no other.
    renewals: u32,
}

impl Holds {
    /// Looks at the lease of `place` under `token`, if the node holds it.
    fn look(&mut self, place: Place, token: Token, now: Mono, halts: u64) -> Option<&mut Hold> {
        let hold = self.all.get_mut(&place).filter(|hold| hold.token == token)?;
        if hold.halts != halts {
            (hold.halts, hold.since) = (halts, now);
        }
        hold.was_left_out |= self.renewals == 0 && now.since(hold.since) > hold.most;
        Some(hold)
    }
}

/// A renewal that waits for its answer.
struct Renewing {
    holds: Arc<Mutex<Holds>>,
    since: Mono,
}

impl Drop for Renewing {
    fn drop(&mut self) {
        let mut holds = lock(&self.holds);
        holds.renewals -= 1;
        let Some(now) = try_true_now() else { return };
        let waited = now.since(self.since);
        for hold in holds.all.values_mut() {
            hold.since = hold.since.after(waited).min(now);
        }
    }
}

/// The store.
#[derive(Debug)]
pub(super) struct RenewalWatch<S> {
    store: S,
    seen: Seen,
    incarnation: Incarnation,
    holds: Arc<Mutex<Holds>>,
}

impl<S: Store> RenewalWatch<S> {
    pub(super) fn new(store: S, seen: Seen, incarnation: Incarnation) -> Self {
        Self { store, seen, incarnation, holds: Arc::default() }
    }

    fn renews(&self, held: &[Holding]) -> Renewing {
        let (now, halts) = (true_now(), self.incarnation.halts());
        let mut holds = lock(&self.holds);
        for Holding { run, task, token, .. } in held {
            if let Some(hold) = holds.look((*run, *task), *token, now, halts) {
                hold.since = now;
            }
        }
        holds.renewals += 1;
        Renewing { holds: Arc::clone(&self.holds), since: now }
    }

    async fn commit(&self, commit: Commit) -> Result<Answer, StoreError> {
        let run = commit.run;
        let (fences, queue) = (commit.fences.clone(), commit.queue.clone());
        let answer = self.store.ask(Request::Commit(commit)).await;
        match &answer {
            Ok(Answer::Commit(Committed::Applied { at, .. } | Committed::Already { at, .. })) => {
                self.ends(run, &fences, *at);
                self.begins(run, &queue);
            }
            Ok(Answer::Commit(Committed::Fenced { at, .. })) => self.ends(run, &fences, *at),
            _ => {}
        }
        answer
    }

    /// What the node held ends with a commit of its own.
    fn ends(&self, run: RunId, fences: &[Fence], at: Timestamp) {
        let (now, halts) = (true_now(), self.incarnation.halts());
        for fence in fences {
            let Fence::Held { task, token } = *fence else { continue };
            let mut holds = lock(&self.holds);
            if let Some(hold) = holds.look((run, task), token, now, halts) {
                let was_left_out = hold.was_left_out;
                holds.all.remove(&(run, task));
                self.seen.outlived((run, task), at, !was_left_out);
            }
        }
    }

    fn begins(&self, run: RunId, queue: &[QueueChange]) {
        let mut holds = lock(&self.holds);
        for change in queue {
            holds.all.remove(&(run, change.task()));
            if let QueueChange::Lease { task, token, lasts, .. } = change {
                let (since, halts) = (true_now(), self.incarnation.halts());
                let most = Nanos::new(lasts.get() / 3 * 2);
                let hold = Hold { token: *token, most, since, halts, was_left_out: false };
                holds.all.insert((run, *task), hold);
            }
        }
    }
}

impl<S: Store> Store for RenewalWatch<S> {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        match request {
            Request::Commit(commit) => self.commit(commit).await,
            Request::Renew(held) => {
                let renewing = self.renews(&held);
                let answer = self.store.ask(Request::Renew(held.clone())).await;
                drop(renewing);
                if let Ok(Answer::Renew(renewed)) = &answer {
                    let mut holds = lock(&self.holds);
                    let lost = renewed.lost(&held);
                    let lost = lost.map(|Holding { run, task, token, .. }| ((*run, *task), token));
                    for (place, token) in lost {
                        holds.all.retain(|at, hold| *at != place || hold.token != *token);
                    }
                }
                answer
            }
            other => self.store.ask(other).await,
        }
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        self.store.news()
    }
}

#[cfg(test)]
mod tests;
