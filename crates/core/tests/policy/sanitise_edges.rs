//! C14: where what the sanitiser masks begins and ends. That nothing gets past it is `sanitise.rs`'s.

use retrial_core::failure::sanitise;
use serde_json::json;

const WHOLE: usize = usize::MAX;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(sanitise::message(text, WHOLE), expected, "{text:?}");
}

/// Names without a value mask nothing, and a value ends where it ends.
#[test]
fn c14_where_values_begin_and_end() {
    for plain in [
        "password=",
        "password=, user=bob",
        "password: \nnext line",
        "give --token/--password",
        "password\n  next line",
        "the key: value",
        "api  key: value",
        "missing (Bearer)",
        "missing Bearer",
        "call bearer(value) now",
        // A quote ends an address, so what stands before it is no password.
        r#"{"at":"10:30","to":"ann@example.org"}"#,
        "at 10:30 to ann@example.org",
        r#"a "password"b"x" c"#,
        "give --password(see below)",
        "give --password, or a file",
        "--password",
        "password \"\" is empty",
        "the password (see below)",
        "Authorization:",
        "Authorization:\nHost: h",
    ] {
        check(plain, plain);
    }
    // What follows the name of a scheme: base64 or a key, not prose.
    for secret in ["dXNlcjpwdw==", "abcdef==", "abcdef1", "abCdef", "ab+def"] {
        check(&format!("got Basic {secret} back"), "got Basic *** back");
    }
    for plain in ["abc12", "english", "English", "name=value1", "abcde(1)"] {
        let text = format!("got basic {plain} back");
        check(&text, &text);
    }
    check("password: 'it's me' next", "password: '***' next");
    check("password: \"a\"b next", "password: \"***\"b next");
    check("\"Authorization: Bearer a\\\"b c\", \"n\"", "\"Authorization: ***\", \"n\"");
    // Without quotes: to a blank, or to the quote of the text around it.
    check(r#"{\"u\": \"token=abc\", \"n\": 1}"#, r#"{\"u\": \"token=***\", \"n\": 1}"#);
    check(r"password=a\b next", "password=*** next");
    check("password=ab\"c d\" e", "password=***\"c d\" e");
    check("password=k=\"v w\" x", "password=*** x");
    // Brackets belong to it as far as their pairs, whatever stands in quotes between them; the last
    // one may be the sentence's.
    for (value, rest) in [
        ("f(a b)", ")"),
        ("f(a (b [c]) {d} e)", ")"),
        (r#"f(a ")" b)"#, ")"),
        (r#"[1, "]", 2]"#, "]"),
        ("(a)b", ""),
        (r"a\\b", ""),
    ] {
        check(&format!("token={value} next"), &format!("token=***{rest} next"));
    }
    check("token=f(a b next", "token=***");
    check(r#"{\"t\": \"token=f(\\\")\\\" x)\", 1}"#, r#"{\"t\": \"token=***)\", 1}"#);
    check("password: x yes", "password: *** yes");
    check("say password \"open sesame\" now", "say password \"***\" now");
    check("'Authorization: Bearer a b', 'Host: h'", "'Authorization: ***', 'Host: h'");
    check("\"Cookie\": \"a=b; c=d\", \"n\": 1", "\"Cookie\": \"***\", \"n\": 1");
    check("\"Cookie\": a=b; c=d\nnext", "\"Cookie\": ***\nnext");
    check("Cookie: a=\"b\"; c=d\nnext", "Cookie: ***\nnext");
}

/// JSON in a text of JSON, and that in another: each level doubles the backslashes.
#[test]
fn c14_values_end_at_their_own_quote_at_every_level() {
    let quoted = |text: &str| json!(text).to_string();
    let within = |text: &str| quoted(text)[1..quoted(text).len() - 1].to_owned();
    for secret in ["hunter2", "hun\"ter2", "\"hunter2\"", "hunter2\\", "hun\\\"ter2"] {
        let around = |value: &str| format!("{{\"password\": {}, \"n\": 1}}", quoted(value));
        let (mut text, mut masked) = (around(secret), around("***"));
        for level in 0..4 {
            let shown = sanitise::message(&text, WHOLE);
            assert_eq!(shown, masked, "level {level}: {text}");
            (text, masked) = (within(&text), within(&masked));
        }
    }
}

#[test]
fn c14_a_long_key_beside_a_word_that_speaks_of_secrets() {
    check("invalid token 0123456789abcdef0123", "invalid token ***");
    check("0123456789abcdef0123 is no valid secret", "*** is no valid secret");
    check("digest 0123456789abcdef0123 differs", "digest 0123456789abcdef0123 differs");
    check("token\n0123456789abcdef0123", "token\n0123456789abcdef0123");
    // Up to four words away, on either side.
    for away in 1..=7 {
        let between = "and ".repeat(away - 1);
        for (text, hidden) in [
            (format!("secret {between}0123456789abcdef"), format!("secret {between}***")),
            (format!("0123456789abcdef {between}secret"), format!("*** {between}secret")),
        ] {
            check(&text, if away <= 4 { &hidden } else { &text });
        }
    }
    check("0123456789abcdef fedcba9876543210 secret", "*** *** secret");
    let two = "secret and 0123456789abcdef and and and fedcba9876543210 end";
    check(two, "secret and *** and and and fedcba9876543210 end");
    let two = "0123456789abcdef and and fedcba9876543210 and secret";
    check(two, "0123456789abcdef and and *** and secret");
    check("0123456789abcdef and and fedcba9876543210 secret", "*** and and *** secret");
    // Letters in both cases, or with digits; of one kind alone it is a number or a word. A UUID is an
    // identifier; what is as long as one, or looks like one in part, is not.
    let is_masked = |word: &str| match sanitise::message(&format!("{word} is no secret"), WHOLE) {
        masked if masked == "*** is no secret" => true,
        kept => {
            assert_eq!(kept, format!("{word} is no secret"));
            false
        }
    };
    for word in [
        "AbCdEfGhIjKlMnOpQrSt",
        "ABCDEFGHIJ0123456789",
        "0123456789abcdef",
        "0123456789abcdef0123456789abcdef0123",
        "0b53e7a1-7f3c-4b52-9d2e-1c2d3e4f5a6",
        "0b53e7a1-7f3c-4b52-9d2e-1c2d3e4f5a6g",
    ] {
        assert!(is_masked(word), "{word}");
    }
    for word in [
        "01234567890123456789",
        "abcdefghijklmnopqrst",
        "ABCDEFGHIJKLMNOPQRST",
        "0123456789abcde",
        "0b53e7a1-7f3c-4b52-9d2e-1c2d3e4f5a6b",
        "node1.eu-west-1.Example.com",
        "0123456789abcdefé",
    ] {
        assert!(!is_masked(word), "{word}");
    }
}
