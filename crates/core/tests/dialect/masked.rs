//! What is shown of a definition holds no secret, and is a text of the same format and shape.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use retrial_core::dialect::tree::{Data, Node};
use retrial_core::dialect::{
    Declarations, Environment, Format, masked_program, masked_workflow, parse_ir_program,
    parse_workflow,
};

/// Keys and lists, without values; the order of keys does not count.
fn shape(node: &Node) -> String {
    match &node.data {
        Data::List(items) => format!("[{}]", items.iter().map(shape).collect::<Vec<_>>().join(",")),
        Data::Table(entries) => {
            let mut keys: Vec<String> =
                entries.iter().map(|e| format!("{:?}:{}", e.key, shape(&e.node))).collect();
            keys.sort();
            format!("{{{}}}", keys.join(","))
        }
        _ => "_".to_owned(),
    }
}

/// The masked text, which has the shape of `text`.
fn masked(text: &str, format: Format) -> String {
    let shown = masked_workflow("w", text, format).unwrap();
    let [before, after] = [text, &shown].map(|text| Node::parse("w", text, format).unwrap());
    assert_eq!(shape(&before), shape(&after), "{shown}");
    shown
}

const TOML: &str = r#"# s3cr3t-00 stands in a comment
workflow = "w"
[input]
a = "s3cr3t-01"
b = "s3cr3t-\u0030\u0032 spelt"
c = '''
s3cr3t-03
over lines'''
d = """s3cr3t-\
    04"""
e = 9120005
f = [ "s3cr3t-06", { g = "s3cr3t-07" } ]
date = 2091-08-08
[simulate]
reply = "s3cr3t-09"
[actions.call]
http = "POST https://h.test/hooks/T0S3CR3T10/xs3cr3t11?key=s3cr3t-12"
headers = { authorization = "Bearer s3cr3t-13", x-odd = 's3cr3t-14', x-env = "env:KEPT", x-both = "s3cr3t-38 env:ALSO s3cr3t-39" }
[actions.slash]
http = "GET https://h.test/%73ecret15/token/sixteen/v1/charges/${args.kept}/${args.token}?x=${args.kept}"
[[steps]]
id = "s"
action = "call"
args = { text = "s3cr3t-17 ${input.a} s3cr3t-18", whole = "${input.a}", flag = true }
requires = { type = "eq", field = "state.input.a", value = "s3cr3t-19" }
ensures = { type = "not", condition = { type = "in", field = "state.result.x", values = ["s3cr3t-20", 9120021] } }
retry = "[AuthError -> retry: 3, backoff: 2]"
[[steps]]
id = "t"
action = "call"
for_each = ["s3cr3t-22", "${input.b}"]
[[transitions]]
from = "s"
to = "t"
on_error = ["ghp_s3cr3t23s3cr3t23s3cr3t23"]
condition = { type = "and", conditions = [{ type = "eq", field = "state.input.a", value = { k = "s3cr3t-24" } }] }
"#;

/// What is left of a planted secret, whatever its number.
const LEFT: [&str; 8] =
    ["s3cr3t", "S3CR3T", "spelt", "over lines", "91200", "2091", "ecret15", "sixteen"];

#[test]
fn c14_no_planted_secret_of_a_file_is_shown() {
    let environment = Environment::default();
    parse_workflow("w", TOML, Format::Toml, &environment).unwrap();
    let shown = masked(TOML, Format::Toml);
    for left in LEFT {
        assert!(!shown.contains(left), "{left}: {shown}");
    }
    // What people look for stays.
    for kept in [
        "workflow = \"w\"",
        "[actions.call]",
        "id = \"s\"",
        "https://h.test/hooks/***/***?***",
        "https://h.test/***/token/***/v1/charges/${args.kept}/${args.token}?***",
        "env:KEPT",
        "\"*** env:ALSO***\"",
        "text = \"***${input.a}***\"",
        "whole = \"${input.a}\"",
        "state.result.x",
        "(\\\"AuthError\\\") -> retry: 3, backoff: 2",
    ] {
        assert!(shown.contains(kept), "{kept}: {shown}");
    }
}

#[test]
fn c14_no_spelling_of_a_secret_is_shown() {
    let json = r#"{"workflow":"w","steps":[{"id":"s","action":"a",
        "args":{"a":"s3cr3t\/25","b":"\u0073\u0033cr3t","c":"s3cr3t\n\"26","s3\u0063":null}}],
        "input":{"password":"s3cr3t-27","x":["s3cr3t-28",9120029,true],"ghp_s3cr3t30s3cr3t30":1}}"#;
    let masked = masked_workflow("w", json, Format::Json).unwrap();
    assert!(!masked.contains("s3cr3t") && !masked.contains("91200"), "{masked}");
    Node::parse("w", &masked, Format::Json).unwrap();

    let program = "x = @call(a=\"s3cr3t\\u002d31\", b=['s3cr3t-32', 9120033], c={k: \"s3cr3t-34\"})\n\
        # s3cr3t-35\n\
        @use(of=x.value, more=\"s3cr3t-36 ${input.a}\") [(A, 'ghp_s3cr3t37s3cr3t37') -> retry: 3]\n";
    let shown = masked_program("w", program).unwrap();
    assert!(!shown.contains("s3cr3t") && !shown.contains("91200"), "{shown}");
    assert!(shown.contains("@use(of=x.value, more=\"***${input.a}\")"), "{shown}");
    let read = parse_ir_program("w.ir", &shown, &Declarations::default(), &Environment::default())
        .unwrap();
    assert_eq!(read.workflow.steps().len(), 2);
}

/// A name that is hidden is another name, and a key that is hidden another key.
#[test]
fn c14_what_is_hidden_in_a_program_stays_a_program() {
    let program = "ok = @a()\n\
        ghp_s3cr3t30s3cr3t30s3cr3t30 = @ghp_s3cr3t31s3cr3t31s3cr3t31(x=1)\n\
        @b(of=ok.value, hide=ghp_s3cr3t30s3cr3t30s3cr3t30.x, 'ghp_s3cr3t32s3cr3t32s3cr3t32'=1, 'ghp_s3cr3t33s3cr3t33s3cr3t33'=2, '1a'=3, 'a b'=4, ''=5, a1_=6)\n";
    let shown = masked_program("w", program).unwrap();
    insta::assert_snapshot!(shown, @r#"
    ok = @a()
    hidden_1 = @hidden_1(x="***")
    @b(of=ok.value, hide="***", "***1"="***", "***2"="***", "1a"="***", "a b"="***", ""="***", a1_="***")
    "#);
}

// Plain words of a path are shown, but not where the part before them names a secret, even if that
// part is not shown itself.
#[test]
fn c14_what_stands_behind_a_hidden_name_in_a_url_is_hidden() {
    let shown = |url: &str| {
        let text = format!("workflow = 'w'\n[actions.a]\nhttp = 'POST {url}'\n");
        masked(&text, Format::Toml)
    };
    for url in ["https://h.test/apiKey/hunter", "https://h.test/API_TOKEN/hunter/of/x"] {
        let shown = shown(url);
        assert!(!shown.contains("hunter"), "{shown}");
    }
    assert!(shown("https://h.test/users/hunter").contains("https://h.test/users/hunter"));
}

/// Everything that a definition can say and that is no value of a user stays as it is.
#[test]
fn the_structure_of_a_definition_stays_readable() {
    let structure = r#"workflow = "w"
rollback = "always"

[defaults]
work_config = { max_retries = 2, retryable_errors = ["429"] }

[actions.call]
body = "form"
idempotent = true
kind = "tool_call"
concurrency = 4
breaker = { failures = 5, hold = "30s" }
retry = "[(\"A\", \"B\") -> retry: 3, backoff: 2]"

[[steps]]
id = "s"
action = "call"
after = ["t"]
join = { at_least = 1 }
fail_fast = true
heartbeat_timeout = "30s"
requires = { type = "not", condition = { type = "exists", field = { type = "field", path = "state.input.a" } } }
work_config = { max_retries = 2, backoff = 100 }

[[steps]]
id = "t"
action = "call"

[[transitions]]
from = "s"
to = "t"
priority = 2
on_error = ["A", "B"]
condition = { type = "exists", field = "state._last_error" }
"#;
    let masked = masked(structure, Format::Toml);
    assert!(!masked.contains("***"), "{masked}");
    let same = |text: &str| Node::parse("w", text, Format::Toml).unwrap();
    assert_eq!(values(&same(&masked)), values(&same(structure)));
}

/// JSON is indented as deep as people read it.
#[test]
fn what_is_shown_is_laid_out() {
    let json = r#"{"workflow":"w","steps":[{"id":"s","requires":{"type":"and","conditions":[{"type":"exists","field":"state.input.a"}]}}],"transitions":[],"defaults":{}}"#;
    insta::assert_snapshot!(masked(json, Format::Json), @r#"
    {
      "workflow": "w",
      "steps": [
        {
          "id": "s",
          "requires": {
            "type": "and",
            "conditions": [{"type": "exists", "field": "state.input.a"}]
          }
        }
      ],
      "transitions": [],
      "defaults": {}
    }
    "#);
    let toml =
        "workflow = 'w'\ndefaults = {}\nsteps = [{ id = 's', 'a b' = 1, '' = 2 }, { id = 't' }]\n";
    insta::assert_snapshot!(masked(toml, Format::Toml), @r#"
    workflow = "w"

    [defaults]

    [[steps]]
    id = "s"
    "a b" = "***"
    "" = "***"

    [[steps]]
    id = "t"
    "#);
    insta::assert_snapshot!(masked("[actions.a]\nkind = 'x'\n[actions.'b c']\nrate = {}\n", Format::Toml), @r#"
    [actions.a]
    kind = "x"

    [actions."b c"]
    rate = {}
    "#);
}

/// A list of tables has a head for each in TOML; no other list has.
#[test]
fn a_list_of_anything_stays_a_list() {
    for list in ["[1, 2]", "[]", "[{ a = 1 }, 2]", "['x', {}]", "[[]]"] {
        masked(&format!("input = {list}\n"), Format::Toml);
        masked(&format!("[input]\nlist = {list}\n"), Format::Toml);
    }
}

/// All that stands in a text, each with the keys that lead there.
fn values(node: &Node) -> Vec<String> {
    match &node.data {
        Data::List(items) => items.iter().flat_map(values).map(|v| format!("[] {v}")).collect(),
        Data::Table(entries) => {
            let each = entries
                .iter()
                .flat_map(|e| values(&e.node).into_iter().map(move |v| format!("{} {v}", e.key)));
            let mut all: Vec<String> = each.collect();
            all.sort();
            all
        }
        one => vec![format!("{one:?}")],
    }
}

/// A key that nothing knows may hold anything, at each place.
#[test]
fn c14_the_value_of_an_unknown_key_is_masked() {
    for text in [
        "workflow = 'w'\nodd = 's3cr3t'",
        "[actions.a]\nodd = 's3cr3t'",
        "[[steps]]\nid = 's'\nodd = 's3cr3t'",
        "[[transitions]]\nodd = 's3cr3t'",
        "[[steps]]\nid = 's'\nrequires = { odd = 's3cr3t' }",
    ] {
        let shown = masked(text, Format::Toml);
        assert!(!shown.contains("s3cr3t") && shown.contains("odd = \"***\""), "{shown}");
    }
}

/// Two keys that are hidden stay two.
#[test]
fn c14_hidden_keys_are_numbered() {
    let json = r#"{"input": {"***1": 1, "ghp_s3cr3t30s3cr3t30": 2, "ghp_s3cr3t31s3cr3t31": 3, "***": 4, "plain": 5}}"#;
    let shown = masked_workflow("w", json, Format::Json).unwrap();
    let read = Node::parse("w", &shown, Format::Json).unwrap();
    let input = &read.entries().unwrap()[0].node;
    let keys: Vec<&str> = input.entries().unwrap().iter().map(|e| e.key.as_str()).collect();
    assert_eq!(keys, ["***1", "***2", "***3", "***", "plain"]);
}

/// Of a text only the references are shown that are some, and no secret.
#[test]
fn c14_only_references_of_a_text_are_shown() {
    let shown = |text: &str| {
        let json = format!(r#"{{"input": {{"a": {}}}}}"#, serde_json::Value::from(text));
        let shown = masked_workflow("w", &json, Format::Json).unwrap();
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        read["input"]["a"].as_str().unwrap().to_owned()
    };
    for (text, expected) in [
        ("${input.a}${item}", "${input.a}${item}"),
        ("a ${input.a} b", "***${input.a}***"),
        ("${nothing.a}", "***"),
        ("${input.ghp_s3cr3t30s3cr3t30s3cr3t30}", "***"),
        ("${input.a", "***"),
        ("", "***"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

/// How a text may be written in JSON and in TOML.
fn spelt(text: &str, escaped: bool) -> String {
    if !escaped {
        return serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f");
    }
    let units = text.chars().map(|c| format!("\\U{:08x}", u32::from(c)));
    let json = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
    if text.chars().all(|c| u32::from(c) < 0xd800) {
        format!("\"{}\"", json.collect::<String>())
    } else {
        format!("\"{}\"", units.collect::<String>())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The secret holds a character that no structure has, so that it is found wherever it is left.
    #[test]
    fn c14_no_secret_survives_in_any_place(
        before in "[ -~]{0,12}", after in "[ -~é\n]{0,12}", escaped: bool, place in 0..7_usize
    ) {
        let secret = format!("{before}ß9Q{after}").replace("${", "$");
        let value = spelt(&secret, escaped);
        let at = |here: usize| if here == place { value.as_str() } else { "\"x\"" };
        let text = format!(
            "workflow = \"w\"\ninput = {{ a = {} }}\nsimulate = {{ a = [{}] }}\n\
             [actions.a]\nhttp = \"POST http://h.test/\"\nheaders = {{ h = {} }}\n\
             [[steps]]\nid = \"s\"\naction = \"a\"\nargs = {{ a = {{ b = {} }} }}\nfor_each = [{}]\n\
             requires = {{ type = \"eq\", field = \"state.input.a\", value = {} }}\n\
             ensures = {{ type = \"in\", field = \"state.input.a\", values = [{}] }}\n",
            at(0), at(1), at(2), at(3), at(4), at(5), at(6),
        );
        let shown = masked(&text, Format::Toml);
        prop_assert!(!shown.contains('ß') && !shown.contains("\\u00df"), "{shown}");
        let program = format!("@a(x={}, y=[{}])", value.replace("\\U0000", "\\u"), at(1));
        if let Ok(shown) = masked_program("w", &program) {
            prop_assert!(!shown.contains('ß') && !shown.contains("\\u00df"), "{shown}");
        }
    }

    #[test]
    fn c14_any_text_is_masked_into_the_same_format(text in "\\PC{0,60}") {
        for format in [Format::Toml, Format::Json] {
            if let Ok(shown) = masked_workflow("w", &text, format) {
                prop_assert!(Node::parse("w", &shown, format).is_ok(), "{text:?}: {shown:?}");
            }
        }
    }
}
