//! What is at a limit is taken, and one more is refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::tree::Node;
use retrial_core::dialect::{Diagnostic, Environment, Format, parse_policy};
use retrial_core::policy::{Matcher, Policy, PolicyParts};
use retrial_core::workflow::{Endpoint, Step, Workflow, WorkflowError, WorkflowParts};
use serde_json::json;

use crate::bad_input::refused;
use crate::grammar::program;

/// What is wrong with a program; empty where nothing is.
fn wrong(text: &str) -> String {
    program(text).err().map(|errors| errors.to_string()).unwrap_or_default()
}

fn built(steps: Vec<Step>) -> Result<Workflow, WorkflowError> {
    Workflow::try_from(WorkflowParts { name: "w".into(), steps, ..WorkflowParts::default() })
}

#[test]
fn a_workflow_has_at_most_a_thousand_steps() {
    let file = |count: usize| {
        let step = |n: usize| format!("[[steps]]\nid = 's{n}'\naction = 'a'\n");
        refused(&format!("workflow = 'w'\n{}", (0..count).map(step).collect::<String>()))
    };
    assert_eq!(file(1_000), "");
    assert!(file(1_001).contains("1001 steps"), "{}", file(1_001));
    let none: Policy = "[retry: 0]".parse().unwrap();
    let made = |count: usize| {
        let steps = (0..count).map(|n| Step::new(format!("s{n}"), "a", none.clone()));
        built(steps.collect()).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(made(1_000), "");
    assert!(made(1_001).contains("1001 steps"), "{}", made(1_001));
    let line = |count: usize| wrong(&"@a()\n".repeat(count));
    assert_eq!(line(1_000), "");
    assert!(line(1_001).contains("more than 1000 statements"), "{}", line(1_001));
}

#[test]
fn a_policy_has_at_most_a_hundred_rules() {
    let read = |count: usize| {
        let text = "[retry: 1] ".repeat(count);
        parse_policy("p", &text, None, &Environment::default()).map(drop)
    };
    assert_eq!(read(100), Ok(()));
    let error = read(101).unwrap_err().to_string();
    assert!(
        error.contains("a policy has at most 100 rules (merge rules that are alike)"),
        "{error}"
    );
}

/// Steps share a policy, but each is stored with its own: 512 times 4 KiB are two MiB.
#[test]
fn the_policies_of_all_steps_take_at_most_two_mebibytes() {
    let named = |length: usize| {
        let mut parts = PolicyParts::from("[retry: 1]".parse::<Policy>().unwrap());
        parts.rules[0].matcher = Matcher::named(["x".repeat(length)]);
        Policy::try_from(parts).unwrap()
    };
    let size = |policy: &Policy| serde_json::to_vec(policy).unwrap().len();
    let policy = named(4_096 - (size(&named(1)) - 1));
    assert_eq!(size(&policy), 4_096);
    let made = |count: usize, more: &Policy| {
        let steps = (0..count).map(|n| Step::new(format!("s{n}"), "a", policy.clone()));
        let last = Step::new("last", "a", more.clone());
        built(steps.chain([last]).collect())
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert_eq!(made(511, &policy), "");
    let error = made(512, &named(1));
    assert!(error.contains("2097152"), "{error}");
}

#[test]
fn a_url_has_at_most_8_kib() {
    let url = |length: usize| {
        let start = "http://h.test/";
        format!("{start}{}", "a".repeat(length - start.len()))
    };
    let read = |length: usize| {
        refused(&format!(
            "workflow = 'w'\n[actions.a]\nhttp = 'GET {}'\n[[steps]]\nid = 's'\naction = 'a'\n",
            url(length)
        ))
    };
    assert_eq!(read(8_192), "");
    assert!(read(8_193).contains("the URL is longer than 8 KiB"), "{}", read(8_193));
    // `?n=` and the value come behind the URL.
    let endpoint = Endpoint::new("GET", url(8_180));
    let filled = |length: usize| endpoint.fill(&json!({ "n": "b".repeat(length) })).map(drop);
    assert_eq!(filled(9), Ok(()));
    let error = filled(10).unwrap_err().to_string();
    assert!(error.contains("makes the URL longer than 8 KiB"), "{error}");
}

#[test]
fn a_port_is_from_1_to_65535() {
    let read = |authority: &str| {
        refused(&format!(
            "workflow = 'w'\n[actions.a]\nhttp = 'GET http://{authority}/'\n[[steps]]\nid = 's'\naction = 'a'\n"
        ))
    };
    for taken in ["h", "h:1", "h:65535", "[::1]", "[::1]:80", "1.2.3.4:80", "a_b-c.d"] {
        assert_eq!(read(taken), "", "{taken}");
    }
    for (authority, why) in [
        ("h:0", "the URL's port is not from 1 to 65535"),
        ("h:65536", "the URL's port is not from 1 to 65535"),
        ("h:+1", "the URL's port is not from 1 to 65535"),
        ("h:", "the URL's port is not from 1 to 65535"),
        ("[::1]80", "the URL's port is not from 1 to 65535"),
        ("[::1]:0", "the URL's port is not from 1 to 65535"),
        ("[::g]", "the IPv6 address is not one"),
        (":80", "the URL has no valid host"),
    ] {
        assert!(read(authority).contains(why), "{authority}: {}", read(authority));
    }
}

#[test]
fn values_are_nested_only_so_deep() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let read = |depth: usize| Node::parse("w", &nested(depth), Format::Json).map(drop);
    assert_eq!(read(81), Ok(()));
    let error = read(82).unwrap_err();
    assert!(error.message().contains("nested too deeply"), "{error}");
    assert_eq!(error.span(), 81..82);
    let argument = |depth: usize| wrong(&format!("@a(x={})\n", nested(depth)));
    assert_eq!(argument(41), "");
    assert!(argument(42).contains("nested too deeply"), "{}", argument(42));
    let table = |depth: usize| {
        wrong(&format!("@a(x={}{})\n", "{k: ".repeat(depth) + "1", "}".repeat(depth)))
    };
    assert_eq!(table(40), "");
    assert!(table(41).contains("nested too deeply"), "{}", table(41));
}

#[test]
fn a_name_of_a_workflow_has_at_most_100_characters() {
    let named = |name: &str| {
        refused(&format!("workflow = '{name}'\nsteps = [{{ id = 's', action = 'a' }}]\n"))
    };
    for taken in ["é".repeat(100).as_str(), "a.b-c_d 1", "w"] {
        assert_eq!(named(taken), "", "{taken}");
    }
    for name in ["é".repeat(101).as_str(), ".w", "a/b", "a\u{200b}"] {
        assert!(named(name).contains("is not a name"), "{name}: {}", named(name));
    }
}

/// A long text is not repeated in a message.
#[test]
fn a_message_shows_a_text_of_up_to_40_characters() {
    let told = |length: usize| {
        refused(&format!(
            "workflow = 'w'\nsteps = [{{ id = 's', action = 'a', goal = '{}' }}]\n",
            "é".repeat(length)
        ))
    };
    assert!(told(40).contains("found the text \"éé"), "{}", told(40));
    assert!(told(41).contains("found a text"), "{}", told(41));
}

/// How much of what a text may hold `text` takes: so many fewer of `filler` fit behind it, each of
/// which takes one. `read` says what is wrong with all of it.
fn load(text: &str, filler: &str, read: impl Fn(&str) -> Diagnostic) -> usize {
    const MOST: usize = 120_000;
    let error = read(&format!("{text}{}", filler.repeat(MOST + 1)));
    assert!(error.message().contains("the text holds too many values"), "{error}");
    MOST - (error.span().start - text.len())
}

/// What stands in a text or in a comment takes no memory of its own.
#[test]
fn what_a_program_may_hold_is_counted_by_what_it_becomes() {
    let load = |text: &str| load(text, ":", |text| program(text).unwrap_err()[0].clone());
    assert_eq!([":", "\n", "[", "(", ",", "{"].map(load), [1, 1, 2, 2, 2, 13]);
    for (text, as_much) in [
        ("'a,[{:'", "''"),
        ("\"a,[{:\"", "''"),
        ("'\",'", "''"),
        (r#""\",,""#, "''"),
        (r#""\\","#, "'',"),
        ("# ,[{:'\n,", "\n,"),
        ("'#',", "'',"),
        // A line ends a text that has no end.
        ("',\n,", "''\n,"),
        ("abc = @x", ""),
    ] {
        assert_eq!(load(text), load(as_much), "{text}");
    }
    assert_eq!(load("''"), 1);
}

/// Tables take most, and the head of one is told from a list.
#[test]
fn what_a_toml_text_may_hold_is_counted_by_what_it_becomes() {
    let load =
        |text: &str| load(text, ",", |text| Node::parse("w", text, Format::Toml).unwrap_err());
    assert_eq!(["", "\n", "a", " ", "{", "."].map(load), [0, 1, 1, 1, 13, 13]);
    for (text, tokens) in
        [("[a]", 12 + 3), ("a=[]", 4), ("[[a]]", 12 + 5), ("a=[[1]]", 7), ("a='x'", 3)]
    {
        assert_eq!(load(text), tokens, "{text}");
    }
}

#[test]
fn a_dotted_key_has_at_most_80_parts() {
    let read = |separator: &str, part: &str, parts: usize| {
        let key = vec![part; parts].join(separator);
        Node::parse("w", &format!("{key} = 1\na.b = 2\n"), Format::Toml).err()
    };
    for (separator, part) in [(".", "a"), (" . ", "a"), (".", "'a'"), (".", "\"a\"")] {
        let told = |parts: usize| {
            let error = read(separator, part, parts)?;
            Some(error.message().to_owned())
        };
        assert_eq!(told(81).as_deref(), Some("the key has too many parts"));
        assert_ne!(told(80).as_deref(), Some("the key has too many parts"));
    }
    // The parts of other keys do not count.
    let lines: String = (0..100).map(|n| format!("k{n}.a.b = 1.5\n")).collect();
    assert_eq!(Node::parse("w", &lines, Format::Toml).err(), None);
}
