//! A naive model of leases and reservations, made of what the store answers, and where later answers
//! contradict it.
//!
//! An answer is only held against the model if it follows from all answers before (see
//! [`Weight::Alone`](super::underway::Weight)). The model forgets everything where the store failed to
//! do something: it may have been opened anew.

use std::collections::{BTreeMap, BTreeSet};

use retrial::run::{Lapse, RunId, Token};
use retrial::store::{
    Claim, ClaimId, Claimed, Committed, Expired, Fence, Holding, QueueChange, Renewal, Renewed,
};
use retrial::time::Timestamp;

use super::changes::Changes;
use super::seen_due::{Place, SeenDue};
use super::underway::{Requests, Underway, Weight};
use crate::clock::true_now;
use crate::evidence::{Contradiction, EarlyEnd, LapsedLease, LeaseEvidence, Slip, VainReservation};
use crate::incarnation::Incarnation;

/// A lease that is held.
#[derive(Clone, Copy, Debug)]
struct SeenLease {
    token: Token,
    holder: u64,
    until: Timestamp,
    deadline: Option<Timestamp>,
    beat_by: Option<Timestamp>,
}

impl SeenLease {
    /// Its end, and what ends it.
    fn end(&self) -> (Timestamp, Lapse) {
        let beat_by = self.beat_by.map(|at| (at, Lapse::Heartbeat));
        let deadline = self.deadline.map(|at| (at, Lapse::Deadline));
        let all = [deadline, beat_by, Some((self.until, Lapse::Lease))];
        // Of what ends at one instant, the first counts.
        all.into_iter().flatten().min_by_key(|(at, _)| *at).unwrap_or((self.until, Lapse::Lease))
    }

    fn may_be_renewed(&self, at: Timestamp) -> bool {
        [self.deadline, self.beat_by].into_iter().flatten().all(|end| at < end)
    }
}

#[derive(Clone, Copy, Debug)]
struct Reservation {
    token: Token,
    until: Timestamp,
}

/// All leases and reservations of a world's store.
#[derive(Debug, Default)]
pub(super) struct SeenLeases {
    held: BTreeMap<Place, SeenLease>,
    reserved: BTreeMap<Place, Reservation>,
    /// The store's time when it last said something of a task: what it said before that may come later.
    said: BTreeMap<Place, Timestamp>,
    /// The runs whose leases no sweep ends.
    at_rest: BTreeSet<RunId>,
    due: SeenDue,
    /// Each writer's newest claim: an older one that comes late gets nothing.
    newest: BTreeMap<u64, Option<u64>>,
    claims: BTreeMap<ClaimId, (Timestamp, Vec<Token>)>,
    requests: Requests,
    evidence: LeaseEvidence,
}

impl SeenLeases {
    /// A store that failed to do something may have lost what it said.
    pub(super) fn forget(&mut self) {
        self.held.clear();
        self.reserved.clear();
        self.said.clear();
        self.due.forget();
        self.at_rest.clear();
        self.claims.clear();
        self.requests.failed();
    }

    /// A store starts. Requests that were under way have ended with the one before it.
    pub(super) fn restart(&mut self) {
        self.forget();
        self.requests.restart();
    }

    pub(super) fn evidence(&self) -> LeaseEvidence {
        self.evidence.clone()
    }

    /// A request is sent, to change this run if it changes one.
    pub(super) fn begin(&mut self, run: Option<RunId>) -> Underway {
        self.requests.begin(run)
    }

    /// The creation of a run is sent.
    pub(super) fn sends(&mut self, run: RunId) {
        self.due.sends(run);
    }

    /// It has its answer.
    pub(super) fn end(&mut self, request: &Underway) -> Weight {
        self.requests.end(request)
    }

    fn forget_run(&mut self, run: RunId) {
        self.held.retain(|(of, _), _| *of != run);
        self.reserved.retain(|(of, _), _| *of != run);
        self.due.forget_run(run);
        self.at_rest.remove(&run);
    }

    /// A node is about to ask for the lease of an attempt that it starts.
    pub(super) fn starts(&mut self, run: RunId, token: Token, by: &Incarnation) {
        self.evidence.started.insert((run, token), (by.node().to_owned(), by.number()));
    }

    /// A lease ended with a commit of its holder.
    pub(super) fn outlived(&mut self, place: Place, at: Timestamp, was_renewed: bool) {
        self.slip(was_renewed, place, at, Slip::NotRenewed);
    }

    /// A node had the answer to a claim. Whether it has asked for the ones before it until they had theirs.
    pub(super) fn claim_answered(&mut self, at: Timestamp, has_asked_on: bool) {
        self.slip(has_asked_on, None, at, Slip::ClaimGivenUp);
    }

    pub(super) fn reserved_in_vain(&mut self, reservation: VainReservation) {
        self.evidence.in_vain.push(reservation);
    }

    fn slip(&mut self, holds: bool, place: impl Into<Option<Place>>, at: Timestamp, slip: Slip) {
        self.evidence.compared += 1;
        if !holds {
            self.evidence.contradictions.push(Contradiction { place: place.into(), at, slip });
        }
    }

    /// A commit has its answer.
    pub(super) fn committed(&mut self, changes: &Changes, answer: &Committed, weight: Weight) {
        let is_alone = weight == Weight::Alone;
        match answer {
            Committed::Applied { at, .. } => {
                self.landed(changes, *at, is_alone);
                if weight == Weight::Stale {
                    self.forget_run(changes.run);
                }
            }
            Committed::Held { .. } => {
                for fence in &changes.fences {
                    let place = (changes.run, fence.task());
                    self.reserved.remove(&place);
                    self.due.forget_task(place);
                }
            }
            Committed::Fenced { at, .. } if is_alone => {
                let known = changes.fences.iter().map(|fence| self.holds(changes.run, fence, *at));
                let all_hold = known.reduce(|all, one| Some(all? && one?)).flatten();
                if let (Some(all_hold), Some(first)) = (all_hold, changes.fences.first()) {
                    let place = (changes.run, first.task());
                    self.slip(!all_hold, place, *at, Slip::RefusedWhileHeld);
                }
            }
            _ => {}
        }
    }

    /// Whether a fence holds; `None` where that is not known.
    fn holds(&self, run: RunId, fence: &Fence, at: Timestamp) -> Option<bool> {
        let place = (run, fence.task());
        match (fence, self.held.get(&place), self.reserved.get(&place)) {
            (Fence::Held { token, .. }, Some(lease), _) => Some(lease.token == *token),
            (Fence::Held { token, .. }, None, Some(reservation)) => {
                Some(reservation.token == *token && at < reservation.until)
            }
            (Fence::Lapsed { token, .. }, Some(lease), _) => {
                Some(lease.token == *token && lease.end().0 <= at)
            }
            _ => None,
        }
    }

    /// The commit has landed now, for the first time.
    fn landed(&mut self, changes: &Changes, at: Timestamp, is_alone: bool) {
        let run = changes.run;
        for fence in &changes.fences {
            let place = (run, fence.task());
            let (Fence::Held { token, .. } | Fence::Lapsed { token, .. }) = *fence;
            // The end of a reservation is known from its beginning, whatever else is under way.
            let is_reserved = self.reserved.get(&place).is_some_and(|r| r.token == token);
            if let Some(holds) = self.holds(run, fence, at).filter(|_| is_alone || is_reserved) {
                self.slip(holds, place, at, Slip::LandedUnheld);
            }
            let Some(lease) = self.held.get(&place).filter(|lease| lease.token == token) else {
                continue;
            };
            let (task, (until, lapse)) = (fence.task(), lease.end());
            let is_outcome = lease.holder == changes.writer && !changes.lost.contains(&task);
            if !is_outcome && at < until {
                let seen = true_now();
                self.evidence.early_ends.push(EarlyEnd { run, task, token, at, until, seen });
            } else if matches!(fence, Fence::Lapsed { .. }) {
                self.evidence.lapsed.push(LapsedLease { run, task, token, lapse });
            }
        }
        for change in &changes.queue {
            let place = (run, change.task());
            self.reserved.remove(&place);
            self.held.remove(&place);
            self.said.insert(place, at);
            self.due.changed(run, change, at, is_alone);
            if let QueueChange::Lease { token, lasts, timeout, heartbeat, .. } = change {
                let lease = SeenLease {
                    token: *token,
                    holder: changes.writer,
                    until: at.after(*lasts),
                    deadline: timeout.map(|timeout| at.after(timeout)),
                    beat_by: heartbeat.map(|within| at.after(within)),
                };
                self.held.insert(place, lease);
            }
        }
        for (run, queue) in &changes.creates {
            self.created(*run, queue, at, is_alone);
        }
        if changes.is_active {
            self.at_rest.remove(&run);
        } else {
            // A task of a run that is at rest is not claimed, and its reservation is nobody's.
            self.at_rest.insert(run);
            self.reserved.retain(|(of, _), _| *of != run);
            self.due.forget_run(run);
        }
    }

    /// A run was added, or had been.
    pub(super) fn created(
        &mut self,
        run: RunId,
        queue: &[QueueChange],
        at: Timestamp,
        is_alone: bool,
    ) {
        if self.due.is_sent_once(run) {
            queue.iter().for_each(|change| self.due.changed(run, change, at, is_alone));
        }
    }

    pub(super) fn renewed(&mut self, asked: &[Holding], answer: &Renewed, weight: Weight) {
        if weight == Weight::Stale {
            self.held.retain(|place, _| !asked.iter().any(|h| (h.run, h.task) == *place));
        }
        let at = answer.at;
        self.slip(answer.answers.len() == asked.len(), None, at, Slip::RenewalUnanswered);
        for (holding, renewal) in asked.iter().zip(&answer.answers) {
            let place = (holding.run, holding.task);
            let Some(lease) = self.held.get_mut(&place) else { continue };
            let right = lease.token == holding.token && lease.may_be_renewed(at);
            // When an attempt's time is over is known from its start, whatever else is under way.
            let is_over = lease.deadline.is_some_and(|deadline| deadline <= at);
            let is_sure = weight == Weight::Alone || is_over && lease.token == holding.token;
            if let (Renewal::Held, true) = (renewal, lease.token == holding.token) {
                lease.until = lease.until.max(at.after(holding.lasts));
                if let (Some(beat_by), Some(beat)) = (&mut lease.beat_by, &holding.heartbeat) {
                    *beat_by = (*beat_by).max(at.after(beat.within));
                }
            }
            if is_sure {
                let slip = match renewal {
                    Renewal::Held => Slip::RenewedPastItsEnd,
                    Renewal::Lost => Slip::LostWhileHeld,
                };
                self.slip(right == (*renewal == Renewal::Held), place, at, slip);
            }
        }
    }

    /// The leases that have passed, of which `limit` were asked for.
    pub(super) fn expired(&mut self, limit: usize, answer: &Expired, weight: Weight) {
        let told = answer.tasks.iter().map(|found| (found.run, found.token, found.lapse));
        self.evidence.told.extend(told);
        if weight != Weight::Alone {
            return;
        }
        let at = answer.at;
        for found in &answer.tasks {
            let place = (found.run, found.task);
            let Some(lease) = self.held.get(&place).copied() else { continue };
            let (end, lapse) = lease.end();
            self.slip(lease.token == found.token && end <= at, place, at, Slip::LapsedTooEarly);
            self.slip(lapse == found.lapse, place, at, Slip::WrongLapse);
        }
        if answer.tasks.len() >= limit {
            return;
        }
        let told: BTreeSet<Place> = answer.tasks.iter().map(|t| (t.run, t.task)).collect();
        let passed = self
            .held
            .iter()
            .filter(|((run, _), lease)| lease.end().0 <= at && !self.at_rest.contains(run));
        let passed: Vec<Place> = passed.map(|(place, _)| *place).collect();
        for place in passed {
            self.slip(told.contains(&place), place, at, Slip::LapseUntold);
        }
    }

    pub(super) fn claimed(&mut self, claim: &Claim, answer: &Claimed, weight: Weight) {
        let newest = self.newest.entry(claim.id.writer).or_default();
        let is_new = Some(claim.id.counter) > *newest;
        *newest = (*newest).max(Some(claim.id.counter));
        if weight == Weight::Stale {
            for task in &answer.tasks {
                self.reserved.remove(&(task.run, task.task));
                self.due.forget_task((task.run, task.task));
            }
            return;
        }
        let is_alone = weight == Weight::Alone;
        let until = answer.at.after(claim.lasts);
        let tokens: Vec<Token> = answer.tasks.iter().map(|task| task.token).collect();
        // One that is sent again when its reservations have ended reserves anew.
        let before = self.claims.get(&claim.id).filter(|(until, _)| answer.at < *until);
        if let Some((_, before)) = before {
            let same = *before == tokens;
            if let Some(first) = answer.tasks.first().filter(|_| is_alone) {
                self.slip(same, (first.run, first.task), answer.at, Slip::AnotherAnswer);
            }
            return;
        }
        if is_alone && is_new {
            self.passed_over(claim, answer);
        }
        for task in &answer.tasks {
            let place = (task.run, task.task);
            let newer = |said: &Timestamp| *said < answer.at || is_alone && *said == answer.at;
            if !self.said.get(&place).is_none_or(newer) {
                continue;
            }
            self.said.insert(place, answer.at);
            if is_alone {
                let free = |r: &Reservation| r.until <= answer.at;
                let free = self.reserved.get(&place).is_none_or(free);
                self.slip(free, place, answer.at, Slip::ReservedTwice);
                let free = !self.held.contains_key(&place);
                self.slip(free, place, answer.at, Slip::ReservedWhileLeased);
            }
            self.reserved.insert(place, Reservation { token: task.token, until });
        }
        if !tokens.is_empty() {
            self.claims.insert(claim.id, (until, tokens));
        }
    }

    fn passed_over(&mut self, claim: &Claim, answer: &Claimed) {
        let since = |place: Place, due: Timestamp| {
            let waits = !self.held.contains_key(&place) && !self.at_rest.contains(&place.0);
            waits.then(|| self.reserved.get(&place).map_or(due, |r| r.until))
        };
        for (place, passed_over) in self.due.passed_over(claim, answer, since) {
            let slip = passed_over.unwrap_or(Slip::DueUnclaimed);
            self.slip(passed_over.is_none(), place, answer.at, slip);
        }
    }
}

#[cfg(test)]
mod tests;
