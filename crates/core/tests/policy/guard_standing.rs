//! What people see of an action's guards, and what is stored of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU32;

use retrial_core::guard::{
    Breaker, BreakerStanding, Bucket, Ended, ErrorBudget, FailureRate, GuardInput, GuardRules,
    GuardState, HeldBy, Outcomes, Pace, Standing,
};
use retrial_core::policy::{Budget, Denied, Share};
use retrial_core::time::{Nanos, Timestamp};

fn many(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

fn secs(n: u64) -> Nanos {
    Nanos::from_secs(n)
}

fn rules() -> GuardRules {
    let share = Share::from_millionths(1_000_000).unwrap();
    let rate = FailureRate { share, window: secs(10), min_calls: many(9) };
    let target = Share::from_millionths(900_000).unwrap();
    GuardRules {
        breaker: Breaker::new(Some(many(2)), Some(rate), secs(30), many(2)).ok(),
        concurrency: Some(many(3)),
        rate: Pace::new(many(3), secs(6)).ok(),
        retry_budget: Some(Budget { initial: 5, ..Budget::of_first_attempts(Share::TENTH) }),
        error_budget: ErrorBudget::new(target, secs(10), many(1), [500_000]).ok(),
    }
}

const START: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

fn at(seconds: u64) -> Timestamp {
    START.after(secs(seconds))
}

fn outcomes(calls: u64, failures: u64) -> Outcomes {
    Outcomes { calls, failures }
}

/// A standing in which all but some parts are as they were.
fn seen(state: &GuardState<u32>, now: Timestamp, room: usize) -> Standing {
    assert_eq!(state.room(&rules(), now), room);
    state.standing(now)
}

fn take(state: &mut GuardState<u32>, input: GuardInput<u32>, now: Timestamp) {
    state.take(&rules(), &input, now).unwrap();
}

fn admit(attempt: u32) -> GuardInput<u32> {
    GuardInput::Admit { attempt, first: true, tokens: 0 }
}

fn end(attempt: u32, how: Ended) -> GuardInput<u32> {
    GuardInput::Ended { attempt, how, refill: 0 }
}

#[test]
fn c18_how_the_guards_of_an_action_stand() {
    let mut state = GuardState::default();
    let untouched = Standing {
        breaker: BreakerStanding::Closed { in_a_row: 0, recent: outcomes(0, 0) },
        running: 0,
        unpaced_at: Timestamp::default(),
        tokens_millionths: None,
        errors: outcomes(0, 0),
        alerts_millionths: vec![],
    };
    assert_eq!(seen(&state, START, 3), untouched);
    assert_eq!(state.room(&GuardRules::default(), START), usize::MAX);

    take(&mut state, admit(1), START);
    let begun = Standing {
        running: 1,
        unpaced_at: at(2),
        tokens_millionths: Some(5_100_000),
        ..untouched.clone()
    };
    assert_eq!(seen(&state, START, 2), begun);
    assert_eq!(state.running().collect::<Vec<_>>(), [1]);

    take(&mut state, GuardInput::Withdraw { attempt: 1, tokens: 3 }, START);
    take(&mut state, end(1, Ended::Badly), START);
    let failed = Standing {
        breaker: BreakerStanding::Closed { in_a_row: 1, recent: outcomes(1, 1) },
        running: 0,
        tokens_millionths: Some(2_100_000),
        errors: outcomes(1, 1),
        alerts_millionths: vec![500_000],
        ..begun
    };
    assert_eq!(seen(&state, START, 3), failed);

    take(&mut state, admit(2), at(9));
    take(&mut state, end(2, Ended::Badly), at(9));
    let opened = Standing {
        breaker: BreakerStanding::Open { until: at(39) },
        unpaced_at: at(11),
        tokens_millionths: Some(2_200_000),
        errors: outcomes(2, 2),
        ..failed
    };
    assert_eq!(seen(&state, at(9), 0), opened);
    // What was counted leaves the window; the alert stands until there is an outcome.
    assert_eq!(seen(&state, at(38), 0), Standing { errors: outcomes(0, 0), ..opened.clone() });

    take(&mut state, admit(3), at(39));
    let probed = Standing {
        breaker: BreakerStanding::HalfOpen { successes: 0 },
        running: 1,
        unpaced_at: at(41),
        tokens_millionths: Some(2_300_000),
        errors: outcomes(0, 0),
        ..opened
    };
    assert_eq!(seen(&state, at(39), 1), probed);
    take(&mut state, end(3, Ended::Well), at(39));
    let half = Standing {
        breaker: BreakerStanding::HalfOpen { successes: 1 },
        running: 0,
        errors: outcomes(1, 0),
        alerts_millionths: vec![],
        ..probed
    };
    assert_eq!(seen(&state, at(39), 1), half);
    take(&mut state, admit(4), at(39));
    take(&mut state, end(4, Ended::Well), at(39));
    assert_eq!(seen(&state, at(39), 3).breaker, untouched.breaker);
}

/// Of an action that nothing guards in this way nothing is stored but who is at work, and what is
/// stored is all there is to know.
#[test]
fn c18_what_is_stored_of_guards() {
    let keys = |state: &GuardState<u32>| -> Vec<String> {
        let stored = serde_json::to_value(state).unwrap();
        assert_eq!(serde_json::from_value::<GuardState<u32>>(stored.clone()).unwrap(), *state);
        stored.as_object().unwrap().keys().cloned().collect()
    };
    let mut state = GuardState::default();
    assert_eq!(keys(&state), ["circuit", "meter", "running"]);
    take(&mut state, admit(1), START);
    assert_eq!(keys(&state), ["bucket", "circuit", "meter", "running"]);
    take(&mut state, end(1, Ended::Badly), START);
    assert_eq!(keys(&state), ["bucket", "burning", "circuit", "meter", "running"]);
}

/// Of several guards that would hold an attempt back the breaker is named first, then concurrency,
/// then the rate, and a refusal uses nothing up.
#[test]
fn c18_x6_which_guard_is_named() {
    let refused = |state: &mut GuardState<u32>, now| {
        let before = state.clone();
        let refusal = state.take(&rules(), &admit(9), now).unwrap_err();
        assert_eq!(*state, before);
        (refusal.by, refusal.until)
    };
    let mut state = GuardState::default();
    for attempt in 1..=3 {
        take(&mut state, admit(attempt), START);
    }
    assert_eq!(refused(&mut state, START), (HeldBy::Concurrency, at(1)));
    take(&mut state, end(1, Ended::Badly), START);
    assert_eq!(refused(&mut state, START), (HeldBy::Rate, at(2)));
    take(&mut state, end(2, Ended::Badly), START);
    assert_eq!(refused(&mut state, START), (HeldBy::Breaker, at(30)));
    let words = [HeldBy::Breaker, HeldBy::Concurrency, HeldBy::Rate, HeldBy::RetryBudget];
    assert_eq!(
        words.map(|by| by.to_string()),
        ["circuit breaker", "concurrency limit", "rate limit", "retry budget"]
    );
}

/// Where retries wait, one becomes possible each second, whatever it costs; what is there already
/// shortens the wait.
#[test]
fn h17_how_long_a_retry_waits_for_its_tokens() {
    let budget = Budget {
        initial: 0,
        capacity: 20,
        cost: 4,
        throttling_cost: 8,
        on_denied: Denied::Wait,
        ..Budget::of_first_attempts(Share::TENTH)
    };
    let mut bucket = Bucket::default();
    assert_eq!(bucket.withdraw(&budget, 4, START), Err(at(1)));
    assert_eq!(bucket.withdraw(&budget, 8, START), Err(at(2)));
    // Three of four are there, and a tenth with the first attempt after them.
    bucket.refill(&budget, 3, START);
    assert_eq!(bucket.withdraw(&budget, 4, START), Err(START.after(Nanos::from_millis(250))));
    bucket.first_attempt(&budget, START);
    assert_eq!(bucket.withdraw(&budget, 4, START), Err(START.after(Nanos::from_millis(225))));
    assert_eq!(bucket.withdraw(&budget, 4, START.after(Nanos::from_millis(225))), Ok(()));
    // Half a second gives two of them.
    let half = START.after(Nanos::from_millis(725));
    assert_eq!(bucket.withdraw(&budget, 8, half), Err(half.after(Nanos::from_millis(1_500))));
    assert_eq!(bucket.withdraw(&budget, 2, half), Ok(()));
    assert_eq!(bucket.withdraw(&budget, 1, half), Err(half.after(Nanos::from_millis(250))));
    // It fills to its capacity and no further.
    let later = half.after(secs(1_000));
    assert_eq!(
        [20, 1].map(|tokens| bucket.withdraw(&budget, tokens, later).is_ok()),
        [true, false]
    );
}

/// Of ten seconds in ten parts nine to ten count, in ten parts at most.
#[test]
fn c18_how_far_back_outcomes_count() {
    let mut state = GuardState::default();
    let rules = GuardRules { error_budget: rules().error_budget, ..GuardRules::default() };
    let mut go = |now: Timestamp, how| {
        state.take(&rules, &admit(1), now).unwrap();
        state.take(&rules, &end(1, how), now).unwrap();
        let stored = serde_json::to_value(&state).unwrap();
        let parts = stored["burning"]["window"]["parts"].as_array().unwrap().len();
        (state.standing(now).errors, parts)
    };
    assert_eq!(go(at(0), Ended::Badly), (outcomes(1, 1), 1));
    assert_eq!(go(at(0), Ended::Well), (outcomes(2, 1), 1));
    assert_eq!(go(START.after(Nanos::from_millis(999)), Ended::Well), (outcomes(3, 1), 1));
    assert_eq!(go(at(1), Ended::Badly), (outcomes(4, 2), 2));
    assert_eq!(go(at(9), Ended::Well), (outcomes(5, 2), 3));
    assert_eq!(go(at(10), Ended::Well), (outcomes(3, 1), 3), "the first part is left behind");
    for second in 11..40 {
        go(at(second), Ended::Well);
    }
    assert_eq!(go(at(40), Ended::Well), (outcomes(10, 0), 10));
    assert_eq!(state.standing(at(49)).errors, outcomes(1, 0));
    assert_eq!(state.standing(at(50)).errors, outcomes(0, 0));
    // Over another window all begins anew.
    let target = Share::from_millionths(900_000).unwrap();
    let longer = ErrorBudget::new(target, secs(20), many(1), [500_000]).ok();
    let rules = GuardRules { error_budget: longer, ..GuardRules::default() };
    state.take(&rules, &admit(2), at(40)).unwrap();
    state.take(&rules, &end(2, Ended::Badly), at(40)).unwrap();
    assert_eq!(state.standing(at(40)).errors, outcomes(1, 1));
}

/// A retry that takes no tokens and an end that gives none back leave the budget alone.
#[test]
fn h17_what_moves_a_retry_budget() {
    let budget = Budget { initial: 2, ..Budget::of_first_attempts(Share::TENTH) };
    let rules = GuardRules { retry_budget: Some(budget), ..GuardRules::default() };
    assert!(!rules.is_empty() && GuardRules::default().is_empty());
    let mut state = GuardState::default();
    let mut go = |input: GuardInput<u32>| {
        let by = state.take(&rules, &input, START).err().map(|refusal| refusal.by);
        (by, state.standing(START).tokens_millionths)
    };
    let again = |tokens| GuardInput::Admit { attempt: 1, first: false, tokens };
    assert_eq!(go(again(0)), (None, None));
    assert_eq!(go(GuardInput::Withdraw { attempt: 1, tokens: 0 }), (None, None));
    assert_eq!(go(end(1, Ended::Well)), (None, None));
    assert_eq!(go(again(1)), (None, Some(1_000_000)));
    let refused = (Some(HeldBy::RetryBudget), Some(1_000_000));
    assert_eq!(go(GuardInput::Withdraw { attempt: 1, tokens: 2 }), refused);
    assert_eq!(go(again(2)), refused);
    let gives = GuardInput::Ended { attempt: 1, how: Ended::Silently, refill: 3 };
    assert_eq!(go(gives), (None, Some(4_000_000)));
    assert_eq!(go(gives), (None, Some(4_000_000)), "it has ended");
}

/// What is nothing is not written.
#[test]
fn inputs_are_stored_without_what_is_nothing() {
    let stored = |input: GuardInput<u32>| {
        let stored = serde_json::to_string(&input).unwrap();
        assert_eq!(serde_json::from_str::<GuardInput<u32>>(&stored).unwrap(), input);
        assert_eq!(input.attempt(), 1);
        stored
    };
    let written = [
        admit(1),
        GuardInput::Admit { attempt: 1, first: false, tokens: 2 },
        end(1, Ended::Well),
        GuardInput::Ended { attempt: 1, how: Ended::Badly, refill: 3 },
        GuardInput::Withdraw { attempt: 1, tokens: 0 },
    ];
    insta::assert_snapshot!(written.map(stored).join("\n"), @r#"
    {"admit":{"attempt":1,"first":true}}
    {"admit":{"attempt":1,"first":false,"tokens":2}}
    {"ended":{"attempt":1,"how":"well"}}
    {"ended":{"attempt":1,"how":"badly","refill":3}}
    {"withdraw":{"attempt":1,"tokens":0}}
    "#);
}
