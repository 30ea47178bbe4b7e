//! The same seed gives the same bytes.

use retrial_lab::judge::judge;
use retrial_lab::summary::Summary;

use super::kit::scenario;

const TEXT: &str = "length = \"60s\"\nseeds = 5\n\
    [clients.web]\ncount = 20\narrivals = { poisson = 60 }\nto = \"api\"\n\
    latency = { lognormal = { median = \"5ms\", sigma = 0.5 } }\nloss = 0.01\n\
    retry = \"[retry: 3, backoff: 100ms] [timeout: 1s]\"\nretry_budget = 0.2\nguards_per = \"client\"\n\
    [clients.batch]\ncount = 5\narrivals = { closed = { exponential = \"1s\" } }\nto = \"api\"\ngive_up = { again = \"1s\" }\n\
    [services.api]\nworkers = 8\ntime = { normal = [\"50ms\", \"20ms\"] }\nerrors = 0.02\n\
    queue = { order = \"adaptive_lifo\", lifo_over = 5, capacity = 50, timeout = \"2s\" }\nwork_for_gone = false\n\
    calls = [{ to = \"db\", retry = \"[retry: 1]\" }]\n\
    [services.db]\nworkers = 20\ntime = { exponential = \"20ms\" }\nslower = { from = 10, by = 0.05 }\n\
    cold = { factor = 3, length = \"5s\" }\nrate_limit = { calls = 60, per = \"1s\" }\n\
    [[triggers]]\nkind = \"crash\"\non = \"db\"\nat = \"20s\"\nlength = \"3s\"\n\
    [[triggers]]\nkind = \"deploy\"\non = \"api\"\nat = \"25s\"\nlength = \"8s\"\nparts = 4\n\
    [[triggers]]\nkind = \"spike\"\non = \"web\"\nat = \"30s\"\nlength = \"5s\"\nfactor = 2\n\
    [[triggers]]\nkind = \"slow\"\non = \"db\"\nat = \"36s\"\nlength = \"2s\"\nfactor = 4\n\
    [[triggers]]\nkind = \"loss\"\non = \"api -> db\"\nat = \"40s\"\nlength = \"2s\"\nshare = 0.3\n";

#[test]
fn figures_do_not_depend_on_the_threads() {
    let scenario = scenario(TEXT);
    let figures =
        |jobs| serde_json::to_string(&Summary::of(&scenario, &judge(&scenario, 5, jobs))).unwrap();
    let one = figures(1);
    assert_eq!(one, figures(1));
    assert_eq!(one, figures(3));
    let mut other = scenario.clone();
    other.seed = 99;
    assert_ne!(one, serde_json::to_string(&Summary::of(&other, &judge(&other, 5, 1))).unwrap());
}

/// What arrives is either answered, dropped or still there, in every corner of the model.
#[test]
fn nothing_is_counted_twice_or_lost() {
    let scenario = scenario(TEXT);
    let total = retrial_lab::world::run(&scenario, 3);
    let (left, total) = (total.left, total.total);
    assert_eq!(total.offered(), total.good() + total.bad() + left);
    assert!(total.services.iter().all(|s| s.arrived > 0 && s.begun > 0));
    let api = &total.services[0];
    assert!(api.skipped > 0 || api.rejected > 0 || total.edges[0].timeouts > 0);
    assert!(total.services[1].throttled > 0 && total.services[1].errors == 0);
}

/// Where nothing takes any time, a closed loop would turn for good at one instant.
#[test]
fn a_loop_that_takes_no_time_is_cut_off() {
    let text = "length = \"1m\"\n[clients.c]\narrivals = { closed = \"0s\" }\nto = \"s\"\n\
                [services.s]\nworkers = 1\ntime = \"0s\"\n";
    let measured = super::kit::run(text);
    assert!(measured.cut_off && measured.buckets.len() == 1);
}
