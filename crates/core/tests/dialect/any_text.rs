//! No text makes a parser panic, and every error is somewhere in its text.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use retrial_core::dialect::{
    Declarations, Diagnostic, Environment, Format, parse_actions, parse_ir_program, parse_policy,
    parse_workflow,
};
use retrial_core::policy::Dialect;

/// A workflow of two steps.
const GOOD: &str = r#"workflow = "w"
[[steps]]
id = "a"
action = "x"
[[steps]]
id = "b"
action = "x"
args = { n = "${steps.a.result.x}" }
after = ["a"]
retry = "[A -> retry: 3, backoff: 2m] [timeout: 5]"
"#;

fn shown(errors: &[Diagnostic]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn nesting_does_not_exhaust_the_stack() {
    let deep =
        |open: &str, close: &str| format!("{}1{}", open.repeat(50_000), close.repeat(50_000));
    for text in [deep("[", "]"), deep("{\"a\":", "}")] {
        let parsed = parse_workflow("w.json", &text, Format::Json, &Environment::default());
        assert!(shown(&parsed.err().unwrap()).contains("nested too deeply"));
    }
    let text = format!("a = {}", deep("[", "]"));
    let parsed = parse_workflow("w.toml", &text, Format::Toml, &Environment::default());
    assert!(parsed.is_err());
    let text = format!("@a(x={})", deep("[", "]"));
    let parsed = parse_ir_program("f.ir", &text, &Declarations::default(), &Environment::default());
    assert!(shown(&parsed.err().unwrap()).contains("nested too deeply"));
}

/// Every entry point, over one text.
fn parse_all(text: &str) -> Vec<Diagnostic> {
    let environment = Environment::default();
    let mut errors = Vec::new();
    for format in [Format::Toml, Format::Json] {
        errors.extend(parse_workflow("w", text, format, &environment).err().into_iter().flatten());
        errors.extend(parse_actions("a", text, format).err().into_iter().flatten());
    }
    let program = parse_ir_program("f.ir", text, &Declarations::default(), &environment);
    errors.extend(program.err().into_iter().flatten());
    for dialect in [
        None,
        Some(Dialect::Ir),
        Some(Dialect::WorkConfig),
        Some(Dialect::Execution),
        Some(Dialect::RetryConfig),
    ] {
        errors.extend(parse_policy("p", text, dialect, &environment).err().into_iter().flatten());
    }
    let lookup = |_: &str| Some(text.to_owned());
    errors.extend(Environment::read(lookup).err());
    errors
}

// As a `main` shows it that returns what `?` gave it.
#[test]
fn all_that_is_wrong_is_one_error_that_people_can_read() {
    let text =
        "workflow = \"w\"\nsteps = [{ id = \"a\" }, { id = \"b\", action = \"x\", retry = \"3\" }]";
    let read = || Ok(parse_workflow("w.toml", text, Format::Toml, &Environment::default())?);
    let read: Result<_, Box<dyn std::error::Error>> = read();
    insta::assert_snapshot!(format!("{:?}", read.err().unwrap()), @"
    w.toml:2:10: steps.0.action: `action` is missing (name what the step invokes)
    w.toml:2:59: steps.1.retry: expected `[`, found `3` (write a policy such as [retry: 3, backoff: 60])
    ");
}

/// A text made of the pieces that the grammars know.
fn near_misses() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "workflow",
        "steps",
        "id",
        "action",
        "args",
        "after",
        "retry",
        "work_config",
        "execution",
        "retry_config",
        "retry_policy",
        "max_retries",
        "max_attempts",
        "backoff",
        "timeout",
        "condition",
        "type",
        "field",
        "=",
        ":",
        "->",
        ",",
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "(",
        ")",
        "@",
        "\"",
        "'",
        "\\",
        "\\u",
        "#",
        "\n",
        " ",
        "0",
        "-1",
        "1e999",
        "1.5",
        "2m",
        "inf",
        "null",
        "true",
        "${",
        "input.x",
        "steps.a.result",
        "é",
        "𝄞",
        "\r",
        "\t",
        "\u{0}",
        ".",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_an_answer(text in ".*") {
        parse_all(&text);
    }

    #[test]
    fn any_near_miss_gives_a_located_answer(text in near_misses()) {
        for error in parse_all(&text) {
            let (line, column) = (error.line(), error.column());
            prop_assert!(line >= 1 && column >= 1, "{error}");
            prop_assert!(error.span().end <= error.source_text().len(), "{error}");
            prop_assert!(error.source_text().get(error.span()).is_some(), "{error}");
            prop_assert!(!error.message().is_empty());
        }
    }

    #[test]
    fn any_damage_to_a_good_file_gives_an_answer(
        at in 0..1_000_usize, cut in 0..20_usize, put in near_misses()
    ) {
        let at = at % GOOD.len();
        let end = (at + cut).min(GOOD.len());
        parse_all(&format!("{}{put}{}", &GOOD[..at], &GOOD[end..]));
    }
}
