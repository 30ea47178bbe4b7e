//! Decision 20: inputs, results and payloads are given out as they are, to whoever asks for them.

use serde_json::{Value, json};

use super::kit::{one, serve};

const FAN_OUT: &str = r#"
workflow = "all"
[[steps]]
id = "each"
action = "echo"
for_each = "${input.of}"
args = { number = "${item}", password = "${input.password}" }
[[steps]]
id = "sum"
action = "echo"
after = ["each"]
args = { whole = "${steps.each}" }
"#;

#[tokio::test]
async fn decision_20_a_run_gives_its_input_and_results_as_they_are() {
    let served = serve().await;
    let input = json!({ "of": [1, 2, 3], "password": "hunter2\u{9b}" });
    let run = served.submit(FAN_OUT, &input).await;
    let shown = served.ended(&run).await;
    assert!(!shown.to_string().contains("hunter2"), "{shown}");
    let values = served.client.get(&format!("/v1/runs/{run}/values")).await.expect(200);
    assert_eq!(
        (&values["run"], &values["input"], &values["next"]),
        (&json!(run), &input, &Value::Null)
    );
    let results = values["results"].as_array().unwrap();
    let of = |n: usize| json!({ "number": n + 1, "password": "hunter2\u{9b}" });
    assert_eq!(results.len(), 4);
    for (n, result) in results[..3].iter().enumerate() {
        assert_eq!(*result, json!({ "step": "each", "item": n, "result": of(n) }));
    }
    assert_eq!((&results[3]["step"], &results[3]["item"]), (&json!("sum"), &json!(0)));
    assert_eq!(results[3]["result"]["whole"]["result"][1], of(1));
}

#[tokio::test]
async fn decision_20_results_come_in_pages_without_gap_or_repeat() {
    let served = serve().await;
    let large = "x".repeat(200_000);
    let of: Vec<u32> = (0..40).collect();
    let run = served.submit(FAN_OUT, &json!({ "of": of, "password": large })).await;
    served.ended(&run).await;
    for limit in ["", "?limit=7"] {
        let (mut items, mut next, mut pages) = (Vec::new(), None::<String>, 0);
        loop {
            let after =
                next.map(|at| format!("{}after={at}", if limit.is_empty() { "?" } else { "&" }));
            let path = format!("/v1/runs/{run}/values{limit}{}", after.unwrap_or_default());
            let answer = served.client.get(&path).await;
            // 4 MiB, the result that reaches them, and the input.
            assert!(answer.text.len() < 4 * 1024 * 1024 + 2 * 210_000, "{}", answer.text.len());
            let page = answer.expect(200);
            let found = page["results"].as_array().unwrap();
            items.extend(found.iter().filter(|r| r["step"] == "each").map(|r| r["item"].clone()));
            pages += 1;
            next = page["next"].as_str().map(str::to_owned);
            if next.is_none() {
                break;
            }
        }
        assert_eq!(items, (0..40).map(Value::from).collect::<Vec<_>>());
        assert_eq!(pages, if limit.is_empty() { 2 } else { 6 });
    }
}

#[tokio::test]
async fn decision_20_a_letter_gives_its_payload_as_it_is() {
    let served = serve().await;
    let input = json!({ "says": "no", "card": "4111-1111" });
    let run = served.submit(&one("broken", ""), &input).await;
    served.ended(&run).await;
    let letter = format!("/v1/letters/{run}/0/0");
    let shown = served.client.get(&letter).await.expect(200);
    assert!(!shown.to_string().contains("4111-1111"), "{shown}");
    let revealed = served.client.get(&format!("{letter}/payload")).await.expect(200);
    assert_eq!(revealed, json!({ "letter": format!("{run}/0/0"), "payload": { "of": input } }));
    let none = served.client.get(&format!("/v1/letters/{run}/7/0/payload")).await;
    assert_eq!(none.status, 404, "{none:?}");
}
