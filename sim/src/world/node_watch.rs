//! The store as one node asks it, with an eye on whether the node does what only it can do: renew the
//! leases that it holds, and ask again for a claim that had no answer.
//!
//! A node renews all of them each third of a lease, until the outcome of the attempt is stored or
//! refused. A lease that nobody renewed for two thirds of its length, while its node could
//! have, and that its node then still took for its own, was left out.
//!
//! What a claim has reserved is known from its answer alone. A node that does not know whether a claim was
//! carried out, and makes another one, leaves what was reserved to nobody until the reservations end. So
//! does one that sends no commit about a task that it has reserved.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use retrial::run::{RunId, Token};
use retrial::store::{
    Answer, Claim, ClaimId, Claimed, Commit, Committed, Fence, Holding, QueueChange, Request,
    Store, StoreError,
};
use retrial::time::{Mono, Nanos, Timestamp};

use super::recording_store::Seen;
use super::seen_due::Place;
use crate::clock::{true_now, try_true_now};
use crate::evidence::VainReservation;
use crate::incarnation::Incarnation;
use crate::sync::lock;

/// A lease that the node holds, as far as it has been told.
#[derive(Debug)]
struct HeldLease {
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
struct HeldLeases {
    leases: BTreeMap<Place, HeldLease>,
    /// How many renewals wait for their answers. Until then the node begins no other.
    renewals: u32,
}

impl HeldLeases {
    /// Looks at the lease of `place` under `token`, if the node holds it.
    fn look(
        &mut self,
        place: Place,
        token: Token,
        now: Mono,
        halts: u64,
    ) -> Option<&mut HeldLease> {
        let lease = self.leases.get_mut(&place).filter(|lease| lease.token == token)?;
        if lease.halts != halts {
            (lease.halts, lease.since) = (halts, now);
        }
        lease.was_left_out |= self.renewals == 0 && now.since(lease.since) > lease.most;
        Some(lease)
    }

    fn remove(&mut self, place: Place, token: Token) -> Option<HeldLease> {
        self.leases.get(&place).filter(|lease| lease.token == token)?;
        self.leases.remove(&place)
    }
}

/// A reservation of which no commit has spoken.
#[derive(Debug)]
struct Unused {
    reservation: VainReservation,
    /// How often the node was halted by then.
    halts: u64,
}

/// A renewal that waits for its answer.
struct Renewing {
    held: Arc<Mutex<HeldLeases>>,
    since: Mono,
}

impl Drop for Renewing {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        held.renewals -= 1;
        let Some(now) = try_true_now() else { return };
        let waited = now.since(self.since);
        for lease in held.leases.values_mut() {
            lease.since = lease.since.after(waited).min(now);
        }
    }
}

/// The store.
#[derive(Debug)]
pub(super) struct NodeWatch<S> {
    store: S,
    seen: Seen,
    incarnation: Incarnation,
    held: Arc<Mutex<HeldLeases>>,
    reserved: Mutex<BTreeMap<Token, Unused>>,
    /// The last claim, if nobody knows whether the store has carried it out.
    in_doubt: Mutex<Option<ClaimId>>,
}

impl<S: Store> NodeWatch<S> {
    pub(super) fn new(store: S, seen: Seen, incarnation: Incarnation) -> Self {
        let (held, reserved, in_doubt) = Default::default();
        Self { store, seen, incarnation, held, reserved, in_doubt }
    }

    async fn claim(&self, claim: Claim) -> Result<Answer, StoreError> {
        let (id, lasts) = (claim.id, claim.lasts);
        let _waiting = self.seen.begin_wait(&self.incarnation);
        let answer = self.store.ask(Request::Claim(claim)).await;
        let mut in_doubt = lock(&self.in_doubt);
        match &answer {
            Ok(Answer::Claim(claimed)) => {
                let was_given_up = in_doubt.take().is_some_and(|before| before != id);
                self.seen.claim_answered(claimed.at, !was_given_up);
                self.reserves(claimed, lasts);
            }
            Err(StoreError::Unknown(_)) => *in_doubt = Some(id),
            _ => {}
        }
        answer
    }

    /// Notes what a claim has reserved, and what earlier ones had in vain.
    fn reserves(&self, claimed: &Claimed, lasts: Nanos) {
        let halts = self.incarnation.halts();
        let mut reserved = lock(&self.reserved);
        reserved.retain(|_, Unused { reservation, halts: before }| {
            let goes_on = reservation.until >= claimed.at;
            if !goes_on && *before == halts {
                self.seen.reserved_in_vain(*reservation);
            }
            goes_on
        });
        for task in &claimed.tasks {
            let (run, from, until) = (task.run, claimed.at, claimed.at.after(lasts));
            let reservation = VainReservation { run, task: task.task, from, until };
            reserved.insert(task.token, Unused { reservation, halts });
        }
    }

    async fn renew(&self, asked: Vec<Holding>) -> Result<Answer, StoreError> {
        let renewing = self.begins_to_renew(&asked);
        let answer = self.store.ask(Request::Renew(asked.clone())).await;
        drop(renewing);
        if let Ok(Answer::Renew(renewed)) = &answer {
            let mut held = lock(&self.held);
            for Holding { run, task, token, .. } in renewed.lost(&asked) {
                held.remove((*run, *task), *token);
            }
        }
        answer
    }

    fn begins_to_renew(&self, asked: &[Holding]) -> Renewing {
        let (now, halts) = (true_now(), self.incarnation.halts());
        let mut held = lock(&self.held);
        for Holding { run, task, token, .. } in asked {
            if let Some(lease) = held.look((*run, *task), *token, now, halts) {
                lease.since = now;
            }
        }
        held.renewals += 1;
        Renewing { held: Arc::clone(&self.held), since: now }
    }

    async fn commit(&self, commit: Commit) -> Result<Answer, StoreError> {
        let run = commit.run;
        let (fences, queue) = (commit.fences.clone(), commit.queue.clone());
        let starts = queue.iter().filter_map(|change| match change {
            QueueChange::Lease { token, .. } => Some(*token),
            _ => None,
        });
        let starts: Vec<Token> = starts.collect();
        self.speaks_of(&fences, &starts);
        let _waiting = (!starts.is_empty()).then(|| self.seen.begin_wait(&self.incarnation));
        starts.iter().for_each(|token| self.seen.starts(run, *token, &self.incarnation));
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

    /// These reservations are made use of.
    fn speaks_of(&self, fences: &[Fence], starts: &[Token]) {
        let fences = fences.iter().map(|fence| match fence {
            Fence::Held { token, .. } | Fence::Lapsed { token, .. } => token,
        });
        let mut reserved = lock(&self.reserved);
        fences.chain(starts).for_each(|token| _ = reserved.remove(token));
    }

    /// What the node held ends with a commit of its own.
    fn ends(&self, run: RunId, fences: &[Fence], at: Timestamp) {
        let (now, halts) = (true_now(), self.incarnation.halts());
        let mut held = lock(&self.held);
        for fence in fences {
            let Fence::Held { task, token } = *fence else { continue };
            let place = (run, task);
            held.look(place, token, now, halts);
            if let Some(lease) = held.remove(place, token) {
                self.seen.outlived(place, at, !lease.was_left_out);
            }
        }
    }

    fn begins(&self, run: RunId, queue: &[QueueChange]) {
        let (since, halts) = (true_now(), self.incarnation.halts());
        let mut held = lock(&self.held);
        for change in queue {
            held.leases.remove(&(run, change.task()));
            if let QueueChange::Lease { task, token, lasts, .. } = change {
                let most = Nanos::new(lasts.get() / 3 * 2);
                let lease = HeldLease { token: *token, most, since, halts, was_left_out: false };
                held.leases.insert((run, *task), lease);
            }
        }
    }
}

impl<S: Store> Store for NodeWatch<S> {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        match request {
            Request::Claim(claim) => self.claim(claim).await,
            Request::Commit(commit) => self.commit(commit).await,
            Request::Renew(asked) => self.renew(asked).await,
            other => self.store.ask(other).await,
        }
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        self.store.news()
    }
}

#[cfg(test)]
mod tests;
