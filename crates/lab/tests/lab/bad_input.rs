//! Bad lab files: what is said of each, with line and field.

use std::path::Path;

use retrial_lab::numeric::Chance;
use retrial_lab::read::{self, Files};

const GOOD: &str = "\
length = \"10m\"
[clients.web]
to = \"api\"
arrivals = { poisson = 70 }
retry = \"[retry: 3]\"
[services.api]
workers = 10
time = \"100ms\"
[[triggers]]
kind = \"pause\"
on = \"api\"
at = \"60s\"
length = \"10s\"
";

fn said(text: &str) -> String {
    match read::scenario("lab.toml", text, &Files::in_folder(Path::new("."))) {
        Ok(_) => "nothing".to_owned(),
        Err(found) => found.first().map(ToString::to_string).unwrap_or_default(),
    }
}

#[test]
fn each_mistake_is_named_with_its_line_its_field_and_what_to_write() {
    assert_eq!(said(GOOD), "nothing");
    let check = |from: &str, to: &str, wanted: &str| {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        assert_eq!(said(&text), format!("lab.toml:{wanted}"), "{to}");
    };
    check(
        "\"10m\"",
        "\"0s\"",
        "1:10: length: `0s` is out of range (use more than 0 and at most 30d)",
    );
    check(
        "\"10m\"",
        "\"31d\"",
        "1:10: length: `31d` is out of range (use more than 0 and at most 30d)",
    );
    check(
        "\"10m\"",
        "\"soon\"",
        "1:10: length: `soon` is not a number (use a number with a unit, such as 30s)",
    );
    check("length", "lenght", "1:1: lenght: unknown key `lenght` (did you mean `length`?)");
    check(
        "to = \"api\"",
        "to = \"apo\"",
        "3:6: clients.web.to: `apo` is not known here (did you mean `api`?)",
    );
    check(
        "to = \"api\"\n",
        "",
        "2:1: clients.web.to: `to` is missing (name a service: to = \"api\")",
    );
    check(
        "poisson = 70",
        "poison = 70",
        "4:14: clients.web.arrivals.poison: unknown key `poison` (did you mean `poisson`?)",
    );
    check(
        "poisson = 70",
        "poisson = -1",
        "4:24: clients.web.arrivals.poisson: `-1` may not be negative (use zero or more)",
    );
    check(
        "poisson = 70",
        "poisson = 1e9",
        "4:24: clients.web.arrivals.poisson: `1000000000` is out of range (use 0 to 1000000)",
    );
    check(
        "poisson = 70",
        "poisson = [[\"0s\"]]",
        "4:25: clients.web.arrivals.poisson.0: expected a time and a number (write [\"60s\", 0.5])",
    );
    check(
        "poisson = 70",
        "poisson = []",
        "4:24: clients.web.arrivals.poisson: the list is empty (give at least one value)",
    );
    check(
        "poisson = 70",
        "poisson = \"nowhere.csv\"",
        "4:24: clients.web.arrivals.poisson: `nowhere.csv` can't be read: No such file or directory (os error 2) (name a text file, relative to this one)",
    );
    check(
        "[retry: 3]",
        "[retry: x]",
        "5:18: clients.web.retry: `retry` must be a whole number, found `x` (use 0 to 4294967294)",
    );
    check(
        "retry = \"[retry: 3]\"",
        "tokens = { capacity = 10 }",
        "5:10: clients.web.tokens: nothing takes tokens, so they limit nothing (add per_retry = 1 or per_failure = 1)",
    );
    check(
        "retry = \"[retry: 3]\"",
        "tokens = { capacity = 10, per_retry = 1, debt = 5 }",
        "5:49: clients.web.tokens.debt: this has no effect, as failures take no tokens (add per_failure = 1, or leave it out)",
    );
    check(
        "retry = \"[retry: 3]\"",
        "give_up = { again = \"1s\", share = 2 }",
        "5:35: clients.web.give_up.share: the share is above 1 (use 0 to 1)",
    );
    check(
        "retry = \"[retry: 3]\"",
        "step = \"a\"",
        "5:8: clients.web.step: a step needs its workflow (add workflow = \"file.toml\")",
    );
    check(
        "workers = 10",
        "workers = 0",
        "7:11: services.api.workers: `0` is out of range (use 1 to 1000000)",
    );
    check(
        "time = \"100ms\"",
        "time = { exponential = \"1ms\", normal = [1, 2] }",
        "8:31: services.api.time.normal: `normal` is given beside `exponential` (keep one of them)",
    );
    check(
        "time = \"100ms\"",
        "time = { uniform = [2, 1] }",
        "8:20: services.api.time.uniform: the second length is shorter than the first (write [shortest, longest])",
    );
    check(
        "time = \"100ms\"",
        "time = \"1s\"\ncalls = [{ to = \"api\" }]",
        "6:11: services.api: this service's calls lead back to it, or go too deep (let services call each other in one direction, 16 deep at most)",
    );
    check(
        "time = \"100ms\"",
        "time = \"1s\"\nqueue = { order = \"adaptive_lifo\" }",
        "9:19: services.api.queue.order: an adaptive queue needs the length at which it turns (add lifo_over = 10)",
    );
    check(
        "time = \"100ms\"",
        "time = \"1s\"\nqueue = { full = \"drop\" }",
        "9:18: services.api.queue.full: this has no effect, as the queue is never full (add capacity = 100, or leave it out)",
    );
    check(
        "time = \"100ms\"",
        "time = \"1s\"\nretry_after = true",
        "9:15: services.api.retry_after: this has no effect without a rate limit (add rate_limit = { calls = 100, per = \"1s\" })",
    );
    check(
        "\"pause\"",
        "\"paus\"",
        "10:8: triggers.0.kind: `paus` is not known here (did you mean `pause`?)",
    );
    check("on = \"api\"", "on = \"web\"", "11:6: triggers.0.on: `web` is not known here (use api)");
    check(
        "length = \"10s\"",
        "length = \"10m\"",
        "13:10: triggers.0.length: the trigger does not end before the run does (the run lasts 10m: begin sooner, or run for longer)",
    );
    check(
        "length = \"10s\"",
        "length = \"10s\"\nfactor = 2",
        "14:10: triggers.0.factor: `factor` has no effect on `pause` (leave it out)",
    );
    check(
        "[services.api]",
        "[services.api",
        "6:14: unclosed table, expected `]` (the text is read as TOML)",
    );
}

#[test]
fn traces_name_the_line_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let said = |csv: &str| {
        std::fs::write(folder.path().join("rate.csv"), csv).unwrap();
        let text = GOOD.replace("poisson = 70", "poisson = \"rate.csv\"");
        let read = read::scenario("lab.toml", &text, &Files::in_folder(folder.path()));
        read.err().and_then(|found| Some(found.first()?.message().to_owned()))
    };
    assert_eq!(said("time,rate\n0,10\n1m,20\n120,0\n"), None);
    assert_eq!(said("0,10\n60\n").unwrap(), "line 2 of the file: there is no comma");
    assert_eq!(said("0,10\nx,2\n").unwrap(), "line 2 of the file: `x` is no length");
    assert_eq!(
        said("0,10\n1,-2\n").unwrap(),
        "line 2 of the file: the value is no number from 0 to 1000000"
    );
    assert_eq!(
        said("5,10\n1,2\n").unwrap(),
        "line 2 of the file: its time is before that of the line above"
    );
    assert_eq!(said("\n").unwrap(), "the list is empty");
}

#[test]
fn triggers_come_from_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (body, _) = GOOD.split_once("[[triggers]]").unwrap();
    let text = format!("triggers = \"t.csv\"\n{body}");
    let read = |csv: &str| {
        std::fs::write(folder.path().join("t.csv"), csv).unwrap();
        read::scenario("lab.toml", &text, &Files::in_folder(folder.path()))
    };
    let found =
        read("kind,on,at,length,amount\ncapacity,api,60,30s,0.5\npause,api,2m,5,\n").unwrap();
    assert_eq!(found.triggers.len(), 2);
    assert_eq!(found.last_trigger_end().unwrap().to_string(), "2m5s");
    let said = |csv: &str| read(csv).unwrap_err()[0].to_string();
    assert_eq!(
        said("pause,apo,60,5"),
        "lab.toml:1:12: triggers: line 1 of the file: `apo` is not known here (did you mean `api`?)"
    );
    assert!(said("pause,api,60").contains("line 1 of the file: it has no four or five cells"));
    assert!(said("capacity,api,60,5,2").contains("line 1 of the file: the share is above 1"));
}

/// A policy and its guards come from a step of a workflow file.
#[test]
fn a_step_of_a_workflow_file_gives_the_policy() {
    let folder = tempfile::tempdir().unwrap();
    let workflow = "workflow = \"w\"\n[actions.a]\nhttp = \"POST http://localhost/a\"\nretry_budget = 0.2\n\
                    [[steps]]\nid = \"one\"\naction = \"a\"\nretry = \"[retry: 7]\"\n[[steps]]\nid = \"two\"\naction = \"a\"\n";
    std::fs::write(folder.path().join("w.toml"), workflow).unwrap();
    let read = |step: &str| {
        let text =
            GOOD.replace("retry = \"[retry: 3]\"", &format!("workflow = \"w.toml\"\n{step}"));
        read::scenario("lab.toml", &text, &Files::in_folder(folder.path()))
    };
    let edge = read("step = \"one\"").unwrap().edges[0].clone();
    assert_eq!(edge.policy.limit().count(), Some(8));
    assert_eq!(edge.guards.retry_budget.unwrap().refill.ratio.millionths(), 200_000);
    let said = |step: &str| read(step).unwrap_err()[0].to_string();
    assert_eq!(
        said("step = \"three\""),
        "lab.toml:6:8: clients.web.step: there is no step `three` (there are one, two)"
    );
    assert_eq!(
        said(""),
        "lab.toml:5:12: clients.web.workflow: the workflow has several steps (name one with step; there are one, two)"
    );
}

/// No text makes it panic: each is read, or refused with a place in the text.
#[test]
fn any_text_is_read_or_refused() {
    let mut chance = Chance::of(1, 1);
    let spare = [
        "[",
        "]",
        "{",
        "}",
        "\"",
        "=",
        "1e9",
        "-1",
        "0",
        "nan",
        "9999999999999999",
        "\n",
        "api",
        ",",
        "é",
    ];
    let (mut read, mut refused) = (0, 0);
    for _ in 0..3_000 {
        let mut text: Vec<char> = GOOD.chars().collect();
        for _ in 0..=chance.below(2) {
            let at = chance.below(text.len() as u64) as usize;
            let until = (at + chance.below(6) as usize).min(text.len());
            let put = spare[chance.below(spare.len() as u64) as usize];
            text.splice(at..until, put.chars());
        }
        let text: String = text.into_iter().collect();
        match read::scenario("lab.toml", &text, &Files::in_folder(Path::new("."))) {
            Ok(_) => read += 1,
            Err(found) => {
                assert!(found.iter().all(|d| d.line() <= text.lines().count() + 1), "{text}");
                refused += 1;
            }
        }
    }
    assert!(read > 10 && refused > 1_000, "{read} read, {refused} refused");
}
