use retrial::run::{Recorded, Version};
use retrial_sim::unstable::evidence::CommitRecord;
use retrial_sim::unstable::oracle::bit_rot::INVENTED;
use retrial_sim::unstable::oracle::termination::STUCK;
use retrial_sim::unstable::oracle::{Report, judge_all};

use crate::kit::{Script, recovered};
use crate::replay::Names;

/// A run on a disk on which something rotted, and all that was ever sent.
fn rotten() -> Script {
    let mut script = recovered();
    script.world.rot = true;
    let (run, events) = (script.run().id, script.run().events.clone());
    script.world.sent = vec![sent(&script, 0, &events[..2]), sent(&script, 2, &events[2..])];
    assert_eq!(run, script.world.sent[0].run);
    script
}

fn sent(script: &Script, first: u64, events: &[Recorded]) -> CommitRecord {
    let (run, events) = (script.run().id, events.to_vec());
    CommitRecord { at: Default::default(), writer: 0, run, first: Version(first), events }
}

fn reasons(script: &Script) -> Vec<&'static str> {
    let reports: Vec<Report> = judge_all(&script.world, &Names::default());
    reports.iter().flat_map(|r| &r.findings).map(|f| f.reason).collect()
}

// Spec decision 19.
#[test]
fn what_was_written_may_be_read_and_may_be_gone() {
    let script = rotten();
    assert_eq!(reasons(&script), [""; 0]);
    // A commit that a crash took back, and another one in its place.
    let mut again = rotten();
    let last = again.run().events.len() as u64 - 1;
    let other = again.run().events[1].clone();
    let taken_back = sent(&again, last, &[other]);
    again.world.sent.push(taken_back);
    assert_eq!(reasons(&again), [""; 0]);
}

#[test]
fn what_nobody_wrote_is_found() {
    let mut script = rotten();
    // Written, but elsewhere.
    let one = script.run().events[1].clone();
    script.run_mut().events[2] = one;
    assert!(reasons(&script).contains(&INVENTED));
    let mut script = rotten();
    script.world.sent.pop();
    assert!(reasons(&script).contains(&INVENTED));
}

#[test]
fn what_is_reported_as_damaged_is_excused_and_what_is_not_must_end() {
    let mut script = rotten();
    script.run_mut().events.pop();
    assert_eq!(reasons(&script), [STUCK]);
    script.run_mut().damaged = true;
    script.run_mut().events.clear();
    assert_eq!(reasons(&script), [""; 0]);
    let features = |script: &Script| -> Vec<&str> {
        let reports = judge_all(&script.world, &Names::default());
        reports.iter().flat_map(|r| r.features.keys().copied()).collect()
    };
    assert!(features(&script).contains(&"rot reported"));
    assert!(features(&rotten()).contains(&"rot survived"));
}
