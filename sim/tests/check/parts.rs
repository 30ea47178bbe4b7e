//! What users bring: faults of their own, backoffs, workflow files, HTTP actions; and what is
//! refused.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use retrial::failure::Failure;
use retrial::policy::Policy;
use retrial::run::{Event, Outcome};
use retrial::time::Nanos;
use retrial_sim::check::{Check, FaultKind, Gap, Peer, Response, UserFault, World};

use super::kit::{bank, charge, custom, first, of, policy};

/// The bank is closed.
struct Closed {
    takes_hold: bool,
}

impl UserFault for Closed {
    fn name(&self) -> &str {
        "closed"
    }

    fn begin(&self, world: &World, _: u64) -> bool {
        world.set("closed", true);
        self.takes_hold
    }

    fn end(&self, world: &World) {
        world.set("closed", false);
        world.record("opened", true);
    }

    fn longest(&self) -> Nanos {
        Nanos::from_secs(20)
    }
}

/// Fails for as long as the bank is closed.
fn with_hours(
    world: &World,
) -> impl Fn(retrial_sim::check::Request) -> std::future::Ready<Response> + use<> {
    let world = world.clone();
    move |_| ready(if world.is_on("closed") { Response::status(503) } else { Response::json(&"") })
}

fn hours(takes_hold: bool) -> Check {
    Check::new("hours")
        .retry(policy(), charge)
        .service("bank.test", with_hours)
        .fault(Closed { takes_hold })
        .faults([])
        .seeds(20)
}

#[test]
fn an_own_fault_is_counted_and_ended() {
    let passed = hours(true)
        .holds("opens again", |seen| {
            let opened = seen.facts("opened").count() as u64;
            let struck = seen.evidence().own.struck.get("closed").copied().unwrap_or(0);
            if opened == struck { Ok(()) } else { Err(format!("{struck} closings, {opened}")) }
        })
        .outcome()
        .unwrap();
    let (drawn, struck) = (passed.drawn["closed"], passed.struck["closed"]);
    assert!(drawn >= 10 && struck == drawn, "{drawn} drawn, {struck} struck");
}

#[test]
fn an_own_fault_that_never_strikes_is_reported() {
    let failed = hours(false).outcome().unwrap_err().to_string();
    assert!(failed.contains("tested too little"), "{failed}");
    assert!(failed.contains("the fault `closed` was drawn ") && failed.contains("never struck"));
}

#[test]
fn an_own_fault_is_shrunk_to_where_it_matters() {
    let failed = hours(true).fault(Noise).holds("all go through", |seen| {
        match seen.runs().iter().find(|r| seen.outcome(r.id) != Some(&Outcome::Completed)) {
            Some(run) => Err(format!("run {} failed", run.id)),
            None => Ok(()),
        }
    });
    let failed = failed.outcome().unwrap_err();
    let shown = failed.history.join("\n");
    assert_eq!(failed.shrinking.unwrap().to.faults, 1, "{shown}");
    assert!(shown.contains("FAULT closed begins") && !shown.contains("noise"), "{shown}");
}

/// Pauses and crashes nodes through the world.
struct Noise;

impl UserFault for Noise {
    fn name(&self) -> &str {
        "noise"
    }

    fn begin(&self, world: &World, chance: u64) -> bool {
        let node = usize::try_from(chance).unwrap_or(0) % world.nodes();
        if chance.is_multiple_of(2) {
            world.pause(node)
        } else {
            world.crash(node, Nanos::from_secs(1))
        }
    }

    fn end(&self, world: &World) {
        (0..world.nodes()).for_each(|node| world.resume(node));
    }
}

#[test]
fn a_fault_may_crash_and_pause_nodes() {
    let check = Check::new("noise").retry(policy(), charge).service("bank.test", bank).fault(Noise);
    let crashed = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&crashed);
    let counted = check.faults([]).holds("lives are counted", move |seen| {
        let lifespans = seen
            .evidence()
            .lifespans
            .iter()
            .filter(|incarnation| incarnation.died.is_some())
            .count();
        count.fetch_add(lifespans as u64, Ordering::Relaxed);
        Ok(())
    });
    counted.seeds(20).outcome().unwrap();
    assert!(crashed.load(Ordering::Relaxed) > 0, "no node ever crashed");
}

/// Nobody reaches the bank.
struct Parted;

impl UserFault for Parted {
    fn name(&self) -> &str {
        "parted"
    }

    fn begin(&self, world: &World, _: u64) -> bool {
        world.record("parted", true);
        (0..world.nodes()).filter(|node| world.part(*node, Peer::Services)).count() > 0
    }

    fn end(&self, world: &World) {
        world.record("parted", false);
        (0..world.nodes()).for_each(|node| world.join(node, Peer::Services));
    }

    fn longest(&self) -> Nanos {
        Nanos::from_secs(20)
    }
}

#[test]
fn a_fault_may_part_nodes_from_services() {
    let check = Check::new("parted").retry(policy(), charge).service("bank.test", bank);
    let held = check.holds("nothing comes through", |seen| {
        for asked in seen.requests("bank.test") {
            let before = seen.facts("parted").take_while(|fact| fact.at < asked.at);
            // Of strikes that overlap the end of the first joins what the second parts.
            if before.last().is_some_and(|fact| fact.value == true) {
                return Err(format!("a request at {:?}", asked.at));
            }
        }
        Ok(())
    });
    let passed = held.fault(Parted).faults([]).seeds(40).outcome().unwrap();
    assert!(
        passed.struck["parted"] > 20 && passed.report.retries.contains_key("timeout"),
        "{passed}"
    );
    assert!(!passed.report.struck.contains_key(&FaultKind::Partition), "{passed}");
}

/// An answer that is on its way when nodes are parted arrives soon after they meet again.
#[test]
fn what_was_held_back_arrives_when_nodes_meet_again() {
    let slow = |world: &World| {
        let world = world.clone();
        move |_| {
            let world = world.clone();
            async move {
                world.sleep(Nanos::from_millis(1_500)).await;
                Response::json(&"")
            }
        }
    };
    let patient = Policy::builder().attempts(1).build().unwrap();
    let check = Check::new("meets again").retry(patient, charge).service("bank.test", slow);
    let held = check.holds("no run waits for the end of all faults", |seen| {
        for run in seen.runs() {
            let mut told =
                seen.evidence().observed.iter().filter(|t| t.run == run.id).map(|t| t.at);
            let began = told.next().ok_or("it never began")?;
            let took = told.next_back().map_or(Nanos::ZERO, |ended| ended.since(began));
            if took > Nanos::from_secs(50) {
                return Err(format!("run {} took {took}", run.id));
            }
        }
        Ok(())
    });
    let held = held.fault(Parted).faults([]).runs(4..=4).heal_after(Nanos::from_secs(200));
    held.seeds(30).outcome().unwrap();
}

/// The store can be parted from where it is a node of its own.
#[test]
fn only_a_node_of_its_own_can_be_parted_from() {
    let told = |nodes| {
        let check = of(|_| ready(Ok::<_, Failure>(()))).nodes(nodes).fault(StoreGone).seeds(20);
        check.faults([]).outcome()
    };
    assert!(told(2).unwrap().struck["store gone"] > 0);
    let failed = told(1).unwrap_err().to_string();
    assert!(failed.contains("the fault `store gone` was drawn "), "{failed}");
}

struct StoreGone;

impl UserFault for StoreGone {
    fn name(&self) -> &str {
        "store gone"
    }

    fn begin(&self, world: &World, _: u64) -> bool {
        world.part(0, Peer::Store)
    }

    fn end(&self, world: &World) {
        world.join(0, Peer::Store);
    }
}

/// The delays of a function that the policy names are those that it gives.
#[test]
fn a_backoff_of_ones_own_is_used() {
    let policy = Policy::builder().attempts(3).exception_types(["503"]).backoff(custom("mine"));
    let check = Check::new("backoff")
        .retry(policy.build().unwrap(), || ready(Err::<(), _>(Failure::http(503, "no"))))
        .faults([])
        .seeds(2);
    let refused = check.outcome().unwrap_err().to_string();
    assert!(refused.contains("no backoff `mine` is registered (step `work`)"), "{refused}");

    let policy = Policy::builder().attempts(3).exception_types(["503"]).backoff(custom("mine"));
    let check = Check::new("backoff")
        .retry(policy.build().unwrap(), || ready(Err::<(), _>(Failure::http(503, "no"))))
        .backoff("mine", |n| Nanos::from_millis(70 * u64::from(n)))
        .holds("70 ms, 140 ms", |seen| {
            for run in seen.runs() {
                let delays = run.events.iter().filter_map(|e| match &e.event {
                    Event::RetryScheduled { delay, .. } => Some(delay.as_millis()),
                    _ => None,
                });
                assert_eq!(delays.collect::<Vec<_>>(), [70, 140]);
            }
            Ok(())
        });
    check.allow([Gap::NoRunSucceeded]).faults([]).seeds(2).outcome().unwrap();
}

/// An HTTP action reaches a service of the same host, and all oracles judge the two.
#[test]
fn http_actions_reach_services() {
    const FILE: &str = r#"
        workflow = "relay"
        [actions.fetch]
        http = "POST https://data.test/rows"
        [actions.elsewhere]
        http = "POST https://elsewhere.test/x"
        [[steps]]
        id = "fetch"
        action = "fetch"
        retry = "[retry: 8, backoff: 100ms] [timeout: 3s]"
        [[steps]]
        id = "next"
        action = "elsewhere"
        after = ["fetch"]
        retry = "[retry: 8, backoff: 100ms] [timeout: 3s]"
    "#;
    let data = |world: &World| {
        let world = world.clone();
        move |request: retrial_sim::check::Request| {
            assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/rows"));
            world.record("asked", true);
            // Every third request finds it busy.
            ready(match world.facts("asked").len() % 3 {
                0 => Response::status(503).with_header("retry-after", "1"),
                _ => Response::json(&[1, 2, 3]),
            })
        }
    };
    let passed = Check::new("relay")
        .workflow_file("relay.toml", FILE)
        .allow([Gap::EndpointDrawn])
        .service("data.test", data)
        .holds("rows", |seen| {
            let asked = seen.requests("data.test").filter(|r| r.response.is_some()).count();
            if asked == seen.facts("asked").count() { Ok(()) } else { Err(format!("{asked}")) }
        })
        .seeds(60)
        .outcome()
        .unwrap();
    assert!(passed.report.judged["isolation"] > 500, "{passed}");
}

/// What a process remembers is lost when it dies; what worlds are made of they do not share.
#[test]
fn functions_and_services_are_made_anew() {
    let made = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&made);
    let check = Check::new("memory").workflow_file(
        "memory.toml",
        "workflow = \"m\"\nsteps = [{ id = \"a\", action = \"a\", retry = \"[retry: 3]\" }]",
    );
    let services = Arc::new(AtomicU64::new(0));
    let service_count = Arc::clone(&services);
    let check = check.service("bank.test", move |world| {
        service_count.fetch_add(1, Ordering::Relaxed);
        bank(world)
    });
    let check = check.functions(move |registry| {
        count.fetch_add(1, Ordering::Relaxed);
        let calls = Arc::new(AtomicU64::new(0));
        registry.register("a", move || {
            let calls = calls.fetch_add(1, Ordering::Relaxed);
            ready(Ok::<_, Failure>(calls))
        });
    });
    let check = check.allow([Gap::ServiceNotAsked]);
    check.nodes(1).faults([]).runs(1..=1).seeds(5).outcome().unwrap();
    // Once to see what there is, once in each world.
    assert_eq!(made.load(Ordering::Relaxed), 6);
    assert_eq!(services.load(Ordering::Relaxed), 5);
}

#[test]
fn what_makes_no_sense_is_refused_all_at_once() {
    let wrong = Check::new("wrong")
        .workflow_file("w.toml", "workflow = \"w\"\nsteps = [{ id = \"a\", action = \"send\" }]")
        .service("http://x.test/", bank)
        .service("API.test", bank)
        .input(serde_json::json!([1]))
        .nodes(9)
        .backoff("squares", |_| Nanos::ZERO)
        .outcome()
        .unwrap_err()
        .to_string();
    for said in [
        "check `wrong` can't be run:",
        "`http://x.test/` is no host name",
        "`API.test` is where the world's scripted endpoints are",
        "the input must be an object",
        "`nodes` must be 1, 2 or 3",
        "`squares` is the simulation's own",
        "no function `send` is registered",
    ] {
        assert!(wrong.contains(said), "{said}\n{wrong}");
    }
    let nothing = Check::new("nothing").outcome().unwrap_err().to_string();
    assert!(nothing.contains("give it a workflow, or a function under a policy"), "{nothing}");
    let file = Check::new("file").workflow_file("w.toml", "workflow = 3").outcome().unwrap_err();
    assert!(file.to_string().contains("w.toml:1"), "{file}");
}

#[test]
fn a_check_that_tests_nothing_fails() {
    let failed = of(|_| ready(Ok::<_, Failure>(()))).seeds(0).outcome().unwrap_err().to_string();
    assert!(failed.contains("no attempt was started"), "{failed}");
}

#[test]
fn a_stream_reaches_a_service() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let check = of(|context| async move {
        let mut stream = context.connect("echo.test:80").await?;
        let asked = b"GET / HTTP/1.1\r\nHost: echo.test\r\nConnection: close\r\n\r\n";
        let mut answer = String::new();
        let talked = async {
            stream.write_all(asked).await?;
            stream.flush().await?;
            stream.read_to_string(&mut answer).await
        };
        talked.await.map_err(|error| Failure::from(error.to_string()))?;
        if answer.ends_with("\"heard\"") { Ok(()) } else { Err(Failure::from(answer)) }
    });
    let check = check.service("echo.test", |_| |_| ready(Response::json(&"heard"))).faults([]);
    let held = check.holds("heard", |seen| {
        let run = seen.runs().first().ok_or("no run")?;
        match seen.outcome(run.id) {
            Some(Outcome::Completed) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let outcome = held.outcome();
    assert!(outcome.is_ok(), "{:?}", outcome.map_err(|f| first(&f).2.to_owned()));
}
