//! Every scripted reply, as a raw client sees it and as the ledger keeps it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes a test's helpers for production code"
)]

use crate::net_world;

use madsim::time::{sleep, timeout};
use net_world::*;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::endpoint::{Delivery, Endpoint, EndpointScript, Entry, Route};
use retrial_sim::unstable::scenario::{Reply, RetryAfter};
use serde_json::json;

/// The results of one world of posts.
struct Told {
    /// What each client saw, and when, in milliseconds.
    seen: Vec<(Result<Seen, String>, u64)>,
    entries: Vec<Entry>,
    strikes: Vec<(FaultKind, u64)>,
}

const PATIENCE: u64 = 20_000;

/// Posts once for each token, one after the other, to a path with this route. Gives up on each
/// after [`PATIENCE`]; heals at `heal_at`, if ever.
fn posts(route: Route, tokens: &'static [&'static str], heal_at: Option<u64>, heals: bool) -> Told {
    within(9, plan([]), move |world| async move {
        let (client, server) = (world.node("a", 1), world.node("api", 2));
        let script = EndpointScript { routes: [("/work".to_owned(), route)].into(), heals };
        let endpoint = Endpoint::new("api", script, world.trace.clone(), world.strikes.clone());
        let (net, served) = (world.net.clone(), endpoint.clone());
        server.spawn(async move {
            served.serve(net.listen(incarnation("api"), 80).await.unwrap()).await
        });
        let net = world.net.clone();
        let talked = client.spawn(async move {
            sleep(millis(5)).await;
            let connector = net.connector(incarnation("a"));
            let mut seen = Vec::new();
            for token in tokens {
                let asked = post(&connector, "api", "/work", token, r#"{"n":1}"#);
                let answer = timeout(millis(PATIENCE), asked).await;
                seen.push((answer.unwrap_or(Err("gave up".to_owned())), now_ms()));
            }
            seen
        });
        if let Some(at) = heal_at {
            sleep(millis(at)).await;
            endpoint.heal();
        }
        let seen = talked.await.unwrap();
        sleep(millis(PATIENCE)).await;
        let strikes = world.strikes.counts().into_iter().collect();
        Told { seen, entries: endpoint.ledger().entries(), strikes }
    })
}

/// One post answered with `reply`: what the client saw, whether the answer was handed over, and
/// what was counted.
#[track_caller]
fn check(reply: Reply, sees: &str, handed: bool, struck: Option<FaultKind>) -> Seen {
    let route = Route::one(vec![reply.clone()], Reply::SuccessTrue);
    let told = posts(route, &["t"], None, true);
    let answer = told.seen[0].0.clone();
    let text = answer.as_ref().map_or_else(Clone::clone, Seen::text);
    assert_eq!(text, sees, "{reply:?}");
    let [entry] = told.entries.as_slice() else { panic!("{:?}", told.entries) };
    assert_eq!(entry.reply, reply);
    assert_eq!(matches!(entry.delivery, Some(Delivery::Handed(_))), handed, "{entry:?}");
    assert_eq!(told.strikes, struck.map(|kind| (kind, 1)).into_iter().collect::<Vec<_>>());
    answer.unwrap_or(Seen { status: 0, headers: Default::default(), body: None })
}

fn status(code: u16, retry_after: Option<RetryAfter>) -> Reply {
    Reply::Status { code, retry_after, body: "no".to_owned() }
}

#[test]
fn bodies_that_arrive_whole() {
    check(Reply::Ok(json!({"total": 3})), r#"200 {"total":3}"#, true, None);
    check(Reply::Echo, r#"200 {"args":{"n":1},"success":true}"#, true, None);
    check(Reply::SuccessTrue, r#"200 {"success":true}"#, true, None);
    let refused = r#"200 {"message":"the work was refused","success":false}"#;
    check(Reply::SuccessFalse, refused, true, None);
    let (kind, message) = ("KeyError".to_owned(), "no such key".to_owned());
    let mro = vec!["KeyError".to_owned(), "LookupError".to_owned()];
    let body =
        r#"200 {"message":"no such key","mro":["KeyError","LookupError"],"type":"KeyError"}"#;
    check(Reply::Exception { kind, message, mro }, body, true, None);
    check(Reply::Malformed, r#"200 {"success": tru"#, true, Some(FaultKind::Malformed));
}

#[test]
fn statuses_and_retry_after() {
    check(status(500, None), "500 no", true, Some(FaultKind::ServerError));
    check(status(404, None), "404 no", true, Some(FaultKind::ClientError));
    check(status(302, None), "302 no", true, None);
    let seen = check(
        status(503, Some(RetryAfter::Seconds(7))),
        "503 no",
        true,
        Some(FaultKind::ServerError),
    );
    assert_eq!(seen.headers["retry-after"], "7");
    let text = RetryAfter::Text("soon, perhaps".to_owned());
    let seen = check(status(429, Some(text)), "429 no", true, Some(FaultKind::RateLimit));
    assert_eq!(seen.headers["retry-after"], "soon, perhaps");
    assert!(!seen.headers.contains_key("date"));
}

#[test]
fn a_retry_date_counts_from_the_answers_own_date() {
    for secs in [90, -90] {
        let date = RetryAfter::Date { secs, own_date: true };
        let seen = check(status(429, Some(date)), "429 no", true, Some(FaultKind::RateLimit));
        let read = |name| httpdate::parse_http_date(seen.headers[name].to_str().unwrap()).unwrap();
        let (asked, own) = (read("retry-after"), read("date"));
        let apart = if secs > 0 { asked.duration_since(own) } else { own.duration_since(asked) };
        assert_eq!(apart.unwrap().as_secs(), secs.unsigned_abs());
    }
    let date = RetryAfter::Date { secs: i64::MAX, own_date: false };
    let seen = check(status(429, Some(date)), "429 no", true, Some(FaultKind::RateLimit));
    assert_eq!(seen.headers["retry-after"], "Fri, 31 Dec 9999 23:59:59 GMT");
    assert!(!seen.headers.contains_key("date"));
}

#[test]
fn answers_that_do_not_arrive_whole() {
    check(Reply::Truncated, "200 broken off", false, Some(FaultKind::Malformed));
    check(Reply::Hang, "gave up", false, Some(FaultKind::EndpointHang));
    // The process that asks is no node here, so nothing ends it.
    let (reply, sees) = (Reply::Poison, "connection closed before message completed");
    check(reply, sees, false, None);
    let (reply, sees) = (Reply::ResetAfterHandling, "connection error");
    check(reply, sees, false, Some(FaultKind::Reset));
}

#[test]
fn c13_a_slow_stream_is_whole_in_the_end_and_cut_by_who_does_not_wait() {
    let slow = |total_ms| Reply::SlowStream { every_ms: 1_000, total_ms };
    let seen =
        check(slow(9_000), r#"200 {"success":true       }"#, true, Some(FaultKind::SlowStream));
    assert_eq!(seen.body.unwrap().len(), 23);
    check(slow(60_000), "gave up", false, Some(FaultKind::SlowStream));
}

#[test]
fn a_late_success_is_handled_though_the_caller_gave_up() {
    let then = Box::new(Reply::Echo);
    let route = Route::one(vec![Reply::Delay { ms: 30_000, then }], Reply::SuccessTrue);
    let told = posts(route, &["t"], None, true);
    assert_eq!(told.seen[0].0, Err("gave up".to_owned()));
    let entry = &told.entries[0];
    assert!(matches!(entry.delivery, Some(Delivery::Cut(at)) if at < entry.ended.unwrap()));
    let after = entry.ended.unwrap().since(entry.at).as_millis();
    assert!((30_000..30_010).contains(&after), "{after}");
}

#[test]
fn each_token_has_its_own_sequence() {
    let route = Route::one(vec![status(500, None), status(503, None)], Reply::Echo);
    let told = posts(route, &["x", "x", "y", "x", "y", "y", "y"], None, true);
    let codes: Vec<_> = told.seen.iter().map(|(s, _)| s.as_ref().unwrap().status).collect();
    assert_eq!(codes, [500, 503, 500, 200, 503, 200, 200]);
    let arrivals: Vec<_> = told.entries.iter().map(|e| e.arrival).collect();
    assert_eq!(arrivals, [0, 1, 0, 2, 1, 2, 3]);
    assert_eq!(told.strikes, [(FaultKind::ServerError, 4)]);
}

/// A14, W15: what the ledger keeps of a request.
#[test]
fn the_ledger_keeps_what_arrived() {
    let told = posts(Route::default(), &["tok"], None, true);
    let entry = &told.entries[0];
    assert_eq!((entry.node.as_str(), entry.path.as_str()), ("a", "/work"));
    assert_eq!(entry.connection, "a>api#0");
    assert_eq!(entry.token.as_deref(), Some("tok"));
    assert_eq!(entry.key, entry.token);
    assert_eq!((entry.retry_attempt, entry.retry_timeout_ms), (Some(1), Some(5_000)));
    assert_eq!(entry.args(), Some(json!({"n": 1})));
    let Some(Delivery::Handed(handed)) = entry.delivery else { panic!("{entry:?}") };
    assert!(entry.at <= entry.ended.unwrap() && entry.ended.unwrap() <= handed);
}

#[test]
fn healing_answers_what_hangs_and_all_that_follows() {
    let route = Route::one(vec![Reply::Hang], status(500, None));
    let told = posts(route.clone(), &["t", "t"], Some(7_000), true);
    for (seen, at) in &told.seen {
        assert_eq!(seen.as_ref().unwrap().text(), r#"200 {"success":true}"#);
        assert!((7_000..7_200).contains(at), "{at}");
    }
    assert_eq!(told.strikes, [(FaultKind::EndpointHang, 1)]);

    let told = posts(route, &["t", "t"], Some(7_000), false);
    assert_eq!(told.seen[0].0, Err("gave up".to_owned()));
    assert_eq!(told.seen[1].0.as_ref().unwrap().status, 500);
}

#[test]
fn healing_makes_the_slow_quick() {
    let slow = Reply::SlowStream { every_ms: 1_000, total_ms: 3_600_000 };
    let late = Reply::Delay { ms: 3_600_000, then: Box::new(status(500, None)) };
    let route = Route::one(vec![slow, late], Reply::Ok(json!({"ok": 1})));
    let told = posts(route, &["t", "t"], Some(3_000), true);
    assert!(told.seen[0].0.as_ref().unwrap().text().starts_with(r#"200 {"success":true  "#));
    assert!((3_000..3_300).contains(&told.seen[0].1));
    assert_eq!(told.seen[1].0.as_ref().unwrap().text(), r#"200 {"ok":1}"#);
}

#[test]
fn a_path_without_a_route_is_404() {
    let told = posts(Route::default(), &[], None, true);
    assert!(told.entries.is_empty());
    let code = within(9, plan([]), |world| async move {
        let (client, server) = (world.node("a", 1), world.node("api", 2));
        let (trace, strikes) = (world.trace.clone(), world.strikes.clone());
        let endpoint = Endpoint::new("api", EndpointScript::default(), trace, strikes);
        let net = world.net.clone();
        server.spawn(async move {
            endpoint.serve(net.listen(incarnation("api"), 80).await.unwrap()).await
        });
        let net = world.net.clone();
        let asked = client.spawn(async move {
            sleep(millis(5)).await;
            post(&net.connector(incarnation("a")), "api", "/nowhere", "t", "{}").await
        });
        asked.await.unwrap().unwrap().status
    });
    assert_eq!(code, 404);
}

#[test]
fn a_script_is_plain_data() {
    let text = r#"{"routes": {"/pay": {"scripts": [[
        "hang", {"ok": {"id": 1}}, {"status": {"code": 429, "retry_after": {"seconds": 3}}},
        {"delay": {"ms": 5, "then": "echo"}}, {"slow_stream": {"every_ms": 10, "total_ms": 90}},
        {"exception": {"type": "KeyError", "message": "m"}}]]}}}"#;
    let read: EndpointScript = serde_json::from_str(text).unwrap();
    assert!(read.heals && read.routes["/pay"].then == Reply::SuccessTrue);
    assert_eq!(read, serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap());
    let bad = r#"{"routes": {"/pay": {"scripts": [[{"status": {"code": 42}}]]}}}"#;
    let error = serde_json::from_str::<EndpointScript>(bad).unwrap_err().to_string();
    assert!(error.contains("42 is not a status that ends an exchange"), "{error}");
}
