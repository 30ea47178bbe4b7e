//! What is checked of each entry.

use super::*;

pub(crate) fn same(entry: &Entry) {
    compare(entry, |peer| (peer.0, peer.0));
}

pub(crate) fn from_ours(entry: &Entry) {
    compare(entry, |peer| (peer.0, peer.0));
}

/// Our delays lie where `right` says of the peer's, and we give up where it does.
fn compare(entry: &Entry, right: impl Fn((f64, f64)) -> (f64, f64)) {
    let backoff = entry.backoff();
    assert!(!entry.delays().is_empty());
    for (n, peer) in (1..).zip(entry.delays()) {
        let Some(peer) = peer else {
            assert!(!entry.limit().allows_more(n), "we go on after {n} attempts");
            continue;
        };
        let (low, high) = right(peer);
        let ours = nominal(&backoff, n);
        assert!((ms(low)..=ms(high)).contains(&ours), "retry {n}: {ours}, not {low} to {high} ms");
    }
}

/// Delays that begin at index 0 with none are before any failure.
fn drawn(entry: &Entry) -> Vec<f64> {
    let all = entry.delays().into_iter().map(|d| d.unwrap().0);
    all.skip_while(|d| *d == 0.0).collect()
}

pub(crate) fn within(entry: &Entry, jitter: Jitter) {
    let backoff = entry.backoff().with_jitter(jitter);
    for (n, peer) in (1..).zip(drawn(entry)) {
        let ours = backoff.range(n, None, &Functions::default());
        assert!(ours.contains(&ms(peer)), "retry {n}: {peer} ms is not in {ours:?}");
    }
}

pub(crate) fn range(entry: &Entry, jitter: Jitter) {
    let backoff = entry.backoff().with_jitter(jitter);
    for (n, peer) in (1..).zip(entry.delays()) {
        let (low, high) = peer.unwrap();
        let ours = backoff.range(n, None, &Functions::default());
        assert_eq!(ours, ms(low)..=ms(high), "retry {n}");
    }
}

pub(crate) fn number(case: &Value, key: &str) -> f64 {
    case[key].as_f64().unwrap_or_else(|| panic!("{key} in {case}"))
}

/// 2^64 ns is beyond both; the peer stops at the largest i64, we at the largest u64.
pub(crate) fn overflow(entry: &Entry) {
    let [beyond, capped] = entry.cases() else { panic!() };
    let base = Nanos::new(beyond["base_ns"].as_u64().unwrap());
    let attempt = beyond["attempt"].as_u64().unwrap() as u32;
    let ours = nominal(&Backoff::exponential(base), attempt);
    assert_eq!((ours, beyond["delay_ns"].as_u64()), (Nanos::MAX, Some(u64::MAX / 2)));
    let backoff = Backoff::exponential(ms(number(capped, "base_ms")));
    let backoff = backoff.with_cap(ms(number(capped, "cap_ms")));
    assert_eq!(nominal(&backoff, 100), ms(number(capped, "delay_ms")));
}

/// A thousand years are beyond our longest length: it stands in its place.
pub(crate) fn cap_of_a_thousand_years(entry: &Entry) {
    for case in entry.cases() {
        let attempt = case["attempt"].as_u64().unwrap() as u32;
        assert_eq!(nominal(&entry.backoff(), attempt), Nanos::MAX);
    }
    assert!((1..10).all(|n| nominal(&entry.backoff(), n) < Nanos::MAX));
}

fn chance(rand: f64) -> u64 {
    if rand >= 1.0 { u64::MAX } else { (rand * 2_f64.powi(64)) as u64 }
}

/// Plus or minus a quarter, at the point that chance picks.
pub(crate) fn drawn_by_rand(entry: &Entry) {
    let backoff = entry.backoff().with_jitter(Jitter::Proportional(Share::QUARTER));
    for case in entry.cases() {
        let n = case["attempt"].as_u64().map_or(1, |zero_based| zero_based as u32 + 1);
        let drawn = backoff.draw(n, None, chance(number(case, "rand")), &Functions::default());
        assert!(close(drawn, number(case, "delay_ms"), 0.001), "{case}: {drawn}");
    }
}

/// The peer's cap is also the draw's; ours is cut before the jitter, and never above it after.
pub(crate) fn cap_of_every_shape(entry: &Entry) {
    let base = ms(entry.policy("base_ms").as_f64().unwrap());
    let cap = entry.cap().unwrap();
    let multiplier = Multiplier::TWO;
    for shape in [
        Shape::Fixed { base },
        Shape::Linear { base, step: base },
        Shape::Exponential { base, multiplier },
    ] {
        let plain = Backoff { shape, jitter: Jitter::None, cap: Some(cap) };
        assert_eq!(nominal(&plain, 3), ms(entry.delays()[0].unwrap().0));
        let jittered = plain.with_jitter(Jitter::Proportional(Share::QUARTER));
        assert_eq!(*jittered.range(3, None, &Functions::default()).end(), cap);
    }
}

/// Polly's second formula leaves the range of AWS's, which is ours.
pub(crate) fn other_decorrelated(entry: &Entry) {
    let base = ms(entry.policy("base_ms").as_f64().unwrap());
    let ours = Backoff::exponential(base).with_jitter(Jitter::Decorrelated);
    let peers: Vec<Nanos> = entry.delays().into_iter().flatten().map(|d| ms(d.0)).collect();
    let outside = (1..).zip(&peers).filter(|(n, peer)| {
        let before = (*n as usize).checked_sub(2).and_then(|at| peers.get(at)).copied();
        !ours.range(*n, before, &Functions::default()).contains(peer)
    });
    assert_eq!(outside.count() > 0, peers[0] < base);
    let bound = |n: u32| base.saturating_mul(4 << (n - 1));
    assert!((1..).zip(&peers).all(|(n, peer)| *peer <= bound(n)));
}

pub(crate) fn linear_with_its_own_step(entry: &Entry) {
    let base = ms(entry.policy("base_ms").as_f64().unwrap());
    let factor = entry.policy("multiplier").as_u64().unwrap();
    let shape = Shape::Linear { base, step: base.saturating_mul(factor) };
    let backoff = Backoff { shape, jitter: Jitter::None, cap: None };
    for (n, peer) in (1..).zip(entry.delays()) {
        assert_eq!(nominal(&backoff, n), ms(peer.unwrap().0), "retry {n}");
    }
    assert!(entry.limit().allows_more(5) && !entry.limit().allows_more(6));
}

pub(crate) fn decorrelated_within_min_and_max(entry: &Entry) {
    let (least, most) = (ms(entry.policy("base_ms").as_f64().unwrap()), entry.cap().unwrap());
    let ours = Backoff::exponential(least).with_jitter(Jitter::Decorrelated).with_cap(most);
    for seed in 0..1_000_u64 {
        let mut previous = None;
        for n in 1..=3 {
            let chance = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(n * 7);
            let drawn = ours.draw(n, previous, chance, &Functions::default());
            assert!((least..=most).contains(&drawn), "{seed} {n}: {drawn}");
            previous = Some(drawn);
        }
    }
}

/// The same range before every retry; the peer's floor of 1 ms is not reached.
pub(crate) fn constant_within_half(entry: &Entry) {
    let (low, high) = entry.delays()[0].unwrap();
    let ours = entry.backoff().with_jitter(Jitter::Proportional(share(0.5)));
    let range = |n| ours.range(n, None, &Functions::default());
    assert!((1..50).all(|n| range(n) == (ms(low)..=ms(high))));
}

/// Two nanoseconds, plus or minus one, both ends included.
pub(crate) fn integer_jitter(entry: &Entry) {
    let shape = Shape::Fixed { base: Nanos::new(2) };
    let ours = Backoff { shape, jitter: Jitter::Proportional(share(0.5)), cap: None };
    for case in entry.cases() {
        let drawn = ours.draw(1, None, chance(number(case, "rand")), &Functions::default());
        assert_eq!(Some(drawn.get()), case["v"].as_u64(), "{case}");
    }
}

/// e is 2.718282 in millionths, so ten steps are right to a part in 100,000.
pub(crate) fn powers_of_e(entry: &Entry) {
    let e = entry.policy("multiplier").as_f64().unwrap();
    let shape = exponential(ms(1_000.0 * e), e);
    let ours = Backoff { shape, jitter: Jitter::None, cap: entry.cap() };
    for (n, peer) in (1..).zip(entry.delays()) {
        let peer = peer.unwrap().0;
        assert!(close(nominal(&ours, n), peer, peer / 1e5), "retry {n}: not {peer} ms");
    }
    assert!(entry.limit().allows_more(24) && !entry.limit().allows_more(25));
}

/// `2^attempt` seconds times `mult`, no higher than the tenth; a padding takes a custom function.
pub(crate) fn oban(entry: &Entry) {
    let secs = |n: u64| Nanos::from_secs(n);
    let mut functions = Functions::default();
    functions.register("padded", |n| Nanos::from_secs(10 + (1 << n)));
    for case in entry.cases() {
        let times = case["mult"].as_u64().unwrap_or(1);
        let plain = Backoff::exponential(secs(2 * times)).with_cap(secs(1_024 * times));
        let padded = Backoff {
            shape: Shape::Custom { name: "padded".into() },
            jitter: Jitter::None,
            cap: None,
        };
        let ours = if case["min_pad"].is_null() { plain } else { padded };
        let attempt = case["attempt"].as_u64().unwrap() as u32;
        let v = secs(case["v"].as_u64().unwrap());
        assert_eq!(ours.nominal(attempt, &functions), v, "{case}");
    }
}

/// `count^4 + 15` seconds, count from 0: a custom function. The peer adds up to 10 s times n.
pub(crate) fn sidekiq(entry: &Entry) {
    let mut functions = Functions::default();
    functions.register("sidekiq", |n| Nanos::from_secs(u64::from(n - 1).pow(4) + 15));
    let shape = Shape::Custom { name: "sidekiq".into() };
    let ours = Backoff { shape, jitter: Jitter::None, cap: None };
    for (n, peer) in (1..).zip(entry.delays()) {
        assert_eq!(ours.nominal(n, &functions), ms(peer.unwrap().0), "retry {n}");
    }
    assert!(entry.limit().allows_more(25) && !entry.limit().allows_more(26));
}

/// `factor * 2^retries` seconds, retries from 0. A factor below zero is refused where it is read.
pub(crate) fn celery(entry: &Entry) {
    for case in entry.cases() {
        let Some(factor) = case["factor"].as_u64() else {
            assert_eq!(case["factor"].as_i64(), Some(-40));
            continue;
        };
        let most = Nanos::from_secs(case["maximum"].as_u64().unwrap());
        let ours = Backoff::exponential(Nanos::from_secs(factor)).with_cap(most);
        let n = case["retries"].as_u64().unwrap() as u32 + 1;
        let range = ours.clone().with_jitter(Jitter::Full).range(n, None, &Functions::default());
        match (case["v"].as_u64(), case["full_jitter"].as_bool()) {
            (Some(v), Some(true)) => assert!(range.contains(&Nanos::from_secs(v)), "{case}"),
            (Some(v), _) => assert_eq!(nominal(&ours, n), Nanos::from_secs(v), "{case}"),
            // `randrange(101)` draws whole seconds from 0 to 100.
            (None, _) => assert_eq!(range, Nanos::ZERO..=most, "{case}"),
        }
    }
}

/// The peer's chance is at its most.
pub(crate) fn full_jitter_at_its_most(entry: &Entry) {
    let ours = entry.backoff().with_jitter(Jitter::Full);
    for (n, peer) in (1..).zip(entry.delays()) {
        match peer {
            Some(peer) => {
                let drawn = ours.draw(n, None, u64::MAX, &Functions::default());
                assert_eq!(drawn, ms(peer.0), "retry {n}");
            }
            None => assert!(!entry.limit().allows_more(n)),
        }
    }
}

/// A base, a cap, the retry's number under one name or another, from 0 or 1.
pub(crate) fn capped_cases(entry: &Entry) {
    for case in entry.cases() {
        let count = |key: &str| case[key].as_u64().map(|n| n as u32);
        let zero_based = count("retry_attempts").map(|n| n + 1);
        let n = zero_based.or(count("call")).or(count("request_attempt")).unwrap();
        let cap = case["cap_ms"].as_f64().map(ms).or(entry.cap()).unwrap();
        let ours = Backoff::exponential(ms(number(case, "base_ms"))).with_cap(cap);
        assert_eq!(nominal(&ours, n), ms(number(case, "delay_ms")), "{case}");
    }
}

/// The third attempt succeeds, so nothing is to be decided.
pub(crate) fn two_then_success(entry: &Entry) {
    let peers: Vec<f64> = entry.delays().into_iter().flatten().map(|d| d.0).collect();
    assert_eq!(peers.len(), 2);
    let ours = entry.backoff();
    assert!((1..).zip(peers).all(|(n, peer)| nominal(&ours, n) == ms(peer)));
}

pub(crate) fn raised_to_a_minimum(entry: &Entry, twentieth: f64) {
    let least = ms(number(&entry.value, "min_ms"));
    for (n, peer) in (1..).zip(entry.delays()) {
        assert_eq!(nominal(&entry.backoff(), n).max(least), ms(peer.unwrap().0), "retry {n}");
    }
    assert_eq!(nominal(&entry.backoff(), 20), ms(twentieth));
}

/// X3: past its end the list stays at its last delay.
pub(crate) fn list(entry: &Entry) {
    let delays: Vec<Nanos> = [1, 2, 3].map(Nanos::from_secs).into();
    let shape = Shape::List { delays: DelayList::try_from(delays).unwrap() };
    let ours = Backoff { shape, jitter: Jitter::None, cap: None };
    for (n, peer) in (1..).zip(entry.delays()) {
        assert_eq!(nominal(&ours, n), ms(peer.unwrap().0), "retry {n}");
    }
    assert!(entry.limit().allows_more(4) && !entry.limit().allows_more(5));
}

pub(crate) fn fibonacci_capped(entry: &Entry) {
    let cap = entry.cap().unwrap();
    for (n, peer) in (1..).zip(entry.delays()) {
        assert_eq!(nominal(&entry.backoff(), n), ms(peer.unwrap().0).min(cap), "retry {n}");
    }
}

/// After N attempts the next delay is what counting one by one would have given.
pub(crate) fn resumed(entry: &Entry) {
    let capped = entry.backoff();
    assert_eq!(nominal(&capped, 8), ms(500.0));
    let open = Backoff { cap: None, ..capped };
    assert_eq!(nominal(&open, 6), ms(3_200.0));
    assert_eq!(nominal(&open, 1_001), Nanos::MAX);
    assert!(!entry.limit().allows_more(u32::MAX));
}

/// Whole nanoseconds lose less at each step than the peer's whole milliseconds.
pub(crate) fn truncated_milliseconds(entry: &Entry) {
    for (n, peer) in (1..).zip(entry.delays()) {
        let (ours, peer) = (nominal(&entry.backoff(), n), peer.unwrap().0);
        assert!(ours >= ms(peer) && ours < ms(peer + f64::from(n)), "retry {n}: {ours}");
    }
}

/// Index n is after n failures; the peer does not wait after the first, we do.
pub(crate) fn first_retry_waits(entry: &Entry) {
    let ours = entry.backoff();
    for (n, peer) in (0..).zip(entry.delays()).skip(2) {
        assert_eq!(nominal(&ours, n), ms(peer.unwrap().0), "after {n} failures");
    }
    assert_eq!(nominal(&ours, 1), ms(200.0));
    assert_eq!(nominal(&ours, 14), ms(120_000.0));
}

/// The document's own code can exceed the cap by a quarter.
pub(crate) fn rh_agents(entry: &Entry) {
    same(entry);
    assert!(entry.limit().allows_more(2) && !entry.limit().allows_more(3));
    let jittered = entry.backoff().with_jitter(Jitter::Proportional(Share::QUARTER));
    let range = |n| jittered.range(n, None, &Functions::default());
    assert_eq!(range(1), ms(750.0)..=ms(1_250.0));
    assert_eq!(range(9), ms(45_000.0)..=ms(60_000.0));
}
