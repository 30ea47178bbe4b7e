//! One run: its last error, its attempts, why each retry happened, its graph; as it goes on.

use serde_json::json;

use crate::inspector::kit::{Inspected, nothing, one, tries};

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn c17_a_run_shows_its_last_error_its_history_and_each_class() {
    let page = Inspected::new();
    let run = page.work_off(&one("bad", "broken", &tries(3)), &json!({ "says": "card declined" }));
    page.open(&format!("#/runs/{run}"));
    page.says("#last-error", "card declined");
    assert_eq!(page.texts("#last-error .code"), ["400"]);
    assert_eq!(page.texts("#last-error .chip"), ["permanent"]);
    page.says(".run-head .phase", "failed");
    page.says(".facts", &run);
    page.says(".gave-up", "Given up:");
    assert_eq!(page.texts(".attempts .chip"), ["permanent"]);
    assert_eq!(page.value("document.title"), "bad · failed – Retrial");
    page.is_sound();
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn a15_a_run_tells_why_each_retry_happened() {
    let page = Inspected::new();
    let policy = "work_config = { max_retries = 5, backoff = 20, backoff_type = \"linear\" }";
    let run = page.work_off(&one("shaky", "flaky", policy), &nothing());
    page.open(&format!("#/runs/{run}"));
    page.says(".run-head .phase", "completed");
    page.finds(".attempts li", 3);
    assert_eq!(
        page.texts(".why"),
        [
            "↻ Retry after 20 ms, because of a failure: 503",
            "↻ Retry after 40 ms, because of a failure: 503",
        ]
    );
    assert_eq!(page.texts(".attempts .word"), ["failed", "failed", "succeeded"]);
    assert_eq!(page.texts(".attempts .chip"), ["retryable", "retryable"]);
    page.finds(".lane .bar.bad", 2);
    page.finds(".lane .bar.good", 1);
    page.finds(".lane .delay", 2);
    assert_eq!(page.texts("#last-error"), [""; 0]);
    page.is_sound();
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn c13_a_timeout_is_told_as_one() {
    let page = Inspected::new();
    let policy = "retry = \"[TimeoutError -> retry: 1, backoff: 10ms] [timeout: 60ms]\"";
    let run = page.work_off(&one("late", "gated", policy), &nothing());
    page.open(&format!("#/runs/{run}"));
    page.says(".why", "because of a timeout: TIMEOUT");
    page.says("#last-error", "TIMEOUT");
    page.is_sound();
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn h16_a_run_is_followed_until_it_ends() {
    let page = Inspected::new();
    let run = page.submit(&one("gatehouse", "gated", ""), &nothing());
    page.open(&format!("#/runs/{run}"));
    page.says(".run-head .phase", "running");
    page.says(".task .phase", "running");
    page.says(".events", "attempt started");
    page.browser.run("window.still_here = true");
    page.pass();
    page.ended(&run);
    page.says(".run-head .phase", "completed");
    page.says(".events", "run ended");
    page.says("#live", "Ended");
    // Each once, the newest first.
    let numbers = page.texts(".events .number");
    let expected: Vec<String> = (0..numbers.len()).rev().map(|n| n.to_string()).collect();
    assert_eq!(numbers, expected);
    assert_eq!(page.value("window.still_here"), true);
    page.is_sound();
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn decision_20_input_and_results_are_shown_on_request() {
    let page = Inspected::new();
    let items: Vec<String> = (0..60).map(|n| format!("item {n} of {n}")).collect();
    let text = "workflow = \"each\"\n[[steps]]\nid = \"s\"\naction = \"echo\"\n\
                for_each = \"${input.of}\"\nargs = { got = \"${item}\" }\n";
    let run = page.work_off(text, &json!({ "of": items, "secret": "hunter2 <b>" }));
    page.open(&format!("#/runs/{run}"));
    page.says(".run-head .phase", "completed");
    let hidden = page.value("!document.body.textContent.includes('hunter2')");
    assert_eq!(hidden, true);
    page.browser.click("[data-do=reveal]");
    page.says("pre", "hunter2 <b>");
    // The input and a page of results, then the rest.
    page.finds("pre", 51);
    page.browser.click("[data-do=more-values]");
    page.finds("pre", 61);
    page.finds("[data-do=more-values]", 0);
    assert_eq!(page.texts("h3")[60], "s[59]");
    assert!(page.texts("pre")[60].contains("item 59 of 59"));
    page.is_sound();
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn h17_a_run_is_paused_resumed_and_cancelled() {
    let page = Inspected::new();
    let run = page.submit(&one("gatehouse", "gated", ""), &nothing());
    page.open(&format!("#/runs/{run}"));
    page.says(".run-head", "Pause");
    page.browser.click("[data-do=pause]");
    page.browser.write("#reason", "password=plantedreason");
    page.browser.click("#confirm-yes");
    page.says(".run-head .phase", "paused");
    page.says(".run-head .callout", "Retries are paused: password=***");
    page.browser.click("[data-do=resume]");
    page.says(".run-head .phase", "running");
    page.browser.click("[data-do=cancel]");
    page.browser.click("#confirm-no");
    page.says(".run-head .phase", "running");
    page.browser.click("[data-do=cancel]");
    page.browser.click("#confirm-yes");
    page.says(".run-head .phase", "cancelled");
    page.is_sound();
}

/// Two ways from `split` to `join`, and a handler that nothing leads to but a failure.
const FORKED: &str = r#"
workflow = "forked"
[input]
says = "no"
items = [1, 2, 3]
[[steps]]
id = "split"
action = "echo"
[[steps]]
id = "left"
action = "flaky"
after = ["split"]
work_config = { max_retries = 3, backoff = 1 }
[[steps]]
id = "each"
action = "echo"
for_each = "${input.items}"
after = ["split"]
[[steps]]
id = "join"
action = "broken"
args = { says = "${input.says}" }
after = ["left", "each"]
[[steps]]
id = "handler"
action = "echo"
[[transitions]]
from = "join"
to = "handler"
condition = { type = "exists", field = { type = "field", path = "state._last_error" } }
"#;

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn the_graph_shows_steps_edges_and_phases() {
    let page = Inspected::new();
    let run = page.work_off(FORKED, &json!({}));
    page.open(&format!("#/runs/{run}"));
    page.finds(".graph .step", 5);
    let said = page.texts(".graph .said");
    assert_eq!(
        said,
        ["succeeded", "succeeded · 3 attempts", "succeeded · 3 tasks", "failed", "succeeded"]
    );
    let events = page.texts(".events .what");
    assert!(events.iter().any(|what| what.contains(" → handler, after a failure")), "{events:?}");
    page.finds(".edge.after", 4);
    page.finds(".edge.route", 1);
    // Whatever follows stands further along.
    let left =
        "[...document.querySelectorAll('.graph .box')].map((b) => b.getBoundingClientRect().left)";
    let left = page.value(left);
    let left: Vec<f64> = left.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    assert!(left[0] < left[1] && left[1] < left[3] && left[3] < left[4], "{left:?}");
    // A step opens its tasks.
    page.browser.run("document.querySelectorAll('details.task').forEach((d) => (d.open = false))");
    page.browser.click("[data-step=each]");
    page.finds("details.task[open]", 1);
    assert_eq!(page.value("document.activeElement.textContent.startsWith('each[0]')"), true);
    page.is_sound();
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn x20_paused_runs_are_resumed_together() {
    let page = Inspected::new();
    for name in ["one", "two", "other"] {
        let run = page.submit(&one(name, "gated", ""), &json!({}));
        let run = run.parse().unwrap();
        if name != "other" {
            page.block_on(page.engine.pause(run, "wait")).unwrap();
        }
    }
    page.open("#/runs?phase=paused");
    page.finds(".runs tbody tr", 2);
    page.browser.click("[data-do=resume-all]");
    page.says("#confirm-title", "Resume 2 runs?");
    page.browser.click("#confirm-yes");
    page.says("#told", "2 runs resumed.");
    page.says(".empty", "No run is like that.");
    page.finds("[data-do=resume-all]", 0);
    page.is_sound();
}
