//! Figures that others have published, and figures that can be computed, each with its source.

use std::num::NonZeroU32;

use retrial_lab::judge::{Verdict, judge};
use retrial_lab::model::Scenario;

use super::kit::{run, scenario};

/// A budget of 10 % keeps the load at a dead server within 1.1 times that without retries ("a 10 %
/// retry budget ... only 1.1x", Google, Site Reliability Engineering, chapter 21, "Handling
/// Overload", "Deciding to Retry"; Finagle's `RetryBudget`).
#[test]
fn a_tenth_as_budget_bounds_the_load_at_a_dead_server() {
    let text = |budget: &str| {
        format!(
            "length = \"100s\"\n[clients.user]\narrivals = {{ poisson = 200 }}\nto = \"s\"\nretry = \"[retry: 3]\"\n\
             {budget}\n[services.s]\nworkers = 100\ntime = \"1ms\"\nerrors = 1\n"
        )
    };
    let load = |budget: &str| {
        let total = run(&text(budget)).total;
        total.services[0].arrived as f64 / total.offered() as f64
    };
    assert!((load("") - 4.0).abs() < 1e-3);
    let bounded = load("retry_budget = { ratio = 0.1, initial = 0, capacity = 100 }");
    assert!(bounded <= 1.1 && bounded > 1.099, "{bounded}");
}

/// gRPC's retry throttling with 10 tokens, 1 off a failure, 0.1 back a success, off at 5 or less: none
/// is retried after the fifth failure, and again after 51 successes from an empty bucket
/// (github.com/grpc/proposal, A6-client-retries.md, "Throttling Retry Attempts and Hedged RPCs").
#[test]
fn grpc_throttles_after_five_failures_and_until_51_successes() {
    // One call a second, first ten that fail, then those that succeed, and from then on failures.
    let text = |successes: u32| {
        format!(
            "length = \"10000s\"\n[clients.user]\narrivals = {{ constant = 1 }}\nto = \"s\"\nretry = \"[retry: 100]\"\n\
             tokens = {{ capacity = 10, per_failure = 1, per_success = 0.1, threshold = 5 }}\n\
             [services.s]\nworkers = 1\ntime = \"0s\"\nerrors = [[\"0s\", 1], [\"6.5s\", 0], [\"{}s\", 1]]\n",
            f64::from(6 + successes) + 0.5
        )
    };
    let retries = |text: &str| {
        let edge = &run(text).total.edges[0];
        edge.attempts - edge.calls
    };
    // The first call fails five times, and five calls fail once: then the bucket is empty. A failing
    // call takes one token off before it asks, so 61 successes allow it what 51 would without.
    assert_eq!(retries(&text(9_000)), 8, "the bucket is full again");
    assert_eq!(retries(&text(60)), 4);
    assert_eq!(retries(&text(61)), 5);
}

/// AWS's bucket of 500 tokens allows 100 retries at 5 tokens each, 50 at 10 and 35 at 14, when all
/// calls fail (AWS SDKs and Tools Reference Guide, "Retry behavior": `standard` mode).
#[test]
fn the_bucket_of_aws_allows_as_many_retries_as_its_tokens_pay_for() {
    for (cost, allowed) in [(5, 100), (10, 50), (14, 35)] {
        let text = format!(
            "length = \"1h\"\n[clients.user]\narrivals = {{ constant = 1 }}\nto = \"s\"\nretry = \"[retry: 2]\"\n\
             retry_budget = {{ capacity = 500, cost = {cost}, refund = true }}\n\
             [services.s]\nworkers = 1\ntime = \"0s\"\nerrors = 1\n"
        );
        let edge = &run(&text).total.edges[0];
        assert_eq!(edge.attempts - edge.calls, allowed, "at {cost} tokens each");
    }
}

/// A server that takes 10 ms for each request, with a pause. Calls time out after 100 ms and are
/// retried at once, up to `retries` times.
fn paused(retries: u32, share: f64) -> Scenario {
    let rate = 100.0 / f64::from(1 + retries) * share;
    scenario(&format!(
        "length = \"2000s\"\nseeds = 1\n[clients.user]\narrivals = {{ constant = {rate} }}\nto = \"s\"\n\
         retry = \"[retry: {retries}] [timeout: 100ms]\"\n[services.s]\nworkers = 1\ntime = \"10ms\"\n\
         [[triggers]]\nkind = \"pause\"\non = \"s\"\nat = \"60s\"\nlength = \"5s\"\n"
    ))
}

/// After a pause each call times out, so each task brings 1 + R requests, all worked on for nobody.
/// The queue shrinks just where these are fewer than the server can do: where the arrival rate is
/// below its capacity over 1 + R. (The sustaining effect of Bronson and others, "Metastable Failures
/// in Distributed Systems", HotOS 2021; here deterministic.)
#[test]
fn a_deterministic_server_stays_bad_just_where_the_rate_is_above_its_capacity_over_one_plus_r() {
    for retries in 1..=4 {
        for (share, wanted) in [(0.98, Verdict::Recovers), (1.02, Verdict::Metastable)] {
            let verdict = judge(&paused(retries, share), 1, 1).verdict;
            assert_eq!(verdict, wanted, "{retries} retries at {share} of the limit");
        }
    }
}

/// Clients that write one row under optimistic concurrency: all begin at once, and each that fails
/// begins again. Jitter saves more than half of the calls, and exponential backoff alone saves fewer
/// (AWS Architecture Blog, "Exponential Backoff And Jitter", 2015: 100 contending clients).
#[test]
fn jitter_saves_calls_where_clients_contend() {
    let calls = |retry: &str| {
        let text = format!(
            "length = \"300s\"\n[clients.user]\ncount = 100\narrivals = {{ burst = 100 }}\nto = \"s\"\n\
             latency = {{ normal = [\"10ms\", \"2ms\"] }}\n{retry}\n\
             [services.s]\nworkers = 1000000\ntime = \"0s\"\nrow = \"read_then_write\"\n"
        );
        let total = run(&text).total;
        assert_eq!(total.good(), 100, "{retry}");
        assert!(total.edges[0].most_attempts > 1);
        total.services[0].arrived
    };
    let policy = |jitter: &str| {
        format!(
            "work_config = {{ max_retries = 100000, backoff = 5, max_backoff = 2000, backoff_type = \"exponential\", \
             retryable_errors = [\"409\"], jitter = \"{jitter}\" }}"
        )
    };
    let none = calls("retry = \"[retry: 100000]\"");
    let (exponential, full) = (calls(&policy("none")), calls(&policy("full")));
    assert!(exponential < none, "{exponential} of {none}");
    assert!(2 * full < exponential, "{full} of {exponential}");
}

/// Little's law: the mean queue is the rate times the mean wait, in any order of the queue.
#[test]
fn queues_keep_littles_law() {
    for order in ["fifo", "lifo"] {
        let text = format!(
            "length = \"2000s\"\n[clients.user]\narrivals = {{ poisson = 80 }}\nto = \"s\"\n\
             [services.s]\nworkers = 1\ntime = {{ uniform = [\"5ms\", \"15ms\"] }}\nqueue = {{ order = \"{order}\" }}\n"
        );
        let s = run(&text).total.services[0].clone();
        let (queue, wait) = (s.queue / 2e12, s.waited / s.begun as f64 / 1e9);
        let rate = s.begun as f64 / 2_000.0;
        assert!((queue / (rate * wait) - 1.0).abs() < 1e-3, "{order}: {queue} {rate} {wait}");
    }
}

/// The core's circuit breaker holds calls back while it is open: at a dead server only probes arrive.
#[test]
fn an_open_breaker_lets_only_probes_through() {
    let text = "length = \"1000s\"\n[clients.user]\narrivals = { constant = 10 }\nto = \"s\"\n\
                breaker = { failures = 5, open = \"30s\" }\nheld = \"fail\"\n\
                [services.s]\nworkers = 10\ntime = \"1ms\"\nerrors = 1\n";
    let total = run(text).total;
    // Five until it opens, then one each 30 s.
    let wanted = 5 + (1_000 - 1) / 30;
    assert!(total.services[0].arrived.abs_diff(wanted) <= 1, "{}", total.services[0].arrived);
    assert!(NonZeroU32::new(total.edges[0].held as u32).is_some());
}
