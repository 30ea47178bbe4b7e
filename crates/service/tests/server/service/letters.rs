//! Dead letters (C18).

use serde_json::json;

use super::kit::{one, serve};

#[tokio::test]
async fn c18_a_letter_is_listed_shown_and_redriven_once() {
    let served = serve().await;
    let run = served.submit(&one("broken", ""), &json!({ "says": "no such account" })).await;
    served.ended(&run).await;
    let listed = served.client.get("/v1/letters?waiting=true").await.expect(200);
    let letter = listed["letters"][0]["letter"].as_str().unwrap().to_owned();
    assert_eq!(letter, format!("{run}/0/0"));
    assert_eq!(listed["letters"][0]["code"], "400");
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
