//! What the store says rightly contradicts nothing, and each mistake is noticed.

use retrial::run::{Lapse, TaskId};
use retrial::store::{ClaimedTask, ExpiredTask, Heartbeat};
use retrial::time::Nanos;
use retrial::workflow::{Able, Need, StepIx, Via};

use super::*;

const TASK: TaskId = TaskId { step: StepIx(0), item: 0 };

fn run() -> RunId {
    RunId::from_random(1, 1)
}

fn at(secs: u64) -> Timestamp {
    Timestamp::default().after(Nanos::from_secs(secs))
}

fn token(n: u64) -> Token {
    Token::from_random(n, n)
}

/// Claims at this second, for ten seconds, and gets this token.
fn claim(leases: &mut SeenLeases, counter: u64, secs: u64, got: u64) {
    let id = ClaimId { writer: 1, counter };
    let able = std::sync::Arc::new(Able::Anything);
    let full = BTreeSet::new();
    let claim = Claim { id, limit: 1, lasts: Nanos::from_secs(10), chance: 0, able, full };
    let task = ClaimedTask {
        run: run(),
        task: TASK,
        attempt: 1,
        need: Need { action: "a".into(), via: Via::Http },
        token: token(got),
        progress: None,
    };
    let answer = Claimed { at: at(secs), tasks: vec![task], next_due: None, unable: vec![] };
    let request = leases.begin(None);
    let weight = leases.end(&request);
    leases.claimed(&claim, &answer, weight);
}

fn changes(writer: u64, fence: Fence, queue: Vec<QueueChange>) -> Changes {
    let (is_active, lost, creates) = (true, BTreeSet::new(), Vec::new());
    Changes { writer, run: run(), fences: vec![fence], queue, is_active, lost, creates }
}

fn held(n: u64) -> Fence {
    Fence::Held { task: TASK, token: token(n) }
}

/// An attempt with 30 s and a heartbeat each 20 s takes a lease of 15 s.
fn start(n: u64) -> Changes {
    let lease = QueueChange::Lease {
        task: TASK,
        attempt: 1,
        token: token(n),
        lasts: Nanos::from_secs(15),
        timeout: Some(Nanos::from_secs(30)),
        heartbeat: Some(Nanos::from_secs(20)),
    };
    changes(1, held(n), vec![lease])
}

fn end(writer: u64, fence: Fence) -> Changes {
    changes(writer, fence, vec![QueueChange::Remove { task: TASK }])
}

fn commit(leases: &mut SeenLeases, changes: &Changes, secs: u64) {
    let request = leases.begin(Some(run()));
    let weight = leases.end(&request);
    let answer = Committed::Applied { version: retrial::run::Version::START, at: at(secs) };
    leases.committed(changes, &answer, weight);
}

fn renew(leases: &mut SeenLeases, n: u64, secs: u64, answer: Renewal) {
    let beat = Heartbeat { within: Nanos::from_secs(20), progress: None };
    let (lasts, heartbeat) = (Nanos::from_secs(15), Some(beat));
    let holding = Holding { run: run(), task: TASK, token: token(n), lasts, heartbeat };
    leases.renewed(&[holding], &Renewed { at: at(secs), answers: vec![answer] }, Weight::Alone);
}

fn renew_unanswered(leases: &mut SeenLeases) {
    let (token, lasts) = (token(1), Nanos::from_secs(15));
    let holding = Holding { run: run(), task: TASK, token, lasts, heartbeat: None };
    leases.renewed(&[holding], &Renewed { at: at(9), answers: vec![] }, Weight::Alone);
}

fn sweep(leases: &mut SeenLeases, secs: u64, told: Option<Lapse>) {
    let expired = told.map(|lapse| ExpiredTask {
        run: run(),
        task: TASK,
        attempt: 1,
        token: token(1),
        lapse,
    });
    let tasks = expired.into_iter().collect();
    leases.expired(9, &Expired { at: at(secs), tasks, next: None }, Weight::Alone);
}

fn started() -> SeenLeases {
    let mut leases = SeenLeases::default();
    claim(&mut leases, 1, 0, 1);
    commit(&mut leases, &start(1), 5);
    leases
}

fn slips(leases: &SeenLeases) -> Vec<Slip> {
    leases.evidence().contradictions.iter().map(|c| c.slip).collect()
}

#[test]
fn what_the_store_says_rightly_passes() {
    let mut leases = started();
    sweep(&mut leases, 19, None);
    renew(&mut leases, 1, 19, Renewal::Held);
    sweep(&mut leases, 33, None);
    // Until 34 by the renewal, until 35 by the attempt's time.
    sweep(&mut leases, 34, Some(Lapse::Lease));
    renew(&mut leases, 1, 34, Renewal::Held);
    sweep(&mut leases, 35, Some(Lapse::Deadline));
    renew(&mut leases, 1, 35, Renewal::Lost);
    commit(&mut leases, &end(2, Fence::Lapsed { task: TASK, token: token(1) }), 36);
    assert_eq!(slips(&leases), []);
    let evidence = leases.evidence();
    assert!(evidence.compared >= 8 && evidence.early_ends.is_empty(), "{evidence:?}");
    assert_eq!(evidence.lapsed.iter().map(|l| l.lapse).collect::<Vec<_>>(), [Lapse::Deadline]);
}

#[test]
fn each_mistake_is_noticed() {
    let after = |then: &dyn Fn(&mut SeenLeases)| {
        let mut leases = started();
        then(&mut leases);
        slips(&leases)
    };
    assert_eq!(after(&|l| sweep(l, 20, None)), [Slip::LapseUntold]);
    assert_eq!(after(&|l| sweep(l, 19, Some(Lapse::Lease))), [Slip::LapsedTooEarly]);
    assert_eq!(after(&|l| sweep(l, 20, Some(Lapse::Deadline))), [Slip::WrongLapse]);
    assert_eq!(after(&|l| renew(l, 1, 26, Renewal::Held)), [Slip::RenewedPastItsEnd]);
    assert_eq!(after(&|l| renew(l, 1, 24, Renewal::Lost)), [Slip::LostWhileHeld]);
    assert_eq!(after(&|l| renew(l, 2, 10, Renewal::Held)), [Slip::RenewedPastItsEnd]);
    assert_eq!(after(&renew_unanswered), [Slip::RenewalUnanswered]);
    assert_eq!(after(&|l| commit(l, &end(1, held(2)), 9)), [Slip::LandedUnheld]);
    assert_eq!(after(&|l| claim(l, 2, 9, 2)), [Slip::ReservedWhileLeased]);
    let refused = |leases: &mut SeenLeases| {
        let answer = Committed::Fenced { task: TASK, at: at(9) };
        leases.committed(&end(1, held(1)), &answer, Weight::Alone);
    };
    assert_eq!(after(&refused), [Slip::RefusedWhileHeld]);
    let mut leases = SeenLeases::default();
    claim(&mut leases, 1, 0, 1);
    claim(&mut leases, 1, 9, 2);
    assert_eq!(slips(&leases), [Slip::AnotherAnswer]);
    claim(&mut leases, 2, 9, 2);
    assert_eq!(slips(&leases), [Slip::AnotherAnswer, Slip::ReservedTwice]);
    let mut leases = SeenLeases::default();
    claim(&mut leases, 1, 0, 1);
    commit(&mut leases, &start(1), 10);
    assert_eq!(slips(&leases), [Slip::LandedUnheld]);
}

/// Two runs have tasks that wait since these seconds, and a claim at second 9 takes the tasks named.
fn claimed_of(waiting: &[(u64, u32, u64)], limit: usize, told: &[(u64, u32)]) -> Vec<Slip> {
    let mut leases = SeenLeases::default();
    let need = || Need { action: "a".into(), via: Via::Http };
    let run = |n: u64| RunId::from_random(n, n);
    let task = |item: u32| TaskId { step: StepIx(0), item };
    for (n, item, secs) in waiting {
        let due = QueueChange::Due {
            task: task(*item),
            attempt: 1,
            after: Nanos::ZERO,
            need: need(),
            progress: None,
        };
        let commit = Changes { run: run(*n), fences: vec![], ..changes(1, held(1), vec![due]) };
        let answer = Committed::Applied { version: retrial::run::Version::START, at: at(*secs) };
        leases.committed(&commit, &answer, Weight::Alone);
    }
    let able = std::sync::Arc::new(Able::Anything);
    let id = ClaimId { writer: 1, counter: 1 };
    let lasts = Nanos::from_secs(10);
    let claim = Claim { id, limit, lasts, chance: 0, able, full: BTreeSet::new() };
    let tasks = told.iter().map(|(n, item)| ClaimedTask {
        run: run(*n),
        task: task(*item),
        attempt: 1,
        need: need(),
        token: token(u64::from(*item) + n * 100),
        progress: None,
    });
    let answer = Claimed { at: at(9), tasks: tasks.collect(), next_due: None, unable: vec![] };
    leases.claimed(&claim, &answer, Weight::Alone);
    slips(&leases)
}

#[test]
fn x6_a_claim_that_passes_something_over_is_noticed() {
    let waiting = [(1, 0, 5), (1, 1, 4), (2, 0, 6), (2, 1, 10)];
    assert_eq!(claimed_of(&waiting, 9, &[(1, 1), (2, 0), (1, 0)]), []);
    assert_eq!(claimed_of(&waiting, 9, &[(1, 1), (2, 0)]), [Slip::DueUnclaimed]);
    assert_eq!(claimed_of(&waiting, 2, &[(1, 1), (2, 0)]), []);
    assert_eq!(claimed_of(&waiting, 2, &[(1, 1), (1, 0)]), [Slip::OutOfTurn]);
    assert_eq!(claimed_of(&waiting, 2, &[(1, 0), (2, 0)]), [Slip::NotTheEarliest]);
    assert_eq!(claimed_of(&waiting, 1, &[(2, 0)]), []);
}

#[test]
fn a_lease_that_another_ends_early_is_noticed() {
    // When it is noticed is told in the time of a world.
    madsim::runtime::Runtime::new().block_on(async {
        let mut leases = started();
        commit(&mut leases, &end(2, held(1)), 19);
        assert_eq!(leases.evidence().early_ends.len(), 1);
        let mut leases = started();
        commit(&mut leases, &end(1, held(1)), 19);
        assert!(leases.evidence().early_ends.is_empty());
        // The holder may not call its own attempt lost.
        let mut leases = started();
        let lost = BTreeSet::from([TASK]);
        commit(&mut leases, &Changes { lost, ..end(1, held(1)) }, 19);
        assert_eq!(leases.evidence().early_ends.len(), 1);
    });
}

#[test]
fn answers_that_may_be_out_of_order_prove_nothing() {
    let mut leases = started();
    let other = leases.begin(None);
    let request = leases.begin(None);
    assert_eq!(leases.end(&request), Weight::Beside, "another was under way");
    assert_eq!(leases.end(&other), Weight::Beside, "another began and ended meanwhile");
    let (first, second) = (leases.begin(Some(run())), leases.begin(Some(run())));
    assert_eq!((leases.end(&second), leases.end(&first)), (Weight::Stale, Weight::Stale));
    let answer = Committed::Applied { version: retrial::run::Version::START, at: at(9) };
    leases.committed(&start(2), &answer, Weight::Stale);
    sweep(&mut leases, 99, None);
    let request = leases.begin(None);
    leases.forget();
    assert_eq!(leases.end(&request), Weight::Stale, "the store failed meanwhile");
    assert_eq!(slips(&leases), []);
}

#[test]
fn a_reservation_that_is_told_late_does_not_replace_a_newer_one() {
    let claimed_twice = || {
        let mut leases = SeenLeases::default();
        let other = leases.begin(None);
        claim(&mut leases, 2, 9, 2);
        claim(&mut leases, 1, 7, 1);
        assert_eq!(leases.end(&other), Weight::Beside);
        leases
    };
    let mut leases = claimed_twice();
    commit(&mut leases, &start(2), 10);
    assert_eq!(slips(&leases), []);
    let mut leases = claimed_twice();
    commit(&mut leases, &start(1), 10);
    assert_eq!(slips(&leases), [Slip::LandedUnheld]);
    // Nor does it bring back one that has been used.
    let mut leases = started();
    commit(&mut leases, &end(1, held(1)), 9);
    let other = leases.begin(None);
    claim(&mut leases, 1, 8, 3);
    leases.end(&other);
    claim(&mut leases, 2, 10, 4);
    assert_eq!(slips(&leases), []);
}
