//! What is found, and what it is shrunk to.

use std::future::ready;
use std::time::Duration;

use retrial::action::Context;
use retrial::failure::Failure;
use retrial::time::Nanos;
use retrial_sim::check::{Check, FaultKind, Gap, Response, World};

use super::kit::{bank, charge, custom, first, held, of, once, policy};

fn payment() -> Check {
    Check::new("payment")
        .retry(policy(), charge)
        .service("bank.test", bank)
        .holds("charged once", once)
        .runs(1..=3)
        .seeds(60)
}

#[test]
fn a_double_charge_is_found_and_shrunk() {
    let failed = payment().outcome().unwrap_err();
    let (oracle, reason, text) = first(&failed);
    assert_eq!((oracle, reason), ("invariant", "charged once"));
    assert!(text.contains("was charged twice"), "{text}");
    let shrinking = failed.shrinking.unwrap();
    assert!(shrinking.is_smallest);
    assert_eq!((shrinking.to.faults, shrinking.to.operations), (1, 1), "{failed}");
    let charged = failed.history.iter().filter(|line| line.contains(" charged ")).count();
    assert_eq!(charged, 2, "{failed}");
}

/// Named is what the workflow has, and nothing else.
#[test]
fn what_was_never_judged_is_what_the_check_could_have_met() {
    let file = r#"
        workflow = "w"
        rollback = "on_failure"
        [[steps]]
        id = "charge"
        action = "charge"
        requires = { type = "exists", field = "state.input" }
        [[steps]]
        id = "refund"
        compensates = "charge"
        action = "charge"
    "#;
    let check = Check::new("refunds").workflow_file("w.toml", file);
    let check = check.function("charge", |_: Context| ready(Ok::<_, Failure>("done")));
    let passed = check.runs(1..=1).seeds(3).faults([]).outcome().unwrap();
    assert_eq!(passed.never_judged, ["compensation", "rollback"], "{passed}");
    assert!(passed.to_string().ends_with("\n  never judged: compensation, rollback"), "{passed}");
    let nothing = payment().faults([]).outcome().unwrap();
    assert_eq!(nothing.never_judged, [""; 0], "{nothing}");
}

/// Without faults every answer arrives.
#[test]
fn without_faults_the_same_function_passes() {
    let passed = payment().faults([]).outcome().unwrap();
    assert_eq!((passed.report.seeds, passed.report.struck.values().sum::<u64>()), (60, 0));
    assert!(passed.report.runs >= 60, "{passed}");
}

#[test]
fn one_seed_is_one_course() {
    let play = |seed| {
        let passed = of(|context| async move {
            context.sleep(Nanos::from_millis(1 + context.random() % 500)).await;
            Ok::<_, Failure>(context.wall().as_nanos())
        });
        passed.seeds(seed).outcome().unwrap().report.fingerprint
    };
    assert_eq!(play(3), play(3));
    assert_ne!(play(3), play(4));
}

#[test]
fn a_panic_in_a_function_is_named_with_its_place() {
    let failed = of(|_| async { panic!("the list is empty") as Result<(), Failure> });
    let failed = failed.outcome().unwrap_err();
    let (oracle, reason, text) = first(&failed);
    assert_eq!((oracle, reason), ("harness", "panic"));
    let place = "function `work`, sim/tests/check/findings.rs:";
    assert!(text.starts_with(place) && text.ends_with(": the list is empty"), "{text}");
}

#[test]
fn a_panic_may_be_an_ordinary_failure() {
    let panics = |_| async { panic!("the list is empty") as Result<(), Failure> };
    let passed = of(panics).panics_are_failures().allow([Gap::NoRunSucceeded]).outcome().unwrap();
    assert!(passed.report.attempts >= 3, "{passed}");
}

#[test]
fn a_panic_in_a_service_ends_its_world() {
    let failed =
        of(|context| async move { context.http().get("http://x.test/").send().await.map(drop) })
            .service("x.test", |_: &World| |_| async { panic!("no such row") as Response })
            .faults([])
            .outcome()
            .unwrap_err();
    let (_, _, text) = first(&failed);
    assert!(
        text.contains("sim/tests/check/findings.rs:") && text.contains("no such row"),
        "{text}"
    );
}

#[test]
fn a_status_that_is_none_ends_its_world() {
    let ask = |context: Context| async move {
        context.http().get("http://x.test/").send().await.map(drop)
    };
    let failed = of(ask).service("x.test", |_| |_| ready(Response::status(99))).faults([]);
    let failed = failed.outcome().unwrap_err();
    assert!(first(&failed).2.contains("`x.test` answers 99"), "{failed}");
}

#[test]
fn a_function_that_yields_for_ever_is_stuck() {
    let failed = of(|_| async {
        loop {
            tokio::task::yield_now().await;
        }
        #[expect(unreachable_code, reason = "gives the loop a type")]
        Ok::<(), Failure>(())
    })
    .tries(0)
    .outcome()
    .unwrap_err();
    let (oracle, reason, text) = first(&failed);
    assert_eq!((oracle, reason), ("harness", "livelock"), "{text}");
}

/// Blocks its thread for longer than anybody waits for it.
#[test]
fn a_function_that_never_gives_control_back_is_given_up() {
    #[expect(clippy::disallowed_methods, reason = "what must not be called is called here")]
    let blocks = of(|_| async {
        std::thread::sleep(Duration::from_secs(2));
        Ok::<(), Failure>(())
    });
    let failed = blocks.watchdog(Duration::from_secs(1)).outcome().unwrap_err();
    let (oracle, reason, text) = first(&failed);
    assert_eq!((oracle, reason), ("harness", "never_yields"), "{failed}");
    assert!(text.contains("for 1s of real time"), "{text}");
}

#[test]
fn a_backoff_that_panics_is_told_with_its_place() {
    let policy = retrial::policy::Policy::builder();
    let policy = policy.attempts(3).backoff(custom("steep")).build().unwrap();
    let check = Check::new("steep").retry(policy, || ready(Err::<(), _>("no")));
    let check = check.backoff("steep", |n| Nanos::from_secs(u64::from(n.checked_sub(2).unwrap())));
    let failed = check.seeds(1).tries(0).outcome().unwrap_err();
    let (oracle, reason, text) = first(&failed);
    assert_eq!((oracle, reason), ("harness", "panicked"), "{failed}");
    assert!(text.contains("findings.rs:") && text.contains("None"), "{text}");
}

#[test]
fn a_run_that_does_not_end_is_stuck() {
    let failed = of(|_| async {
        std::future::pending::<()>().await;
        Ok::<(), Failure>(())
    });
    // The policy's attempt timeout ends each attempt: it is the policy without one that hangs.
    assert!(failed.allow([Gap::NoRunSucceeded]).outcome().is_ok());
    let patient = retrial::policy::Policy::builder().attempts(2).build().unwrap();
    let hangs = || std::future::pending::<Result<(), Failure>>();
    let failed = Check::new("hangs").retry(patient, hangs).seeds(1).tries(0).outcome();
    let failed = failed.unwrap_err();
    assert_eq!(first(&failed).0, "termination", "{failed}");
}

#[test]
fn an_assertion_in_an_invariant_is_what_it_says() {
    let failed = of(|_| ready(Ok::<_, Failure>(())))
        .holds("seven runs", |seen| {
            assert_eq!(seen.runs().len(), 7, "too few runs");
            Ok(())
        })
        .outcome()
        .unwrap_err();
    let (oracle, reason, text) = first(&failed);
    assert_eq!((oracle, reason), ("invariant", "seven runs"));
    assert!(text.contains("too few runs"), "{text}");
}

/// Worlds that share something are no worlds of their own.
#[test]
fn a_failure_that_does_not_come_again_is_said_to_be_unsteady() {
    let fails_once = std::sync::atomic::AtomicBool::new(true);
    let failed = of(|_| ready(Ok::<_, Failure>(())))
        .holds("never the first", move |_| {
            match fails_once.swap(false, std::sync::atomic::Ordering::Relaxed) {
                true => Err("it is the first".to_owned()),
                false => Ok(()),
            }
        })
        .outcome()
        .unwrap_err();
    assert!(
        failed.to_string().contains("something in it depends on more than its seed"),
        "{failed}"
    );
}

#[test]
fn faults_befall_requests_to_services() {
    let kinds = [FaultKind::ServerError, FaultKind::Reset, FaultKind::EndpointHang];
    let passed = payment_once().faults(kinds).seeds(40).outcome().unwrap();
    for kind in kinds {
        assert!(passed.report.struck.get(&kind).is_some_and(|n| *n > 0), "{kind} never struck");
    }
}

fn payment_once() -> Check {
    Check::new("asks").service("bank.test", bank).runs(1..=2).retry(policy(), charge)
}

/// The report gives its reason, not that nothing was tested.
#[test]
fn a_run_that_is_refused_is_found() {
    let large = serde_json::json!({ "text": "x".repeat(2 * 1024 * 1024) });
    let failed = of(|_| ready(Ok::<_, Failure>(()))).input(large).outcome().unwrap_err();
    let (oracle, reason, text) = first(&failed);
    assert_eq!((oracle, reason), ("harness", "refused"), "{failed}");
    assert!(text.contains("at most"), "{text}");
}

/// A node that shuts down takes no submissions; the next one does.
#[test]
fn every_run_that_is_asked_for_is_had() {
    let slow = of(|context| async move {
        context.sleep(Nanos::from_secs(2)).await;
        Ok::<_, Failure>(())
    });
    let check = slow.runs(4..=4).seeds(40).faults([FaultKind::Shutdown]);
    let passed = check.holds("had", |seen| {
        let without = seen.runs().iter().find(|run| seen.outcome(run.id).is_none());
        without.map_or(Ok(()), |run| Err(format!("{} is not there", run.id)))
    });
    let passed = held(passed);
    assert!(passed.report.struck[&FaultKind::Shutdown] > 5, "{passed}");
}

#[test]
fn a_webhook_must_be_there_too() {
    let text = r#"
        workflow = "w"
        [actions.ask]
        http = "POST http://bank.test/"
        error_budget = { target = 0.9, window = "1h", alerts = [1.0], webhook = "tell" }
        [actions.tell]
        idempotent = true
        [[steps]]
        id = "ask"
        action = "ask"
    "#;
    let wrong = Check::new("webhook").workflow_file("w.toml", text).outcome().unwrap_err();
    assert!(wrong.to_string().contains("no function `tell` is registered"), "{wrong}");
}

/// A host that is misspelt tests nothing, whatever holds of it.
#[test]
fn a_misspelt_host_is_found() {
    async fn ask(context: Context) -> Result<(), Failure> {
        context.http().get("http://bnak.test/").send().await.map(drop)
    }
    let check = || Check::new("misspelt").retry(policy(), ask).service("bank.test", bank).seeds(3);
    let failed = check().outcome().unwrap_err();
    assert_eq!(failed.seed, None);
    let text = failed.to_string();
    assert!(text.contains("the service `bank.test` was never asked"), "{text}");
    assert!(text.contains("no run succeeded in any world; one failed at step `work`"), "{text}");
    assert!(text.contains("(or: .allow([Gap::NoRunSucceeded]))"), "{text}");
    assert!(check().allow([Gap::ServiceNotAsked]).outcome().is_err());
    let http = "workflow = \"w\"\nsteps = [{ id = \"a\", action = \"a\", retry = \"[retry: 9]\" }]\n\
                actions = { a = { http = \"POST http://bnak.test/\" } }";
    let check_http = Check::new("misspelt").workflow_file("w.toml", http).seeds(3);
    let text = check_http.service("bank.test", bank).outcome().unwrap_err().to_string();
    assert!(text.contains("the answers of action `a` were drawn"), "{text}");
    assert!(check().allow(Gap::ALL).outcome().is_ok());
}
