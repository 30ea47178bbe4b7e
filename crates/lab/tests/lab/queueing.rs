//! Queues whose waiting times are known.

use retrial_lab::judge::{Verdict, judge};
use retrial_lab::model::Scenario;
use retrial_lab::world;

use super::kit::{run, scenario};

fn queue(workers: u32, load: f64, tasks: f64) -> Scenario {
    // The service time is 1 ms.
    let rate = load * f64::from(workers) * 1_000.0;
    let length = tasks / rate;
    scenario(&format!(
        "length = \"{length}s\"\nwarmup = \"{}s\"\n[clients.user]\narrivals = {{ poisson = {rate} }}\nto = \"s\"\n\
         [services.s]\nworkers = {workers}\ntime = {{ exponential = \"1ms\" }}\n",
        length / 20.0
    ))
}

/// The mean wait in a queue of M/M/c, by Erlang's C formula, in service times.
fn erlang(workers: u32, load: f64) -> f64 {
    let c = f64::from(workers);
    let offered = load * c;
    // Erlang's B by its recursion.
    let b = (1..=workers).fold(1.0, |b, n| offered * b / (f64::from(n) + offered * b));
    let waits = b / (1.0 - load * (1.0 - b));
    waits / (c * (1.0 - load))
}

/// Compares the mean wait with the formula. What chance did to the load is taken out, or at high
/// loads five times as many tasks would be needed: the busy share of the workers, whose mean is known
/// exactly, is a control variate (Lavenberg and Welch, Management Science 27, 1981).
/// What is left of chance at 0.95 is about 1.1 % of the wait: six other ranges of seeds were off by
/// -1.6 % to 1.3 %, and by -0.3 % together.
fn check(workers: u32, load: f64, tasks: f64, seeds: std::ops::Range<u64>) {
    let model = queue(workers, load, tasks);
    let measured = (model.length.get() - model.warmup.get()) as f64;
    let (mut waited, mut begun, mut busy, mut runs) = (0.0, 0.0, 0.0, 0.0);
    for seed in seeds {
        let total = world::run(&model, seed).total;
        waited += total.services[0].waited / 1e6;
        begun += total.services[0].begun as f64;
        busy += total.services[0].busy / measured / f64::from(workers);
        runs += 1.0;
    }
    let slope = (erlang(workers, load + 1e-5) - erlang(workers, load - 1e-5)) / 2e-5;
    let (plain, wanted) = (waited / begun, erlang(workers, load));
    let found = plain - slope * (busy / runs - load);
    let off = found / wanted - 1.0;
    assert!(off.abs() < 0.02, "M/M/{workers} at {load}: {found}, not {wanted}: off by {off}");
}

/// M/M/1 (Kleinrock, Queueing Systems I, 3.2): the mean wait is load / (1 - load) service times.
#[test]
fn mm1_waits_as_computed() {
    assert!((erlang(1, 0.8) - 4.0).abs() < 1e-9);
    check(1, 0.5, 5e5, 1..2);
    check(1, 0.8, 1e6, 1..2);
    check(1, 0.95, 2e6, 1..4);
}

/// M/M/c, by Erlang's C formula (Kleinrock, Queueing Systems I, 3.5).
#[test]
#[ignore = "a long sweep: scripts/test.sh runs it"]
fn mmc_waits_as_computed() {
    check(4, 0.5, 5e5, 11..12);
    check(4, 0.8, 1e6, 11..12);
    check(4, 0.95, 2e6, 11..14);
}

/// Even service times halve the wait: M/D/1, by the formula of Pollaczek and
/// Khinchine.
#[test]
fn md1_waits_as_computed() {
    let text = "length = \"500s\"\n[clients.user]\narrivals = { poisson = 800 }\nto = \"s\"\n\
                [services.s]\nworkers = 1\ntime = \"1ms\"\n";
    let total = world::run(&scenario(text), 5).total;
    let found = total.services[0].waited / total.services[0].begun as f64 / 1e6;
    assert!((found / 2.0 - 1.0).abs() < 0.02, "{found}");
}

/// A queue is stable just where its load is below 1: three per cent above are seen within an hour.
#[test]
fn a_load_above_one_is_overloaded_and_one_below_recovers() {
    let verdict = |rate: u32| {
        let text = format!(
            "length = \"1h\"\n[clients.user]\narrivals = {{ poisson = {rate} }}\nto = \"s\"\n\
             [services.s]\nworkers = 10\ntime = {{ exponential = \"100ms\" }}\n"
        );
        judge(&scenario(&text), 1, 1).verdict
    };
    assert_eq!((verdict(97), verdict(103)), (Verdict::Recovers, Verdict::Overloaded));
}

/// A queue of M/M/1/K turns away (1 - u) u^K / (1 - u^(K + 1)) of what comes (Kleinrock, Queueing
/// Systems I, 3.6), whether it says so or not.
#[test]
fn a_bounded_queue_turns_away_as_computed() {
    for (load, places, full) in [(0.8_f64, 5, "refuse"), (1.2, 10, "drop")] {
        let rate = load * 1_000.0;
        let text = format!(
            "length = \"500s\"\n[clients.user]\narrivals = {{ poisson = {rate} }}\nto = \"s\"\n\
             [services.s]\nworkers = 1\ntime = {{ exponential = \"1ms\" }}\n\
             queue = {{ capacity = {}, full = \"{full}\" }}\n",
            places - 1
        );
        let total = run(&text).total.services[0].clone();
        let found = total.rejected as f64 / total.arrived as f64;
        let wanted = (1.0 - load) * load.powi(places) / (1.0 - load.powi(places + 1));
        assert!((found / wanted - 1.0).abs() < 0.02, "{load}: {found}, not {wanted}");
    }
}
