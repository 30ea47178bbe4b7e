//! Figures that simulators of others print, each run as it was published.

use retrial_lab::judge::{Verdict, judge};
use retrial_lab::measure::Bucket;
use retrial_lab::world;

use super::kit::{run, scenario};

fn near(what: &str, seen: f64, printed: f64, within: f64) {
    assert!((seen / printed - 1.0).abs() < within, "{what}: {seen}, printed {printed}");
}

/// "Fixing retries with token buckets and circuit breakers" (Marc Brooker, 2022): 100 clients with
/// 10 calls a second each, at a server where a share of the calls fails. Its program
/// (github.com/mbrooker/simulator_example, `retry_sim`) prints for a minute of simulated time what
/// came of so many calls.
///
/// A breaker that only stops retries, where over a tenth of all calls so far has failed, is a bucket
/// that each call fills by a tenth, from which each failure takes one, and which may owe.
#[test]
fn retries_with_budgets_and_breakers_do_as_in_brookers_program() {
    let strategies = [
        ("none", ""),
        ("three", "retry = \"[retry: 3]\""),
        (
            "adaptive",
            "retry = \"[retry: 1000]\"\nguards_per = \"client\"\n\
             tokens = { capacity = 5, per_first = 0.1, per_retry = 1, threshold = 1 }",
        ),
        (
            "breaker",
            "retry = \"[retry: 3]\"\nguards_per = \"client\"\n\
             tokens = { capacity = 1e6, initial = 0, per_first = 0.1, per_failure = 1, debt = 1e6 }",
        ),
    ];
    // The share that fails, then for each strategy: successes, attempts and calls.
    let printed = [
        (
            0.1,
            [
                [54_041, 60_044, 60_044],
                [60_031, 66_712, 60_037],
                [59_251, 65_771, 60_124],
                [55_997, 62_270, 60_226],
            ],
        ),
        (
            0.3,
            [
                [42_140, 60_267, 60_267],
                [59_824, 85_481, 60_308],
                [46_835, 66_778, 60_337],
                [42_134, 59_954, 59_948],
            ],
        ),
        (
            0.5,
            [
                [30_282, 60_382, 60_382],
                [56_339, 112_683, 60_110],
                [33_384, 66_775, 60_322],
                [29_997, 60_269, 60_267],
            ],
        ),
    ];
    for (failing, figures) in printed {
        for ((name, caller), [successes, attempts, calls]) in strategies.iter().zip(figures) {
            let total = run(&format!(
                "length = \"60s\"\n[clients.c]\ncount = 100\narrivals = {{ poisson = 1000 }}\nto = \"s\"\n\
                 latency = {{ exponential = \"10ms\" }}\n{caller}\n\
                 [services.s]\nworkers = 1000\ntime = \"0s\"\nerrors = {failing}\n"
            ))
            .total;
            let ended = total.good() as f64 + total.bad() as f64;
            let what = format!("{name} at {failing}");
            near(
                &what,
                total.good() as f64 / ended,
                f64::from(successes) / f64::from(calls),
                0.015,
            );
            let per_call = total.edges[0].attempts as f64 / total.edges[0].calls as f64;
            near(&what, per_call, f64::from(attempts) / f64::from(calls), 0.01);
        }
    }
}

/// "Exponential Backoff And Jitter" (Marc Brooker, AWS Architecture Blog, 2015): clients write one
/// row under optimistic concurrency. Its program
/// (github.com/aws-samples/aws-arch-backoff-simulator) prints these means of 200 runs: the writes
/// tried, and the milliseconds until the last client is done. There the first backoff is already
/// doubled.
#[test]
fn contending_clients_do_as_in_the_program_of_aws() {
    let backoff = |jitter: &str| {
        format!(
            "work_config = {{ max_retries = 100000, backoff = 10, max_backoff = 2000, backoff_type = \"exponential\", \
             retryable_errors = [\"409\"], jitter = \"{jitter}\" }}"
        )
    };
    let printed = [
        (50, "exponential", backoff("none"), 622.5, 36_319.0),
        (50, "equal", backoff("equal"), 347.5, 4_255.0),
        (50, "full", backoff("full"), 332.7, 2_918.0),
        (50, "no backoff", "retry = \"[retry: 100000]\"".to_owned(), 688.9, 1_141.0),
        (100, "equal", backoff("equal"), 811.4, 6_592.0),
        (100, "full", backoff("full"), 796.0, 4_901.0),
        (100, "no backoff", "retry = \"[retry: 100000]\"".to_owned(), 2_422.6, 2_025.0),
    ];
    for (clients, name, policy, writes, last) in printed {
        let scenario = scenario(&format!(
            "length = \"600s\"\n[clients.c]\ncount = {clients}\narrivals = {{ burst = {clients} }}\nto = \"s\"\n\
             latency = {{ normal = [\"10ms\", \"2ms\"] }}\n{policy}\n\
             [services.s]\nworkers = 1000000\ntime = \"0s\"\nrow = \"read_then_write\"\n"
        ));
        let seeds = 100;
        let (mut all, mut longest) = (0, 0.0);
        for seed in 1..=seeds {
            let total = world::run(&scenario, seed).total;
            assert_eq!(total.good(), clients, "{name}");
            all += total.edges[0].attempts;
            longest += total.latency().most().get() as f64 / 1e6;
        }
        let what = format!("{clients} clients, {name}");
        near(&what, all as f64 / seeds as f64, writes, 0.03);
        near(&what, longest / seeds as f64, last, 0.1);
    }
}

/// "What is Backoff For?" (Marc Brooker, 2022): a server that slows down with what is in flight, a
/// spike of load for five seconds, and a timeout with two retries. Of 100 runs of 80 seconds, its
/// program (github.com/mbrooker/simulator_example, `simple_collapse_sim`) prints that without backoff
/// 22 are good in the last 20 seconds, and 1,145 tasks succeed in the median run; with backoff and
/// jitter all are good, and 3,315 tasks succeed.
#[test]
fn an_open_system_collapses_as_in_brookers_program() {
    let backoff = "work_config = { max_retries = 2, backoff = 20000, backoff_type = \"exponential\", \
                   jitter = \"full\", attempt_timeout = \"3s\" }";
    let policies = [
        ("no backoff", "retry = \"[retry: 2] [timeout: 3s]\"", 15..=30, 1_145.0),
        ("backoff and jitter", backoff, 100..=100, 3_315.0),
    ];
    for (name, policy, good, succeed) in policies {
        let scenario = scenario(&format!(
            "length = \"80s\"\n[clients.c]\narrivals = {{ poisson = [[\"0s\", 40], [\"20s\", 80], [\"25s\", 40]] }}\nto = \"s\"\n\
             latency = {{ exponential = \"100ms\" }}\n{policy}\n\
             [services.s]\nworkers = 1000000\ntime = \"1s\"\nslower = {{ from = 0, by = 0.01 }}\n"
        ));
        let (mut recovered, mut succeeded) = (0, Vec::new());
        for seed in 1..=100 {
            let measured = world::run(&scenario, seed);
            let late = &measured.buckets[measured.buckets.len() * 3 / 4..];
            recovered += u32::from(late.iter().map(Bucket::good).sum::<u64>() > 600);
            succeeded.push(measured.total.good());
        }
        succeeded.sort_unstable();
        near(name, succeeded[50] as f64, succeed, 0.03);
        assert!(good.contains(&recovered), "{name}: {recovered} recover");
    }

    // As a trigger, the same spike leaves some seeds bad and others not.
    let text = "length = \"80s\"\n[clients.c]\narrivals = { poisson = 40 }\nto = \"s\"\n\
                latency = { exponential = \"100ms\" }\nretry = \"[retry: 2] [timeout: 3s]\"\n\
                [services.s]\nworkers = 1000000\ntime = \"1s\"\nslower = { from = 0, by = 0.01 }\n\
                [[triggers]]\nkind = \"spike\"\non = \"c\"\nat = \"20s\"\nlength = \"5s\"\nfactor = 2\n";
    assert_eq!(judge(&scenario(text), 20, 2).verdict, Verdict::Vulnerable);
}
