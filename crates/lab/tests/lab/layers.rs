//! What layers of retries do to the load, as published and as computed.

use std::fmt::Write as _;

use retrial_lab::change::{changes, tried};
use retrial_lab::judge::{Verdict, judge};

use super::kit::{run, scenario};

/// `layers` layers, each with `tries` attempts, above a service that always fails; `tasks` tasks.
fn failing(layers: usize, tries: usize, tasks: usize) -> String {
    let retry = format!("retry = \"[retry: {}]\"", tries - 1);
    let mut text = format!(
        "length = \"1m\"\n[clients.user]\narrivals = {{ burst = {tasks} }}\nto = \"s1\"\n{retry}\n"
    );
    for layer in 1..=layers {
        let name = format!("s{layer}");
        let errors = if layer == layers { "errors = 1\n" } else { "" };
        write!(text, "[services.{name}]\nworkers = 1000\ntime = \"0s\"\n{errors}").unwrap();
        if layer < layers {
            writeln!(text, "calls = [{{ to = \"s{}\", {retry} }}]", layer + 1).unwrap();
        }
    }
    text
}

/// "If there are three layers and each makes four attempts, a user's action creates 64 attempts on
/// the database" (Google, Site Reliability Engineering, chapter 22, "Addressing Cascading Failures",
/// "Retries"); "a call that goes through five layers, each with three attempts, is multiplied by 243"
/// (Amazon Builders' Library, "Timeouts, retries and backoff with jitter").
#[test]
fn layers_multiply_their_attempts() {
    for (layers, tries, wanted) in [(3, 4, 64), (5, 3, 243), (1, 1, 1), (4, 2, 16)] {
        let measured = run(&failing(layers, tries, 7));
        let arrived = measured.total.services.last().unwrap().arrived;
        assert_eq!(arrived, 7 * wanted, "{layers} layers of {tries}");
        assert_eq!(measured.total.classes[0].failed, 7);
    }
}

/// With failure f and N retries the load is the sum of f^k for k up to N, and the success
/// 1 - f^(N + 1): each attempt fails by itself.
#[test]
fn the_load_of_independent_failures_is_a_geometric_sum() {
    let tasks = 40_000.0;
    for (f, retries) in [(0.1_f64, 3), (0.5, 2), (0.9, 5)] {
        let text = format!(
            "length = \"1000s\"\n[clients.user]\narrivals = {{ constant = 40 }}\nto = \"s\"\n\
             retry = \"[retry: {retries}]\"\n[services.s]\nworkers = 100\ntime = \"0s\"\nerrors = {f}\n"
        );
        let total = run(&text).total;
        let load: f64 = (0..=retries).map(|k| f.powi(k)).sum();
        let success = 1.0 - f.powi(retries + 1);
        let found = (total.services[0].arrived as f64 / tasks, total.good() as f64 / tasks);
        let off = ((found.0 / load - 1.0).abs(), (found.1 / success - 1.0).abs());
        assert!(off.0 < 0.01 && off.1 < 0.01, "f {f}: {found:?}, not {load} and {success}");
    }
}

/// The users' own calls are not retried; those of the service in the middle are, and they keep the
/// database busy for nobody after a pause. So only a setting of the inner layer mends it.
#[test]
fn the_setting_that_mends_it_is_found_in_its_layer() {
    let scenario = scenario(
        "length = \"5m\"\n[clients.user]\narrivals = { constant = 60 }\nto = \"api\"\nretry = \"[timeout: 5s]\"\n\
         [services.api]\nworkers = 100000\ntime = \"0s\"\ncalls = [{ to = \"db\", retry = \"[retry: 3] [timeout: 200ms]\" }]\n\
         [services.db]\nworkers = 1\ntime = \"10ms\"\n\
         [[triggers]]\nkind = \"pause\"\non = \"db\"\nat = \"60s\"\nlength = \"5s\"\n",
    );
    assert_eq!(judge(&scenario, 1, 1).verdict, Verdict::Metastable);
    let all: Vec<String> = changes(&scenario).into_iter().map(|change| change.words).collect();
    for part in ["retry_budget", "jitter", "breaker", "attempts", "1 attempt ", "100ms", "800ms"] {
        let of_layer = |words: &&String| words.contains(part) && words.ends_with("(api -> db)");
        assert!(all.iter().any(|words| of_layer(&words)), "{part}: {all:#?}");
    }
    assert!(all.iter().any(|words| words.ends_with("(user -> api)")), "{all:#?}");
    let mending = tried(&scenario, 1, 1).into_iter().filter(|t| t.verdict == Verdict::Recovers);
    let mending: Vec<String> = mending.map(|tried| tried.words).collect();
    assert!(
        mending.iter().any(|words| words.starts_with("make at most 1 attempt (api")),
        "{mending:?}"
    );
    assert!(mending.iter().all(|words| words.ends_with("(api -> db)")), "{mending:?}");
}
