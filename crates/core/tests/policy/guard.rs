//! Guards, pure: what they let through, by table; and how a workflow file says them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::num::NonZeroU32;

use retrial_core::dialect::{Environment, Format, parse_workflow};
use retrial_core::guard::{
    Breaker, Bucket, Ended, FailureRate, GuardInput, GuardRules, GuardState, HeldBy, Pace, RECHECK,
};
use retrial_core::policy::{Budget, Denied, Share};
use retrial_core::time::{Nanos, Timestamp};

fn many(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

fn secs(n: u64) -> Nanos {
    Nanos::from_secs(n)
}

fn share(millionths: u32) -> Share {
    Share::from_millionths(millionths).unwrap()
}

/// One action, its guards, and a clock that is turned by hand.
struct Lab {
    rules: GuardRules,
    state: GuardState<u32>,
    now: Timestamp,
    next: u32,
}

impl Lab {
    fn new(rules: GuardRules) -> Self {
        let now = Timestamp::from_nanos(1_000_000_000_000);
        Self { rules, state: GuardState::default(), now, next: 0 }
    }

    fn with_breaker(failures: Option<u32>, rate: Option<FailureRate>, probes: u32) -> Self {
        let breaker = Breaker::new(failures.map(many), rate, secs(30), many(probes)).unwrap();
        Self::new(GuardRules { breaker: Some(breaker), ..GuardRules::default() })
    }

    fn pass(&mut self, by: Nanos) {
        self.now = self.now.after(by);
    }

    /// Starts an attempt, or says who holds it and for how long.
    fn start(&mut self) -> Result<u32, (HeldBy, Nanos)> {
        self.next += 1;
        let input = GuardInput::Admit { attempt: self.next, first: true, tokens: 0 };
        let before = self.state.clone();
        match self.state.take(&self.rules, &input, self.now) {
            Ok(alerts) => {
                assert_eq!(alerts, [], "a start raises no alert");
                Ok(self.next)
            }
            Err(refusal) => {
                assert_eq!(self.state, before, "a refusal changes nothing");
                Err((refusal.by, refusal.until.since(self.now)))
            }
        }
    }

    fn end(&mut self, attempt: u32, how: Ended) {
        let input = GuardInput::Ended { attempt, how, refill: 0 };
        self.state.take(&self.rules, &input, self.now).unwrap();
    }

    /// Attempts one after another, as `w` (well), `b` (badly) and `s` (silently) say.
    fn go(&mut self, how: &str) {
        for c in how.chars() {
            let attempt = self.start().unwrap_or_else(|held| panic!("{held:?} before `{c}`"));
            self.end(attempt, end_of(c));
        }
    }

    fn is_open(&mut self) -> bool {
        let mut copy = self.state.clone();
        let input = GuardInput::Admit { attempt: 0, first: true, tokens: 0 };
        copy.take(&self.rules, &input, self.now).is_err()
    }
}

fn end_of(c: char) -> Ended {
    match c {
        'w' => Ended::Well,
        'b' => Ended::Badly,
        's' => Ended::Silently,
        _ => panic!("{c}"),
    }
}

fn half() -> FailureRate {
    FailureRate { share: share(500_000), window: secs(10), min_calls: many(4) }
}

#[test]
fn c18_when_a_breaker_opens() {
    let cases: [(Option<u32>, Option<FailureRate>, &str, bool); 12] = [
        (Some(3), None, "bb", false),
        (Some(3), None, "bbb", true),
        (Some(3), None, "bbwbb", false),
        (Some(3), None, "bbsb", true),
        (Some(1), None, "b", true),
        (Some(3), None, "sssss", false),
        // Fewer than four outcomes say nothing.
        (None, Some(half()), "bbb", false),
        (None, Some(half()), "bbbb", true),
        (None, Some(half()), "wwbb", true),
        (None, Some(half()), "wwwbb", false),
        // A success never opens it, whatever the rate is then.
        (None, Some(half()), "bbbw", false),
        (Some(2), Some(half()), "wbb", true),
    ];
    for (failures, rate, outcomes, open) in cases {
        let mut lab = Lab::with_breaker(failures, rate, 1);
        lab.go(outcomes);
        assert_eq!(lab.is_open(), open, "{failures:?} {rate:?} {outcomes}");
    }
}

#[test]
fn c18_old_outcomes_leave_the_window() {
    let mut lab = Lab::with_breaker(None, Some(half()), 1);
    lab.go("bbb");
    lab.pass(secs(11));
    lab.go("bww");
    assert!(!lab.is_open(), "the first three are over ten seconds old");
    lab.go("wb");
    assert!(!lab.is_open(), "two of five");
    lab.go("b");
    assert!(lab.is_open(), "three of six");
}

#[test]
fn c18_open_then_half_open_then_closed() {
    let mut lab = Lab::with_breaker(Some(2), None, 2);
    lab.go("bb");
    assert_eq!(lab.start(), Err((HeldBy::Breaker, secs(30))));
    lab.pass(secs(29));
    assert_eq!(lab.start(), Err((HeldBy::Breaker, secs(1))));
    lab.pass(secs(1));
    let probes = [lab.start().unwrap(), lab.start().unwrap()];
    assert_eq!(lab.start(), Err((HeldBy::Breaker, RECHECK)), "two probes and no more");
    lab.end(probes[0], Ended::Well);
    assert_eq!(lab.start(), Err((HeldBy::Breaker, RECHECK)), "a success is no place for another");
    lab.end(probes[1], Ended::Well);
    lab.go("bwb");
    assert!(!lab.is_open(), "it counts from the beginning");
    lab.go("b");
    assert!(lab.is_open());
}

#[test]
fn c18_a_failed_probe_opens_it_again_for_the_whole_time() {
    let mut lab = Lab::with_breaker(Some(2), None, 2);
    lab.go("bb");
    lab.pass(secs(40));
    lab.go("wb");
    assert_eq!(lab.start(), Err((HeldBy::Breaker, secs(30))));
}

#[test]
fn c18_a_probe_that_says_nothing_makes_room_for_another() {
    let mut lab = Lab::with_breaker(Some(2), None, 1);
    lab.go("bb");
    lab.pass(secs(30));
    lab.go("ssw");
    lab.go("w");
    assert!(!lab.is_open());
}

#[test]
fn c18_attempts_from_before_do_not_speak_about_a_later_phase() {
    let mut lab = Lab::with_breaker(Some(2), None, 1);
    let old: Vec<u32> = (0..6).map(|_| lab.start().unwrap()).collect();
    lab.end(old[0], Ended::Badly);
    lab.end(old[1], Ended::Badly);
    lab.end(old[2], Ended::Well);
    assert!(lab.is_open(), "a late success does not close it");
    lab.pass(secs(30));
    let probe = lab.start().unwrap();
    lab.end(old[3], Ended::Badly);
    lab.end(probe, Ended::Well);
    assert!(!lab.is_open(), "a late failure does not open it while it is probed");
    lab.end(old[4], Ended::Badly);
    lab.end(old[5], Ended::Badly);
    assert!(!lab.is_open());
}

#[test]
fn x6_a_place_is_free_when_its_attempt_has_ended() {
    let mut lab = Lab::new(GuardRules { concurrency: Some(many(2)), ..GuardRules::default() });
    let first = lab.start().unwrap();
    lab.start().unwrap();
    assert_eq!(lab.start(), Err((HeldBy::Concurrency, RECHECK)));
    lab.end(99, Ended::Well);
    assert_eq!(lab.start(), Err((HeldBy::Concurrency, RECHECK)), "nobody's end frees nothing");
    lab.end(first, Ended::Silently);
    lab.end(first, Ended::Silently);
    lab.start().unwrap();
    assert_eq!(lab.start(), Err((HeldBy::Concurrency, RECHECK)), "and frees once");
}

#[test]
fn x6_a_rate_allows_a_burst_and_then_its_pace() {
    let rate = Some(Pace::new(many(3), secs(6)).unwrap());
    let mut lab = Lab::new(GuardRules { rate, ..GuardRules::default() });
    lab.go("www");
    assert_eq!(lab.start(), Err((HeldBy::Rate, secs(2))));
    lab.pass(secs(1));
    assert_eq!(lab.start(), Err((HeldBy::Rate, secs(1))));
    lab.pass(secs(1));
    lab.go("w");
    assert_eq!(lab.start(), Err((HeldBy::Rate, secs(2))));
    // Whatever time passes, no more than the burst is saved up.
    lab.pass(secs(1_000));
    lab.go("www");
    assert_eq!(lab.start(), Err((HeldBy::Rate, secs(2))));
}

// A retry takes a token, a first attempt brings a tenth: the load stays within 1.1 times.
#[test]
fn h17_a_budget_limits_retries_to_a_share_of_first_attempts() {
    let budget = Budget::of_first_attempts(Share::TENTH);
    let mut bucket = Bucket::default();
    let now = Timestamp::from_nanos(5);
    let mut retries = 0;
    for _ in 0..10_000 {
        bucket.first_attempt(&budget, now);
        // Everything fails, and wants three more attempts.
        retries += (0..3).filter(|_| bucket.withdraw(&budget, 1, now).is_ok()).count();
    }
    // The first tenth found the bucket full.
    assert_eq!(retries, 10 + 999);
}

#[test]
fn h17_a_budget_never_holds_more_than_its_capacity() {
    let budget = Budget { throttling_cost: 5, ..Budget::of_first_attempts(share(1_000_000)) };
    let mut bucket = Bucket::default();
    let now = Timestamp::from_nanos(5);
    for _ in 0..100 {
        bucket.first_attempt(&budget, now);
        bucket.refill(&budget, 3, now);
    }
    assert!(bucket.withdraw(&budget, 5, now).is_ok());
    assert!(bucket.withdraw(&budget, 5, now).is_ok());
    assert!(bucket.withdraw(&budget, 1, now).is_err());
    bucket.refill(&budget, 1, now);
    assert!(bucket.withdraw(&budget, 5, now).is_err());
    assert!(bucket.withdraw(&budget, 1, now).is_ok());
}

#[test]
fn h17_a_budget_that_is_waited_for_lets_one_retry_a_second_through() {
    let quiet =
        Budget { initial: 0, on_denied: Denied::Wait, ..Budget::of_first_attempts(share(1)) };
    let mut bucket = Bucket::default();
    let mut now = Timestamp::from_nanos(5);
    assert_eq!(bucket.withdraw(&quiet, 1, now), Err(now.after(secs(1))));
    bucket.first_attempt(&quiet, now);
    let mut granted = 0;
    for _ in 0..100 {
        now = now.after(Nanos::from_millis(100));
        granted += u32::from(bucket.withdraw(&quiet, 1, now).is_ok());
    }
    assert_eq!(granted, 10);
    // One that fails at once is not helped by time.
    let strict = Budget { on_denied: Denied::Fail, ..quiet };
    let mut bucket = Bucket::default();
    bucket.first_attempt(&strict, now);
    assert!(bucket.withdraw(&strict, 1, now.after(secs(1_000))).is_err());
}

fn guards(text: &str) -> Result<GuardRules, String> {
    let file = format!(
        "workflow = \"w\"\n[[steps]]\nid = \"a\"\naction = \"act\"\n[actions.act]\n{text}\n"
    );
    let environment = Environment::default();
    match parse_workflow("w.toml", &file, Format::Toml, &environment) {
        Ok(document) => Ok(document.workflow.actions()["act"].guard.clone()),
        Err(found) => Err(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

#[test]
fn c18_h17_x6_a_file_says_the_guards_of_an_action() {
    let text = r#"
breaker = { failures = 5, rate = 0.5, window = "1m", min_calls = 20, open = "90s", probes = 3 }
concurrency = 4
rate = { calls = 10, per = "1s" }
retry_budget = 0.1"#;
    let rate = FailureRate { share: share(500_000), window: secs(60), min_calls: many(20) };
    let breaker = Breaker::new(Some(many(5)), Some(rate), secs(90), many(3));
    let expected = GuardRules {
        breaker: breaker.ok(),
        concurrency: Some(many(4)),
        rate: Pace::new(many(10), secs(1)).ok(),
        retry_budget: Some(Budget::of_first_attempts(Share::TENTH)),
        error_budget: None,
    };
    assert_eq!(guards(text), Ok(expected.clone()));
    let stored = serde_json::to_string(&expected).unwrap();
    assert_eq!(serde_json::from_str::<GuardRules>(&stored).unwrap(), expected);
    // What is left out.
    let least = guards("breaker = { failures = 2 }").unwrap().breaker;
    assert_eq!(least, Breaker::new(Some(many(2)), None, secs(30), many(1)).ok());
    let rate = FailureRate { share: share(250_000), window: secs(30), min_calls: many(10) };
    let by_rate = guards("breaker = { rate = 0.25 }").unwrap().breaker;
    assert_eq!(by_rate, Breaker::new(None, Some(rate), secs(30), many(1)).ok());
    assert!(guards("").unwrap().is_empty());
}

#[test]
fn what_a_file_may_not_say_of_guards() {
    let cases = [
        ("breaker = {}", "nothing opens the breaker"),
        ("breaker = 5", "expected a table"),
        ("breaker = { failures = 0 }", "out of range"),
        ("breaker = { failures = 5, open = 0 }", "open for no time"),
        ("breaker = { failures = 5, window = 3 }", "without a failure rate"),
        ("breaker = { rate = 0 }", "a failure rate of 0"),
        ("breaker = { rate = 1.5 }", "the share is above 1"),
        ("breaker = { rate = 0.5, window = 0 }", "over no time"),
        ("breaker = { failure = 5 }", "did you mean `failures`?"),
        ("concurrency = 0", "out of range"),
        ("concurrency = \"many\"", "expected a whole number"),
        ("rate = { calls = 10 }", "`per` is missing"),
        ("rate = { calls = 10, per = 0 }", "a rate over no time"),
        ("rate = 10", "expected a table"),
        ("retry_budget = { ratio = 0.1, scope = \"group\", on_denied = \"wait\" }", "can't wait"),
    ];
    for (text, expected) in cases {
        let said = guards(text).expect_err(text);
        assert!(said.contains(expected) && said.contains("act"), "{text}: {said}");
    }
}
