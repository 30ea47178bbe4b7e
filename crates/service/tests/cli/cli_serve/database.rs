//! A service on PostgreSQL, and the commands over its database.

use std::time::Duration;

use serde_json::Value;

use super::endpoint::{Answer, Endpoint};
use super::postgres_server::Server;
use super::workspace::{Workspace, one_step};
use super::{QUICK, Serving};

/// Answers 503 to `/bad`, and 200 to all else.
fn endpoint() -> Endpoint {
    Endpoint::new(|seen| match seen.path.as_str() {
        "/bad" => Answer::Status(503, r#"{"error":"busy token=hunter2"}"#),
        _ => Answer::Status(200, r#"{"success":true}"#),
    })
}

fn well(workspace: &Workspace, args: &[&str], store: &str) -> String {
    let done = workspace.run(&[args, &["--store", store]].concat());
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{args:?}: {done:?}");
    done.out
}

impl Serving {
    /// Waits until a run is as `is` says.
    #[expect(clippy::disallowed_methods, reason = "a user who looks again, outside the engine")]
    fn until(&self, run: &str, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let shown = self.json("GET", &format!("/v1/runs/{run}"), &Value::Null);
            if is(&shown) {
                return shown;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
fn a_database_and_its_service_show_and_do_the_same() {
    let (server, endpoint, workspace) = (Server::start(), endpoint(), Workspace::new());
    let url = server.url("postgres");
    workspace.write("url", format!("{url}\n"));
    let serving = Serving::start(&workspace, &["--set", "store_file=url"]);
    let once = "work_config = { max_retries = 1, backoff = 10 }";
    let slow = "work_config = { max_retries = 3, backoff = 600000 }";
    let submit = |path: &str, policy: &str| serving.submit(&one_step(&endpoint.url(path), policy));
    let (good, bad, slow) = (submit("/good", QUICK), submit("/bad", once), submit("/bad", slow));
    assert!(serving.events(&good).contains("event: end"));
    assert!(serving.events(&bad).contains("event: end"));
    serving.until(&slow, |run| run["steps"][0]["tasks"][0]["attempts"] == 1);

    let letter = format!("{bad}/0/0");
    well(&workspace, &["pause", &slow], &url);
    let over_http = format!("http://{}", serving.address);
    for look in [
        &["list"][..],
        &["list", "--json"],
        &["list", "--phase", "paused"],
        &["inspect", &good],
        &["inspect", &bad[..13], "--json"],
        &["inspect", &slow],
        &["dlq", "list", "--all"],
        &["dlq", "show", &letter, "--json"],
    ] {
        let (here, there) = (well(&workspace, look, &url), well(&workspace, look, &over_http));
        assert_eq!(here, there, "{look:?}");
        assert!(here.len() > 40 && !here.contains("hunter2"), "{look:?}: {here}");
    }

    // Asked of the database, done by the service: the retry, and the redriven letter's run.
    let before = endpoint.seen().len();
    well(&workspace, &["fail", &slow, "--step", "fetch"], &url);
    serving.until(&slow, |run| run["phase"] == "failed");
    let said = well(&workspace, &["dlq", "redrive", &letter], &url);
    let again = said.trim_end().trim_end_matches('.').rsplit(' ').find(|word| word.len() == 36);
    let again = again.unwrap_or_else(|| panic!("{said}")).to_owned();
    serving.until(&again, |run| run["phase"] == "failed");
    assert_eq!(endpoint.seen().len(), before + 2, "a first attempt and its retry");
    well(&workspace, &["dlq", "discard", &letter.replace(&bad, &slow), "--reason", "no use"], &url);
    assert!(well(&workspace, &["dlq", "list", "--all"], &over_http).contains("discarded: no use"));
    well(&workspace, &["prune", "--older-than", "0s"], &url);
    assert!(!well(&workspace, &["list"], &over_http).contains(&good));
    serving.send("-TERM");
    assert_eq!(serving.end().0, Some(0));
}

#[test]
fn a_store_file_that_is_not_there_or_holds_nonsense_is_told() {
    let workspace = Workspace::new();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--set", "store_file=url"];
    let done = workspace.run(&serve);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("can't be read"), "{}", done.err);
    workspace.write("url", "postgres://u:planted@127.0.0.1:1/db?nonsense=1");
    let done = workspace.run(&serve);
    assert!(done.code == Some(2) || done.code == Some(3), "{done:?}");
    assert!(!done.err.contains("planted"), "{}", done.err);
}
