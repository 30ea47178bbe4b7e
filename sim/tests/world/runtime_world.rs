//! A node's runtime inside the simulated world: sleeping, spawning, blocking, panics, livelock.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use redb::StorageBackend;
use retrial::runtime::Runtime;
use retrial::time::{Mono, Nanos, Timestamp};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::clock::true_now;
use retrial_sim::unstable::disk::{CrashOutcome, DiskPlan, SimDisk};
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::node::{NodeParts, SimNode};
use retrial_sim::unstable::records::Records;
use retrial_sim::unstable::runtime::{
    ClockPlan, Drift, Jump, PanicReport, RuntimePlan, SimRuntime, run_seed,
};
use retrial_sim::unstable::watchdog::Finding;

const LIMIT: Nanos = Nanos::from_secs(3_600);
const BUDGET: u64 = 10_000;

fn parts(plan: RuntimePlan, disk: Option<SimDisk>) -> NodeParts {
    NodeParts { name: "n".to_owned(), ip: None, plan, disk }
}

/// Starts a node with no disk whose every life runs `program`.
fn start<F: Future<Output = ()> + Send + 'static>(
    plan: RuntimePlan,
    records: &Records,
    program: impl Fn(SimRuntime, Incarnation) -> F + Send + Sync + 'static,
) -> SimNode {
    SimNode::start(parts(plan, None), records, program)
}

/// Runs one program on one node and gives its answer.
fn on_a_node<T, F>(
    plan: RuntimePlan,
    program: impl Fn(SimRuntime) -> F + Send + Sync + 'static,
) -> Result<T, PanicReport>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    run_seed(1, LIMIT, move || async move {
        let answer = Arc::new(Mutex::new(None));
        let node = start(plan, &Records::new(false, BUDGET), {
            let answer = Arc::clone(&answer);
            move |runtime, _| {
                let (answer, future) = (Arc::clone(&answer), program(runtime));
                async move { *answer.lock().unwrap() = Some(future.await) }
            }
        });
        while node.live_tasks() > 0 {
            pass(Nanos::from_millis(10)).await;
        }
        node.stop().await;
        answer.lock().unwrap().take().unwrap()
    })
}

/// Lets true time pass.
async fn pass(by: Nanos) {
    madsim::time::sleep(by.into()).await;
}

fn drifting(ppm: i32) -> RuntimePlan {
    let drift = Drift::ppm(ppm).unwrap();
    let clock = ClockPlan { drift, origin: Mono::from_nanos(77), ..ClockPlan::default() };
    RuntimePlan { clock, ..RuntimePlan::default() }
}

#[test]
fn a_sleep_is_never_early_by_the_nodes_clock_and_hardly_late() {
    for ppm in [-500_000, -137, 0, 1, 200, 500_000] {
        let slept = on_a_node(drifting(ppm), |runtime| async move {
            let mut slept = Vec::new();
            for nanos in [0, 1, 999, 50_000, 1_000_000, 1_500_000_001, 40_000_000_000] {
                let at = runtime.now().after(Nanos::new(nanos));
                runtime.sleep_until(at).await;
                slept.push((at, runtime.now()));
            }
            slept
        });
        for (at, woke) in slept.unwrap() {
            assert!(woke >= at && woke.since(at) < Nanos::new(1_000), "{ppm}: {at:?} {woke:?}");
        }
    }
}

#[test]
fn a_drifting_clock_misjudges_true_time() {
    let check = |ppm, expected_secs: u64| {
        let passed = on_a_node(drifting(ppm), |runtime| async move {
            let before = true_now();
            runtime.sleep_until(runtime.now().after(Nanos::from_secs(60))).await;
            true_now().since(before)
        });
        assert_eq!(passed.unwrap().as_millis(), expected_secs * 1_000, "{ppm}");
    };
    check(0, 60);
    check(500_000, 40);
    check(-250_000, 80);
}

#[test]
fn chance_differs_by_life_and_plan_and_nothing_else() {
    let draws = |chance, seed, lives: usize| {
        run_seed(seed, LIMIT, move || async move {
            let drawn = Arc::new(Mutex::new(Vec::new()));
            let plan = RuntimePlan { chance, ..RuntimePlan::default() };
            let node = start(plan, &Records::new(false, BUDGET), {
                let drawn = Arc::clone(&drawn);
                move |runtime, _| {
                    drawn.lock().unwrap().extend([runtime.random(), runtime.random()]);
                    async {}
                }
            });
            for _ in 1..lives {
                node.crash_and_restart(CrashOutcome::LoseAll, Nanos::ZERO).await;
            }
            drawn.lock().unwrap().clone()
        })
        .unwrap()
    };
    assert_eq!(draws(5, 1, 3), draws(5, 2, 3));
    let mut all = [draws(5, 1, 3), draws(6, 1, 3)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 12);
}

#[test]
fn wrong_clocks_strike_when_somebody_looks() {
    let struck = |plan: RuntimePlan| {
        run_seed(1, LIMIT, move || async move {
            let records = Records::new(false, BUDGET);
            let _node = start(plan, &records, |runtime, _| async move {
                for _ in 0..3 {
                    runtime.sleep_until(runtime.now().after(Nanos::from_secs(1))).await;
                    let _ = runtime.wall();
                }
            });
            pass(Nanos::from_secs(60)).await;
            let counts = records.strikes.counts();
            [FaultKind::Drift, FaultKind::Skew, FaultKind::Jump]
                .map(|k| counts.get(&k).copied().unwrap_or(0))
        })
        .unwrap()
    };
    let skewed = |skew, jumps| {
        let base = Timestamp::from_nanos(1 << 60);
        let clock = ClockPlan { base, skew, jumps, ..ClockPlan::default() };
        RuntimePlan { clock, ..RuntimePlan::default() }
    };
    let jump = |secs| vec![Jump { at: Mono::default().after(Nanos::from_secs(secs)), by: -5 }];
    assert_eq!(struck(RuntimePlan::default()), [0, 0, 0]);
    assert_eq!(struck(drifting(1)), [1, 0, 0]);
    assert_eq!(struck(skewed(1, vec![])), [0, 1, 0]);
    assert_eq!(struck(skewed(0, jump(2))), [0, 0, 1]);
    assert_eq!(struck(skewed(0, jump(50))), [0, 0, 0]);
}

#[test]
fn a_dropped_task_ends_and_a_detached_one_runs_on() {
    let ran = on_a_node(RuntimePlan::default(), |runtime| async move {
        let ran = Arc::new(AtomicU32::new(0));
        let add = |n| {
            let (runtime, ran) = (runtime.clone(), Arc::clone(&ran));
            async move {
                runtime.sleep_until(runtime.now().after(Nanos::from_secs(1))).await;
                ran.fetch_add(n, Ordering::SeqCst);
            }
        };
        let (dropped, kept) = (runtime.spawn(add(1)), runtime.spawn(add(10)));
        runtime.spawn(add(100)).detach();
        drop(dropped);
        runtime.sleep_until(runtime.now().after(Nanos::from_secs(2))).await;
        drop(kept);
        ran.load(Ordering::SeqCst)
    });
    assert_eq!(ran.unwrap(), 110);
}

#[test]
fn a_dropped_sleep_wakes_nobody() {
    let polls = |sleeps: usize| {
        run_seed(1, LIMIT, move || async move {
            let node = start(
                RuntimePlan::default(),
                &Records::new(false, BUDGET),
                move |runtime, _| async move {
                    for _ in 0..sleeps {
                        let long = runtime.now().after(Nanos::from_secs(5));
                        let short = runtime.now().after(Nanos::from_millis(1));
                        tokio::select! {
                            biased;
                            () = runtime.sleep_until(long) => {}
                            () = runtime.sleep_until(short) => {}
                        }
                    }
                    runtime.sleep_until(runtime.now().after(Nanos::from_secs(60))).await;
                },
            );
            pass(Nanos::from_secs(100)).await;
            node.polls()
        })
        .unwrap()
    };
    assert_eq!(polls(50) - polls(0), 50);
}

#[test]
fn blocking_work_outlives_its_caller_but_not_its_node() {
    let run = |cancel: Option<Nanos>, crash: Option<Nanos>| {
        run_seed(1, LIMIT, move || async move {
            let records = Records::new(false, BUDGET);
            let plan = DiskPlan { sync_latency: Nanos::from_millis(100), ..DiskPlan::default() };
            let disk = SimDisk::new("n", plan, &records);
            let answered = Arc::new(AtomicU32::new(0));
            let program = {
                let (disk, answered) = (disk.clone(), Arc::clone(&answered));
                move |runtime: SimRuntime, incarnation: Incarnation| {
                    let file = Arc::new(disk.open(&incarnation));
                    let answered = Arc::clone(&answered);
                    async move {
                        if incarnation.number() > 0 {
                            return;
                        }
                        // The first call makes the forecast from which the second draws its wait.
                        for (at, byte) in [(0, b"1"), (1, b"2")] {
                            let file = Arc::clone(&file);
                            let work = runtime.blocking(move || {
                                file.write(at, byte).and_then(|()| file.sync_data())
                            });
                            let end = Mono::default().after(cancel.unwrap_or(LIMIT));
                            tokio::select! {
                                biased;
                                done = work => {
                                    done.unwrap().unwrap();
                                    answered.fetch_add(1, Ordering::SeqCst);
                                }
                                () = runtime.sleep_until(end) => {}
                            }
                        }
                    }
                }
            };
            let node = SimNode::start(
                parts(RuntimePlan::default(), Some(disk.clone())),
                &records,
                program,
            );
            if let Some(at) = crash {
                pass(at).await;
                node.crash_and_restart(CrashOutcome::LoseAll, Nanos::ZERO).await;
            }
            pass(Nanos::from_secs(10)).await;
            (disk.image().durable().to_vec(), answered.load(Ordering::SeqCst))
        })
        .unwrap()
    };
    assert_eq!(run(None, None), (b"12".to_vec(), 2));
    // Cancelled at once, and while the first call sleeps: both run to their ends unheard.
    assert_eq!(run(Some(Nanos::ZERO), None), (b"12".to_vec(), 0));
    assert_eq!(run(Some(Nanos::from_millis(50)), None), (b"12".to_vec(), 0));
    // A crash can fall after the first call's work, before the second's, and after it.
    let crashes = (0..40).map(|i| run(None, Some(Nanos::from_millis(1 + i * 5))));
    let mut seen: Vec<_> = crashes.collect();
    seen.dedup();
    let state = |durable: &[u8], answered| (durable.to_vec(), answered);
    assert_eq!(seen, [state(b"1", 0), state(b"1", 1), state(b"12", 1)]);
}

#[test]
fn a_livelock_is_found_and_ended() {
    let found = run_seed(1, LIMIT, || async {
        let records = Records::new(false, BUDGET);
        let node = start(RuntimePlan::default(), &records, |runtime, _| async move {
            loop {
                // A sleep into the past gives way, else nobody could ever find this.
                runtime.sleep_until(Mono::default()).await;
            }
        });
        let found = records.watchdog.alarm().await;
        pass(Nanos::from_secs(1)).await;
        (found, node.live_tasks(), records.watchdog.findings().len(), records.watchdog.polls())
    });
    let (found, live, findings, polls) = found.unwrap();
    assert!(
        matches!(&found, Finding::Livelock { node, polls, .. } if node == "n" && *polls == BUDGET + 1)
    );
    assert!(found.is_stuck());
    assert_eq!((live, findings, polls), (0, 1, BUDGET + 1));
}

/// What a long wait would have been good for is not saved up.
#[test]
fn a_livelock_after_a_long_wait_is_found_as_soon() {
    let found = run_seed(1, Nanos::from_secs(10 * 86_400), || async {
        let records = Records::new(false, BUDGET);
        let _node = start(RuntimePlan::default(), &records, |runtime, _| async move {
            runtime.sleep_until(runtime.now().after(Nanos::from_secs(86_400))).await;
            loop {
                runtime.sleep_until(runtime.now().after(Nanos::from_millis(1))).await;
            }
        });
        let found = records.watchdog.alarm().await;
        (found, records.watchdog.polls())
    });
    let (found, polls) = found.unwrap();
    assert!(found.is_stuck(), "{found}");
    assert!((BUDGET + 1..3 * BUDGET).contains(&polls), "{polls} polls");
}

/// What is found of a node that looks around every few milliseconds for half an hour, where so many
/// tasks may be held back.
fn looking(millis: u64, held: u64) -> Vec<Finding> {
    let found = run_seed(1, Nanos::from_secs(3_600), move || async move {
        let records = Records::new(false, 1_000);
        records.watchdog.expect_held(held);
        let _node = start(RuntimePlan::default(), &records, move |runtime, _| async move {
            loop {
                runtime.sleep_until(runtime.now().after(Nanos::from_millis(millis))).await;
            }
        });
        pass(Nanos::from_secs(1_800)).await;
        records.watchdog.findings()
    });
    found.unwrap()
}

/// What waits as often as a node does, or as what a guard holds back, may do so without end.
#[test]
fn whoever_looks_around_now_and_then_is_no_livelock() {
    assert_eq!(looking(10, 0), []);
    assert_eq!(looking(2, 0).len(), 1);
    assert_eq!(looking(2, 100), []);
}

#[test]
fn a_panic_in_a_node_is_reported_with_place_and_node() {
    let panicked = run_seed(9, LIMIT, || async {
        let _node =
            start(RuntimePlan::default(), &Records::new(false, BUDGET), |runtime, _| async move {
                runtime.sleep_until(runtime.now().after(Nanos::from_secs(1))).await;
                panic!("planted {}", 7);
            });
        pass(Nanos::from_secs(10)).await;
    });
    let report = panicked.unwrap_err();
    assert_eq!((report.seed, report.message.as_str()), (9, "planted 7"));
    assert_eq!(report.node.as_deref(), Some("n"));
    assert!(report.place.starts_with("sim/tests/world/runtime_world.rs:"), "{report}");
    assert!(!report.is_stuck());
}

#[test]
fn a_panic_in_blocking_work_is_the_verdict_too() {
    let panicked = on_a_node(RuntimePlan::default(), |runtime| async move {
        let _ = runtime.blocking(|| panic!("in the work")).await;
    });
    assert_eq!(panicked.unwrap_err().message, "in the work");
}

#[test]
fn a_world_that_stands_still_or_never_ends_is_stuck() {
    let asleep = run_seed(1, LIMIT, std::future::pending::<()>).unwrap_err();
    let late = run_seed(1, LIMIT, || pass(Nanos::from_secs(10_000))).unwrap_err();
    assert!(asleep.is_stuck() && late.is_stuck(), "{asleep}, {late}");
    let panicked = run_seed(1, LIMIT, || async { panic!("time is up") });
    assert!(!panicked.map(|()| false).unwrap_err().is_stuck());
}

#[test]
fn seeds_on_threads_of_their_own_do_not_disturb_each_other() {
    let panicked =
        |seed: u64| run_seed::<(), _, _>(seed, LIMIT, move || async move { panic!("seed {seed}") });
    let reports: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|seed| scope.spawn(move || panicked(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (seed, report) in reports.into_iter().enumerate() {
        let report = report.unwrap_err();
        assert_eq!(report.message, format!("seed {}", report.seed));
        assert_eq!(report.seed, seed as u64);
    }
}
