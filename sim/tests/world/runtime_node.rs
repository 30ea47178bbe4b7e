//! Crashes, restarts and pauses of a node, and that they repeat.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;
use retrial::runtime::Runtime;
use retrial::time::{Mono, Nanos};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::clock::true_now;
use retrial_sim::unstable::disk::{CrashOutcome, DiskPlan, SimDisk};
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::net::Window;
use retrial_sim::unstable::node::{Crash, CrashAt, NodeParts, Pause, SimNode};
use retrial_sim::unstable::records::Records;
use retrial_sim::unstable::runtime::{RuntimePlan, SimRuntime, run_seed};
use retrial_sim::unstable::trace::{Fingerprint, Kind, Line};

const LIMIT: Nanos = Nanos::from_secs(3_600);

/// A program whose every step is durable: it counts up in a file, with two tasks that hand each
/// other the turn and blocking writes between. Notes each life's start and steps.
async fn counter(runtime: SimRuntime, incarnation: Incarnation, disk: SimDisk, records: Records) {
    let note = move |incarnation: &Incarnation, text: String| {
        let lane = format!("{} {:02}", incarnation.node(), incarnation.number());
        records.trace.record(true_now(), &lane, Kind::Event, &text, &[]);
    };
    let file = Arc::new(disk.open(&incarnation));
    let mut count = [0];
    if file.len().is_ok_and(|len| len > 0) && file.read(0, &mut count).is_err() {
        return;
    }
    let (turn, mut turns) = tokio::sync::mpsc::channel::<u8>(1);
    let ticker = runtime.clone();
    let _ticker = runtime.spawn(async move {
        for tick in 0..20 {
            ticker.sleep_until(ticker.now().after(Nanos::from_millis(3))).await;
            if turn.send(tick).await.is_err() {
                return;
            }
        }
    });
    note(&incarnation, format!("started at {}", count[0]));
    while let Some(_tick) = turns.recv().await {
        count[0] += 1;
        let (file, bytes) = (Arc::clone(&file), count);
        let work = move || file.write(0, &bytes).and_then(|()| file.sync_data());
        if !matches!(runtime.blocking(work).await, Ok(Ok(()))) {
            return;
        }
        note(&incarnation, format!("acknowledged {}", count[0]));
    }
}

/// The result of one run of the counter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ran {
    print: Fingerprint,
    lives: u32,
    polls: u64,
    ops: u64,
    events: Vec<(String, String)>,
    durable: Vec<u8>,
    findings: usize,
    crashes: u64,
    struck: BTreeMap<FaultKind, u64>,
    /// When the last step was acknowledged.
    last: Mono,
}

fn run(seed: u64, crashes: Vec<Crash>, pauses: Vec<Pause>) -> Ran {
    run_with(seed, move |node| {
        crashes.into_iter().for_each(|crash| node.plan_crash(crash));
        pauses.into_iter().for_each(|pause| node.plan_pause(pause));
    })
}

fn run_with(seed: u64, plan_for: impl FnOnce(&SimNode) + Send + 'static) -> Ran {
    let ran = run_seed(seed, LIMIT, move || async move {
        let records = Records::new(true, 1_000_000);
        let plan = DiskPlan {
            write_latency: Nanos::new(20_000),
            sync_latency: Nanos::from_millis(1),
            ..DiskPlan::default()
        };
        let disk = SimDisk::new("n", plan, &records);
        let parts = NodeParts {
            name: "n".to_owned(),
            ip: None,
            plan: RuntimePlan { chance: seed, ..RuntimePlan::default() },
            disk: Some(disk.clone()),
        };
        let node = SimNode::start(parts, &records, {
            let (disk, records) = (disk.clone(), records.clone());
            move |runtime, incarnation| counter(runtime, incarnation, disk.clone(), records.clone())
        });
        plan_for(&node);
        madsim::time::sleep(Nanos::from_secs(30).into()).await;
        node.stop().await;
        let told = |line: &Line| line.kind == Kind::Event || line.text.ends_with("crashed");
        let lines = records.trace.lines().into_iter().filter(told);
        let last = lines.clone().filter(|l| l.kind == Kind::Event).map(|l| l.at).max();
        Ran {
            print: records.trace.fingerprint(),
            lives: node.number() + 1,
            polls: node.polls(),
            ops: disk.ops(),
            events: lines.map(|line| (line.lane, line.text)).collect(),
            durable: disk.image().durable().to_vec(),
            findings: records.watchdog.findings().len(),
            struck: records.strikes.counts(),
            last: last.unwrap(),
            crashes: records.strikes.counts().get(&FaultKind::Crash).copied().unwrap_or(0),
        }
    });
    ran.unwrap_or_else(|panic| panic!("{panic}"))
}

fn crash(at: CrashAt, outcome: CrashOutcome) -> Crash {
    Crash { at, outcome, down: Nanos::from_millis(5) }
}

/// Nothing acknowledged is lost, lives follow each other, and nobody speaks after their death.
fn judge(ran: &Ran, label: &str) {
    let mut acked = 0_u32;
    let mut lane = String::new();
    let mut alive = false;
    for (at, text) in &ran.events {
        if text.ends_with("crashed") {
            alive = false;
            continue;
        }
        let (what, n) = text.rsplit_once(' ').unwrap();
        let n: u32 = n.parse().unwrap();
        if what == "started at" {
            assert!(*at > lane, "{label}: {at} after {lane}");
            assert!(n == acked || n == acked + 1, "{label}: {at} started at {n} after {acked}");
            lane.clone_from(at);
            alive = true;
        } else {
            assert!(alive && *at == lane, "{label}: {at} spoke after its death");
        }
        acked = n;
    }
    assert_eq!(ran.findings, 0, "{label}");
    assert_eq!(u32::from(ran.durable[0]), acked, "{label}");
}

#[test]
fn a_crash_at_every_poll_repeats_and_loses_nothing() {
    let calm = run(3, vec![], vec![]);
    assert!(calm.polls > 100, "{}", calm.polls);
    for poll in 0..200 {
        let plan = vec![crash(CrashAt::Poll(poll), CrashOutcome::Drawn(poll))];
        let (one, two) = (run(3, plan.clone(), vec![]), run(3, plan, vec![]));
        assert_eq!(one, two, "poll {poll}");
        assert_eq!(one.lives, if poll < calm.polls { 2 } else { 1 }, "poll {poll}");
        judge(&one, &format!("poll {poll}"));
    }
}

#[test]
fn a_crash_at_every_disk_call_loses_nothing() {
    let ops = run(3, vec![], vec![]).ops;
    assert!(ops > 40);
    for op in 0..ops {
        for outcome in [CrashOutcome::KeepAll, CrashOutcome::LoseAll] {
            let ran = run(3, vec![crash(CrashAt::DiskOp(op), outcome)], vec![]);
            assert_eq!((ran.lives, ran.crashes), (2, 1), "call {op}");
            judge(&ran, &format!("call {op}, {outcome:?}"));
        }
    }
}

#[test]
fn crashes_at_the_same_moment_and_while_down_are_one() {
    let at = |millis| CrashAt::Time(Mono::default().after(Nanos::from_millis(millis)));
    let plan = [10, 10, 12, 100].map(|millis| crash(at(millis), CrashOutcome::LoseAll));
    let ran = run(3, plan.to_vec(), vec![]);
    assert_eq!((ran.lives, ran.crashes), (3, 2));
    judge(&ran, "four planned");
}

#[test]
fn many_crashes_one_after_another() {
    let plan = (0..40).map(|i| crash(CrashAt::Poll(i * 7), CrashOutcome::Drawn(i))).collect();
    let ran = run(5, plan, vec![]);
    assert_eq!(ran.lives, 41);
    judge(&ran, "forty crashes");
}

#[test]
fn a_paused_node_does_nothing_and_then_goes_on() {
    let at = |millis| Mono::default().after(Nanos::from_millis(millis));
    let pause = Pause { at: at(20), lasts: Nanos::from_secs(10) };
    let (calm, paused) = (run(3, vec![], vec![]), run(3, vec![], vec![pause]));
    assert_eq!(calm.events, paused.events);
    assert_ne!(calm.print, paused.print);
    judge(&paused, "paused");
    // A crash in the middle of the pause, which kills a paused node.
    let plan = vec![crash(CrashAt::Time(at(5_000)), CrashOutcome::LoseAll)];
    let ran = run(3, plan, vec![pause]);
    assert_eq!(ran.lives, 2);
    judge(&ran, "killed while paused");
}

/// What a slow node does takes longer, it is the same node, and nobody calls it paused.
#[test]
fn a_slow_node_stands_still_again_and_again() {
    let at = |ms| Mono::from_nanos(Nanos::from_millis(ms).get());
    let window = Window { from: at(10), until: at(200) };
    let slow = run_with(3, move |node| node.plan_slowness(window, Nanos::from_millis(50)));
    let plain = run_with(3, |_| ());
    assert_eq!((slow.lives, slow.durable.clone()), (1, vec![20]));
    assert_eq!(plain.durable, vec![20]);
    // 50 ms of standing still, 20 ms of running.
    assert_eq!(slow.struck, [(FaultKind::SlowNode, 3)].into());
    assert!(plain.struck.is_empty());
    assert!(slow.last > plain.last.after(Nanos::from_millis(100)), "{:?}", (slow.last, plain.last));
}

/// A node that leaves in good order loses no write, not even one that was not synced, and comes
/// back.
#[test]
fn a_node_that_leaves_returns_with_all_that_it_wrote() {
    let left = run_with(3, |node| {
        let node = node.clone();
        drop(madsim::task::spawn(async move {
            madsim::time::sleep(Nanos::from_millis(25).into()).await;
            let ops = node.disk().unwrap().ops();
            node.leave_and_return(Nanos::from_millis(5)).await;
            assert!(ops > 0 && node.number() == 1);
        }));
    });
    assert_eq!(left.lives, 2);
    assert_eq!(left.struck, [(FaultKind::Shutdown, 1)].into());
    judge(&left, "left");
}

#[test]
fn the_seed_matters_and_repeats() {
    let print = |seed| run(seed, vec![], vec![]).print;
    assert_eq!(print(1), print(1));
    assert_ne!(print(1), print(2));
}

/// The run that two processes must agree on.
fn eventful() -> Ran {
    let at = Mono::default().after(Nanos::from_millis(40));
    let pause = Pause { at, lasts: Nanos::from_secs(1) };
    run(
        11,
        (0..5).map(|i| crash(CrashAt::Poll(i * 23), CrashOutcome::Drawn(i))).collect(),
        vec![pause],
    )
}

/// Says the fingerprint, for the test below to read in a process of its own.
#[test]
fn an_eventful_run_says_its_fingerprint() {
    println!("fingerprint {}", eventful().print);
}

#[test]
fn another_process_comes_to_the_same_fingerprint() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runtime_node::an_eventful_run_says_its_fingerprint", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let print = format!("fingerprint {}", eventful().print);
    assert!(said.contains(&print), "{print} is not what the other process said: {said}");
}

#[test]
fn nothing_of_a_killed_life_is_left() {
    let left = run_seed(1, LIMIT, || async {
        let records = Records::new(false, 1_000);
        let parts =
            NodeParts { name: "n".to_owned(), ip: None, plan: RuntimePlan::default(), disk: None };
        let held = Arc::new(());
        let node = SimNode::start(parts, &records, {
            let held = Arc::clone(&held);
            move |runtime, incarnation| {
                let held = (incarnation.number() == 0).then(|| Arc::clone(&held));
                async move {
                    runtime.sleep_until(runtime.now().after(Nanos::from_secs(1_000))).await;
                    drop(held);
                }
            }
        });
        madsim::time::sleep(Nanos::from_secs(1).into()).await;
        let before = (Arc::strong_count(&held), node.live_tasks());
        node.crash_and_restart(CrashOutcome::LoseAll, Nanos::ZERO).await;
        let after = (Arc::strong_count(&held), node.live_tasks());
        (before, after, records.watchdog.findings())
    });
    // One count is the test's, one the boot closure's.
    assert_eq!(left, Ok(((3, 1), (2, 1), vec![])));
}

#[test]
fn a_stopped_node_touches_nothing_and_is_not_revived() {
    let same = run_seed(1, LIMIT, || async {
        let records = Records::new(false, 1_000);
        let parts =
            NodeParts { name: "n".to_owned(), ip: None, plan: RuntimePlan::default(), disk: None };
        let lives = Arc::new(Mutex::new(0));
        let node = SimNode::start(parts, &records, {
            let lives = Arc::clone(&lives);
            move |runtime, _| {
                *lives.lock().unwrap() += 1;
                async move {
                    loop {
                        runtime.sleep_until(runtime.now().after(Nanos::from_secs(1))).await;
                    }
                }
            }
        });
        let at = CrashAt::Time(Mono::default().after(Nanos::from_secs(5)));
        node.plan_crash(Crash { at, outcome: CrashOutcome::LoseAll, down: Nanos::from_secs(5) });
        madsim::time::sleep(Nanos::from_secs(7).into()).await;
        node.stop().await;
        let polls = node.polls();
        madsim::time::sleep(Nanos::from_secs(60).into()).await;
        let lives = *lives.lock().unwrap();
        (lives, node.polls() == polls, node.live_tasks())
    });
    assert_eq!(same, Ok((1, true, 0)));
}
