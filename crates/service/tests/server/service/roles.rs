//! Who may do what, and who did what.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use retrial::store::{Answer, Request, Store, StoreError};
use retrial_service::server::{AccessToken, Audit, NamedToken, Role, Settings, Tokens};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::client::Client;
use super::kit::{Memory, Served, memory, one, serve_with, submission};

/// What each role may do beside what those before it may. `None`: everybody, without a token.
const TABLE: [(Option<Role>, &[&str]); 6] = [
    (None, &["GET /healthz", "GET /openapi.json", "GET /readyz"]),
    (
        Some(Role::Read),
        &[
            "GET /metrics",
            "GET /v1/actions",
            "GET /v1/letters",
            "GET /v1/letters/{run}/{step}/{item}",
            "GET /v1/runs",
            "GET /v1/runs/watch",
            "GET /v1/runs/{run}",
            "GET /v1/runs/{run}/events",
            "GET /v1/tally",
            "GET /v1/workflows",
            "GET /v1/workflows/{name}",
            "POST /v1/workflows/validate",
        ],
    ),
    (Some(Role::Submit), &["POST /v1/runs"]),
    (
        Some(Role::Reveal),
        &["GET /v1/letters/{run}/{step}/{item}/payload", "GET /v1/runs/{run}/values"],
    ),
    (
        Some(Role::Operate),
        &[
            "POST /v1/letters/{run}/{step}/{item}/discard",
            "POST /v1/letters/{run}/{step}/{item}/redrive",
            "POST /v1/runs/{run}/activate",
            "POST /v1/runs/{run}/archive",
            "POST /v1/runs/{run}/cancel",
            "POST /v1/runs/{run}/deactivate",
            "POST /v1/runs/{run}/fail",
            "POST /v1/runs/{run}/pause",
            "POST /v1/runs/{run}/release",
            "POST /v1/runs/{run}/resume",
            "PUT /v1/workflows/{name}",
        ],
    ),
    (Some(Role::Admin), &["POST /v1/prune"]),
];

fn secret(name: &str) -> String {
    format!("the-long-token-of-{name}")
}

/// A token for each name, whose role is the first word of what is given.
fn tokens(all: &[(&str, &str)]) -> Tokens {
    let line = |(name, role): &(&str, &str)| {
        let (role, limits) = role.split_once(' ').unwrap_or((role, ""));
        let digest = AccessToken::new(&secret(name)).unwrap().digest();
        format!("{name} {role} {digest} {limits}\n")
    };
    Tokens::read(&all.iter().map(line).collect::<String>()).unwrap()
}

async fn serve(tokens: Tokens, audit: Option<Audit>) -> Served {
    serve_with(memory(), Settings { tokens: Some(tokens), audit, ..Settings::default() }).await
}

fn of(served: &Served, name: &str) -> Client {
    served.client.with("authorization", &format!("Bearer {}", secret(name)))
}

const ONE_EACH: [(&str, &str); 5] = [
    ("reader", "read"),
    ("ci", "submit"),
    ("support", "reveal"),
    ("ops", "operate"),
    ("root", "admin"),
];

/// The table of the service is the one above, and is in the document.
#[tokio::test]
async fn x17_each_route_has_its_role() {
    let served = serve(tokens(&ONE_EACH), None).await;
    let document = served.client.get("/openapi.json").await.expect(200);
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let role = operation["x-role"].as_str().map(|role| role.parse::<Role>().unwrap());
            assert_eq!(role.is_some(), operation["security"].is_array(), "{method} {path}");
            found.push((role, format!("{} {path}", method.to_uppercase())));
        }
    }
    let row = |(role, routes): &(Option<Role>, &[&str])| {
        routes.iter().map(|route| (*role, (*route).to_owned())).collect::<Vec<_>>()
    };
    let mut wanted: Vec<_> = TABLE.iter().flat_map(row).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

/// Every route with every role: a lesser one is refused with the role that is needed.
#[tokio::test]
async fn x17_a_role_may_do_its_own_and_no_more() {
    let served = serve(tokens(&ONE_EACH), None).await;
    for (needs, routes) in TABLE {
        for route in routes.iter().filter(|route| !route.ends_with("/watch")) {
            let (method, path) = route.split_once(' ').unwrap();
            let path = path.replace("{run}", "00000000-0000-4000-8000-000000000000");
            let path = path.replace("{step}", "0").replace("{item}", "0").replace("{name}", "n");
            for (name, role) in ONE_EACH {
                let answer = of(&served, name).ask(method, &path, "").await;
                let may = Some(role.parse::<Role>().unwrap()) >= needs;
                let body: Value = serde_json::from_str(&answer.text).unwrap_or_default();
                let refused = body["type"] == "urn:retrial:problem:wrong-role";
                assert_eq!(refused, !may, "{name} {route}: {answer:?}");
                if refused {
                    let detail = body["detail"].as_str().unwrap();
                    let told = format!("the role `{}`", needs.unwrap());
                    assert!(answer.status == 403 && detail.contains(&told), "{answer:?}");
                }
            }
            let status = served.client.ask(method, &path, "").await.status;
            assert_eq!(status == 401, needs.is_some(), "{route} without a token: {status}");
        }
    }
}

#[tokio::test]
async fn x17_tokens_rotate_while_the_service_runs() {
    let used = tokens(&[("old", "read")]);
    let served = serve(used.clone(), None).await;
    let status = async |name: &str| of(&served, name).get("/v1/runs").await.status;
    assert_eq!((status("old").await, status("new").await), (200, 401));
    used.replace(&tokens(&[("old", "read"), ("new", "read")]));
    assert_eq!((status("old").await, status("new").await), (200, 200));
    used.replace(&tokens(&[("new", "read")]));
    assert_eq!((status("old").await, status("new").await), (401, 200));
    // With none left nobody gets in, rather than everybody.
    used.replace(&tokens(&[]));
    assert_eq!((status("new").await, served.client.get("/v1/runs").await.status), (401, 401));
}

/// The single token goes on as before, with every role.
#[tokio::test]
async fn x17_the_single_token_may_do_everything() {
    let token = Some(AccessToken::new(&secret("single")).unwrap());
    let tokens = Some(tokens(&[("reader", "read")]));
    let served = serve_with(memory(), Settings { token, tokens, ..Settings::default() }).await;
    let prune = json!({ "older_than_ns": 1 });
    assert_eq!(of(&served, "single").post("/v1/prune", &prune).await.status, 200);
    assert_eq!(of(&served, "reader").post("/v1/prune", &prune).await.status, 403);
}

/// What was written, line by line.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[tokio::test]
async fn x17_the_trail_says_who_did_what() {
    let paper = Paper::default();
    let served = serve(tokens(&ONE_EACH), Some(Audit::new(paper.clone()))).await;
    let body = submission(&one("gated", ""), &json!({ "card": "4111-1111" }));
    let run = of(&served, "ci").post("/v1/runs", &body).await.expect(201)["run"].clone();
    let path = |what: &str| format!("/v1/runs/{}/{what}", run.as_str().unwrap());
    of(&served, "ops").post(&path("pause"), &json!({ "reason": "a deploy" })).await.expect(200);
    of(&served, "ci").post(&path("cancel"), &json!({})).await.expect(403);
    served.client.post(&path("cancel"), &json!({})).await.expect(401);
    of(&served, "ops").post(&path("cancel"), &json!({})).await.expect(200);
    of(&served, "support").get(&path("values")).await.expect(200);
    of(&served, "ci").get(&path("values")).await.expect(403);
    // Whoever only reads leaves no line.
    of(&served, "reader").get(&path("events?from=0&limit=1")).await;
    let lines = paper.lines();
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            (text("who"), text("role"), text("did"), line["status"].as_u64().unwrap())
        })
        .collect();
    let wanted = [
        ("ci", "submit", "submitRun", 201),
        ("ops", "operate", "pauseRun", 200),
        ("ci", "submit", "cancelRun", 403),
        ("-", "-", "cancelRun", 401),
        ("ops", "operate", "cancelRun", 200),
        ("support", "reveal", "revealRun", 200),
        ("ci", "submit", "revealRun", 403),
    ];
    let wanted = wanted.map(|(who, role, did, n)| (who.into(), role.into(), did.into(), n));
    assert_eq!(told, wanted);
    assert_eq!((&lines[0]["created"], &lines[0]["run"]), (&run, &Value::Null));
    assert!(lines[1..].iter().all(|line| line["run"] == run && line["at"].is_string()));
    let text = format!("{lines:?}");
    assert!(!text.contains("4111-1111") && !text.contains("the-long-token-of"), "{text}");
    // The run's own events name who sent the command.
    let reader = of(&served, "reader").with("accept", "application/json");
    let events = reader.get(&path("events")).await.text;
    assert!(events.contains("a deploy (by ops)"), "{events}");
}

#[tokio::test]
async fn a_token_may_have_so_many_unfinished_runs_and_no_more() {
    let all = tokens(&[("ci", "submit unfinished=2"), ("other", "submit")]);
    let served = serve(all, None).await;
    let body = submission(&one("gated", ""), &json!({}));
    for _ in 0..2 {
        of(&served, "ci").post("/v1/runs", &body).await.expect(201);
    }
    let refused = of(&served, "ci").post("/v1/runs", &body).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("5")));
    assert!(refused.text.contains("`ci`") && refused.text.contains("limit is 2"), "{refused:?}");
    of(&served, "other").post("/v1/runs", &body).await.expect(201);
    // Once one has ended there is room again.
    served.acts.gate.add_permits(1);
    while of(&served, "ci").post("/v1/runs", &body).await.status != 201 {
        served.acts.gate.add_permits(1);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A store in which creations wait for a permit.
struct SlowToCreate {
    under: Memory,
    gate: Semaphore,
    asked: AtomicUsize,
}

impl Store for SlowToCreate {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        if matches!(request, Request::Create(_)) {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.gate.acquire().await.unwrap().forget();
        }
        self.under.ask(request).await
    }
}

/// What is being submitted counts as well.
#[tokio::test]
async fn x17_submissions_at_the_same_time_do_not_pass_a_limit() {
    let (under, gate) = (memory(), Semaphore::new(0));
    let store = Arc::new(SlowToCreate { under, gate, asked: AtomicUsize::new(0) });
    let tokens = Some(tokens(&[("ci", "submit unfinished=1")]));
    let settings = Settings { tokens, ..Settings::default() };
    let served = serve_with(Arc::clone(&store), settings).await;
    let submit = || {
        let client = of(&served, "ci");
        let body = submission(&one("gated", ""), &json!({}));
        tokio::spawn(async move { client.post("/v1/runs", &body).await.status })
    };
    let first = submit();
    while store.asked.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let second = submit();
    while !second.is_finished() && store.asked.load(Ordering::SeqCst) == 1 {
        tokio::task::yield_now().await;
    }
    store.gate.add_permits(2);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (201, 429));
}

#[tokio::test]
async fn a_token_may_keep_so_many_bytes_and_no_more() {
    let body = submission(&one("gated", ""), &json!({}));
    let size = body.to_string().len();
    let served = serve(tokens(&[("ci", &format!("submit bytes={}", 2 * size))]), None).await;
    let keyed = of(&served, "ci").with("idempotency-key", "k");
    keyed.post("/v1/runs", &body).await.expect(201);
    // The same submission again takes no room.
    keyed.post("/v1/runs", &body).await.expect(200);
    // What is refused takes none either.
    of(&served, "ci").post("/v1/runs", &json!({ "workflow": "none" })).await.expect(404);
    of(&served, "ci").post("/v1/runs", &body).await.expect(201);
    let refused = of(&served, "ci").post("/v1/runs", &body).await.expect(429);
    assert_eq!(refused["type"], "urn:retrial:problem:too-many-runs");
}

#[test]
fn x17_a_line_is_read_as_it_is_written() {
    let token = AccessToken::new(&secret("a")).unwrap();
    let whole = NamedToken {
        name: "a.b-c_1".into(),
        role: Role::Operate,
        token,
        unfinished: Some(1),
        bytes: Some(u64::MAX),
    };
    assert_eq!(whole.to_string().parse(), Ok(whole));
}

#[tokio::test]
async fn x17_a_discarded_letter_says_who_discarded_it() {
    let served = serve(tokens(&ONE_EACH), None).await;
    let body = submission(&one("broken", ""), &json!({}));
    let run = of(&served, "root").post("/v1/runs", &body).await.expect(201)["run"].clone();
    let run = run.as_str().unwrap();
    served.engine.outcome(run.parse().unwrap()).await.unwrap();
    let letter = format!("/v1/letters/{run}/0/0");
    let reason = json!({ "reason": "known" });
    of(&served, "ops").post(&format!("{letter}/discard"), &reason).await.expect(200);
    let shown = of(&served, "reader").get(&letter).await.expect(200);
    assert_eq!(shown["discarded_because"], "known (by ops)", "{shown}");
}
