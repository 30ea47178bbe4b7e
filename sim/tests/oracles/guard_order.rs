//! Promise 10 where it is not known in which order the store decided.

use retrial::guard::{GuardRules, HeldBy};
use retrial::run::{Event, RunId, Token, Version};
use retrial_sim::unstable::evidence::{CommitRecord, RunEvidence, StoreAnswer};
use retrial_sim::unstable::oracle::guards::{HELD_WITHOUT_NEED, TOO_MANY_AT_ONCE, judge};

use crate::guards::{fan, hold, hold_last, item, many};
use crate::kit::{Script, store};

/// One task of the action at a time.
fn one_by_one() -> Script {
    fan(GuardRules { concurrency: Some(many(1)), ..GuardRules::default() })
}

/// Another run, whose first task has started by now.
fn other(script: &mut Script) -> CommitRecord {
    let mut run: RunEvidence = script.run().clone();
    run.id = RunId::from_random(9, 9);
    let (at, token) = (store(script.now), Token::from_random(9, 9));
    let event = Event::AttemptStarted {
        task: item(0),
        attempt: 1,
        token,
        timeout: None,
        retries_left: None,
        retry: None,
    };
    let events = vec![retrial::run::Recorded { at, event }];
    let ask = CommitRecord { at, writer: 1, run: run.id, first: run.version, events };
    run.events.extend(ask.events.clone());
    run.version = run.version.after(1);
    script.world.runs.push(run);
    ask
}

fn unfounded(script: &Script) -> Vec<&'static str> {
    let of_order = |reason: &&str| [HELD_WITHOUT_NEED, TOO_MANY_AT_ONCE].contains(reason);
    judge(&script.world).findings.iter().map(|f| f.reason).filter(of_order).collect()
}

/// A run asks twice at one instant, and another's start lands between the two: the one that was
/// answered first was decided last.
#[test]
fn x6_two_holds_of_one_run_may_be_decided_in_either_order() {
    let mut script = one_by_one();
    let start = other(&mut script);
    hold(&mut script, item(2), 1, HeldBy::Concurrency, 1_000);
    hold_last(&mut script, &[item(0), item(1)], 1, HeldBy::Concurrency, 1_000);
    script.world.answers.push(StoreAnswer::Landed(start.clone()));
    assert_eq!(unfounded(&script), [""; 0]);

    // A second start would be one too many in any order.
    let mut script = one_by_one();
    let start = other(&mut script);
    hold(&mut script, item(2), 1, HeldBy::Concurrency, 1_000);
    script.world.answers.push(StoreAnswer::Landed(start));
    script.start(item(0), 1, retrial_sim::unstable::scenario::Reply::SuccessTrue);
    assert_eq!(unfounded(&script), [TOO_MANY_AT_ONCE]);
}

/// The store began twice before it answered anything, and a start that had been asked for before the
/// second time landed then.
#[test]
fn x6_what_landed_without_an_answer_did_so_where_it_was_asked_for() {
    let after = |asks: bool| {
        let mut script = one_by_one();
        // Nothing was answered before.
        let told = script.world.answers.split_off(1);
        let start = other(&mut script);
        if asks {
            script.world.answers.push(StoreAnswer::Asked(start.clone()));
        }
        script.world.answers.push(StoreAnswer::Unsure);
        script.world.answers.extend(told);
        for until in [1_000, 2_000] {
            script.pass(5);
            hold(&mut script, item(0), 1, HeldBy::Concurrency, until);
        }
        if !asks {
            script.world.answers.push(StoreAnswer::Asked(start));
        }
        script.world.answers.push(StoreAnswer::Unsure);
        let run = &script.world.runs[1];
        let ended = CommitRecord {
            at: store(script.now),
            writer: 1,
            run: run.id,
            first: run.version,
            events: run.events[Version::START.0 as usize..1].to_vec(),
        };
        script.world.answers.push(StoreAnswer::Landed(ended));
        unfounded(&script)
    };
    assert_eq!(after(true), [""; 0]);
    assert_eq!(after(false), [HELD_WITHOUT_NEED]);
}
