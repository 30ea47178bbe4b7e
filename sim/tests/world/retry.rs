//! One future under a policy on a node of the simulated world (X10): simulated time, a clock that runs wrong,
//! the same on every run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use retrial::failure::Failure;
use retrial::policy::{Backoff, Jitter, Policy};
use retrial::retry::{Attempt, PolicyExt as _};
use retrial::runtime::Runtime;
use retrial::time::{Mono, Nanos};
use retrial_sim::unstable::node::{NodeParts, SimNode};
use retrial_sim::unstable::records::Records;
use retrial_sim::unstable::runtime::{ClockPlan, Drift, RuntimePlan, SimRuntime, run_seed};

/// When each attempt started, in nanoseconds of the node's clock, and how it all ended.
type Played = (Vec<u64>, Result<u32, String>);

fn policy(jitter: Jitter) -> Policy {
    let backoff = Backoff::exponential(Nanos::from_secs(600)).with_jitter(jitter);
    let built = Policy::builder().attempts(4).backoff(backoff);
    built.attempt_timeout(Nanos::from_secs(1_800)).build().unwrap()
}

/// The first attempt hangs, the second fails, the third succeeds.
async fn work(attempt: Attempt) -> Result<u32, Failure> {
    match attempt.number {
        1 => std::future::pending().await,
        2 => Err(Failure::http(503, "busy")),
        n => Ok(n),
    }
}

async fn play(runtime: SimRuntime, jitter: Jitter) -> Played {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let begun = runtime.now();
    let policy = policy(jitter);
    let done = policy.retry(|attempt| {
        starts.lock().unwrap().push(runtime.now().since(begun).get());
        work(attempt)
    });
    let done = done.on(runtime.clone()).await.map_err(|gave_up| gave_up.to_string());
    let starts = starts.lock().unwrap().clone();
    (starts, done)
}

fn on_a_node(seed: u64, drift: i32, jitter: Jitter) -> Played {
    let drift = Drift::ppm(drift).unwrap();
    let clock = ClockPlan { drift, origin: Mono::from_nanos(77), ..ClockPlan::default() };
    let plan = RuntimePlan { clock, chance: seed, priorities: None };
    let played = run_seed(seed, Nanos::from_secs(86_400), move || async move {
        let answer = Arc::new(Mutex::new(None));
        let parts = NodeParts { name: "n".to_owned(), ip: None, plan, disk: None };
        let node = SimNode::start(parts, &Records::new(false, 10_000), {
            let answer = Arc::clone(&answer);
            move |runtime, _| {
                let answer = Arc::clone(&answer);
                async move { *answer.lock().unwrap() = Some(play(runtime, jitter).await) }
            }
        });
        while node.live_tasks() > 0 {
            madsim::time::sleep(std::time::Duration::from_secs(1)).await;
        }
        node.stop().await;
        answer.lock().unwrap().take().unwrap()
    });
    played.unwrap()
}

/// 1,800 s until the timeout, 600 s and 1,200 s of delay: by the node's own clock, also a wrong one.
#[test]
fn x10_the_door_keeps_the_nodes_time() {
    for drift in [0, Drift::LIMIT / 2, -Drift::LIMIT / 2] {
        let (starts, done) = on_a_node(1, drift, Jitter::None);
        let seconds: Vec<u64> = starts.iter().map(|n| n / 1_000_000_000).collect();
        assert_eq!((seconds, done), (vec![0, 2_400, 3_600], Ok(3)), "drift {drift}");
    }
}

#[test]
fn x10_one_seed_is_one_course() {
    let played = |seed| on_a_node(seed, 0, Jitter::Full);
    assert_eq!(played(5), played(5));
    assert_ne!(played(5).0, played(6).0, "the seed draws the jitter");
}
