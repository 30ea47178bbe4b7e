//! Retry budgets: what is granted and what is denied.

use retrial::guard::{GuardRules, HeldBy};
use retrial::policy::{Budget, BudgetScope, Denied, GiveUp, Refill, Share};
use retrial::run::Event;
use retrial_sim::unstable::evidence::{CommitRecord, StoreAnswer};
use retrial_sim::unstable::oracle::guards::{DENIED_WITHOUT_NEED, OVER_BUDGET, judge};
use retrial_sim::unstable::scenario::Reply;

use crate::guards::{fan, hold, item};
use crate::kit::{Script, found, healthy, server_error, status};

/// Half a token for each first attempt.
fn budget(initial: u32, on_denied: Denied, scope: BudgetScope) -> GuardRules {
    let share = Share::from_millionths(500_000).unwrap();
    let usual = Budget::of_first_attempts(share);
    let retry_budget = Some(Budget { initial, on_denied, scope, ..usual });
    GuardRules { retry_budget, ..GuardRules::default() }
}

/// Two failures of one task; a first attempt gives half a token.
fn retried(guard: GuardRules) -> Script {
    let mut script = fan(guard);
    script.start(item(0), 1, status(503)).retry(item(0), 1, &server_error());
    script.start(item(0), 2, status(503)).retry(item(0), 2, &server_error());
    script
}

#[test]
fn h17_more_retries_than_the_budget_allows_are_found() {
    for scope in [BudgetScope::Action, BudgetScope::Group] {
        healthy(&judge(&retried(budget(2, Denied::Fail, scope)).world));
        found(&judge(&retried(budget(1, Denied::Fail, scope)).world), OVER_BUDGET);
    }
}

#[test]
fn h17_a_retry_denied_without_need_is_found() {
    let denied = |initial| {
        let mut script = fan(budget(initial, Denied::Fail, BudgetScope::Group));
        script.start(item(0), 1, status(503));
        script.give_up(item(0), 1, &server_error(), GiveUp::RetryBudget);
        judge(&script.world)
    };
    healthy(&denied(0));
    assert_eq!(denied(0).features["group budget"], 1);
    found(&denied(1), DENIED_WITHOUT_NEED);
}

#[test]
fn h17_a_retry_that_the_store_did_not_deny_is_found() {
    let mut script = fan(budget(1, Denied::Fail, BudgetScope::Action));
    script.start(item(0), 1, status(503));
    script.give_up(item(0), 1, &server_error(), GiveUp::RetryBudget);
    found(&judge(&script.world), DENIED_WITHOUT_NEED);
}

#[test]
fn h17_a_retry_that_starts_without_its_tokens_is_found() {
    let mut script = fan(budget(0, Denied::Wait, BudgetScope::Action));
    script.start(item(0), 1, status(503)).retry(item(0), 1, &server_error());
    // Half a token at first, and a tenth for the 100 ms since.
    hold(&mut script, item(0), 2, HeldBy::RetryBudget, 500);
    healthy(&judge(&script.world));
    script.pass(400);
    let at = script.now;
    script.start(item(0), 2, Reply::SuccessTrue);
    healthy(&judge(&script.world));
    let mut early = fan(budget(0, Denied::Wait, BudgetScope::Action));
    early.start(item(0), 1, status(503)).retry(item(0), 1, &server_error());
    early.pass(at - 150).start(item(0), 2, Reply::SuccessTrue);
    found(&judge(&early.world), OVER_BUDGET);
}

/// The last answers of the store, as those of one commit.
fn in_one_commit(script: &mut Script, answers: usize) {
    let from = script.world.answers.len() - answers;
    let mut records = script.world.answers.split_off(from).into_iter().map(|answer| match answer {
        StoreAnswer::Landed(ask) => ask,
        other => panic!("{other:?} is no commit"),
    });
    let first = records.next().unwrap();
    let events = first.events.into_iter().chain(records.flat_map(|ask| ask.events)).collect();
    script.world.answers.push(StoreAnswer::Landed(CommitRecord { events, ..first }));
}

#[test]
fn h17_what_a_success_may_give_back_allows_a_retry_of_the_same_commit() {
    let mut guard = budget(0, Denied::Fail, BudgetScope::Action);
    let refill = Refill { ratio: Share::ZERO, first_success: 1, refund: false };
    guard.retry_budget = guard.retry_budget.map(|usual| Budget { refill, ..usual });
    let judged = |retries: u32| {
        let mut script = fan(guard.clone());
        script.start(item(0), 1, Reply::SuccessTrue);
        for n in 1..=retries {
            script.start(item(n), 1, status(503));
        }
        // Whether a task of a run that rests still has its place can't be known.
        script.event(Event::RunDeactivated).succeed(item(0), 1);
        for n in 1..=retries {
            script.retry(item(n), 1, &server_error());
        }
        in_one_commit(&mut script, 1 + 2 * retries as usize);
        judge(&script.world)
    };
    healthy(&judged(1));
    found(&judged(2), OVER_BUDGET);
}
