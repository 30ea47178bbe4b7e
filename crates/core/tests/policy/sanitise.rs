//! C14 and promise 8: no secret gets past the sanitiser. The shapes are written from what tools and
//! services print, not from the scanner.

use proptest::prelude::*;
use proptest::sample::select;
use retrial_core::failure::{Failure, sanitise};
use serde_json::json;

const WHOLE: usize = usize::MAX;

/// Texts with `§` where a secret stands.
const SHAPES: &[&str] = &[
    // Authorisation headers.
    "Authorization: Bearer §",
    "authorization: bearer §\nHost: x",
    "Authorization: Basic §",
    "Proxy-Authorization: Basic § trailing",
    "authorization=Token §",
    "Authorization: Digest username=\"bob\", realm=\"r\", response=\"§\"",
    "Authorization: AWS4-HMAC-SHA256 Credential=§/20130524/us-east-1, Signature=x",
    "curl -H 'Authorization: Bearer §' https://example.com",
    "curl -H \"Authorization: Bearer §\" https://example.com",
    "{\"authorization\": \"Bearer §\", \"accept\": \"json\"}",
    "got 401 with Bearer § from upstream",
    "sent (Bearer §), refused",
    // Cookies.
    "Cookie: theme=dark; sid=§; lang=en",
    "Set-Cookie: session=§; Path=/; HttpOnly",
    "{'Cookie': 'a=b; c=§'}",
    // URLs.
    "https://bob:§@example.com/path",
    "https://§@github.com/o/r.git",
    "postgres://u:§@db:5432/app?sslmode=off",
    "redis://:§@cache:6379/0",
    "postgres://u:p/§@db:5432/app",
    "amqp://u:a@§@mq",
    "dial admin:§@db.internal:5432 failed",
    "GET /v1?token=§&page=2",
    "https://h/cb?state=1&access_token=§#frag",
    "https://maps/api?key=§",
    "https://h/?X-Amz-Signature=§&b=1",
    "https://acct.blob/c?sv=1&sig=§",
    "redirect=https%3A%2F%2Fh%2F%3Fpassword%3D§",
    // Pairs.
    "password=§",
    "password: §",
    "Password = §, user = bob",
    "DB_PASSWORD=§",
    "export AWS_SECRET_ACCESS_KEY=§",
    "Server=db;User Id=sa;Password=§;Encrypt=yes",
    "client_secret=§&grant_type=code",
    "x-api-key: §",
    "X-Auth-Token: §",
    "api key: §",
    "--password=§ --host=h",
    "--api-token § --host=h",
    "passphrase => §",
    "secret := §",
    "user[password]=§&user[name]=x",
    "env[\"API_KEY\"] = \"§\"",
    "dbPassword='§'",
    "password=b'§'",
    "token=`§`",
    "password \"§\" was refused",
    "jwt=§",
    "<password>§</password>",
    "AccountKey=§;EndpointSuffix=core",
    // JSON and what prints like it.
    "{\"password\":\"§\"}",
    "{\"user\":{\"name\":\"bob\",\"apiKey\":\"§\"}}",
    "{\"password\" : \"a\\\"b§\"}",
    "{\"client_secret\":{\"value\":[\"x\",\"§\"]}}",
    "\"{\\\"token\\\":\\\"§\\\"}\"",
    "\"{\\\"token\\\":\\\"a\\\\\\\"b§\\\"}\"",
    "{\\\"a\\\":{\\\"password\\\":\\\"§",
    "{'password': '§', 'user': 'bob'}",
    "Config { token: \"§\", retries: 3 }",
    "Config { token: Some(\"§ x\"), retries: 3 }",
    "Config { token: Token(Inner { text: \"§\" }) }",
    "%22password%22%3A%22§%22",
    "&quot;password&quot;:&quot;§&quot;",
    // On the next line: folded headers, YAML.
    "password:\n  §\nuser: bob",
    "Authorization:\r\n\tBearer §",
    // Hidden by control characters.
    "{\"pass\\u001b[0mword\": \"§\"}",
    "pass\u{1b}[0mword=§",
    "pass\u{0}word=§",
    "tok\u{200b}en: §",
];

/// Secrets that are known by themselves; `§` is 24 letters and digits.
const KNOWN: &[&str] = &[
    "AKIA§",
    "ASIA§",
    "sk-§",
    "sk-proj-§",
    "sk_live_§",
    "rk_test_§",
    "ghp_§",
    "gho_§",
    "ghs_§",
    "github_pat_§",
    "glpat-§",
    "xoxb-1-§",
    "xoxp-§",
    "xapp-1-§",
    "AIza§",
    "ya29.§",
    "npm_§",
    "hf_§",
    "hvs.§",
    "SG.§",
    "eyJ§.§.§",
    "whsec_§",
    "hooks.slack.com/services/T01/B02/§",
    "discord.com/api/webhooks/1/§",
];

fn plant(shape: &str, secret: &str) -> String {
    shape.replace('§', secret)
}

#[track_caller]
fn check_hidden(text: &str, secret: &str) {
    let shown = sanitise::message(text, WHOLE);
    assert!(!shown.contains(secret), "{text:?} shows its secret: {shown:?}");
    assert_eq!(sanitise::message(&shown, WHOLE), shown, "masking {text:?} twice");
}

#[test]
fn c14_every_shape_is_masked() {
    for shape in SHAPES {
        check_hidden(&plant(shape, "hunter2Xy9Qz"), "hunter2Xy9Qz");
    }
    for shape in KNOWN {
        let secret = plant(shape, "Ab3dEf6hIj9kLm2nOp5qRs8t");
        for text in [secret.clone(), format!("rejected {secret}, sorry"), format!("x=({secret})")] {
            check_hidden(&text, &secret);
        }
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(sanitise::message(text, WHOLE), expected, "{text:?}");
}

#[test]
fn c14_an_url_shows_where_it_leads_and_no_more() {
    for (url, shown) in [
        ("https://h:8443/v1/items?page=2#top", "https://h:8443/v1/items?***"),
        ("https://bob:pw@h/x", "https://***@h/x"),
        ("http://h/", "http://h/"),
        ("http://h/a/Ab3dEf6hIj9kLm2nOp5q/b", "http://h/a/***/b"),
        (
            "http://h/67e55044-10b1-426f-9247-bb680e5fe0c8",
            "http://h/67e55044-10b1-426f-9247-bb680e5fe0c8",
        ),
        ("http://h/token=abc/x", "http://h/token=***"),
        ("/relative?x", "/relative?***"),
    ] {
        assert_eq!(sanitise::url(url), shown, "{url}");
    }
}

#[test]
fn c14_what_is_no_secret_stays() {
    for text in [
        "connection refused",
        "HTTP 503 Service Unavailable: upstream down",
        "calling http://localhost:8080: connection reset by peer",
        "step `fetch` failed after 3 attempts",
        "key=user_id index=7",
        "max_tokens: 512, prompt_tokens=17",
        "InvalidTokenError: it expired",
        "author: bob, path: /usr/lib/python3",
        "basic authentication failed",
        "a basic check failed",
        "the bearer token is missing",
        "run 67e55044-10b1-426f-9247-bb680e5fe0c8 holds a stale token",
        "mail bob@example.com",
        "git@github.com:o/r.git",
        "https://example.com/@scope/pkg?page=2",
        "2026-01-01T10:00:00Z error=timeout",
        "{\"status\":\"failed\",\"code\":503}",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "größe: 3 — naïve",
    ] {
        check(text, text);
    }
}

#[test]
fn c14_the_rest_of_the_text_stays_readable() {
    check("password=hunter2, user=bob", "password=***, user=bob");
    check("GET /v1?token=abc&page=2", "GET /v1?token=***&page=2");
    check("https://bob:pw@h/p?q=1 refused", "https://***@h/p?q=1 refused");
    check("{\"password\":\"x\",\"user\":\"bob\"}", "{\"password\":\"***\",\"user\":\"bob\"}");
    check("(token=abc) next", "(token=***) next");
    check("401 with Bearer abc123 from h", "401 with Bearer *** from h");
    check("{'Authorization': 'Bearer x', 'a': 1}", "{'Authorization': '***', 'a': 1}");
    check("a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb");
    check("-----BEGIN PRIVATE KEY-----\nMII", "***");
    let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let key = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n";
    check(
        &[certificate, key, certificate, key].concat(),
        &[certificate, "***\n"].concat().repeat(2),
    );
    check("Cookie: a=b; c=d\nHost: h", "Cookie: ***\nHost: h");
    check(
        r#"{\"h\": \"Authorization: Bearer hunter2\", \"accept\": \"json\"}"#,
        r#"{\"h\": \"Authorization: ***\", \"accept\": \"json\"}"#,
    );
    check("<password>x</password> next", "<password>***</password> next");
}

#[test]
fn c14_terminal_escapes_can_not_run() {
    check("\u{1b}[2J\u{1b}[31mred\u{7}\r\nnext\tline\u{9b}0m", "red\nnext\tline");
}

#[test]
fn c14_text_is_masked_before_it_is_cut() {
    let text = format!("{} https://bob:hunter2@h", "x".repeat(20));
    for max in 0..50 {
        let shown = sanitise::message(&text, max);
        assert!(shown.chars().count() <= max);
        assert!(!shown.contains("hun"), "{shown}");
    }
    assert_eq!(sanitise::message("größe", 3), "grö");
}

#[test]
fn c14_values_are_masked_by_name_and_by_text() {
    let value = json!({
        "password": "a",
        "nested": [{"apiKey": 7, "note": "token=abc"}, "Bearer abc123", null, 3, true],
        "credentials": {"user": "bob"},
        "token": null,
        "max_tokens": 512,
        "headers": [{"name": "Authorization", "value": "x"}, {"name": "Accept", "value": "json"}],
        "ghp_Ab3dEf6hIj9kLm2nOp5q": 1,
    });
    let expected = json!({
        "password": "***",
        "nested": [{"apiKey": "***", "note": "token=***"}, "Bearer ***", null, 3, true],
        "credentials": "***",
        "token": null,
        "max_tokens": 512,
        "headers": [{"name": "Authorization", "value": "***"}, {"name": "Accept", "value": "json"}],
        "***": 1,
    });
    assert_eq!(sanitise::value(&value), expected);
    assert_eq!(sanitise::value(&expected), expected);
}

#[test]
fn c14_failures_mask_code_message_trace_and_lineage() {
    let failure = Failure::exception("sk-Ab3dEf6hIj9kLm2nOp5q", "password=hunter2", &[])
        .with_stack_trace("at login(token=\"hunter2\")");
    let shown = format!("{failure} {failure:?} {}", serde_json::to_string(&failure).unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(!shown.contains("Ab3dEf6hIj9kLm2nOp5q"), "{shown}");
}

/// Long runs of what would take minutes if any rule looked ahead again and again.
#[test]
fn c14_hostile_text_takes_linear_time() {
    for piece in [
        "basic (",
        "token: (",
        "token ",
        "a:b@",
        "://",
        "\\",
        "\"",
        "token=\"",
        "token/",
        "eyJ",
        "-----BEGIN ",
        "-----BEGIN PRIVATE",
        "Bearer token ",
        "password'",
        "cookie ",
        "{[(",
        "key ",
        "0123456789abcdefg token ",
        "://a:b/",
        "token\\\"",
        "%22",
        "--token ",
        "***",
        "token=(\"",
        "token:\\",
        "token:)",
        "token\\",
    ] {
        let text = piece.repeat(200_000 / piece.len());
        let shown = sanitise::message(&text, 100);
        assert!(shown.chars().count() <= 100);
    }
}

fn noise() -> impl Strategy<Value = String> {
    let word = select(vec![
        "failed",
        "to",
        "call",
        "host",
        "with",
        "status",
        "503",
        "user=bob",
        "retry",
        "in",
        "2s",
        "(see",
        "docs)",
        "[a]",
        "{",
        "}",
        "it's",
        "a/b/c",
        "x@y.z",
        "key",
        "-",
        "*",
        "token",
        "is",
        "https://h/p",
        "\n",
        "\t",
        "größe",
        "\u{1b}[1m",
    ]);
    prop::collection::vec(word, 0..6).prop_map(|words| words.join(" "))
}

fn secret() -> impl Strategy<Value = String> {
    "[a-zA-Z][a-zA-Z0-9]{6,20}[0-9][A-Z]"
}

/// Pieces that the rules look at, in any order.
fn soup() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "password",
        "token",
        "api",
        "key",
        "Authorization",
        "cookie",
        "Bearer",
        "Basic",
        "Digest",
        "=",
        ":",
        ": ",
        " ",
        "  ",
        "\n",
        "\t",
        "\"",
        "'",
        "`",
        "\\",
        "\\\"",
        "\\\\\"",
        "@",
        "://",
        "/",
        "?",
        "&",
        "#",
        ",",
        ";",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        "%22",
        "%3D",
        "&quot;",
        "\\u001b",
        "\\u00",
        "1b",
        "***",
        "*",
        "is",
        "abc",
        "x1",
        "0123456789abcdefAB",
        "eyJhbGciOiJIUzI1NiJ9",
        "sk-0123456789abcdef",
        "-----BEGIN ",
        "PRIVATE KEY-----",
        "-----END ",
        "-----",
        "--",
        "-",
        ".",
        "b'",
        "Some(",
        "http",
        "ü",
        "67e55044-10b1-426f-9247-bb680e5fe0c8",
        "max_tokens",
        "ntlm",
        "$",
        "+",
        "~",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn c14_a_planted_secret_never_shows(
        shape in select(SHAPES),
        secret in secret(),
        before in noise(),
        after in noise(),
        max in prop_oneof![Just(WHOLE), 0_usize..120],
    ) {
        let text = format!("{before} {} {after}", plant(shape, &secret));
        let shown = sanitise::message(&text, max);
        prop_assert!(!shown.contains(&secret), "{text:?} shows {shown:?}");
    }

    #[test]
    fn c14_masking_twice_is_masking_once(
        text in soup(),
        max in prop_oneof![Just(WHOLE), 0_usize..40],
    ) {
        let once = sanitise::message(&text, max);
        prop_assert_eq!(sanitise::message(&once, max), once, "{:?}", text);
    }

    #[test]
    fn c14_any_text_is_taken(text in any::<String>(), max in 0_usize..40) {
        let once = sanitise::message(&text, max);
        prop_assert!(once.chars().count() <= max);
        prop_assert!(!once.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        prop_assert_eq!(sanitise::message(&once, max), once);
    }
}
