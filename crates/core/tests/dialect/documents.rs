//! The texts of the five source documents (`tests/fixtures/documents`), read as they stand: each means
//! what its document says, or is refused with what to write instead.

use std::collections::BTreeMap;

use retrial_core::dialect::tree::Format;
use retrial_core::dialect::{
    Declarations, Diagnostics, Environment, Policies, parse_ir_program, parse_policy,
    parse_workflow,
};
use retrial_core::failure::{ErrorContext, Failure};
use retrial_core::policy::{ActionKind, Functions, Origin, Policy};
use retrial_core::time::{Nanos, Timestamp};
use serde_json::{Value, json};

const WAYMARK: &str = include_str!("../fixtures/documents/waymark.md");
const RAPPEL: &str = include_str!("../fixtures/documents/rappel.md");
const ARGYLL: &str = include_str!("../fixtures/documents/argyll.md");
const CAPABILITY_5: &str = include_str!("../fixtures/documents/capability5.md");
const RH_AGENTS: &str = include_str!("../fixtures/documents/rh_agents.md");

/// The fenced blocks of `document`, with the language that each names.
fn blocks(document: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = document.split("```").collect();
    let blocks = parts.iter().skip(1).step_by(2);
    blocks.map(|block| block.split_once('\n').unwrap()).collect()
}

/// The block of `document` that has `within`.
fn block<'d>(document: &'d str, within: &str) -> &'d str {
    let mut found = blocks(document).into_iter().filter(|(_, text)| text.contains(within));
    let (_, text) = found.next().unwrap_or_else(|| panic!("no block has {within}"));
    text
}

/// The balanced text that begins at `from` in `text`.
fn literal<'t>(text: &'t str, from: &str) -> &'t str {
    let start = text.find(from).unwrap_or_else(|| panic!("{from} is not in {text}"));
    let mut open = 0;
    for (at, c) in text[start..].char_indices() {
        match c {
            '(' | '{' | '[' => open += 1,
            ')' | '}' | ']' => open -= 1,
            _ => continue,
        }
        if open == 0 {
            return &text[start..=start + at];
        }
    }
    panic!("{from} has no end in {text}");
}

/// A literal of JavaScript or the arguments of a call in Python as JSON: keys and bare names in
/// quotes, no comments, no comma at the end.
fn as_json(text: &str) -> Value {
    let lines = text.lines().map(|line| line.split("  #").next().unwrap_or_default());
    let text: String = lines.collect::<Vec<_>>().join("\n").replace('\'', "\"");
    let (mut json, mut word, mut quoted) = (String::new(), String::new(), false);
    for c in text.chars().chain([' ']) {
        if !quoted && (c.is_alphanumeric() || "_.".contains(c)) {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            let name = word.strip_prefix("BackoffStrategy.").map(str::to_lowercase);
            json += &match word.as_str() {
                "True" => "true".to_owned(),
                "False" => "false".to_owned(),
                literal if serde_json::from_str::<Value>(literal).is_ok() => literal.to_owned(),
                other => format!("{:?}", name.unwrap_or_else(|| other.to_owned())),
            };
            word.clear();
        }
        match c {
            '"' => quoted = !quoted,
            '=' => {
                json.push(':');
                continue;
            }
            '}' | ']' => json.truncate(json.trim_end().trim_end_matches(',').len()),
            _ => {}
        }
        json.push(c);
    }
    serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e} in {json}"))
}

/// The arguments of the call `name` at `nth` in `text`, as JSON.
fn call(text: &str, name: &str, nth: usize) -> Value {
    let (at, _) = text.match_indices(name).nth(nth).unwrap();
    let call = literal(&text[at..], name);
    let arguments = call.trim_start_matches(name).trim_end_matches(')');
    as_json(&format!("{{{arguments}}}"))
}

fn retry_config(text: &str, nth: usize) -> Value {
    call(text, "RetryConfig(", nth)
}

fn read(text: &str) -> Result<Policies, Diagnostics> {
    parse_policy("document", text, None, &Environment::default())
}

#[track_caller]
fn policy(text: &str) -> Policy {
    match read(text) {
        Ok(Policies::One(policy)) => policy,
        other => panic!("{text}: {other:?}"),
    }
}

fn refused(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

/// The delays before each retry while failures are `503` on average, in milliseconds.
fn delays(policy: &Policy) -> Vec<u64> {
    let rule = &policy.rules()[0];
    let last = rule.limit.count().unwrap() - 1;
    let nominal = |n| rule.backoff.nominal(n, &Functions::default()).get() / 1_000_000;
    (1..=last).map(nominal).collect()
}

/// So that no text of a document is passed over.
#[test]
fn every_block_of_the_documents_is_known() {
    let count = |document: &str| {
        let mut languages = BTreeMap::new();
        for (language, _) in blocks(document) {
            *languages.entry(language.to_owned()).or_insert(0) += 1;
        }
        languages.into_iter().collect::<Vec<_>>()
    };
    let counts = [WAYMARK, RAPPEL, ARGYLL, CAPABILITY_5, RH_AGENTS].map(count);
    insta::assert_debug_snapshot!(counts.map(|c| format!("{c:?}")), @r#"
    [
        "[(\"python\", 1), (\"waymark\", 1)]",
        "[(\"python\", 1), (\"rappel\", 1), (\"sql\", 1)]",
        "[]",
        "[(\"\", 7), (\"typescript\", 4)]",
        "[(\"\", 6), (\"python\", 13)]",
    ]
    "#);
}

/// W1 to W5: the example of both documents is one program. It gives `result` five times, which then
/// means the latest.
#[test]
fn w1_w5_the_program_of_waymark_and_rappel_is_read_as_it_stands() {
    let programs = [block(WAYMARK, "@risky_action"), block(RAPPEL, "@risky_action")];
    for program in programs {
        let (none, environment) = (Declarations::default(), Environment::default());
        let document = parse_ir_program("document.ir", program, &none, &environment).unwrap();
        let steps = document.workflow.steps().iter();
        let steps: Vec<_> =
            steps.map(|s| format!("{} {} {}", s.id, s.action, shown(&s.policy))).collect();
        insta::allow_duplicates! {
            insta::assert_snapshot!(steps.join("\n"), @r#"
            result risky_action [retry: 3, backoff: 60]
            result_2 network_call [("NetworkError") -> retry: 5, backoff: 120]
            result_3 api_call [("KeyError", "ValueError") -> retry: 3, backoff: 30]
            result_4 api_call [("RateLimitError") -> retry: 10, backoff: 60] [("NetworkError") -> retry: 3, backoff: 30]
            result_5 slow_action [retry: 3, backoff: 60] [timeout: 120]
            "#);
        }
    }
}

fn shown(policy: &Policy) -> String {
    retrial_core::dialect::write::own(policy).unwrap_or_default()
}

/// R2 to R4: their policy in Python says what to write in its place, and that means the same.
#[test]
fn r2_a_policy_in_python_says_what_to_write() {
    for program in [block(WAYMARK, "RetryPolicy("), block(RAPPEL, "RetryPolicy(")] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused(program).split_once(": ").unwrap().1, @"a policy in Python is not read (write it in brackets, such as [NetworkError -> retry: 2, backoff: 60s] [timeout: 2m], where `retry` does not count the first try)");
        }
        let given = call(program, "RetryPolicy(", 0);
        let written = policy("[NetworkError -> retry: 2, backoff: 60s] [timeout: 2m]");
        let rule = &written.rules()[0];
        assert_eq!(rule.limit.count(), given["attempts"].as_u64().map(|n| n as u32));
        assert_eq!(delays(&written)[0], given["backoff_seconds"].as_u64().unwrap() * 1_000);
        assert!(program.contains("timedelta(minutes=2)"));
        assert_eq!(written.attempt_timeout(), Some(Nanos::from_secs(120)));
    }
}

/// A5 to A8: the four settings of Argyll, and what their numbers mean.
#[test]
fn a5_a8_the_settings_of_argyll() {
    let named =
        |names: [&'static str; 4]| names.iter().all(|name| ARGYLL.contains(&format!("`{name}`")));
    assert!(named(["max_retries", "backoff", "max_backoff", "backoff_type"]));
    assert!(named(Environment::NAMES));
    let read = |retries: &str, kind: &str| {
        policy(&format!(
            r#"{{"work_config": {{{retries}"backoff": 1000, "max_backoff": 3500, "backoff_type": "{kind}"}}}}"#
        ))
    };
    for (sentence, retries, limit) in [
        ("`max_retries = 0` disables retries", r#""max_retries": 0, "#, Some(1)),
        ("`max_retries > 0` limits", r#""max_retries": 4, "#, Some(5)),
        ("`max_retries = -1` allows unlimited retries", r#""max_retries": -1, "#, None),
        ("`max_retries` is omitted (zero value), retries are disabled", "", Some(1)),
    ] {
        assert!(ARGYLL.contains(sentence), "{sentence}");
        assert_eq!(read(retries, "fixed").limit().count(), limit, "{sentence}");
    }
    for (sentence, kind, expected) in [
        ("Fixed: constant delay", "fixed", [1_000, 1_000, 1_000]),
        ("Linear: delay grows by a fixed increment", "linear", [1_000, 2_000, 3_000]),
        (
            "Exponential: delay doubles each attempt up to `max_backoff`",
            "exponential",
            [1_000, 2_000, 3_500],
        ),
    ] {
        assert!(ARGYLL.contains(sentence), "{sentence}");
        assert_eq!(delays(&read(r#""max_retries": 3, "#, kind)), expected, "{sentence}");
    }
}

/// C1, C4: the action of Capability 5 is JavaScript; as JSON its policy is that of the steps that
/// invoke it.
#[test]
fn c1_c4_the_action_of_capability_5() {
    let written = block(CAPABILITY_5, "implementation: { ... }");
    insta::assert_snapshot!(refused(written), @"document:2:3: expected a key in double quotes, found `k` (JSON has its keys and texts in double quotes)");
    let action = as_json(&written.replace("  implementation: { ... },\n", ""));
    let workflow = |action: Value| {
        let file = json!({
            "workflow": "w", "actions": { "ask": action }, "steps": [{ "id": "s", "action": "ask" }],
        });
        parse_workflow("w.json", &file.to_string(), Format::Json, &Environment::default())
    };
    let document = workflow(action.clone()).unwrap();
    let step = &document.workflow.steps()[0];
    assert_eq!(step.origin, Origin::Action);
    assert_eq!(step.policy.attempt_timeout(), Some(Nanos::from_secs(30)));
    assert_eq!(delays(&step.policy), [1_000, 2_000]);
    for code in ["503", "429", "TIMEOUT", "NETWORK_ERROR"] {
        assert!(step.policy.rule_for(&Failure::new(code, "m")).is_some(), "{code}");
    }
    assert!(step.policy.rule_for(&Failure::new("404", "m")).is_none());
    let mut whole = action;
    whole["implementation"] = json!({});
    insta::assert_snapshot!(workflow(whole).unwrap_err(), @r#"w.json:1:215: actions.ask.implementation: an action's implementation is not written here (write http = "POST URL", or register a function under the action's name)"#);
}

/// C2: `linear`: 1s, 2s, 3s, and so on.
#[test]
fn c2_the_delays_of_capability_5() {
    for (kind, growth) in [("linear", "linear"), ("exponential", "exponential")] {
        let line = CAPABILITY_5.lines().find(|l| l.starts_with(&format!("- `{kind}`: "))).unwrap();
        let listed = line.split_once(": ").unwrap().1.split(", ");
        let listed: Vec<u64> = listed
            .map_while(|d| d.strip_suffix('s')?.parse().ok())
            .map(|s: u64| s * 1_000)
            .collect();
        assert!(listed.len() >= 3, "{line}");
        let attempts = listed.len() + 1;
        let text = format!(
            r#"{{"retry_policy": {{"max_attempts": {attempts}, "backoff": "{growth}", "initial_delay_ms": 1000}}}}"#
        );
        assert_eq!(delays(&policy(&text)), listed, "{line}");
    }
}

/// C5, C6: the transition is read with the document's own keys; an error has its fields.
#[test]
fn c5_c6_the_transition_and_the_error_of_capability_5() {
    let written = block(CAPABILITY_5, "from_node_id");
    let transition = as_json(literal(&written[written.find("// Transition").unwrap()..], "{"));
    let steps = ["llm_call_node", "fallback_node"].map(|id| json!({ "id": id, "action": "a" }));
    let file = json!({ "workflow": "w", "steps": steps, "transitions": [transition] }).to_string();
    let document = parse_workflow("w.json", &file, Format::Json, &Environment::default()).unwrap();
    let read = &document.workflow.transitions()[0];
    assert_eq!((read.from.index(), read.to.index(), read.priority), (0, 1, 1));
    assert_eq!(
        serde_json::to_value(&read.condition).unwrap(),
        json!({ "type": "exists", "field": "state._last_error" })
    );

    let error = as_json(literal(&written[written.find("_last_error = ").unwrap()..], "{"));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let context =
        ErrorContext::new(&Failure::new("503", "m"), true, "s", "a", 1, Timestamp::from_nanos(0));
    let own = serde_json::to_value(context).unwrap();
    assert!(keys(&error).iter().all(|key| keys(&own).contains(key)), "{own}");
    let declared = block(CAPABILITY_5, "type ErrorContext");
    for key in keys(&own) {
        assert!(
            declared.contains(&format!("  {key}: ")) || declared.contains(&format!("  {key}?: ")),
            "{key}"
        );
    }
}

/// H1 to H9: each `RetryConfig` of rh_agents says what to write; with the same fields it is read.
#[test]
fn h1_h9_the_configurations_of_rh_agents() {
    let mut lines = Vec::new();
    for (_, text) in blocks(RH_AGENTS).into_iter().filter(|(language, _)| *language == "python") {
        let calls = text.matches("RetryConfig(").count();
        // The first is the class itself.
        let is_class = text.contains("class RetryConfig(");
        for nth in usize::from(is_class)..calls {
            let config = retry_config(text, nth);
            lines.push(config.to_string());
            lines.push(match read(&json!({ "retry_config": config }).to_string()) {
                Ok(Policies::One(policy)) => format!("  {}", shown(&policy)),
                other => panic!("{other:?}"),
            });
        }
        if calls > 0 && !is_class {
            assert!(
                refused(text)
                    .ends_with("retry_config = { max_attempts = 5, initial_delay = 2.0 })"),
                "{text}"
            );
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"backoff_strategy":"exponential","enabled":true,"initial_delay":1.0,"max_attempts":3,"max_delay":30.0}
      {"max_attempts": 3, "backoff_strategy": "exponential", "initial_delay": 1, "max_delay": 30, "backoff_multiplier": 2, "jitter": "proportional"}
    {"backoff_strategy":"exponential","enabled":true,"initial_delay":1.0,"max_attempts":3,"max_delay":30.0}
      {"max_attempts": 3, "backoff_strategy": "exponential", "initial_delay": 1, "max_delay": 30, "backoff_multiplier": 2, "jitter": "proportional"}
    {"enabled":false}
      {"enabled": false}
    {"max_attempts":5,"retry_timeout":30.0}
      {"max_attempts": 5, "backoff_strategy": "exponential", "initial_delay": 1, "max_delay": 60, "backoff_multiplier": 2, "jitter": "proportional", "retry_timeout": 30}
    {"backoff_strategy":"exponential","initial_delay":1.0,"max_attempts":3,"max_delay":30.0}
      {"max_attempts": 3, "backoff_strategy": "exponential", "initial_delay": 1, "max_delay": 30, "backoff_multiplier": 2, "jitter": "proportional"}
    {"backoff_strategy":"exponential","max_attempts":5,"retry_on_exceptions":["TimeoutError","ConnectionError"]}
      {"max_attempts": 5, "backoff_strategy": "exponential", "initial_delay": 1, "max_delay": 60, "backoff_multiplier": 2, "jitter": "proportional", "retry_on_exceptions": ["ConnectionError", "TimeoutError"]}
    {"backoff_strategy":"exponential","exclude_exceptions":["ValidationError"],"max_attempts":3}
      {"max_attempts": 3, "backoff_strategy": "exponential", "initial_delay": 1, "max_delay": 60, "backoff_multiplier": 2, "jitter": "proportional"}
    {"backoff_multiplier":3.0,"initial_delay":2.0,"max_attempts":5}
      {"max_attempts": 5, "backoff_strategy": "exponential", "initial_delay": 2, "max_delay": 60, "backoff_multiplier": 3, "jitter": "proportional"}
    {"enabled":false}
      {"enabled": false}
    {"exclude_exceptions":["HTTPError"],"max_attempts":5,"retry_on_exceptions":["HTTPError"],"retry_timeout":60.0}
      {"max_attempts": 5, "backoff_strategy": "exponential", "initial_delay": 1, "max_delay": 60, "backoff_multiplier": 2, "jitter": "proportional", "retry_on_exceptions": ["HTTPError"], "exclude_exceptions": ["HTTPError"], "retry_timeout": 60}
    "#);
}

/// H8: the built-in policies are those of the document.
#[test]
fn h8_the_built_in_policies_of_rh_agents() {
    let text = block(RH_AGENTS, "DEFAULT_RETRY_CONFIG_BY_ACTOR_TYPE = {");
    let table = &text[text.find("DEFAULT_RETRY_CONFIG_BY_ACTOR_TYPE = {").unwrap()..];
    let kinds = [
        ("TOOL_CALL", ActionKind::ToolCall),
        ("LLM_CALL", ActionKind::LlmCall),
        ("AGENT_CALL", ActionKind::AgentCall),
    ];
    for (nth, (name, kind)) in kinds.into_iter().enumerate() {
        let rest = &table[table.find(name).unwrap()..];
        let config = json!({ "retry_config": retry_config(rest, 0) });
        assert_eq!(policy(&config.to_string()), kind.built_in(), "{nth} {name}");
    }
}

/// H3: what is retried, and what never is, by the types that the document lists.
#[test]
fn h3_the_types_of_rh_agents() {
    let text = block(RH_AGENTS, "DEFAULT_RETRYABLE_EXCEPTIONS = [");
    let listed = |name: &str| {
        let list = literal(&text[text.find(name).unwrap()..], "[");
        let names = list.lines().map(|line| line.trim().trim_end_matches(','));
        names.filter(|l| l.ends_with("Error")).map(str::to_owned).collect::<Vec<_>>()
    };
    let config = policy(r#"{"retry_config": {}}"#);
    let is_retried = |kind: &str| config.rule_for(&Failure::exception(kind, "m", &[])).is_some();
    let (retryable, permanent) =
        (listed("DEFAULT_RETRYABLE_EXCEPTIONS"), listed("DEFAULT_NON_RETRYABLE_EXCEPTIONS"));
    assert!(retryable.contains(&"asyncio.TimeoutError".to_owned()) && permanent.len() == 5);
    for name in retryable {
        let lineage = if name.starts_with("Connection") {
            vec!["ConnectionError".to_owned()]
        } else {
            vec![]
        };
        assert!(config.rule_for(&Failure::exception(&name, "m", &lineage)).is_some(), "{name}");
        // Named alone, it is what the engine's own failures are.
        let only =
            policy(&json!({ "retry_config": { "retry_on_exceptions": [name] } }).to_string());
        assert_eq!(
            only.rule_for(&Failure::timeout(Nanos::from_secs(1))).is_some(),
            name.ends_with("TimeoutError"),
            "{name}"
        );
    }
    for name in permanent {
        assert!(!is_retried(&name), "{name}");
    }
}
