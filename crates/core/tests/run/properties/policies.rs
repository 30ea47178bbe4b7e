//! Any policy that the types allow, as plain data.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;
use retrial_core::policy::{
    AtDeadline, Backoff, Counting, DelayList, Dialect, Jitter, Limit, Matcher, Multiplier, Policy,
    PolicyParts, Rule, Scope, Shape, Share,
};
use retrial_core::time::Nanos;

use super::draw::{CUSTOM, NAMES};

pub(crate) fn length() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        6 => (1..5_000_u64).prop_map(Nanos::from_millis),
        2 => (0..100_u64).prop_map(Nanos::new),
        1 => any::<u64>().prop_map(Nanos::new),
        1 => Just(Nanos::MAX),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    let multiplier = select(vec![1_000_000, 1_000_001, 1_500_000, 2_000_000, 2_718_281, 9_000_000]);
    let multiplier = multiplier.prop_map(|m| Multiplier::from_millionths(m).expect("at least 1"));
    prop_oneof![
        Just(Shape::None),
        length().prop_map(|base| Shape::Fixed { base }),
        (length(), length()).prop_map(|(base, step)| Shape::Linear { base, step }),
        (length(), multiplier)
            .prop_map(|(base, multiplier)| Shape::Exponential { base, multiplier }),
        length().prop_map(|base| Shape::Fibonacci { base }),
        (length(), 1..=20_u32).prop_map(|(base, degree)| Shape::Polynomial { base, degree }),
        vec(length(), 1..4)
            .prop_map(|d| Shape::List { delays: DelayList::try_from(d).expect("not empty") }),
        Just(Shape::Custom { name: CUSTOM.into() }),
    ]
}

fn jitter() -> impl Strategy<Value = Jitter> {
    let share = (0..=1_000_000_u32).prop_map(|p| Share::from_millionths(p).expect("at most 1"));
    prop_oneof![
        3 => Just(Jitter::None),
        1 => Just(Jitter::Proportional(Share::QUARTER)),
        1 => share.prop_map(Jitter::Proportional),
        1 => Just(Jitter::Full),
        1 => Just(Jitter::Equal),
        1 => Just(Jitter::Decorrelated),
    ]
}

fn names() -> impl Strategy<Value = std::collections::BTreeSet<String>> {
    btree_set(select(NAMES.to_vec()).prop_map(str::to_owned), 1..4)
}

fn matcher() -> impl Strategy<Value = Matcher> {
    let scope = prop_oneof![
        3 => Just(Scope::Any),
        2 => prop_oneof![Just(Default::default()), names()].prop_map(Scope::Retryable),
        2 => names().prop_map(Scope::Names),
    ];
    let except = prop_oneof![4 => Just(Default::default()), 1 => names()];
    (scope, except).prop_map(|(scope, except)| Matcher { scope, except })
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        5 => (1..=6_u32).prop_map(|n| Limit::attempts(n).expect("at least one")),
        1 => Just(Limit::Unlimited),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let cap = prop_oneof![2 => Just(None), 1 => length().prop_map(Some)];
    (matcher(), limit(), shape(), jitter(), cap).prop_map(|(matcher, limit, shape, jitter, cap)| {
        let backoff = Backoff { shape, jitter, cap };
        let backoff = if limit == Limit::Unlimited { untight(backoff) } else { backoff };
        Rule { matcher, limit, backoff }
    })
}

/// Decision 10: an unlimited rule has a delay; one that is neither drawn nor custom at least 10 ms.
fn untight(backoff: Backoff) -> Backoff {
    let least = match backoff.jitter {
        Jitter::None => Nanos::from_millis(10),
        _ => Nanos::new(1),
    };
    let shape = match backoff.shape {
        Shape::None => Shape::Fixed { base: least },
        Shape::Fixed { base } => Shape::Fixed { base: base.max(least) },
        Shape::Linear { base, step } => Shape::Linear { base: base.max(least), step },
        Shape::Exponential { base, multiplier } => {
            Shape::Exponential { base: base.max(least), multiplier }
        }
        Shape::Fibonacci { base } => Shape::Fibonacci { base: base.max(least) },
        Shape::Polynomial { base, degree } => Shape::Polynomial { base: base.max(least), degree },
        Shape::List { delays } => {
            let delays = delays.as_slice().iter().map(|d| (*d).max(least)).collect::<Vec<_>>();
            Shape::List { delays: DelayList::try_from(delays).expect("not empty") }
        }
        custom @ Shape::Custom { .. } => custom,
    };
    Backoff { shape, cap: backoff.cap.map(|c| c.max(least)), ..backoff }
}

/// Any policy that the types allow.
pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    let dialect = select(vec![
        Dialect::Ir,
        Dialect::WorkConfig,
        Dialect::Execution,
        Dialect::RetryConfig,
        Dialect::Builder,
    ]);
    let timeout = || {
        let some = prop_oneof![(1..20_000_u64).prop_map(Nanos::from_millis), Just(Nanos::MAX)];
        prop_oneof![1 => Just(None), 1 => some.prop_map(Some)]
    };
    let budget = prop_oneof![2 => Just(None), 1 => (0..3_u32).prop_map(Some)];
    let obeyed = prop_oneof![Just(PolicyParts::MAX_RETRY_AFTER), length()];
    let own = limit().prop_map(|total| Counting::PerRule { total });
    let counting = prop_oneof![3 => Just(Counting::Shared), 1 => own];
    let reserve =
        length().prop_map(|reserve| AtDeadline::Truncate { reserve: reserve.max(Nanos::new(1)) });
    let at_deadline = prop_oneof![1 => Just(AtDeadline::GiveUp), 1 => reserve];
    let counts = (budget, counting, prop::bool::weighted(0.2));
    let times = (timeout(), timeout(), obeyed, at_deadline);
    (dialect, vec(rule(), 0..4), times, counts).prop_map(
        |(dialect, rules, times, (timeout_retries, counting, retry_unknown_outcome))| {
            let (attempt_timeout, total_timeout, max_retry_after, at_deadline) = times;
            let parts = PolicyParts {
                dialect,
                rules,
                attempt_timeout,
                total_timeout,
                timeout_retries,
                max_retry_after,
                counting,
                at_deadline,
                retry_unknown_outcome,
                budget: None,
            };
            Policy::try_from(parts).expect("a policy that makes sense")
        },
    )
}
