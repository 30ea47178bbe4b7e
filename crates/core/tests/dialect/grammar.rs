//! The hand-written grammars at their edges: escapes, names, places of mistakes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::tree::{Data, Node};
use retrial_core::dialect::{
    Declarations, Diagnostics, Document, Environment, Format, Place, Policies, Source,
    looks_like_ir, parse_duration, parse_ir_program, parse_policy, parse_workflow,
};
use retrial_core::policy::{Dialect, Policy};
use retrial_core::time::Nanos;
use serde_json::json;

/// The text that `written`, in double quotes, stands for in JSON.
fn json_text(written: &str) -> Result<String, String> {
    match Node::parse("w", &format!("\"{written}\""), Format::Json) {
        Ok(Node { data: Data::Text(text), .. }) => Ok(text.into()),
        Ok(other) => panic!("no text: {other:?}"),
        Err(error) => Err(error.message().to_owned()),
    }
}

/// The escapes of RFC 8259, section 7.
#[test]
fn every_escape_of_json_is_read() {
    for (written, text) in [
        (r#"\"\\\/"#, "\"\\/"),
        (r"\b\f\n\r\t", "\u{8}\u{c}\n\r\t"),
        (r"\u0041\u00e9\uFFFD", "Aé\u{fffd}"),
        (r"\ud800\udc00", "\u{10000}"),
        (r"\uD83D\uDE00", "\u{1f600}"),
        (r"\udbff\udfff", "\u{10ffff}"),
        (r"\ud801\udc37", "\u{10437}"),
    ] {
        assert_eq!(json_text(written).as_deref(), Ok(text), "{written}");
    }
    for written in [r"\ud800", r"\udc00", r"\ud800x", r"\ud800\n", r"\ud800\u0041", r"\ud800\ud800"]
    {
        assert_eq!(json_text(written).unwrap_err(), "half of a surrogate pair", "{written}");
    }
    for written in [r"\a", r"\x41"] {
        assert_eq!(json_text(written).unwrap_err(), "unknown escape", "{written}");
    }
    assert_eq!(json_text(r"\u12g4").unwrap_err(), "expected four hexadecimal digits, found `1`");
    assert_eq!(json_text("\u{7}").unwrap_err(), "a control character in a text");
}

/// A character that would not be seen is shown as it can be written.
#[test]
fn what_is_found_is_shown_so_that_it_can_be_seen() {
    let found = |text: &str| {
        let error = Node::parse("w", text, Format::Json).unwrap_err();
        error.message().to_owned()
    };
    assert_eq!(found("\u{1b}"), "expected a JSON value, found `\\u{1b}`");
    assert_eq!(found("é"), "expected a JSON value, found `é`");
    assert_eq!(found("[\n"), "expected a JSON value, found the end of the text");
}

pub(super) fn program(text: &str) -> Result<Document, Diagnostics> {
    parse_ir_program("w.ir", text, &Declarations::default(), &Environment::default())
}

/// A dash is part of a range of statuses alone.
#[test]
fn a_range_of_statuses_is_told_from_an_arrow() {
    let names = |text: &str| match parse_policy("p", text, None, &Environment::default()) {
        Ok(Policies::One(policy)) => format!("{:?}", policy.rules()[0].matcher.scope),
        Ok(other) => panic!("not one policy: {other:?}"),
        Err(errors) => errors.to_string(),
    };
    assert!(names("[500-599 -> retry: 1]").contains("\"500-599\""));
    assert!(names("[500->retry: 1]").contains("{\"500\"}"));
    assert!(names("[(500-599, A)->retry: 1]").contains("\"500-599\""));
    let error = names("[A-1 -> retry: 1]");
    assert!(error.contains("p:1:2: unknown key `A`"), "{error}");
}

/// Of the brackets, the part at fault is pointed at.
#[test]
fn a_mistake_in_brackets_is_told_where_it_stands() {
    let span = |text: &str| {
        let errors = parse_policy("p", text, None, &Environment::default()).unwrap_err();
        text[errors[0].span()].to_owned()
    };
    assert_eq!(span("[ -> retry: 1]"), "->");
    assert_eq!(span("[-> retry: 1]"), "->");
    assert_eq!(span("[   -> retry: 1]"), "->");
    assert_eq!(span("[A -> timeout: 5]"), "A");
    assert_eq!(span("[(A, 'B') -> timeout: 5]"), "(A, 'B')");
    assert_eq!(span("[retry: 1, timeout: 5]"), "timeout");
    assert_eq!(span("[retry: 1, retry: 2]"), "retry");
    assert_eq!(span("# a ] comment\n\n [rety: 1] # another"), "rety");
    assert_eq!(span("\n[retry: 1]\n  # of\n  # two lines\n[rety: 1]"), "rety");
}

/// A program's mistakes are told by their line, wherever the text ends.
#[test]
fn a_mistake_in_a_program_is_told_where_it_stands() {
    let told = |text: &str| program(text).unwrap_err()[0].to_string();
    let error = told("@a()\n\ninput = @b()\n");
    assert!(error.starts_with("w.ir:3:1: input: `input` is a reserved word"), "{error}");
    let error = told("@a()\n  x = @b(y=zz)\n");
    assert!(error.starts_with("w.ir:2:"), "{error}");
    let error = told("@a()\n@b() [rety: 1]");
    assert!(error.starts_with("w.ir:2:7: "), "{error}");
}

/// Words, lines and texts at fault, and no more than those.
#[test]
fn what_is_wrong_in_a_program_is_pointed_at() {
    let span = |text: &str| text[program(text).unwrap_err()[0].span()].to_owned();
    assert_eq!(span("@a()\n\ninput = @b()\n@c()\n"), "input");
    assert_eq!(span("@a()\n@b(x=zz)\n@c()\n"), "zz");
    assert_eq!(span("@a()\n@b(x='${nope.x}')\n@c()\n"), "'${nope.x}'");
    assert_eq!(span("@a()\n@b(x={k: '${nope.x}'})\n@c()\n"), "'${nope.x}'");
}

/// Values as Waymark and as JSON spell them.
#[test]
fn w1_arguments_are_values_of_json() {
    let args = |text: &str| {
        program(&format!("@a({text})\n")).unwrap().workflow.steps()[0].args.raw().clone()
    };
    assert_eq!(
        args("a=true, b=True, c=false, d=False, e=null, f=None, g=-1.5"),
        json!({ "a": true, "b": true, "c": false, "d": false, "e": null, "f": null, "g": -1.5 })
    );
    assert_eq!(
        args(r#"'a b'={"c d": [1, 'e'], f: {}}, "g"='h'"#),
        json!({ "a b": { "c d": [1, "e"], "f": {} }, "g": "h" })
    );
}

/// Within a workflow file the place is that of the file, where the text has no escapes.
#[test]
fn brackets_in_a_file_are_told_by_the_file() {
    let told = |retry: &str| {
        let text = format!("workflow = 'w'\n[[steps]]\nid = 's'\naction = 'a'\nretry = {retry}\n");
        let read = parse_workflow("w", &text, Format::Toml, &Environment::default());
        let errors = read.unwrap_err();
        (errors[0].line(), errors[0].column())
    };
    assert_eq!(told("'[rety: 1]'"), (5, 11));
    assert_eq!(told("'''[rety: 1]'''"), (5, 13));
    assert_eq!(told("'''\n[rety: 1]'''"), (6, 2));
    assert_eq!(told("\"[retry: 1] [rety: 1]\""), (5, 22));
    assert_eq!(told("\"\\u005brety: 1]\""), (5, 9));
}

/// What begins like a call, or like a bracket with a colon or an arrow.
#[test]
fn ir_is_told_from_toml() {
    for text in ["@a()", "x = @a()", "\n# first\n[retry: 1]", "[A->retry]", "  [A -> x]"] {
        assert!(looks_like_ir(text), "{text}");
    }
    for text in ["", "# [retry: 1]", "[work_config]", "x = 1", "x: 1", "retry = '[retry: 1]'"] {
        assert!(!looks_like_ir(text), "{text}");
    }
}

#[test]
fn r2_a_call_in_python_is_pointed_at() {
    let text = "p = RetryPolicy(x=1)\n";
    let errors = parse_policy("p", text, None, &Environment::default()).unwrap_err();
    assert_eq!(&text[errors[0].span()], "RetryPolicy");
}

/// A preset is named by a word, and its table is one of another dialect.
#[test]
fn a_preset_is_named_or_refused() {
    let of = |text: &str| parse_policy("p", text, Some(Dialect::Preset), &Environment::default());
    assert!(of("nope").unwrap_err()[0].message().contains("nope"));
    let table = of("preset = 'nope'").unwrap_err().to_string();
    assert!(table.contains("preset: "), "{table}");
    let none: Policy = "none".parse().unwrap();
    assert_eq!(none.limit().count(), Some(1));
}

/// A file's ending says its format.
#[test]
fn the_format_is_that_of_the_ending() {
    for (name, format) in [
        ("w.toml", Some(Format::Toml)),
        ("dir.json/w.json", Some(Format::Json)),
        ("w.ir", None),
        ("toml", None),
        ("", None),
    ] {
        assert_eq!(Format::from_extension(name), format, "{name}");
    }
    // A text that could be either is read as its name says.
    let json = "{}";
    let error = |name: &str| {
        parse_policy(name, json, None, &Environment::default()).unwrap_err()[0].to_string()
    };
    assert!(error("p.toml").contains("TOML"), "{}", error("p.toml"));
    assert!(error("p.json").contains("no known dialect"), "{}", error("p.json"));
}

/// A length of time, or what is wrong with it.
#[test]
fn a_length_of_time_is_read_or_refused_with_the_reason() {
    for (text, nanos) in
        [("30s", 30_000_000_000), (" 250 ms ", 250_000_000), ("1.5h", 5_400_000_000_000)]
    {
        assert_eq!(parse_duration(text), Ok(Nanos::new(nanos)), "{text}");
    }
    for (text, why) in [
        ("inf", "must be finite"),
        ("-inf", "must be finite"),
        ("+nan", "must be finite"),
        ("30", "has no unit"),
        ("3 parsec", "has an unknown unit"),
        ("", "is not a number"),
        ("-s", "is not a number"),
    ] {
        let error = parse_duration(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

/// A variable of the environment is a number where it looks like one.
#[test]
fn a_variable_is_a_number_or_a_text() {
    let backoff = |value: &str| {
        let read = Environment::read(|name| (name == "RETRY_BACKOFF").then(|| value.to_owned()));
        read.map_err(|error| error.message().to_owned())
    };
    assert_eq!(backoff("100"), backoff("100ms"));
    assert_eq!(backoff("5s"), backoff("5000"));
    assert_ne!(backoff("5s"), backoff("5"));
    assert!(backoff("_5").is_err());
}

/// All of a text's mistakes come one after another, and a place in the middle of a character is the
/// character's.
#[test]
fn diagnostics_can_be_gone_through() {
    let text = "[[steps]]\nid = 's'\naction = 'a'\ngoal = 5\nfail_fast = 6\n";
    let errors = parse_workflow("w", text, Format::Toml, &Environment::default()).unwrap_err();
    let lines: Vec<usize> = errors.iter().map(|error| error.line()).collect();
    let owned: Vec<usize> = errors.clone().into_iter().map(|error| error.line()).collect();
    assert_eq!(lines, owned);
    assert_eq!(lines, [1, 4, 5], "{errors}");
    let place = Place::whole(&Source::new("w", "aé"));
    assert_eq!([1, 2].map(|at| place.at(at..at).error("x").column()), [2, 2]);
}
