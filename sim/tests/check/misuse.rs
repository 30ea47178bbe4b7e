//! Tokio's own time, tasks and network do not exist in the simulated world. Whoever uses them is
//! told what to use instead, whatever policy would have made of the failed attempt.
#![allow(clippy::disallowed_methods, reason = "what must not be called is called here")]

use std::time::Duration;

use retrial::failure::Failure;
use retrial_sim::check::{Response, World};

use super::kit::{first, of};

macro_rules! found {
    ($place:expr, $($body:tt)*) => {{
        let failed = of(move |_| async move {
            $($body)*;
            Ok::<(), Failure>(())
        });
        let failed = failed.panics_are_failures().outcome().unwrap_err();
        let (oracle, reason, text) = first(&failed);
        assert_eq!((oracle, reason), ("harness", "tokio"), "{failed}");
        let place = text.strip_prefix("function `work`, ").unwrap();
        assert!(text.contains("`sleep`") && text.contains("`within`"), "{text}");
        assert!(text.contains("`connect` and `http`") && text.contains("`now`"), "{text}");
        assert!(place.contains($place), "{place}");
    }};
}

/// The call is named by its own file where tokio passes on who called.
const HERE: &str = "sim/tests/check/misuse.rs:";

#[test]
fn tokio_sleep() {
    found!(HERE, tokio::time::sleep(Duration::from_millis(5)).await);
}

#[test]
fn tokio_timeout() {
    let never = std::future::pending::<()>;
    found!(HERE, drop(tokio::time::timeout(Duration::from_millis(5), never()).await));
}

#[test]
fn tokio_interval() {
    // The wait is tokio's own call.
    found!("interval.rs:", tokio::time::interval(Duration::from_millis(5)).tick().await);
}

#[test]
fn tokio_spawn() {
    found!(HERE, drop(tokio::spawn(std::future::ready(())).await));
}

#[test]
fn tokio_network() {
    found!("tokio-", drop(tokio::net::TcpStream::connect("127.0.0.1:9").await));
    found!("tokio-", drop(tokio::net::TcpStream::connect("localhost:9").await));
    found!("tokio-", drop(tokio::net::TcpListener::bind("127.0.0.1:0").await));
}

#[test]
fn a_thread() {
    found!("thread", drop(std::thread::spawn(|| ()).join()));
}

/// What a function catches itself is found all the same.
#[test]
fn a_caught_panic() {
    found!(HERE, {
        let _ = std::panic::catch_unwind(|| drop(tokio::spawn(std::future::ready(()))));
    });
}

#[test]
fn in_a_service() {
    let failed =
        of(|context| async move { context.http().get("http://x.test/").send().await.map(drop) })
            .service("x.test", |_: &World| {
                |_| async {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    Response::status(200)
                }
            })
            .faults([])
            .outcome()
            .unwrap_err();
    let (_, reason, text) = first(&failed);
    assert!(reason == "tokio" && text.contains("`http`"), "{failed}");
}

/// The standard library's clocks are the simulation's: they show its time and are not refused.
#[test]
fn the_systems_clocks_are_simulated() {
    let asked = of(|context| async move {
        let (began, wall) = (std::time::Instant::now(), std::time::SystemTime::now());
        context.sleep(retrial::time::Nanos::from_secs(2)).await;
        let waited = [Some(began.elapsed()), wall.elapsed().ok()];
        let right =
            |w: &Option<Duration>| w.is_some_and(|w| (1_900..3_000).contains(&w.as_millis()));
        if waited.iter().all(right) { Ok(()) } else { Err(Failure::from(format!("{waited:?}"))) }
    });
    let held = asked.faults([]).holds("completed", |seen| {
        for run in seen.runs() {
            let outcome = seen.outcome(run.id);
            assert_eq!(outcome, Some(&retrial::run::Outcome::Completed));
        }
        Ok(())
    });
    held.outcome().unwrap();
}
