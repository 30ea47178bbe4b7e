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
