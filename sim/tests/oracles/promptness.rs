use retrial::failure::Failure;
use retrial::run::Event;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::incarnation::Lifespan;
use retrial_sim::unstable::oracle::promptness::{ORPHANED, STARTED_LATE};
use retrial_sim::unstable::oracle::sequence::judge;
use retrial_sim::unstable::scenario::{Reply, STORE};

use crate::kit::{Script, at, found, healthy, policy, server_error, status, step, task, workflow};

/// An attempt fails, and its retry starts so many milliseconds late.
fn late(millis: u64) -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, status(503)).retry(it, 1, &server_error()).pass(millis);
    script.start(it, 2, Reply::SuccessTrue).succeed(it, 2);
    script
}

/// The same, where there is another node.
fn beside_another(millis: u64) -> Script {
    let mut script = late(millis);
    let other = Lifespan { node: "n1".to_owned(), ..script.world.lifespans[0].clone() };
    script.world.lifespans.push(other);
    script
}

#[test]
fn a10_a_retry_that_starts_late_is_found() {
    healthy(&judge(&late(100).world));
    found(&judge(&late(200).world), STARTED_LATE);
    // A node may have to ask for what another made due.
    healthy(&judge(&beside_another(1_100).world));
    found(&judge(&beside_another(1_200).world), STARTED_LATE);
}

#[test]
fn a10_a_first_attempt_that_starts_late_is_found() {
    let begun = |millis: u64| {
        let mut script = Script::new(workflow(vec![step("a", policy(3))]));
        script.enter(0, 1).pass(millis).start(task(0, 0), 1, Reply::SuccessTrue);
        judge(&script.world)
    };
    healthy(&begun(100));
    found(&begun(200), STARTED_LATE);
}

#[test]
fn what_has_a_reason_to_wait_may_start_late() {
    let mut struck = late(200);
    struck.strike(FaultKind::SlowSync);
    healthy(&judge(&struck.world));
    let mut paused = late(200);
    paused.event(Event::RunPaused { reason: "wait".to_owned() });
    healthy(&judge(&paused.world));
}

/// A process dies at 0.1 s with an attempt in progress, the next one begins at 1 s, and the attempt is
/// ended so many milliseconds later.
fn orphaned(millis: u64) -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, Reply::Hang);
    let first = script.world.lifespans[0].clone();
    let next = Lifespan { incarnation: 1, born: at(1_000), ..first };
    script.world.lifespans[0].died = Some(at(100));
    script.world.lifespans.push(next);
    script.strike(FaultKind::Crash).pass(1_000 + millis);
    script.retry(it, 1, &Failure::new("LEASE_LOST", "gone"));
    script
}

#[test]
fn r10_an_attempt_that_a_dead_process_left_is_ended_at_once() {
    healthy(&judge(&orphaned(50).world));
    found(&judge(&orphaned(100).world), ORPHANED);
    // A disk may take its time.
    let mut slow = orphaned(100);
    slow.strike(FaultKind::SlowSync);
    healthy(&judge(&slow.world));
    // A full disk may keep it from that until all heals, at 10 s.
    let full = |millis| {
        let mut script = orphaned(millis);
        script.strike(FaultKind::DiskFull);
        judge(&script.world)
    };
    healthy(&full(30_000));
    found(&full(40_000), ORPHANED);
    let mut shared = orphaned(100);
    let store = Lifespan { node: STORE.to_owned(), ..shared.world.lifespans[0].clone() };
    shared.world.lifespans.push(store);
    healthy(&judge(&shared.world));
}
