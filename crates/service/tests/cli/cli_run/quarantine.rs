//! X14: a task that ends the service three times waits until somebody releases it.

use serde_json::{Value, json};

use super::endpoint::{Answer, Endpoint};
use super::service::{STORE, ids, serve, well};
use super::workspace::{Workspace, one_step};

#[test]
fn x14_a_service_that_died_three_times_under_a_task_holds_it() {
    // The first three requests are in progress when the service is killed.
    let endpoint = Endpoint::new(|seen| match seen.nth {
        ..=3 => Answer::Hang,
        _ => Answer::Status(200, r#"{"success":true}"#),
    });
    let workspace = Workspace::new();
    let policy = "work_config = { max_retries = 9, backoff = 10 }";
    workspace.write("w.toml", one_step(&endpoint.url("/x"), policy));
    // The definition comes into the store by a run that is killed as well.
    let going = workspace.start(&["run", "w.toml", "--store", STORE]);
    endpoint.wait_for(1);
    going.kill();
    let run = &ids(&workspace, STORE)[0];
    let shown = |store: &str| -> Value {
        serde_json::from_str(&well(&workspace, &["inspect", run, "--json"], store)).unwrap()
    };
    for lives in 2..=3 {
        let (going, _) = serve(&workspace, &[]);
        endpoint.wait_for(lives);
        going.kill();
    }
    let (going, url) = serve(&workspace, &[]);
    let held = loop {
        let shown = shown(&url);
        if shown["steps"][0]["tasks"][0]["phase"] == "quarantined" {
            break shown;
        }
    };
    let task = &held["steps"][0]["tasks"][0];
    assert_eq!((&task["lost_attempts"], &task["due"]), (&json!(3), &Value::Null), "{task}");
    assert_eq!(held["queue"][0]["scheduled_at"], Value::Null, "{held}");
    let text = well(&workspace, &["inspect", run], &url);
    assert!(text.contains("3 attempts in a row lost their node"), "{text}");
    let said = well(&workspace, &["release", run, "--reason", "mended"], &url);
    assert_eq!(
        said,
        format!("Run {run}: released from quarantine. The nodes of its store execute it.\n")
    );
    endpoint.wait_for(4);
    while shown(&url)["phase"] != "completed" {}
    going.kill();
}
