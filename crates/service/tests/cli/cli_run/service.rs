//! The commands over a service: what they print and do is what they print and do over its store.

use super::endpoint::{Answer, Endpoint};
use super::workspace::{Done, Going, Workspace, one_step};

pub(super) const STORE: &str = "s.redb";
const TOKEN: &str = "0123456789abcdef-hunter2";

/// Answers 503 to `/bad`, with a secret in its words, and 200 to all else.
fn endpoint() -> Endpoint {
    Endpoint::new(|seen| match seen.path.as_str() {
        "/bad" => Answer::Status(503, r#"{"error":"busy \u001b[2Jtoken=hunter2"}"#),
        _ => Answer::Status(200, r#"{"success":true}"#),
    })
}

/// A store with a run that completed, two that failed and one that is paused.
fn stored(endpoint: &Endpoint) -> Workspace {
    let workspace = Workspace::new();
    let once = "work_config = { max_retries = 1, backoff = 10 }";
    let named = |name: &str, path: &str, policy: &str| {
        one_step(&endpoint.url(path), policy).replace("\"w\"", &format!("\"{name}\""))
    };
    workspace.write("good.toml", named("good", "/good", once));
    workspace.write("bad.toml", named("bad", "/bad", once));
    workspace.write(
        "slow.toml",
        named("slow", "/bad", "work_config = { max_retries = 3, backoff = 60000 }"),
    );
    for (file, code) in [("good.toml", 0), ("bad.toml", 1), ("bad.toml", 1)] {
        assert_eq!(workspace.run(&["run", file, "--store", STORE]).code, Some(code));
    }
    let mut going = workspace.start(&["run", "slow.toml", "--store", STORE]);
    going.until("Retrying");
    going.kill();
    let paused = workspace.run(&["pause", &ids(&workspace, STORE)[3], "--store", STORE]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    workspace
}

pub(super) fn ids(workspace: &Workspace, store: &str) -> Vec<String> {
    let listed = workspace.run(&["list", "--json", "--store", store]);
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    let runs = listed["runs"].as_array().unwrap();
    runs.iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

/// A service on the store, with its URL.
pub(super) fn serve(workspace: &Workspace, more: &[&str]) -> (Going, String) {
    let args = ["serve", "--store", STORE, "--listen", "127.0.0.1:0"];
    let mut going = workspace.launch(&[&args, more].concat());
    let said = going.until("Listening on ");
    let url = said.trim().rsplit(' ').next().unwrap().to_owned();
    (going, url)
}

pub(super) fn well(workspace: &Workspace, args: &[&str], store: &str) -> String {
    let done = workspace.run(&[args, &["--store", store]].concat());
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{args:?}: {done:?}");
    done.out
}

#[test]
fn a_store_and_its_service_show_the_same() {
    let endpoint = endpoint();
    let workspace = stored(&endpoint);
    let ids = ids(&workspace, STORE);
    let letter = format!("{}/0/0", ids[1]);
    let mut looks = vec![
        vec!["list"],
        vec!["list", "--json"],
        vec!["list", "--phase", "failed"],
        vec!["list", "--workflow", "good"],
        vec!["dlq", "list", "--all"],
        vec!["dlq", "list", "--json"],
        vec!["dlq", "list", "--code", "404"],
        vec!["dlq", "show", &letter],
        vec!["dlq", "show", &letter[..20], "--json"],
    ];
    for id in &ids {
        looks.push(vec!["inspect", &id[..13]]);
        looks.push(vec!["inspect", id, "--json"]);
    }
    let here: Vec<_> = looks.iter().map(|look| well(&workspace, look, STORE)).collect();
    let (going, url) = serve(&workspace, &[]);
    for (look, here) in looks.iter().zip(here) {
        let there = well(&workspace, look, &url);
        assert_eq!(there, here, "{look:?}");
        assert!(!there.contains("hunter2") && !there.contains('\x1b'), "{look:?}: {there}");
    }
    going.kill();
}

#[test]
fn a_service_does_what_is_asked_of_runs_and_letters() {
    let endpoint = endpoint();
    let workspace = stored(&endpoint);
    let ids = ids(&workspace, STORE);
    let (going, url) = serve(&workspace, &[]);
    let paused = &ids[3];
    let said = well(&workspace, &["resume", &paused[..13]], &url);
    assert_eq!(said, format!("Run {paused}: retries resume. The nodes of its store execute it.\n"));
    let said = well(&workspace, &["pause", paused], &url);
    assert!(said.contains(&format!("`retrial resume {paused} --store {url}`")), "{said}");
    assert!(well(&workspace, &["list", "--phase", "paused"], &url).contains(paused));
    well(&workspace, &["deactivate", paused], &url);
    well(&workspace, &["archive", paused], &url);
    assert!(well(&workspace, &["list"], &url).contains("deactivated (archived)"));
    well(&workspace, &["activate", paused], &url);
    let said = well(&workspace, &["fail", paused, "--step", "fetch"], &url);
    assert!(said.ends_with("and so did the run.\n"), "{said}");

    let letter = format!("{}/0/0", ids[1]);
    let said = well(&workspace, &["dlq", "redrive", &letter], &url);
    assert!(said.starts_with(&format!("Letter {letter} is redriven by run ")), "{said}");
    well(&workspace, &["dlq", "discard", &format!("{}/0/0", ids[2]), "--reason", "no use"], &url);
    let all = well(&workspace, &["dlq", "list", "--all"], &url);
    assert!(all.contains("discarded: no use") && all.contains("redriven by "), "{all}");

    let pruned = well(&workspace, &["prune", "--older-than", "0s"], &url);
    assert!(pruned.starts_with("Pruned ") && !pruned.starts_with("Pruned 0"), "{pruned}");
    assert!(!well(&workspace, &["list"], &url).contains(&ids[0]));
    going.kill();
}

/// A refusal has the same words and the same code either way.
#[test]
fn a_service_refuses_what_its_store_refuses() {
    let endpoint = endpoint();
    let workspace = stored(&endpoint);
    let ids = ids(&workspace, STORE);
    let nobody = "00000000-0000-4000-8000-000000000000";
    let letter = format!("{}/0/0", ids[0]);
    let asked = [
        vec!["inspect", nobody],
        vec!["inspect", "zzz"],
        vec!["inspect", ""],
        vec!["pause", &ids[0]],
        vec!["cancel", &ids[1]],
        vec!["archive", &ids[3]],
        vec!["fail", &ids[3], "--step", "nosuch"],
        vec!["dlq", "show", &letter],
        vec!["dlq", "redrive", &letter],
        vec!["dlq", "discard", &letter],
    ];
    let refused = |store: &str| -> Vec<Done> {
        let ask =
            |args: &Vec<&str>| workspace.run(&[args.as_slice(), &["--store", store]].concat());
        asked.iter().map(ask).collect()
    };
    let here = refused(STORE);
    let (going, url) = serve(&workspace, &[]);
    for ((args, here), there) in asked.iter().zip(here).zip(refused(&url)) {
        assert_eq!(here.code, Some(2), "{args:?}: {here:?}");
        assert_eq!((there.code, there.out, there.err), (here.code, here.out, here.err), "{args:?}");
    }
    going.kill();
}

#[test]
fn a_service_that_asks_for_a_token_is_given_it_and_no_other_place_is() {
    let endpoint = endpoint();
    let workspace = stored(&endpoint);
    workspace.write("token", TOKEN);
    workspace.write("other", "another-token-than-that");
    let (going, url) = serve(&workspace, &["--token-file", "token"]);
    well(&workspace, &["list", "--token-file", "token"], &url);
    let by = |name: &str, value: &str| {
        let mut command = workspace.command(&["list"]);
        super::workspace::done({
            command.env("RETRIAL_STORE", &url).env(name, value);
            command
        })
    };
    assert_eq!(by("RETRIAL_TOKEN", TOKEN).code, Some(0));
    assert_eq!(by("RETRIAL_TOKEN_FILE", "token").code, Some(0));
    let listed = |more: &[&str]| workspace.run(&[&["list", "--store", &url], more].concat());
    for refused in [listed(&[]), listed(&["--token-file", "other"])] {
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("RETRIAL_TOKEN, or in a file"), "{}", refused.err);
        assert!(!refused.err.contains("another-token"), "{}", refused.err);
    }
    assert_eq!(listed(&["--token-file", "nosuch"]).code, Some(2));
    assert_eq!(listed(&["--token", TOKEN]).code, Some(2), "all see a command line");
    going.kill();
}

#[test]
fn a_place_where_no_service_is_says_so() {
    let workspace = Workspace::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let said = |store: &str, code: i32, words: &str| {
        let done = workspace.run(&["list", "--store", store]);
        assert_eq!(done.code, Some(code), "{store}: {done:?}");
        assert!(done.err.contains(words), "{store}: {}", done.err);
        assert!(!done.err.contains("hunter2"), "{}", done.err);
    };
    said(&closed, 3, "connecting to http://127.0.0.1:");
    let endpoint = Endpoint::new(|_| Answer::Status(200, "<html>hunter2</html>"));
    said(&endpoint.url(""), 3, "the answer (200) is not from a Retrial service");
    said("http://u:hunter2@h", 2, "contains a user name or a password");
    said("ftp://h", 2, "must start with http:// or https://");
}
