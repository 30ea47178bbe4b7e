//! Dead letters (C18).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use retrial::store::{Answer, Request, Store, StoreError};
use retrial_service::server::Settings;
use serde_json::json;

use super::kit::{Memory, memory, one, serve, serve_with};

/// A store whose letters have rotted, and with them the runs.
struct Rotten {
    under: Memory,
    is_rotten: AtomicBool,
}

impl Store for Rotten {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let mut answer = self.under.ask(request).await?;
        if !self.is_rotten.load(Ordering::SeqCst) {
            return Ok(answer);
        }
        match &mut answer {
            Answer::Letters(page) => {
                page.damaged = page.letters.drain(..).map(|head| head.id).collect();
            }
            Answer::List(page) => page.damaged = page.runs.drain(..).map(|head| head.run).collect(),
            _ => {}
        }
        Ok(answer)
    }
}

#[tokio::test]
async fn c18_a_damaged_letter_is_named_on_its_runs_page_and_readiness_says_what_is_damaged() {
    let store = Arc::new(Rotten { under: memory(), is_rotten: AtomicBool::new(false) });
    let served = serve_with(Arc::clone(&store), Settings::default()).await;
    let run = served.submit(&one("broken", ""), &json!({})).await;
    served.ended(&run).await;
    for is_rotten in [false, true] {
        store.is_rotten.store(is_rotten, Ordering::SeqCst);
        let shown = served.client.get(&format!("/v1/runs/{run}")).await.expect(200);
        let letter = json!([format!("{run}/0/0")]);
        let (whole, damaged) = if is_rotten { (json!([]), letter) } else { (letter, json!([])) };
        assert_eq!((&shown["letters"], &shown["damaged_letters"]), (&whole, &damaged));
        let ready = served.client.get("/readyz").await.expect(200);
        assert_eq!(ready, json!({ "status": "ready", "damaged_runs": is_rotten }));
    }
}

#[tokio::test]
async fn c18_a_letter_is_listed_shown_and_redriven_once() {
    let served = serve().await;
    let run = served.submit(&one("broken", ""), &json!({ "says": "no such account" })).await;
    served.ended(&run).await;
    let listed = served.client.get("/v1/letters?waiting=true").await.expect(200);
    let letter = listed["letters"][0]["letter"].as_str().unwrap().to_owned();
    assert_eq!(letter, format!("{run}/0/0"));
    assert_eq!(listed["letters"][0]["code"], "400");
    assert_eq!(listed["letters"][0]["message"], "no such account");
    let at = listed["letters"][0]["failed_at"].as_str().unwrap();
    for (bound, found) in [("since", 1), ("until", 0)] {
        let page = served.client.get(&format!("/v1/letters?{bound}={at}")).await.expect(200);
        assert_eq!(page["letters"].as_array().unwrap().len(), found, "{bound}");
    }
    assert_eq!(served.client.get("/v1/letters?since=lately").await.status, 400);
    let shown = served.client.get(&format!("/v1/letters/{letter}")).await.expect(200);
    assert_eq!((&shown["step"], &shown["attempts"]), (&json!("s"), &json!(1)));
    assert_eq!(shown["payload"], json!({ "of": { "says": "***" } }));
    let path = format!("/v1/letters/{letter}/redrive");
    let redriven = served.client.ask("POST", &path, "").await.expect(201);
    let again = served.client.ask("POST", &path, "").await.expect(409);
    assert_eq!(again["run"], redriven["run"]);
    let listed = served.client.get("/v1/runs?letters=true").await.expect(200);
    let waits = listed["runs"].as_array().unwrap().iter().any(|head| head["run"] == json!(run));
    assert!(!waits, "its letter does not wait: {listed}");
}

#[tokio::test]
async fn c18_a_letter_is_discarded() {
    let served = serve().await;
    let run = served.submit(&one("broken", ""), &json!({})).await;
    served.ended(&run).await;
    let path = format!("/v1/letters/{run}/0/0/discard");
    let reason = json!({ "reason": "known" });
    assert_eq!(served.client.post(&path, &reason).await.expect(200)["status"], "discarded");
    let shown = served.client.get(&format!("/v1/letters/{run}/0/0")).await.expect(200);
    assert_eq!(
        (&shown["status"], &shown["discarded_because"]),
        (&json!("discarded"), &json!("known"))
    );
    let redrive = served.client.ask("POST", &format!("/v1/letters/{run}/0/0/redrive"), "").await;
    assert_eq!(redrive.status, 409);
}

#[tokio::test]
async fn letters_come_in_pages() {
    let served = serve().await;
    for _ in 0..5 {
        let run = served.submit(&one("broken", ""), &json!({})).await;
        served.ended(&run).await;
    }
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = served.client.get(&format!("/v1/letters?limit=2{after}")).await.expect(200);
        let letters = page["letters"].as_array().unwrap();
        assert!(letters.len() <= 2);
        found.extend(letters.iter().map(|letter| letter["letter"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let mut sorted = found.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((found.len(), &found), (5, &sorted));
    let other = served.client.get("/v1/letters?action=echo").await.expect(200);
    assert_eq!(other["letters"], json!([]));
    assert_eq!(served.client.get("/v1/letters/nonsense/0/0").await.status, 404);
}

/// A page of the store has fewer.
#[tokio::test]
async fn c18_all_letters_of_a_run_are_named() {
    let served = serve().await;
    let items: Vec<u32> = (0..300).collect();
    let text = "workflow = \"w\"\n[[steps]]\nid = \"s\"\naction = \"broken\"\n\
                for_each = \"${input.items}\"\nargs = { of = \"${item}\" }\n";
    let run = served.submit(text, &json!({ "items": items })).await;
    let shown = served.ended(&run).await;
    let named: Vec<&str> =
        shown["letters"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let wanted: Vec<String> = items.iter().map(|item| format!("{run}/0/{item}")).collect();
    assert_eq!(named, wanted);
}
