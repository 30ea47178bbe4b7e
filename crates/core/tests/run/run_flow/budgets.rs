//! Retry budgets that the tasks of one fan-out share (C18, H17).

use retrial_core::policy::{Budget, BudgetScope, Denied, GiveUp, Refill, Share};

use super::*;

/// A budget of `initial` tokens, of which a retry takes one, after throttling three.
fn shared(initial: u32, refill: Refill) -> Policy {
    let budget = Budget {
        capacity: 10,
        initial,
        cost: 1,
        throttling_cost: 3,
        refill,
        scope: BudgetScope::Group,
        on_denied: Denied::Fail,
    };
    change(3, |p| p.budget = Some(budget))
}

/// How each task went: the retries that were scheduled, and why it was given up.
fn told(world: &World) -> Vec<String> {
    let tell = |(id, _): (TaskId, _)| {
        let mine = |e: &&Event| e.task() == Some(id);
        let events = || world.log.iter().map(|r| &r.event).filter(mine);
        let retries = events().filter(|e| matches!(e, Event::RetryScheduled { .. })).count();
        let end = events().find_map(|e| match e {
            Event::TaskFailed { reason, error, .. } => Some(format!("{reason:?} {}", error.code)),
            Event::TaskSucceeded { .. } => Some("done".to_owned()),
            _ => None,
        });
        format!("{retries} {}", end.unwrap_or_default())
    };
    world.state.tasks().map(tell).collect()
}

/// Four first attempts add two tokens to the one there was; retries add none.
#[test]
fn c18_h17_first_attempts_earn_the_groups_retries() {
    let refill = Refill {
        ratio: Share::from_millionths(500_000).expect("a half"),
        first_success: 0,
        refund: false,
    };
    let flow = Flow::new().step("f", shared(1, refill)).for_each(json!([1, 2, 3, 4]));
    let mut world = set(flow.build(), []);
    world.beyond = status(503);
    assert!(world.run(100));
    assert_eq!(
        told(&world),
        ["1 RetryBudget 503", "1 RetryBudget 503", "1 RetryBudget 503", "0 RetryBudget 503"]
    );
    let denied = world.log.iter().filter_map(|r| match &r.event {
        Event::TaskFailed { error, .. } => Some(error.message.as_str()),
        _ => None,
    });
    for message in denied {
        assert!(message.contains("RETRY_BUDGET: the retry budget allows no more"), "{message}");
    }
}

/// A success at once adds two; a retry after throttling takes three, which its success gives back.
#[test]
fn c18_h17_successes_give_the_groups_tokens_back() {
    let refill = Refill { ratio: Share::ZERO, first_success: 2, refund: true };
    let flow = Flow::new().step("f", shared(1, refill)).for_each(json!([1, 2, 3, 4]));
    let at = |shot: Shot, ms| shot.taking(Nanos::from_millis(ms));
    let scripts = [
        ("f", 0, vec![at(ok(), 1_000)]),
        ("f", 1, vec![at(status(429), 2_000), at(ok(), 1_000)]),
        ("f", 2, vec![at(status(503), 2_500)]),
        ("f", 3, vec![at(status(503), 5_000), at(ok(), 1_000)]),
    ];
    let world = plays(flow.success(json!("any")).build(), scripts);
    assert_eq!(told(&world), ["0 done", "1 done", "0 RetryBudget 503", "1 done"]);
}

/// Each fan-out has tokens of its own.
#[test]
fn c18_h17_another_group_has_its_own_tokens() {
    let refill = Refill { ratio: Share::ZERO, first_success: 1, refund: false };
    let flow = Flow::new().step("f", shared(1, refill)).for_each(json!([1, 2]));
    let flow = flow.step("g", shared(1, refill)).for_each(json!([1, 2]));
    let mut world = set(flow.build(), []);
    world.beyond = status(503);
    // `f` fails first, and the run with it.
    for item in 0..2 {
        world.script("g", item, [status(503).taking(Nanos::from_millis(500)), ok()]);
    }
    assert!(world.run(100));
    let retries: Vec<_> = told(&world).iter().map(|t| t.as_bytes()[0]).collect();
    assert_eq!(retries, *b"1010");
}

/// Where the action's budget denies it, the task fails as it would have been retried.
#[test]
fn c18_h17_a_retry_that_the_actions_budget_denies() {
    for denied in [false, true] {
        let mut world = set(Flow::new().step("a", doubling(3)).build(), []);
        world.step_next();
        let (task, token) = (task(0, 0), token_of(task(0, 0), 1));
        let failure = Failure::http(503, "busy");
        world.handle(&Input::Failed { task, token, failure, denied });
        let gave_up = world.log.iter().find_map(|r| match &r.event {
            Event::TaskFailed { reason, .. } => Some(*reason),
            _ => None,
        });
        assert_eq!(gave_up, denied.then_some(GiveUp::RetryBudget));
    }
}
