//! Limits of concurrency and of rate.

use retrial::guard::{GuardRules, HeldBy, Pace};
use retrial::run::{Event, Outcome, TaskId};
use retrial_sim::unstable::evidence::{CommitRecord, StoreAnswer};
use retrial_sim::unstable::oracle::guards::{HELD_WITHOUT_NEED, TOO_FAST, TOO_MANY_AT_ONCE, judge};
use retrial_sim::unstable::scenario::Reply;

use crate::guards::{fan, hold, hold_last, item, many};
use crate::kit::{found, healthy, ms, store};

fn limit(n: u32) -> GuardRules {
    GuardRules { concurrency: Some(many(n)), ..GuardRules::default() }
}

/// A node may die before it hears that its start has landed, and hear before that of another start
/// that this one held back: the store decided both in one batch.
#[test]
fn x6_a_hold_by_a_start_in_doubt_has_a_reason() {
    let script = |starts: bool| {
        let mut script = fan(limit(1));
        if starts {
            script.start(item(0), 1, Reply::SuccessTrue);
            script.world.answers.pop();
        }
        hold(&mut script, item(1), 1, HeldBy::Concurrency, 1_000);
        script.world.answers.push(StoreAnswer::Unsure);
        if starts {
            script.succeed(item(0), 1);
        }
        judge(&script.world)
    };
    healthy(&script(true));
    found(&script(false), HELD_WITHOUT_NEED);
}

/// The store may hold one start back for another, and lose that one before it is answered. The
/// answer of the one that is held may come after the other's error.
#[test]
fn x6_a_hold_by_what_was_lost_unanswered_has_a_reason() {
    use StoreAnswer::{Asked, Held, Landed, Unsure};
    let mut lost = fan(limit(1));
    lost.start(item(0), 1, Reply::SuccessTrue);
    let Some(Landed(start)) = lost.world.answers.pop() else { panic!("no start") };
    let mut held = fan(limit(1));
    hold(&mut held, item(1), 1, HeldBy::Concurrency, 1_000);
    let Some(Held(ask, holds)) = held.world.answers.pop() else { panic!("no hold") };
    let (start, asked, held) = (Asked(start), Asked(ask.clone()), Held(ask, holds));
    let judged = |answers: &[&StoreAnswer]| {
        let mut script = fan(limit(1));
        script.world.answers.extend(answers.iter().copied().cloned());
        script.world.answers.push(Unsure);
        script.start(item(2), 1, Reply::SuccessTrue);
        judge(&script.world)
    };
    healthy(&judged(&[&start, &held]));
    healthy(&judged(&[&start, &asked, &Unsure, &held]));
    found(&judged(&[&held]), HELD_WITHOUT_NEED);
    found(&judged(&[&start, &Unsure, &held]), HELD_WITHOUT_NEED);
    found(&judged(&[&start, &asked, &Unsure, &held, &held]), HELD_WITHOUT_NEED);
}

#[test]
fn x6_more_at_once_than_allowed_is_found() {
    let mut script = fan(limit(2));
    script.start(item(0), 1, Reply::SuccessTrue).start(item(1), 1, Reply::SuccessTrue);
    hold(&mut script, item(2), 1, HeldBy::Concurrency, 1_000);
    healthy(&judge(&script.world));
    script.start(item(2), 1, Reply::SuccessTrue);
    found(&judge(&script.world), TOO_MANY_AT_ONCE);
}

#[test]
fn x6_a_place_that_is_free_again_holds_nothing_back() {
    let mut script = fan(limit(1));
    script.start(item(0), 1, Reply::SuccessTrue).succeed(item(0), 1);
    hold(&mut script, item(1), 1, HeldBy::Concurrency, 1_000);
    found(&judge(&script.world), HELD_WITHOUT_NEED);
}

#[test]
fn x6_the_end_of_a_run_frees_its_places() {
    let mut script = fan(limit(1));
    script.start(item(0), 1, Reply::Hang).end(Outcome::Cancelled { reason: String::new() });
    healthy(&judge(&script.world));
    hold(&mut script, item(1), 1, HeldBy::Concurrency, 1_000);
    found(&judge(&script.world), HELD_WITHOUT_NEED);
}

/// What undoes the run begins with none of its attempts in progress.
#[test]
fn x6_the_beginning_of_a_rollback_frees_a_runs_places() {
    let mut script = fan(limit(1));
    let outcome = Outcome::Cancelled { reason: "undone".into() };
    script.start(item(0), 1, Reply::Hang).event(Event::RollbackStarted { outcome });
    healthy(&judge(&script.world));
    hold(&mut script, item(1), 1, HeldBy::Concurrency, 1_000);
    found(&judge(&script.world), HELD_WITHOUT_NEED);
}

/// The run's first commit after its creation was in doubt, and landed.
#[test]
fn x6_a_start_in_doubt_takes_a_place_from_the_first() {
    let mut script = fan(limit(1));
    script.world.answers.truncate(1);
    // Something was asked before the doubt.
    let (at, run) = (store(script.now), script.run().id);
    let nothing =
        CommitRecord { at, writer: 0, run, first: script.run().version, events: Vec::new() };
    script.world.answers.push(StoreAnswer::Held(nothing, Vec::new()));
    script.start(item(0), 1, Reply::SuccessTrue);
    let Some(StoreAnswer::Landed(start)) = script.world.answers.pop() else { panic!() };
    script.world.answers.extend([StoreAnswer::Asked(start), StoreAnswer::Unsure]);
    script.pass(10);
    hold(&mut script, item(1), 1, HeldBy::Concurrency, 1_000);
    script.pass(10).succeed(item(0), 1);
    healthy(&judge(&script.world));
    hold(&mut script, item(2), 1, HeldBy::Concurrency, 1_000);
    found(&judge(&script.world), HELD_WITHOUT_NEED);
}

#[test]
fn x6_starts_that_are_too_fast_are_found() {
    let rate = Pace::new(many(2), ms(1_000)).ok();
    let mut script = fan(GuardRules { rate, ..GuardRules::default() });
    script.start(item(0), 1, Reply::SuccessTrue).start(item(1), 1, Reply::SuccessTrue);
    hold(&mut script, item(2), 1, HeldBy::Rate, 500);
    script.pass(499);
    let mut early = script;
    early.start(item(2), 1, Reply::SuccessTrue);
    found(&judge(&early.world), TOO_FAST);
}

#[test]
fn x6_a_rate_that_has_room_holds_nothing_back() {
    let rate = Pace::new(many(2), ms(1_000)).ok();
    let mut script = fan(GuardRules { rate, ..GuardRules::default() });
    script.start(item(0), 1, Reply::SuccessTrue).start(item(1), 1, Reply::SuccessTrue);
    script.pass(500).start(item(2), 1, Reply::SuccessTrue);
    healthy(&judge(&script.world));
    script.pass(510);
    hold(&mut script, item(2), 2, HeldBy::Rate, 1_500);
    found(&judge(&script.world), HELD_WITHOUT_NEED);
}

/// A commit is held back for its own starts, at the instant at which another one lands unheard.
#[test]
fn x6_a_hold_beside_what_landed_unseen_has_a_reason() {
    let rate = Pace::new(many(2), ms(1_000)).ok();
    let script = |held: &[TaskId]| {
        let mut script = fan(GuardRules { rate, ..GuardRules::default() });
        hold_last(&mut script, held, 1, HeldBy::Rate, 500);
        script
    };
    let starts = [item(0), item(1), item(2)];
    healthy(&judge(&script(&starts).world));
    found(&judge(&script(&starts[2..]).world), HELD_WITHOUT_NEED);
    let mut script = script(&starts);
    script.start(item(0), 1, Reply::SuccessTrue);
    script.world.answers.pop();
    script.world.answers.push(StoreAnswer::Unsure);
    script.pass(1).succeed(item(0), 1);
    healthy(&judge(&script.world));
}
