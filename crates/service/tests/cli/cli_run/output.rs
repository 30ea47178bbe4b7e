//! What is printed, ids and lengths of time aside (H14, H15).

use super::endpoint::{Answer, Endpoint};
use super::workspace::{Done, Workspace, done};

/// The output with `ID` for the run's id and `#s` for how long something took. The delays are
/// the policy's, and stay.
pub(super) fn plain(done: &Done) -> String {
    let id = done.first_line().split(' ').nth(1).unwrap_or_default();
    without_lengths(&done.out.replace(id, "ID"))
}

/// The text with `#s` for how long something took.
pub(super) fn without_lengths(text: &str) -> String {
    let text = without_times(text);
    let mut parts = text.split('(');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let took = rest.len() < part.len() && rest.starts_with('s');
        plain.push('(');
        plain.push_str(if took { "#" } else { "" });
        plain.push_str(if took { rest } else { part });
    }
    plain
}

/// The tree of times without its numbers.
fn without_times(text: &str) -> String {
    let Some((before, times)) = text.split_once("⏱ TIME OF TASKS\n") else {
        return text.to_owned();
    };
    let shown = times.lines().map(|line| match line.split_once(": ") {
        Some((name, took)) if took.ends_with('s') => format!("{name}: #s\n"),
        _ => format!("{line}\n"),
    });
    format!("{before}⏱ TIME OF TASKS\n{}", shown.collect::<String>())
}

const FIXED: &str = "work_config = { max_retries = 2, backoff = 100 }";

#[test]
fn h14_recovery_is_short() {
    let workspace = Workspace::with_step(&Endpoint::failing(2).url("/x"), FIXED);
    insta::assert_snapshot!(plain(&workspace.run(&["run", "w.toml"])), @r#"
    Run ID of w, kept in .retrial/w.redb.
    🔧 fetch [STARTED]
    ✔ fetch [COMPLETED after 3 attempts] (#s total)
      ↻ Recovered after 2 retries
    ✔ w [RUN COMPLETED] (#s total)
    Result of fetch: {"rows":[7,8],"success":true}
    📊 RETRY STATISTICS
    ├─ Total events with retries: 1
    ├─ Succeeded after retry: 1 (100%)
    ├─ Failed after all retries: 0 (0%)
    ├─ Total retry attempts: 2
    └─ Avg retries per event: 2.0
    ⏱ TIME OF TASKS
    ├─ Working: #s
    ├─ In attempts that failed: #s
    └─ Waiting to retry: #s
    "#);
}

#[test]
fn h14_exhaustion_is_detailed() {
    let workspace = Workspace::with_step(&Endpoint::failing(9).url("/x"), FIXED);
    insta::assert_snapshot!(plain(&workspace.run(&["run", "w.toml"])), @r"
    Run ID of w, kept in .retrial/w.redb.
    🔧 fetch [STARTED]
    ✖ fetch [FAILED] (#s) - HTTP 503 Service Unavailable: busy
      ↻ Retrying (attempt 2/3) in 0.1s...
    🔧 fetch [STARTED] (retry 2/3)
    ✖ fetch [FAILED] (#s) - HTTP 503 Service Unavailable: busy
      ↻ Retrying (attempt 3/3) in 0.1s...
    🔧 fetch [STARTED] (retry 3/3)
    ✖ fetch [FAILED] (#s) - HTTP 503 Service Unavailable: busy
    ✖ fetch [EXHAUSTED all 3 attempts] (#s total)
    ✖ w [RUN FAILED] (#s total) - fetch: 503: HTTP 503 Service Unavailable: busy
    📊 RETRY STATISTICS
    ├─ Total events with retries: 1
    ├─ Succeeded after retry: 0 (0%)
    ├─ Failed after all retries: 1 (100%)
    ├─ Total retry attempts: 2
    └─ Avg retries per event: 2.0
    ⏱ TIME OF TASKS
    ├─ Working: #s
    ├─ In attempts that failed: #s
    └─ Waiting to retry: #s
    ");
}

#[test]
fn h14_detailed_prints_all() {
    let workspace = Workspace::with_step(&Endpoint::failing(1).url("/x"), FIXED);
    let done = workspace.run(&["run", "w.toml", "--output", "detailed"]);
    insta::assert_snapshot!(plain(&done), @r#"
    Run ID of w, kept in .retrial/w.redb.
    🔧 fetch [STARTED]
    ✖ fetch [FAILED] (#s) - HTTP 503 Service Unavailable: busy
      ↻ Retrying (attempt 2/3) in 0.1s...
    🔧 fetch [STARTED] (retry 2/3)
    ✔ fetch [COMPLETED after 2 attempts] (#s total)
      ↻ Recovered after 1 retry
    ✔ w [RUN COMPLETED] (#s total)
    Result of fetch: {"rows":[7,8],"success":true}
    📊 RETRY STATISTICS
    ├─ Total events with retries: 1
    ├─ Succeeded after retry: 1 (100%)
    ├─ Failed after all retries: 0 (0%)
    ├─ Total retry attempts: 1
    └─ Avg retries per event: 1.0
    ⏱ TIME OF TASKS
    ├─ Working: #s
    ├─ In attempts that failed: #s
    └─ Waiting to retry: #s
    "#);
}

// C5, C6: a failure that no retry mends is routed, and the handler sees what it was.
#[test]
fn a_routed_failure_reads_as_a_tale() {
    let endpoint = Endpoint::new(|seen| match seen.path.as_str() {
        "/page" => Answer::Status(200, r#"{"paged": true}"#),
        _ => Answer::Status(404, r#"{"error": "no such thing"}"#),
    });
    let workspace = Workspace::new();
    workspace.write(
        "w.json",
        format!(
            r#"{{
  "workflow": "w",
  "actions": {{ "get": {{ "http": "POST {}" }}, "page": {{ "http": "POST {}" }} }},
  "steps": [
    {{ "id": "fetch", "action": "get" }},
    {{ "id": "handle", "action": "page", "args": {{ "code": "${{_last_error.code}}" }} }}
  ],
  "transitions": [
    {{ "from": "fetch", "to": "handle",
       "condition": {{ "type": "exists", "field": "state._last_error" }} }}
  ]
}}"#,
            endpoint.url("/get"),
            endpoint.url("/page")
        ),
    );
    let done = workspace.run(&["run", "w.json"]);
    assert_eq!(endpoint.seen()[1].body, r#"{"code":"404"}"#);
    insta::assert_snapshot!(plain(&done), @r#"
    Run ID of w, kept in .retrial/w.redb.
    🔧 fetch [STARTED]
    ✖ fetch [FAILED] (#s) - HTTP 404 Not Found: no such thing
    ↳ fetch failed: routed to handle
    🔧 handle [STARTED]
    ✔ handle [COMPLETED] (#s)
    ✔ w [RUN COMPLETED] (#s total)
    Result of handle: {"paged":true}
    📊 RETRY STATISTICS
    ├─ Total events with retries: 0
    ├─ Succeeded after retry: 0 (0%)
    ├─ Failed after all retries: 0 (0%)
    ├─ Total retry attempts: 0
    └─ Avg retries per event: 0.0
    "#);
}

// IR text with its actions beside it; a dependency by the name of a result.
#[test]
fn ir_text_runs() {
    let endpoint = Endpoint::failing(1);
    let workspace = Workspace::new();
    workspace
        .write("p.ir", "a = @get(day=input.day) [retry: 1, backoff: 100ms]\n@put(rows=a.rows)\n");
    let url = |path: &str| endpoint.url(path);
    workspace.write(
        "actions.toml",
        format!(
            "[input]\nday = 3\n[actions.get]\nhttp = \"POST {}\"\n[actions.put]\nhttp = \"POST {}\"\n\
             [defaults]\nwork_config = {{ max_retries = 1, backoff = 100 }}\n",
            url("/get"),
            url("/put")
        ),
    );
    let done = workspace.run(&["run", "p.ir", "--actions", "actions.toml"]);
    insta::assert_snapshot!(plain(&done), @r#"
    Run ID of p, kept in .retrial/p.redb.
    🔧 a [STARTED]
    ✔ a [COMPLETED after 2 attempts] (#s total)
      ↻ Recovered after 1 retry
    🔧 put [STARTED]
    ✔ put [COMPLETED after 2 attempts] (#s total)
      ↻ Recovered after 1 retry
    ✔ p [RUN COMPLETED] (#s total)
    Result of put: {"rows":[7,8],"success":true}
    📊 RETRY STATISTICS
    ├─ Total events with retries: 2
    ├─ Succeeded after retry: 2 (100%)
    ├─ Failed after all retries: 0 (0%)
    ├─ Total retry attempts: 2
    └─ Avg retries per event: 1.0
    ⏱ TIME OF TASKS
    ├─ Working: #s
    ├─ In attempts that failed: #s
    └─ Waiting to retry: #s
    "#);
    let bodies: Vec<_> = endpoint.seen().into_iter().map(|s| s.body).collect();
    assert_eq!(bodies, ["{\"day\":3}", "{\"day\":3}", "{\"rows\":[7,8]}", "{\"rows\":[7,8]}"]);
}

// A7: the environment's policy governs a step without its own.
#[test]
fn a7_the_environment_gives_the_default_policy() {
    let endpoint = Endpoint::failing(2);
    let workspace = Workspace::with_step(&endpoint.url("/x"), "");
    let mut command = workspace.command(&["run", "w.toml"]);
    command.env("RETRY_MAX_RETRIES", "2").env("RETRY_BACKOFF", "1");
    let done = done(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(endpoint.seen().len(), 3);
}

// Whoever reads stdout may go away: the run goes on to its end.
#[test]
fn a_reader_that_goes_away_changes_nothing() {
    let endpoint = Endpoint::failing(1);
    let workspace = Workspace::with_step(&endpoint.url("/x"), FIXED);
    let mut going = workspace.start(&["run", "w.toml"]);
    going.until("Run ");
    let code = going.hang_up().wait();
    assert_eq!((code, endpoint.seen().len()), (Some(0), 2));
}
