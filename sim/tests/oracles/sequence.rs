use retrial::failure::{Failure, NetworkFault, RetryKind};
use retrial::policy::{
    AtDeadline, Backoff, Counting, DelayList, Jitter, Limit, Matcher, Multiplier, Rule, Shape,
    Share,
};
use retrial::run::Event;
use retrial::time::Nanos;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::oracle::jitter::{
    JITTER_NOT_A_FUNCTION, JITTER_REPEATED, JITTER_SHARED,
};
use retrial_sim::unstable::oracle::sequence::{
    NO_RULE, RETRY_AFTER_MISREAD, RETRY_AFTER_TOO_LONG, RETRY_PAST_TOTAL, STARTED_AFTER_TOTAL,
    WRONG_BACKOFF, WRONG_CAUSE, WRONG_DELAY, WRONG_RULE, WRONG_TIMEOUT, judge,
};
use retrial_sim::unstable::oracle::{Delays, delays};
use retrial_sim::unstable::scenario::{Reply, RetryAfter};

use crate::kit::{
    Script, exhausted, fanned, found, healthy, ms, policy, recovered, server_error, status, step,
    store, task, workflow,
};

#[test]
fn c2_the_right_sequence_passes() {
    healthy(&judge(&recovered().world));
    healthy(&judge(&exhausted().world));
    healthy(&judge(&fanned().world));
}

/// Changes the second retry.
fn second(change: impl Fn(&mut Nanos, &mut Nanos, &mut RetryKind)) -> Script {
    recovered().alter(|r| {
        if let Event::RetryScheduled { attempt: 3, delay, backoff, kind, .. } = &mut r.event {
            change(delay, backoff, kind);
        }
    })
}

#[test]
fn w13_a_delay_that_is_not_applied_is_found() {
    let script = second(|delay, backoff, _| (*delay, *backoff) = (Nanos::ZERO, Nanos::ZERO));
    found(&judge(&script.world), WRONG_BACKOFF);
}

#[test]
fn decision_2_an_exponent_off_by_one_is_found() {
    let script = second(|delay, backoff, _| (*delay, *backoff) = (ms(400), ms(400)));
    found(&judge(&script.world), WRONG_BACKOFF);
}

#[test]
fn a_nanosecond_too_many_is_found_without_jitter() {
    let longer = ms(200).saturating_add(Nanos::new(1));
    let script = second(|delay, backoff, _| (*delay, *backoff) = (longer, longer));
    found(&judge(&script.world), WRONG_BACKOFF);
}

#[test]
fn a_delay_other_than_the_backoff_is_found() {
    found(&judge(&second(|delay, _, _| *delay = ms(199)).world), WRONG_DELAY);
}

#[test]
fn r10_a_wrong_kind_is_found() {
    found(&judge(&second(|_, _, kind| *kind = RetryKind::Timeout).world), WRONG_CAUSE);
}

#[test]
fn r12_a_retry_without_a_rule_is_found() {
    let mut named = policy(3);
    named.rules[0].matcher = Matcher::named(["NetworkError"]);
    let mut script = Script::new(workflow(vec![step("a", named)]));
    script.start(task(0, 0), 1, status(503)).retry(task(0, 0), 1, &server_error());
    found(&judge(&script.world), NO_RULE);
}

#[test]
fn decision_12_a_lost_lease_falls_to_the_largest_limit() {
    let mut named = policy(2);
    named.rules[0].matcher = Matcher::named(["NetworkError"]);
    let mut script = Script::new(workflow(vec![step("a", named)]));
    script.start(task(0, 0), 1, Reply::Hang).retry(task(0, 0), 1, &Failure::lease_lost());
    healthy(&judge(&script.world));
}

#[test]
fn decision_5_the_rule_with_the_most_attempts_gives_the_backoff() {
    let rule = |name: &str, attempts, base| Rule {
        matcher: Matcher::named([name]),
        limit: Limit::attempts(attempts).unwrap(),
        backoff: Backoff::exponential(ms(base)),
    };
    let mut two = policy(1);
    two.rules = vec![rule("HTTPError", 2, 7), rule("ServerError", 5, 100), rule("503", 5, 9)];
    let mut script = Script::new(workflow(vec![step("a", two.clone())]));
    script.start(task(0, 0), 1, status(503)).retry(task(0, 0), 1, &server_error());
    healthy(&judge(&script.world));
    two.rules.swap(1, 2);
    let mut script = Script::new(workflow(vec![step("a", two)]));
    script.start(task(0, 0), 1, status(503)).retry(task(0, 0), 1, &server_error());
    found(&judge(&script.world), WRONG_BACKOFF);
}

fn asked(wait: Nanos, after: RetryAfter) -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    let reply = Reply::Status { code: 429, retry_after: Some(after), body: String::new() };
    let failure = Failure::http(429, "slow down").with_retry_after(wait);
    script.start(task(0, 0), 1, reply).retry(task(0, 0), 1, &failure);
    script.start(task(0, 0), 2, Reply::SuccessTrue).succeed(task(0, 0), 2);
    script
}

#[test]
fn c12_retry_after_raises_the_delay() {
    let two = Nanos::from_secs(2);
    healthy(&judge(&asked(two, RetryAfter::Seconds(2)).world));
    healthy(&judge(&asked(two, RetryAfter::Date { secs: 3, own_date: true }).world));
    found(&judge(&asked(two, RetryAfter::Seconds(3)).world), RETRY_AFTER_MISREAD);
    found(&judge(&asked(two, RetryAfter::Text("-2".to_owned())).world), RETRY_AFTER_MISREAD);
    let script = asked(two, RetryAfter::Seconds(2)).alter(|r| {
        if let Event::RetryScheduled { delay, .. } = &mut r.event {
            *delay = ms(100);
        }
    });
    found(&judge(&script.world), WRONG_DELAY);
}

#[test]
fn decision_7_a_wait_beyond_the_longest_obeyed_is_found() {
    let script = asked(Nanos::from_secs(4_000), RetryAfter::Seconds(4_000));
    found(&judge(&script.world), RETRY_AFTER_TOO_LONG);
}

fn timed(total: u64) -> Script {
    let mut timed = policy(3);
    timed.total_timeout = Some(ms(total));
    timed.attempt_timeout = Some(ms(250));
    let mut script = Script::new(workflow(vec![step("a", timed)]));
    script.start(task(0, 0), 1, status(503)).retry(task(0, 0), 1, &server_error());
    script.start(task(0, 0), 2, status(503)).retry(task(0, 0), 2, &server_error());
    script.start(task(0, 0), 3, Reply::SuccessTrue);
    script
}

#[test]
fn h5_no_attempt_starts_at_or_after_the_total_timeout() {
    healthy(&judge(&timed(301).world));
    found(&judge(&timed(300).world), RETRY_PAST_TOTAL);
    let late = timed(301).alter(|r| {
        if matches!(r.event, Event::AttemptStarted { attempt: 3, .. }) {
            r.at = store(301);
        }
    });
    found(&judge(&late.world), STARTED_AFTER_TOTAL);
}

#[test]
fn h13_an_attempt_gets_the_smaller_of_both_timeouts() {
    let script = timed(400).alter(|r| {
        if let Event::AttemptStarted { attempt: 3, timeout, .. } = &mut r.event {
            assert_eq!(*timeout, Some(ms(100)));
            *timeout = Some(ms(250));
        }
    });
    found(&judge(&script.world), WRONG_TIMEOUT);
}

fn rule(shape: Shape, jitter: Jitter, cap: Option<u64>) -> Rule {
    let backoff = Backoff { shape, jitter, cap: cap.map(Nanos::new) };
    Rule { matcher: Matcher::any(), limit: Limit::retries(9), backoff }
}

/// The model itself, against numbers worked out by hand from H1 and spec decisions 2 to 4.
#[test]
fn decision_4_the_model_knows_every_shape_and_jitter() {
    let base = Nanos::new(1_000);
    let half = Multiplier::from_millionths(1_500_000).unwrap();
    let check = |shape: &Shape, jitter, cap, previous: Option<u64>, n, low, high| {
        let got = delays(&rule(shape.clone(), jitter, cap), n, previous.map(Nanos::new));
        assert_eq!(got, Some(Delays { low, high }), "{shape:?} {jitter:?} {cap:?} retry {n}");
    };
    let double = Shape::Exponential { base, multiplier: Multiplier::TWO };
    for (n, d) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 5_000)] {
        check(&double, Jitter::None, Some(5_000), None, n, d, d);
    }
    check(
        &Shape::Exponential { base, multiplier: half },
        Jitter::None,
        None,
        None,
        3,
        2_250,
        2_250,
    );
    for (n, d) in [(1, 1_000), (2, 1_000), (3, 2_000), (4, 3_000), (5, 5_000), (6, 8_000)] {
        check(&Shape::Fibonacci { base }, Jitter::None, None, None, n, d, d);
    }
    check(&Shape::Linear { base, step: base }, Jitter::None, None, None, 3, 3_000, 3_000);
    check(&Shape::Linear { base, step: Nanos::new(7) }, Jitter::None, None, None, 3, 1_014, 1_014);
    let quarter = Jitter::Proportional(Share::QUARTER);
    check(&double, quarter, None, None, 2, 1_500, 2_500);
    check(&double, quarter, Some(2_100), None, 2, 1_500, 2_100);
    check(&double, Jitter::Full, None, None, 3, 0, 4_000);
    check(&double, Jitter::Equal, None, None, 3, 2_000, 4_000);
    check(&double, Jitter::Decorrelated, Some(5_000), None, 1, 1_000, 3_000);
    check(&double, Jitter::Decorrelated, Some(5_000), Some(1_200), 2, 1_000, 3_600);
    check(&double, Jitter::Decorrelated, Some(5_000), Some(4_000), 3, 1_000, 5_000);
    let huge = Shape::Exponential { base: Nanos::from_secs(1), multiplier: Multiplier::TWO };
    let top = u128::from(u64::MAX);
    check(&huge, Jitter::None, None, None, 200, top, top);
    check(&huge, Jitter::None, Some(5_000), None, 200, 5_000, 5_000);
}

/// Three siblings that each draw a backoff.
fn jittered(drawn: [u64; 3]) -> Script {
    let mut parts = policy(3);
    parts.rules[0].backoff.jitter = Jitter::Full;
    let mut fan = step("a", parts);
    fan.for_each = Some(serde_json::json!([1, 2, 3]).try_into().unwrap());
    let mut script = Script::new(workflow(vec![fan]));
    for (item, nanos) in (0..).zip(drawn) {
        let it = task(0, item);
        script.start(it, 1, status(503));
        let failure = server_error();
        let code = failure.code().clone();
        script.event(Event::AttemptFailed {
            task: it,
            attempt: 1,
            failure,
            will_retry: true,
            took: Nanos::ZERO,
        });
        let backoff = Nanos::new(nanos);
        let kind = RetryKind::Failure;
        script.event(Event::RetryScheduled {
            task: it,
            attempt: 2,
            delay: backoff,
            backoff,
            kind,
            code,
            rule: None,
        });
    }
    script
}

#[test]
fn decision_9_jitter_depends_on_seed_task_and_attempt_alone() {
    let drawn = [71_000_123, 3_000_456, 99_000_789];
    healthy(&judge(&jittered(drawn).world));
    found(&judge(&jittered([71_000_123; 3]).world), JITTER_SHARED);
    let mut twice = jittered(drawn).world;
    let mut other = jittered([71_000_124, 3_000_456, 99_000_789]).world.runs.remove(0);
    other.id = retrial::run::RunId::from_random(3, 4);
    twice.runs.push(other);
    found(&judge(&twice), JITTER_NOT_A_FUNCTION);
}

/// One task that draws these backoffs, in microseconds, of 100 ms, 200 ms and 400 ms.
fn drawn_by_one(drawn: [u64; 3]) -> Script {
    let mut parts = policy(4);
    parts.rules[0].backoff.jitter = Jitter::Full;
    let mut script = Script::new(workflow(vec![step("a", parts)]));
    let it = task(0, 0);
    for (attempt, micros) in (1..).zip(drawn) {
        script.start(it, attempt, status(503)).retry(it, attempt, &server_error());
        let wait = Nanos::new(micros * 1_000);
        script = script.alter(|r| match &mut r.event {
            Event::RetryScheduled { attempt: n, delay, backoff, .. } if *n == attempt + 1 => {
                (*delay, *backoff) = (wait, wait);
            }
            _ => {}
        });
        script.pass(500);
    }
    // A slow node may start them as late.
    script.strike(FaultKind::SlowNode);
    script
}

#[test]
fn decision_9_jitter_depends_on_the_attempt() {
    healthy(&judge(&drawn_by_one([71_000, 3_000, 300_000]).world));
    found(&judge(&drawn_by_one([30_000, 60_000, 120_000]).world), JITTER_REPEATED);
}

/// Two rules, each with its own count; `place` is what the second retry says it counts against.
fn own_counts(place: Option<u32>, backoff: u64) -> Script {
    let mut parts = policy(9);
    parts.rules.push(Rule {
        matcher: Matcher::named(["NETWORK_ERROR"]),
        limit: Limit::Unlimited,
        backoff: Backoff::exponential(ms(700)),
    });
    parts.counting = Counting::PerRule { total: Limit::Unlimited };
    let mut script = Script::new(workflow(vec![step("a", parts)]));
    let it = task(0, 0);
    let cut = Failure::network(NetworkFault::Cut, "cut");
    for (attempt, failure, delay, rule) in
        [(1, server_error(), 100, Some(0)), (2, cut, backoff, place)]
    {
        script.start(it, attempt, status(503));
        let code = failure.code().clone();
        script.event(Event::AttemptFailed {
            task: it,
            attempt,
            failure,
            will_retry: true,
            took: Nanos::ZERO,
        });
        let (delay, kind) = (ms(delay), RetryKind::Failure);
        let attempt = attempt + 1;
        let backoff = delay;
        script.event(Event::RetryScheduled { task: it, attempt, delay, backoff, kind, code, rule });
        script.pass(delay.as_millis());
    }
    script
}

#[test]
fn x4_each_rule_has_its_own_count() {
    let good = judge(&own_counts(Some(1), 700).world);
    assert_eq!(good.features.get("count per rule"), Some(&2));
    healthy(&good);
    found(&judge(&own_counts(Some(0), 700).world), WRONG_RULE);
    found(&judge(&own_counts(None, 700).world), WRONG_RULE);
    // The backoff of the shared counter's second retry.
    found(&judge(&own_counts(Some(1), 1_400).world), WRONG_BACKOFF);
}

/// A retry after 100 ms of a task whose total timeout ends at 400 ms and that is cut to `delay`.
fn cut_short(at_deadline: AtDeadline, delay: u64) -> Script {
    let mut parts = policy(9);
    parts.total_timeout = Some(ms(400));
    parts.at_deadline = at_deadline;
    parts.rules[0].backoff = Backoff::exponential(ms(1_000));
    let mut script = Script::new(workflow(vec![step("a", parts)]));
    let it = task(0, 0);
    script.start(it, 1, status(503)).pass(100);
    let failure = server_error();
    let (code, kind, rule) = (failure.code().clone(), RetryKind::Failure, None);
    script.event(Event::AttemptFailed {
        task: it,
        attempt: 1,
        failure,
        will_retry: true,
        took: Nanos::ZERO,
    });
    let (delay, backoff) = (ms(delay), ms(1_000));
    script.event(Event::RetryScheduled { task: it, attempt: 2, delay, backoff, kind, code, rule });
    script
}

#[test]
fn x5_a_delay_is_cut_short_to_the_reserve_before_the_end() {
    let truncate = AtDeadline::Truncate { reserve: ms(50) };
    let good = judge(&cut_short(truncate, 250).world);
    assert_eq!(good.features.get("truncated delay"), Some(&1));
    healthy(&good);
    found(&judge(&cut_short(truncate, 260).world), WRONG_DELAY);
    found(&judge(&cut_short(AtDeadline::GiveUp, 250).world), WRONG_DELAY);
}

#[test]
fn x3_lists_and_polynomials() {
    let list = DelayList::try_from(vec![ms(7), ms(3)]).unwrap();
    let list = rule(Shape::List { delays: list }, Jitter::None, None);
    let squares = rule(Shape::Polynomial { base: ms(2), degree: 2 }, Jitter::None, None);
    let nanos =
        |rule: &Rule, n| delays(rule, n, None).map(|d| (d.low / 1_000_000, d.high / 1_000_000));
    assert_eq!([1, 2, 9].map(|n| nanos(&list, n)), [7, 3, 3].map(|d| Some((d, d))));
    assert_eq!([1, 2, 3].map(|n| nanos(&squares, n)), [2, 8, 18].map(|d| Some((d, d))));
}
