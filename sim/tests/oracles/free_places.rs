use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::incarnation::Lifespan;
use retrial_sim::unstable::oracle::free_places::WAITED_WITH_ROOM;
use retrial_sim::unstable::oracle::sequence::judge;
use retrial_sim::unstable::scenario::{Places, Reply};

use crate::kit::{Script, found, healthy, policy, step, task, workflow};

/// Three tasks of one step. The first two start at once and end at one second. The third one starts
/// `late` after the first of them has ended.
fn third(places: Places, late: u64) -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(1)), step("b", policy(1))]));
    script.world.places = Some(places);
    script.enter(0, 3).start(task(0, 0), 1, Reply::SuccessTrue);
    script.start(task(0, 1), 1, Reply::SuccessTrue).pass(1_000);
    script.succeed(task(0, 0), 1).succeed(task(0, 1), 1).pass(late);
    script.start(task(0, 2), 1, Reply::SuccessTrue).succeed(task(0, 2), 1);
    script
}

const ALL: Places = Places { all: 2, share: 100 };

#[test]
fn x15_what_is_due_and_waits_beside_a_free_place_is_found() {
    healthy(&judge(&third(ALL, 200).world));
    found(&judge(&third(ALL, 300).world), WAITED_WITH_ROOM);
    // One place is free all the while.
    found(&judge(&third(Places { all: 3, ..ALL }, 0).world), WAITED_WITH_ROOM);
}

#[test]
fn x15_an_action_that_has_its_share_waits() {
    let half = Places { all: 4, share: 50 };
    healthy(&judge(&third(half, 200).world));
    found(&judge(&third(half, 300).world), WAITED_WITH_ROOM);
}

#[test]
fn x15_several_nodes_may_have_reserved_what_waits() {
    let mut script = third(ALL, 5_000);
    let other = Lifespan { node: "n1".to_owned(), ..script.world.lifespans[0].clone() };
    script.world.lifespans.push(other);
    healthy(&judge(&script.world));
}

#[test]
fn x15_where_faults_strike_work_may_wait() {
    let struck = |kind| {
        let mut script = third(ALL, 300);
        script.strike(kind);
        judge(&script.world)
    };
    healthy(&struck(FaultKind::SlowNode));
    found(&struck(FaultKind::ServerError), WAITED_WITH_ROOM);
    let mut ended = third(ALL, 300);
    ended.world.lifespans[0].incarnation = 1;
    healthy(&judge(&ended.world));
}

#[test]
fn x15_what_was_called_off_may_keep_its_place() {
    let mut script = third(ALL, 5_000);
    let succeeds = |event: &retrial::run::Event| matches!(event, retrial::run::Event::TaskSucceeded { task: of, .. } if of.item < 2);
    script = script.without(succeeds);
    let findings = judge(&script.world).findings;
    assert!(findings.iter().all(|found| found.reason != WAITED_WITH_ROOM), "{findings:?}");
}
