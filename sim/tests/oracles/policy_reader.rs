//! The second reader of policies: it agrees with texts that were read as they should be, and objects
//! to each field that was not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use retrial::policy::{
    AtDeadline, Counting, DelayList, Dialect, Jitter, Limit, Multiplier, Policy, PolicyParts,
    Scope, Shape, Share,
};
use retrial::time::Nanos;
use retrial::workflow::WorkflowParts;
use retrial_sim::unstable::oracle::policy_reader::{POLICY_MISREAD, PlainPolicy, policies};
use retrial_sim::unstable::oracle::sequence::judge;
use retrial_sim::unstable::scenario::{Format, WorkflowText};
use retrial_sim::unstable::workload;
use serde_json::{Value, json};

use crate::kit::{Script, found, healthy, ms};

fn text(format: Format, text: String, actions: Option<&str>) -> WorkflowText {
    let actions = actions.map(str::to_owned);
    WorkflowText { format, text, actions, builder: BTreeMap::new() }
}

/// A file with one step, `a`.
fn file(step: Value, action: Value, defaults: Value) -> WorkflowText {
    let mut step = step;
    step["id"] = json!("a");
    step["action"] = json!("do_a");
    let mut action = action;
    action["http"] = json!("POST http://api.test/a");
    let tree = json!({
        "workflow": "w", "defaults": defaults, "actions": {"do_a": action}, "steps": [step],
    });
    text(Format::Json, tree.to_string(), None)
}

fn step(key: &str, value: Value) -> WorkflowText {
    file(json!({key: value}), json!({}), json!({}))
}

fn program(brackets: &str) -> WorkflowText {
    let actions = "[actions.do_a]\nhttp = \"POST http://api.test/a\"\n";
    text(Format::Ir, format!("a = @do_a(n=\"[x]\") {brackets} # end\n"), Some(actions))
}

/// A run of `text` whose step the engine holds as `change` makes it.
fn run(text: &WorkflowText, change: impl FnOnce(&mut PolicyParts)) -> Script {
    let mut parts = WorkflowParts::from(workload::workflow(0, text).unwrap());
    let mut policy = PolicyParts::from(parts.steps[0].policy.clone());
    change(&mut policy);
    parts.steps[0].policy = Policy::try_from(policy).unwrap();
    let mut script = Script::new(parts);
    script.run_mut().text = Some(Arc::new(text.clone()));
    script
}

/// The reader agrees with what was read of `text`, and objects when `field` is changed from `from` to
/// `to`.
#[track_caller]
fn check(
    text: &WorkflowText,
    field: &str,
    (from, to): (&str, &str),
    change: impl FnOnce(&mut PolicyParts),
) {
    healthy(&judge(&run(text, |_| ()).world));
    let report = judge(&run(text, change).world);
    found(&report, POLICY_MISREAD);
    let said = format!("step `a`: {field} is {from} in the text and {to} in the engine");
    assert!(report.findings[0].text.ends_with(&said), "{}", report.findings[0].text);
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

fn retries(n: u32) -> impl FnOnce(&mut PolicyParts) {
    move |p| p.rules[0].limit = Limit::retries(n)
}

fn shape(shape: Shape) -> impl FnOnce(&mut PolicyParts) {
    move |p| p.rules[0].backoff.shape = shape
}

fn argyll() -> WorkflowText {
    let config = json!({
        "max_retries": 3, "backoff": 100, "max_backoff": 1000, "backoff_type": "linear",
        "backoff_step": 50, "retryable_errors": ["429"],
    });
    step("work_config", config)
}

#[test]
fn a5_a_misread_work_config_is_found() {
    let (it, rule) = (argyll(), |field: &str| format!("{field} of rule 1"));
    check(&it, &rule("attempts"), ("4", "3"), retries(2));
    let wrong = Shape::Linear { base: ms(101), step: ms(50) };
    check(&it, &rule("base"), ("100000000", "101000000"), shape(wrong));
    let wrong = Shape::Linear { base: ms(100), step: ms(100) };
    check(&it, &rule("step"), ("50000000", "100000000"), shape(wrong));
    check(&it, &rule("cap"), ("1000000000", "none"), |p| p.rules[0].backoff.cap = None);
    check(&it, &rule("jitter"), ("none 0", "full 0"), |p| p.rules[0].backoff.jitter = Jitter::Full);
    check(&it, &rule("names"), ("{\"429\"}", "{}"), |p| {
        p.rules[0].matcher.scope = Scope::Retryable(BTreeSet::new());
    });
    check(&it, &rule("scope"), ("retryable", "names"), |p| {
        p.rules[0].matcher.scope = Scope::Names(names(["429"]));
    });
    check(&it, &rule("exclusions"), ("{}", "{\"503\"}"), |p| {
        p.rules[0].matcher.except = names(["503"]);
    });
    check(&it, "dialect", ("work_config", "builder"), |p| p.dialect = Dialect::Builder);
}

#[test]
fn a6_decision_1_a_misread_limit_is_found() {
    let unlimited = step("work_config", json!({"max_retries": -1, "backoff": 100}));
    check(&unlimited, "attempts of rule 1", ("none", "1"), retries(0));
    let off = step("work_config", json!({"backoff": 100}));
    check(&off, "attempts of rule 1", ("1", "4"), retries(3));
    let fixed = step("work_config", json!({"max_retries": 1, "backoff": 100}));
    let linear = Shape::Polynomial { base: ms(100), degree: 1 };
    let report = judge(&run(&fixed, shape(linear)).world);
    assert!(report.findings[0].text.contains("backoff of rule 1 is fixed in the text"));
}

#[test]
fn c1_a_misread_execution_is_found() {
    let policy = json!({
        "max_attempts": 3, "backoff": "polynomial", "initial_delay_ms": 20,
        "retryable_errors": ["503", "TIMEOUT"],
    });
    let it = step("execution", json!({"timeout_ms": 500, "retry_policy": policy}));
    check(&it, "attempts of rule 1", ("3", "4"), retries(3));
    check(&it, "attempt timeout", ("500000000", "500000000000"), |p| {
        p.attempt_timeout = Some(Nanos::from_secs(500));
    });
    check(
        &it,
        "degree of rule 1",
        ("2", "3"),
        shape(Shape::Polynomial { base: ms(20), degree: 3 }),
    );
    check(&it, "names of rule 1", ("{\"503\", \"TIMEOUT\"}", "{\"503\"}"), |p| {
        p.rules[0].matcher.scope = Scope::Names(names(["503"]));
    });
    let usual = json!({"retry_policy": {"max_attempts": 2, "backoff": "linear"}});
    let usual = step("execution", usual);
    let from = "{\"429\", \"500\", \"503\", \"NETWORK_ERROR\", \"TIMEOUT\"}";
    check(&usual, "names of rule 1", (from, "{\"503\"}"), |p| {
        p.rules[0].matcher.scope = Scope::Names(names(["503"]));
    });
    let halved = Shape::Linear { base: ms(500), step: ms(1_000) };
    check(&usual, "base of rule 1", ("1000000000", "500000000"), shape(halved));
    check(&step("execution", json!({})), "max_retry_after", ("3600000000000", "0"), |p| {
        p.max_retry_after = Nanos::ZERO;
    });
}

fn rh_agents() -> WorkflowText {
    let config = json!({
        "max_attempts": 4, "initial_delay": 0.25, "max_delay": 2.5, "backoff_multiplier": 1.5,
        "retry_on_exceptions": ["HTTPError"], "exclude_exceptions": ["RateLimitError"],
        "retry_timeout": 6.0, "at_deadline": "truncate", "last_attempt_reserve": 0.2,
        "timeout_retries": 2, "max_retry_after": "2m", "retry_unknown_outcome": true,
    });
    step("retry_config", config)
}

#[test]
fn h2_a_misread_retry_config_is_found() {
    let (it, rule) = (rh_agents(), |field: &str| format!("{field} of rule 1"));
    check(&it, &rule("attempts"), ("4", "5"), retries(4));
    let grown = |base, millionths| {
        let multiplier = Multiplier::from_millionths(millionths).unwrap();
        shape(Shape::Exponential { base, multiplier })
    };
    check(&it, &rule("base"), ("250000000", "250"), grown(Nanos::new(250), 1_500_000));
    check(&it, &rule("multiplier"), ("1500000", "2000000"), grown(ms(250), 2_000_000));
    check(&it, &rule("jitter"), ("proportional 250000", "none 0"), |p| {
        p.rules[0].backoff.jitter = Jitter::None;
    });
    check(&it, &rule("jitter"), ("proportional 250000", "proportional 100000"), |p| {
        p.rules[0].backoff.jitter = Jitter::Proportional(Share::TENTH);
    });
    check(&it, "total timeout", ("6000000000", "none"), |p| p.total_timeout = None);
    check(&it, "timeout retries", ("2", "none"), |p| p.timeout_retries = None);
    check(&it, "max_retry_after", ("120000000000", "2000000000"), |p| {
        p.max_retry_after = Nanos::from_secs(2);
    });
    check(&it, "retries unknown outcome", ("true", "false"), |p| p.retry_unknown_outcome = false);
    check(&it, "truncated at the deadline", ("200000000", "none"), |p| {
        p.at_deadline = AtDeadline::GiveUp;
    });
    check(&it, "truncated at the deadline", ("200000000", "1000000000"), |p| {
        p.at_deadline = AtDeadline::Truncate { reserve: ms(1_000) };
    });
}

#[test]
fn h3_a_dropped_exclusion_is_found() {
    let usual = ["AttributeError", "KeyError", "TypeError", "ValidationError", "ValueError"];
    let all = names(usual).into_iter().chain(["RateLimitError".to_owned()]);
    let all: BTreeSet<String> = all.collect();
    let (own, usual) = (names(["RateLimitError"]), names(usual));
    for wrong in [own, usual] {
        let sides = (format!("{all:?}"), format!("{wrong:?}"));
        check(&rh_agents(), "exclusions of rule 1", (&sides.0, &sides.1), |p| {
            p.rules[0].matcher.except = wrong;
        });
    }
}

#[test]
fn h1_h6_a_misread_default_is_found() {
    let usual = step("retry_config", json!({}));
    check(&usual, "attempts of rule 1", ("3", "4"), retries(3));
    check(&usual, "cap of rule 1", ("60000000000", "none"), |p| p.rules[0].backoff.cap = None);
    let off = step("retry_config", json!({"enabled": false}));
    healthy(&judge(&run(&off, |_| ()).world));
    let on = PolicyParts::from(workload::workflow(0, &usual).unwrap().steps()[0].policy.clone());
    found(&judge(&run(&off, |p| p.rules = on.rules).world), POLICY_MISREAD);
    let list = step("retry_config", json!({"delays": [0.3, 0.1], "jitter": false}));
    let turned = DelayList::try_from(vec![ms(100), ms(300)]).unwrap();
    let sides = ("[300000000, 100000000]", "[100000000, 300000000]");
    check(&list, "delays of rule 1", sides, shape(Shape::List { delays: turned }));
    check(&list, "cap of rule 1", ("none", "60000000000"), |p| {
        p.rules[0].backoff.cap = Some(Nanos::from_secs(60));
    });
}

#[test]
fn w4_misread_brackets_are_found() {
    let it = program(
        "[(ValueError, 503) -> retry: 2, backoff: 1.5m] [retry: 1] [timeout: 2] \
         [counting: per_rule, total_attempts: 8]",
    );
    check(&it, "attempts of rule 1", ("3", "2"), retries(1));
    check(&it, "base of rule 1", ("90000000000", "1500000000"), |p| {
        let multiplier = Multiplier::TWO;
        p.rules[0].backoff.shape = Shape::Exponential { base: ms(1_500), multiplier };
    });
    check(&it, "names of rule 1", ("{\"503\", \"ValueError\"}", "{\"503\"}"), |p| {
        p.rules[0].matcher.scope = Scope::Names(names(["503"]));
    });
    check(&it, "attempt timeout", ("2000000000", "2000000"), |p| p.attempt_timeout = Some(ms(2)));
    check(&it, "total attempts", ("8", "9"), |p| {
        p.counting = Counting::PerRule { total: Limit::retries(8) };
    });
    let shared = judge(&run(&it, |p| p.counting = Counting::Shared).world);
    assert!(shared.findings[0].text.contains("counting per rule is true in the text and false"));
    let order = judge(&run(&it, |p| p.rules.reverse()).world);
    assert!(order.findings[0].text.contains("attempts of rule 2 is 2 in the text and 3"));
    let fewer = judge(&run(&it, |p| drop(p.rules.pop())).world);
    assert!(fewer.findings[0].text.contains("rules is 2 in the text and 1 in the engine"));
}

#[test]
fn x2_a_misread_preset_is_found() {
    for it in [json!("aws-standard-2.1"), json!({"name": "google-sre", "attempt_timeout": 0.5})] {
        let it = step("preset", it);
        let budget = |text: &WorkflowText, change: fn(&mut PolicyParts)| {
            let report = judge(&run(text, change).world);
            found(&report, POLICY_MISREAD);
            assert!(report.findings[0].text.contains("step `a`: retry budget is Some("));
        };
        healthy(&judge(&run(&it, |_| ()).world));
        budget(&it, |p| p.budget = None);
        budget(&it, |p| p.budget.as_mut().unwrap().cost += 1);
        check(&it, "jitter of rule 1", ("full 0", "equal 0"), |p| {
            p.rules[0].backoff.jitter = Jitter::Equal;
        });
    }
    healthy(&judge(&run(&step("preset", json!("none")), |_| ()).world));
}

#[test]
fn h7_h8_a_policy_that_is_not_the_most_specific_is_found() {
    let (own, action) = (json!({"max_retries": 1}), json!({"max_retries": 2}));
    let (kind, all) = (json!({"max_retries": 3}), json!({"max_retries": 4}));
    let mut defaults = json!({"work_config": all, "llm_call": {"work_config": kind}});
    let mut declared = json!({"kind": "llm_call", "work_config": action});
    let mut of_step = json!({"work_config": own});
    let it = |step: &Value, declared: &Value, defaults: &Value| {
        file(step.clone(), declared.clone(), defaults.clone())
    };
    let attempts = |it: &WorkflowText, right: &str| {
        check(it, "attempts of rule 1", (right, "9"), retries(8));
    };
    attempts(&it(&of_step, &declared, &defaults), "2");
    of_step = json!({});
    attempts(&it(&of_step, &declared, &defaults), "3");
    declared = json!({"kind": "llm_call"});
    attempts(&it(&of_step, &declared, &defaults), "4");
    defaults = json!({"work_config": {"max_retries": 4}});
    attempts(&it(&of_step, &declared, &defaults), "5");
    let built_in = it(&of_step, &declared, &json!({}));
    attempts(&built_in, "3");
    check(&built_in, "cap of rule 1", ("30000000000", "60000000000"), |p| {
        p.rules[0].backoff.cap = Some(Nanos::from_secs(60));
    });
    let agent = it(&of_step, &json!({"kind": "agent_call"}), &json!({}));
    healthy(&judge(&run(&agent, |_| ()).world));
    let bare = program("");
    healthy(&judge(&run(&bare, |_| ()).world));
    let rules =
        PolicyParts::from(workload::workflow(0, &built_in).unwrap().steps()[0].policy.clone());
    found(&judge(&run(&agent, |p| p.rules = rules.rules.clone()).world), POLICY_MISREAD);
    found(&judge(&run(&bare, |p| p.rules = rules.rules).world), POLICY_MISREAD);
}

/// The policy of each step as the engine reads it, and as the second reader does.
#[track_caller]
fn compare(text: &WorkflowText, dialects: &mut BTreeSet<&'static str>) {
    let Ok(workflow) = workload::workflow(0, text) else { return };
    let read = policies(text).unwrap();
    assert_eq!(read.len(), workflow.steps().len());
    for (step, read) in workflow.steps().iter().zip(read) {
        assert!(read.id.is_none_or(|id| id == step.id));
        let held = PlainPolicy::from(&step.policy);
        if !text.builder.contains_key(&step.id) {
            let read = read
                .policy
                .unwrap_or_else(|| panic!("{} is not understood: {}", step.id, text.text));
            assert_eq!(read, held, "{}: {}", step.id, text.text);
            dialects.insert(held.dialect);
        }
    }
}

/// The same file without one setting of one step's policy, for each of them.
fn poorer(text: &WorkflowText) -> Vec<WorkflowText> {
    let Ok(tree) = serde_json::from_str::<Value>(&text.text) else { return Vec::new() };
    let mut all = Vec::new();
    for at in 0..tree["steps"].as_array().map_or(0, Vec::len) {
        for key in ["work_config", "/execution/retry_policy", "execution", "retry_config"] {
            let place = format!("/steps/{at}/{}", key.trim_start_matches('/'));
            for setting in tree.pointer(&place).and_then(Value::as_object).into_iter().flatten() {
                let mut less = tree.clone();
                less.pointer_mut(&place).unwrap().as_object_mut().unwrap().remove(setting.0);
                all.push(WorkflowText { text: less.to_string(), ..text.clone() });
            }
        }
    }
    all
}

#[test]
fn every_text_that_is_drawn_is_understood_with_each_setting_and_without() {
    let mut dialects = BTreeSet::new();
    let mut less = 0;
    for seed in 0..300 {
        for text in workload::draw(seed).workflows {
            compare(&text, &mut dialects);
            for text in poorer(&text) {
                compare(&text, &mut dialects);
                less += 1;
            }
        }
    }
    let all = BTreeSet::from(["ir", "work_config", "execution", "retry_config", "preset"]);
    assert_eq!(dialects, all);
    assert!(less > 500, "{less}");
}

/// What the reader does not understand it does not judge.
#[test]
fn a_text_that_is_not_understood_is_not_judged() {
    let all = [
        ("retry_config", json!({"initial_delay": 0.000_000_000_1})),
        ("retry_config", json!({"color": "blue"})),
        ("retry", json!("[retry: 1, size: 2]")),
        ("preset", json!("mine")),
    ];
    for (key, value) in all {
        assert!(policies(&step(key, value)).unwrap()[0].policy.is_none());
    }
    let stored = text(Format::Stored, "{}".to_owned(), None);
    assert!(policies(&stored).is_none());
}

/// It judges what the engine reads, so it shares no reader with it.
#[test]
fn the_reader_calls_no_reader_of_the_engine() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/oracle/policy_reader");
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code.filter(|line| line.contains("retrial::")) {
            let allowed = ["use retrial::policy::{", "use retrial::time::Nanos;"];
            assert!(allowed.contains(&line), "{line}");
        }
    }
}
