//! Lists of runs, and watching them.

use serde_json::{Value, json};

use super::kit::{one, serve};

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
    assert_eq!(ask(&format!("q={}", &good[..10])).await, [&*good]);
    assert_eq!(ask("letters=true&phase=").await, [&*bad]);
    for wrong in ["phase=done", "letters=perhaps", "limit=-1", "before=x", "fase=failed", "q=a&q=b"]
    {
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
