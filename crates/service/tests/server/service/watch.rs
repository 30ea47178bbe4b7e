//! Lists of runs, and watching them.

use serde_json::{Value, json};

use super::kit::{one, serve, submission};

fn runs(page: &Value) -> Vec<String> {
    let all = page["runs"].as_array().unwrap().iter();
    all.map(|head| head["run"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn runs_come_in_pages_newest_first() {
    let served = serve().await;
    let mut submitted = Vec::new();
    for _ in 0..7 {
        submitted.push(served.submit(&one("echo", ""), &json!({})).await);
    }
    submitted.reverse();
    let (mut found, mut before) = (Vec::new(), String::new());
    loop {
        let page = served.client.get(&format!("/v1/runs?limit=3{before}")).await.expect(200);
        assert!(runs(&page).len() <= 3);
        found.extend(runs(&page));
        let Some(next) = page["next"].as_str() else { break };
        before = format!("&before={next}");
    }
    assert_eq!(found, submitted);
}

#[tokio::test]
async fn runs_are_filtered() {
    let served = serve().await;
    let good = served.submit(&one("echo", ""), &json!({})).await;
    let bad = served.submit(&one("broken", "").replace("\"w\"", "\"Payment\""), &json!({})).await;
    served.ended(&good).await;
    served.ended(&bad).await;
    let ask = async |query: &str| {
        runs(&served.client.get(&format!("/v1/runs?{query}")).await.expect(200))
    };
    assert_eq!(ask("phase=failed").await, [&*bad]);
    assert_eq!(ask("workflow=w").await, [&*good]);
    assert_eq!(ask("q=pay").await, [&*bad]);
    assert_eq!(ask(&format!("q={}", &good[..18])).await, [&*good]);
    assert_eq!(ask("letters=true&phase=").await, [&*bad]);
    let definition = one("echo", "");
    let body = json!({ "definition": definition, "format": "toml", "input": { "nth": 2 } });
    let keyed = served.client.with("idempotency-key", "order 7").post("/v1/runs", &body).await;
    let keyed = keyed.expect(201)["run"].as_str().unwrap().to_owned();
    served.ended(&keyed).await;
    assert_eq!(ask("key=order%207").await, [&*keyed]);
    assert_eq!(ask("key=order").await, [""; 0]);
    assert_eq!(ask("code=404").await, [""; 0]);
    let shown = served.client.get("/v1/runs").await.expect(200)["runs"].take();
    assert_eq!((&shown[0]["key"], &shown[0]["code"]), (&json!("order 7"), &Value::Null));
    assert!(shown[1]["code"].is_string() && shown[1]["key"].is_null(), "{shown}");
    assert_eq!(ask(&format!("code={}", shown[1]["code"].as_str().unwrap())).await, [&*bad]);
    let found = definition.replace("[[steps]]", "search = [\"nth\", \"to\"]\n[[steps]]");
    let found = served.submit(&found, &json!({ "nth": 3, "to": "a=b" })).await;
    served.ended(&found).await;
    assert_eq!(ask("field=nth%3D3").await, [&*found]);
    assert_eq!(ask("field=to=a%3Db&field=nth=3").await, [&*found]);
    // No other run declares it.
    assert_eq!(ask("field=nth=2").await, [""; 0]);
    assert_eq!(ask("field=nth=3&field=to=c").await, [""; 0]);
    let born = shown[1]["created"].as_str().unwrap();
    assert_eq!(ask(&format!("since={born}")).await, [&*found, &*keyed, &*bad]);
    assert_eq!(ask(&format!("until={born}")).await, [&*good]);
    let wrong = ["phase=done", "letters=perhaps", "limit=-1", "before=x", "fase=failed", "q=a&q=b"];
    let more = ["since=yesterday", "until=7", "field=nth", "field==3", "field=a=1&field=a=2"];
    for wrong in wrong.into_iter().chain(more) {
        let refused = served.client.get(&format!("/v1/runs?{wrong}")).await;
        assert_eq!(refused.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn a_watched_page_comes_again_when_it_differs() {
    let served = serve().await;
    let mut watched = served.client.stream("/v1/runs/watch?phase=completed").await;
    let first = watched.next().await.unwrap();
    assert_eq!((first.event.as_str(), runs(&first.data)), ("page", vec![]));
    let run = served.submit(&one("echo", ""), &json!({})).await;
    let second = watched.next().await.unwrap();
    assert_eq!(runs(&second.data), [run]);
}

/// A message has room for some of a page. The others follow it in the list.
#[tokio::test]
async fn x20_a_watched_page_that_is_cut_short_is_followed_by_the_rest() {
    let served = serve().await;
    let mut submitted = Vec::new();
    for n in 0..120 {
        let body = submission(&one("echo", ""), &json!({}));
        let key = format!("{n:0250}");
        let keyed = served.client.with("idempotency-key", &key).post("/v1/runs", &body).await;
        submitted.push(keyed.expect(201)["run"].as_str().unwrap().to_owned());
    }
    submitted.reverse();
    let mut watched = served.client.stream("/v1/runs/watch?limit=110").await;
    let page = watched.next().await.unwrap().data;
    let mut found = runs(&page);
    assert!(found.len() < 110, "the page is whole");
    let next = page["next"].as_str().unwrap();
    let rest = served.client.get(&format!("/v1/runs?limit=500&before={next}")).await.expect(200);
    found.extend(runs(&rest));
    assert_eq!(found, submitted);
}
