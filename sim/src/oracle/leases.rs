//! The part of promise 6 about the store: what it says of leases and reservations agrees with what it
//! said before, and an attempt whose lease has passed fails by what passed first.

use std::collections::BTreeMap;

use retrial::run::{Event, Lapse, Recorded, RunId, Token};

use super::Report;
use super::history::{Entry, tasks};
use super::promptness::{is_left_to_itself, is_near, is_quick};
use crate::evidence::{Evidence, LapsedLease, Slip, VainReservation};

/// The failure of an attempt whose lease has passed is not called by what passed first.
pub const WRONG_LAPSE: &str = "wrong_lapse";

/// A node reserved a task that it could have started, and let it wait until the reservation ended.
pub const RESERVED_IN_VAIN: &str = "reserved_in_vain";

pub(super) fn judge(report: &mut Report, evidence: &Evidence) {
    let leases = &evidence.leases;
    if is_quick(evidence) && is_near(evidence) {
        leases.in_vain.iter().for_each(|reservation| in_vain(report, evidence, reservation));
    }
    report.judged += leases.compared - leases.contradictions.len() as u64;
    for found in &leases.contradictions {
        let run = found.place.map(|(run, _)| run);
        report.check(false, run, reason(found.slip), || match found.place {
            Some((_, task)) => format!("task {task} at {}: {}", found.at, says(found.slip)),
            None => format!("at {}: {}", found.at, says(found.slip)),
        });
    }
    if !leases.lapsed.is_empty() {
        lapses(report, evidence);
    }
}

/// A code for each mistake.
#[must_use]
pub fn reason(slip: Slip) -> &'static str {
    match slip {
        Slip::LandedUnheld => "landed_unheld",
        Slip::RefusedWhileHeld => "refused_while_held",
        Slip::RenewedPastItsEnd => "renewed_past_its_end",
        Slip::LostWhileHeld => "lost_while_held",
        Slip::LapseUntold => "lapse_untold",
        Slip::RenewalUnanswered => "renewal_unanswered",
        Slip::LapsedTooEarly => "lapsed_too_early",
        Slip::WrongLapse => "lapsed_otherwise",
        Slip::ReservedTwice => "reserved_twice",
        Slip::ReservedWhileLeased => "reserved_while_leased",
        Slip::AnotherAnswer => "another_answer",
        Slip::DueUnclaimed => "due_unclaimed",
        Slip::OutOfTurn => "out_of_turn",
        Slip::NotTheEarliest => "not_the_earliest",
        Slip::NotRenewed => "not_renewed",
        Slip::ClaimGivenUp => "claim_given_up",
    }
}

fn says(slip: Slip) -> &'static str {
    match slip {
        Slip::LandedUnheld => "a commit landed under a token that held nothing",
        Slip::RefusedWhileHeld => "a commit was refused although all of its tokens held",
        Slip::RenewedPastItsEnd => "a lease was renewed after its attempt's time was over",
        Slip::LostWhileHeld => "a lease was called lost that was held",
        Slip::LapseUntold => "a lease had passed and was not among those that had",
        Slip::RenewalUnanswered => "a renewal was not answered for each of its leases",
        Slip::LapsedTooEarly => "a lease was among those that had passed and had not",
        Slip::WrongLapse => "a lease was ended by something else than the store says",
        Slip::ReservedTwice => "it was reserved for two at once",
        Slip::ReservedWhileLeased => "it was reserved while an attempt had leased it",
        Slip::AnotherAnswer => "a claim that was sent again got another answer",
        Slip::DueUnclaimed => "a claim with room left passed over it, and it was due",
        Slip::OutOfTurn => "a claim took two tasks of one run and none of this, which had one due",
        Slip::NotTheEarliest => "a claim passed over it for a task of its run that was due later",
        Slip::NotRenewed => "its lease was not renewed for long before its outcome was stored",
        Slip::ClaimGivenUp => "a node that had no answer to a claim made another one",
    }
}

/// C3: nothing has happened in the run while the task was reserved, and then it was started: so it could
/// have been started at once. Unless somebody stops it: when that lands is not known to the moment.
fn in_vain(report: &mut Report, evidence: &Evidence, reservation: &VainReservation) {
    let VainReservation { run, task, from, until } = *reservation;
    let run = evidence.runs.iter().find(|r| r.id == run && is_left_to_itself(r));
    let Some(run) = run else { return };
    let changes = run.events.iter().any(|event| from < event.at && event.at <= until);
    let starts = |recorded: &Recorded| {
        let of =
            |event: &Event| matches!(event, Event::AttemptStarted { task: t, .. } if *t == task);
        recorded.at > until && of(&recorded.event)
    };
    let right = changes || !run.events.iter().any(starts);
    report.check(right, run.id, RESERVED_IN_VAIN, || {
        format!("task {task} was reserved from {from} to {until}, and started later")
    });
}

/// R10: the attempt's time, a missed heartbeat and a lost lease are told apart.
fn lapses(report: &mut Report, evidence: &Evidence) {
    let leases = &evidence.leases;
    let lapsed: BTreeMap<(RunId, Token), &LapsedLease> =
        leases.lapsed.iter().map(|l| ((l.run, l.token), l)).collect();
    for run in &evidence.runs {
        for task in tasks(run) {
            let mut lapse = None;
            for entry in &task.entries {
                match entry.event {
                    Event::AttemptStarted { token, .. } => {
                        lapse = lapsed.get(&(run.id, *token)).copied();
                    }
                    Event::AttemptFailed { failure, .. } => {
                        let Some(lapse) = lapse.take() else { continue };
                        let called = |lapse| failure.code().as_str() == code(lapse);
                        let said =
                            |l| l == lapse.lapse || leases.told.contains(&(run.id, lapse.token, l));
                        let all = [Lapse::Deadline, Lapse::Heartbeat, Lapse::Lease];
                        let right = all.into_iter().any(|l| called(l) && said(l));
                        report.check(right, run.id, WRONG_LAPSE, || differs(lapse.lapse, entry));
                    }
                    _ => {}
                }
            }
        }
    }
}

fn code(lapse: Lapse) -> &'static str {
    match lapse {
        Lapse::Deadline => "TIMEOUT",
        Lapse::Heartbeat => "HEARTBEAT_TIMEOUT",
        Lapse::Lease => "LEASE_LOST",
    }
}

fn differs(lapse: Lapse, entry: &Entry<'_>) -> String {
    format!("its lease was ended by {}: {}", code(lapse), entry.show())
}
