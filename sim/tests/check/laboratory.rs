//! The policy laboratory and the engine agree: the same policy meets the same outage in a whole
//! simulated world, with HTTP and a store, and in the laboratory, which has neither.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use retrial::run::{Event, Outcome};
use retrial::time::{Mono, Nanos};
use retrial_lab::numeric::Chance;
use retrial_lab::read::{self, Files};
use retrial_lab::world::run;
use retrial_sim::check::{Check, Gap, Response};

use super::kit::held;

/// One policy, and one outage from each task's first request on.
#[derive(Clone, Debug)]
struct Drawn {
    /// Of the step, and of the caller in the laboratory.
    policy: String,
    /// Of the action, and of the caller in the laboratory.
    guard: String,
    failure: Failing,
    /// In milliseconds.
    outage: u64,
}

/// How a request fails.
#[derive(Clone, Copy, Debug)]
enum Failing {
    Status(u16),
    RetryAfter(u64),
    Hangs,
}

/// What became of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    attempts: u64,
    succeeded: u64,
}

impl Drawn {
    fn of(chance: &mut Chance, jitter: &str) -> Self {
        let mut among = |low: u64, high: u64| low + chance.below(high - low + 1);
        let kind = ["fixed", "linear", "exponential", "polynomial"][among(0, 3) as usize];
        let (retries, backoff, cap) = (among(1, 8), among(300, 4_000), among(4_000, 20_000));
        let total = [String::new(), format!(", total_timeout = \"{}s\"", among(10, 60))];
        let of_timeouts = [String::new(), format!(", timeout_retries = {}", among(1, 4))];
        let (total, of_timeouts) =
            (&total[among(0, 1) as usize], &of_timeouts[among(0, 1) as usize]);
        let guard = match among(0, 3) {
            0 => {
                format!("breaker = {{ failures = {}, open = \"{}s\" }}", among(1, 4), among(3, 20))
            }
            1 => format!("retry_budget = {{ ratio = 0.001, capacity = {0} }}", among(1, 5)),
            _ => String::new(),
        };
        let failure = match among(0, 4) {
            0 => Failing::Hangs,
            1 => Failing::RetryAfter(among(1, 15)),
            2 => Failing::Status(500),
            3 => Failing::Status(404),
            _ => Failing::Status(503),
        };
        let policy = format!(
            "work_config = {{ max_retries = {retries}, backoff = {backoff}, max_backoff = {cap}, \
             backoff_type = \"{kind}\", jitter = \"{jitter}\", attempt_timeout = \"3s\", \
             max_retry_after = \"10s\"{total}{of_timeouts} }}"
        );
        Self { policy, guard, failure, outage: among(500, 15_000) }
    }

    /// In the laboratory, where a message takes `latency` milliseconds.
    fn in_the_laboratory(&self, tasks: u64, outage: u64, latency: u64) -> Counted {
        let failing = match self.failure {
            Failing::Status(status) => format!("status = {status}"),
            Failing::RetryAfter(seconds) => format!("error_retry_after = \"{seconds}s\""),
            Failing::Hangs => "error_time = \"30s\"".to_owned(),
        };
        let text = format!(
            "length = \"1h\"\n[clients.c]\ncount = {tasks}\narrivals = {{ burst = {tasks} }}\nto = \"s\"\nlatency = \"{latency}ms\"\n\
             guards_per = \"client\"\n{}\n{}\n[services.s]\nworkers = 1000000\ntime = \"0s\"\n{failing}\n\
             errors = [[\"0s\", 1], [\"{}ms\", 0]]\n",
            self.policy,
            self.guard,
            // From the first request's arrival on.
            outage + latency,
        );
        let scenario = read::scenario("lab.toml", &text, &Files::in_folder(Path::new(".")));
        let scenario = scenario.unwrap_or_else(|found| panic!("{}\n{text}", found[0]));
        let total = run(&scenario, 7).total;
        Counted { attempts: total.edges[0].attempts, succeeded: total.good() }
    }

    /// In a world without faults, as so many runs.
    fn in_a_world(&self, runs: u32) -> Counted {
        let file = format!(
            "workflow = \"w\"\n[actions.a]\nhttp = \"POST http://data.test/\"\n{}\n[[steps]]\nid = \"a\"\naction = \"a\"\n{}\n",
            self.guard, self.policy
        );
        let (failure, outage) = (self.failure, Nanos::from_millis(self.outage));
        let service = move |world: &retrial_sim::check::World| {
            let (world, first) = (world.clone(), Mutex::new(BTreeMap::<String, Mono>::new()));
            move |request: retrial_sim::check::Request| {
                let key = request.header("idempotency-key").unwrap_or_default().to_owned();
                let since = *first.lock().unwrap().entry(key).or_insert(world.now());
                let world = world.clone();
                async move {
                    if world.now().since(since) >= outage {
                        return Response::json(&"done");
                    }
                    match failure {
                        Failing::Status(status) => Response::status(status),
                        Failing::RetryAfter(seconds) => {
                            Response::status(503).with_header("retry-after", &seconds.to_string())
                        }
                        Failing::Hangs => {
                            world.sleep(Nanos::from_secs(30)).await;
                            Response::status(503)
                        }
                    }
                }
            }
        };
        let (said, heard) = std::sync::mpsc::channel();
        let check = Check::new("agree")
            .allow([Gap::NoRunSucceeded])
            .workflow_file("w.toml", &file)
            .service("data.test", service);
        let check = check.faults([]).nodes(1).runs(runs..=runs).seeds(1);
        let check = check.holds("counted", move |seen| {
            let mut counted = Counted::default();
            for run in seen.runs() {
                let started =
                    |e: &&retrial::run::Recorded| matches!(e.event, Event::AttemptStarted { .. });
                counted.attempts += run.events.iter().filter(started).count() as u64;
                let well = matches!(seen.outcome(run.id), Some(Outcome::Completed));
                counted.succeeded += u64::from(well);
            }
            said.send(counted).map_err(|gone| gone.to_string())
        });
        held(check);
        heard.recv().unwrap()
    }
}

/// 100 policies and outages without chance: each task makes the same attempts in both. Those are
/// drawn anew that hinge on some milliseconds: a world's network takes some, and the laboratory's none.
#[test]
fn the_laboratory_and_the_engine_make_the_same_attempts() {
    let mut chance = Chance::of(20, 0);
    let (mut agreed, mut retried, mut failed) = (0, 0, 0);
    while agreed < 100 {
        let drawn = Drawn::of(&mut chance, "none");
        let own = drawn.in_the_laboratory(1, drawn.outage, 0);
        let near = [(drawn.outage - 300, 0), (drawn.outage + 300, 0), (drawn.outage, 60)];
        if near.iter().any(|(outage, wait)| drawn.in_the_laboratory(1, *outage, *wait) != own) {
            continue;
        }
        assert_eq!(drawn.in_a_world(1), own, "{drawn:#?}");
        agreed += 1;
        retried += u32::from(own.attempts > 1);
        failed += u32::from(own.succeeded == 0);
    }
    assert!(retried > 50 && failed > 20 && failed < 80, "{retried} retried, {failed} failed");
}

/// With jitter each draws for itself; in total they make the same attempts to within 2 %.
#[test]
#[ignore = "a long sweep: scripts/test.sh runs it"]
fn the_laboratory_and_the_engine_make_as_many_attempts_where_chance_differs() {
    let (runs, more) = (30, 50);
    let mut chance = Chance::of(20, 1);
    let (mut world, mut laboratory) = (0.0, 0.0);
    for n in 0..18 {
        let jitter = ["full", "equal", "decorrelated"][n % 3];
        let mut drawn = Drawn::of(&mut chance, jitter);
        // Runs of one world share the guards of their action; the laboratory's clients do not.
        drawn.guard = String::new();
        world += drawn.in_a_world(runs).attempts as f64;
        let own = drawn.in_the_laboratory(u64::from(runs) * more, drawn.outage, 1);
        laboratory += own.attempts as f64 / more as f64;
    }
    let off = world / laboratory - 1.0;
    assert!(off.abs() < 0.02 && world > 1_000.0, "{world} and {laboratory}: off by {off}");
}
