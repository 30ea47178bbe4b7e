//! What every failure says of itself: rows W7, R10, H4, H10, spec decision 17.

use insta::assert_snapshot;
use retrial_core::failure::{
    Class, ErrorCode, ErrorContext, Failure, NetworkFault, RetryKind, THROTTLING,
    looks_like_statuses, statuses,
};
use retrial_core::time::{Nanos, Timestamp};

/// `CODE < type < ancestor: class, retry kind`, and whether its outcome is unknown.
fn told(failure: &Failure) -> String {
    let lineage = failure.lineage().iter().fold(String::new(), |all, t| all + " < " + t);
    let class = match failure.class() {
        Class::Retryable => "retryable",
        Class::Permanent => "permanent",
    };
    let unknown = if failure.is_outcome_unknown() { ", outcome unknown" } else { "" };
    format!("{}{lineage}: {class}, {}{unknown}", failure.code(), failure.kind())
}

fn all<const N: usize>(failures: [Failure; N]) -> String {
    failures.map(|failure| told(&failure)).join("\n")
}

#[test]
fn decision_17_every_failure_has_code_lineage_and_class() {
    use NetworkFault as Fault;
    let faults = [
        Fault::Refused,
        Fault::Reset,
        Fault::Aborted,
        Fault::Dns,
        Fault::Cut,
        Fault::Tls,
        Fault::Other,
    ];
    assert_snapshot!(all(faults.map(|fault| Failure::network(fault, "x"))), @"
    NETWORK_ERROR < ConnectionRefusedError < ConnectionError < NetworkError: retryable, failure
    NETWORK_ERROR < ConnectionResetError < ConnectionError < NetworkError: retryable, failure
    NETWORK_ERROR < ConnectionAbortedError < ConnectionError < NetworkError: retryable, failure
    NETWORK_ERROR < DnsError < ConnectionError < NetworkError: retryable, failure
    NETWORK_ERROR < IncompleteReadError < ConnectionError < NetworkError: retryable, failure
    NETWORK_ERROR < TlsError < ConnectionError < NetworkError: retryable, failure
    NETWORK_ERROR < ConnectionError < NetworkError: retryable, failure
    ");
    let statuses = [302, 399, 400, 404, 408, 428, 429, 430, 499, 500, 503, 599, 600];
    assert_snapshot!(all(statuses.map(|status| Failure::http(status, "x"))), @"
    302 < HTTPError: permanent, failure
    399 < HTTPError: permanent, failure
    400 < ClientError < HTTPError: permanent, failure
    404 < ClientError < HTTPError: permanent, failure
    408 < ClientError < HTTPError: permanent, failure
    428 < ClientError < HTTPError: permanent, failure
    429 < RateLimitError < ClientError < HTTPError: retryable, failure
    430 < ClientError < HTTPError: permanent, failure
    499 < ClientError < HTTPError: permanent, failure
    500 < ServerError < HTTPError: retryable, failure
    503 < ServerError < HTTPError: retryable, failure
    599 < ServerError < HTTPError: retryable, failure
    600 < HTTPError: permanent, failure
    ");
    assert_snapshot!(all([
        Failure::timeout(Nanos::from_secs(5)),
        Failure::timed_out("late"),
        Failure::heartbeat_missed(Nanos::from_secs(5)),
        Failure::lease_lost(),
        Failure::work_failed("no"),
        Failure::bad_response("what"),
        Failure::precondition("no"),
        Failure::postcondition("no"),
        Failure::too_few(1, 2),
    ]), @"
    TIMEOUT < TimeoutError: retryable, timeout, outcome unknown
    TIMEOUT < TimeoutError: retryable, timeout
    HEARTBEAT_TIMEOUT < HeartbeatTimeoutError < TimeoutError: retryable, timeout, outcome unknown
    LEASE_LOST < LeaseLostError: retryable, lost lease, outcome unknown
    WORK_FAILED < WorkFailedError: permanent, failure
    BAD_RESPONSE < BadResponseError < ValueError: permanent, failure, outcome unknown
    PRECONDITION_FAILED < PreconditionError < ValidationError: permanent, failure
    POSTCONDITION_FAILED < PostconditionError: retryable, failure
    TOO_FEW_SUCCEEDED < ValueError: permanent, failure
    ");
}

/// The type itself comes first, whether or not the lineage repeats it; one ancestor that is
/// transient makes it so.
#[test]
fn w7_h4_an_exceptions_type_and_ancestors() {
    let of = |kind: &str, mro: &[&str]| {
        let mro: Vec<String> = mro.iter().map(|t| (*t).to_owned()).collect();
        Failure::exception(kind, "x", &mro)
    };
    assert_snapshot!(all([
        of("ValueError", &[]),
        of("KeyError", &["KeyError", "LookupError", "Exception"]),
        of("TimeoutError", &[]),
        of("Mine", &["Base", "ConnectionError", "Mine", "Exception"]),
        of("Slow", &["RateLimitError"]),
    ]), @"
    ValueError < ValueError: permanent, failure
    KeyError < KeyError < LookupError < Exception: permanent, failure
    TimeoutError < TimeoutError: retryable, failure
    Mine < Mine < Base < ConnectionError < Exception: retryable, failure
    Slow < Slow < RateLimitError: retryable, failure
    ");
    let failure = of("KeyError", &["LookupError"]);
    assert!(failure.is_a("KeyError") && failure.is_a("LookupError") && !failure.is_a("5xx"));
    // H4: a type is named with its module or without it, by the failure as by the rule.
    let (bare, full) = (of("TimeoutError", &[]), of("asyncio.TimeoutError", &[]));
    assert!(bare.is_a("asyncio.TimeoutError") && full.is_a("TimeoutError"));
    assert!(!full.is_a("concurrent.TimeoutError") && !bare.is_a("asyncio.OutError"));
    let busy = Failure::http(503, "busy");
    assert_eq!(["503", "5xx", "500-503", "ServerError"].map(|name| busy.is_a(name)), [true; 4]);
    assert_eq!(["504", "4xx", "500-502", "servererror"].map(|name| busy.is_a(name)), [false; 4]);
    assert_eq!([busy.status(), failure.status()], [Some(503), None]);
    let many = vec!["T"; Failure::MAX_LINEAGE + 5];
    assert_eq!(Failure::new("E", "x").with_lineage(many).lineage().len(), Failure::MAX_LINEAGE);
}

/// What an action says stays as it says it.
#[test]
fn a3_an_action_names_its_own_failure() {
    let plain = Failure::new("E42", "went wrong");
    assert_eq!(told(&plain), "E42: permanent, failure");
    assert_eq!((plain.message(), plain.to_string().as_str()), ("went wrong", "E42: went wrong"));
    assert_eq!((plain.retry_after(), plain.stack_trace()), (None, None));
    let whole = plain
        .retryable()
        .with_retry_after(Nanos::from_secs(7))
        .with_stack_trace("line 1\nline 2")
        .with_unknown_outcome();
    assert_eq!(told(&whole), "E42: retryable, failure, outcome unknown");
    assert_eq!(whole.retry_after(), Some(Nanos::from_secs(7)));
    assert_eq!(whole.stack_trace(), Some("line 1\nline 2"));
    assert_eq!(whole.clone().permanent().class(), Class::Permanent);
    assert_eq!(Failure::from(&whole), whole);
    let stored = serde_json::to_string(&whole).expect("it can be stored");
    assert_eq!(serde_json::from_str::<Failure>(&stored).expect("and read"), whole);

    let at = Timestamp::from_nanos(1_500_000_000);
    let context = ErrorContext::new(&whole, false, "charge", "pay", 3, at);
    assert_snapshot!(serde_json::to_string(&context).expect("it can be stored"), @r#"{"code":"E42","message":"went wrong","retryable":false,"node_id":"charge","action_id":"pay","timestamp":"1970-01-01T00:00:01.5Z","attempt":3,"stack_trace":"line 1\nline 2"}"#);
}

#[test]
fn codes_are_short_and_printable() {
    assert_eq!(ErrorCode::new("E\n4\u{7}2").to_string(), "E42");
    assert_eq!(ErrorCode::new("").as_str(), "ERROR");
    assert_eq!(ErrorCode::new("\n").as_str(), "ERROR");
    assert_eq!(ErrorCode::new(&"x".repeat(99)).as_str(), "x".repeat(ErrorCode::MAX_CHARS));
}

#[test]
fn h17_who_says_that_it_is_asked_too_often() {
    for name in THROTTLING {
        assert!(Failure::new(name, "x").is_throttling(), "{name}");
        assert!(Failure::new("E", "x").with_lineage(["Mine", name]).is_throttling(), "{name}");
    }
    assert!(!Failure::http(503, "x").is_throttling());
}

#[test]
fn r10_what_triggers_a_retry() {
    let kinds = [RetryKind::Failure, RetryKind::Timeout, RetryKind::LeaseLost];
    assert_eq!(kinds.map(|kind| kind.to_string()), ["failure", "timeout", "lost lease"]);
    let stored = kinds.map(|kind| serde_json::to_string(&kind).expect("a text"));
    assert_eq!(stored, [r#""failure""#, r#""timeout""#, r#""lease_lost""#]);
}

#[test]
fn h17_names_that_stand_for_statuses() {
    for (name, among) in [
        ("5xx", Some((500, 599))),
        ("1XX", Some((100, 199))),
        ("100-599", Some((100, 599))),
        ("404-404", Some((404, 404))),
    ] {
        assert_eq!(statuses(name).map(|s| (*s.start(), *s.end())), among, "{name}");
    }
    let none = [
        "6xx", "0xx", "55xx", "xx", "5x", "99-599", "100-600", "404-403", "404", "4-5", "a-b",
        "+5xx",
    ];
    for name in none {
        assert_eq!(statuses(name), None, "{name}");
    }
    let status = |code: &str| Failure::new(code, "x").status();
    assert_eq!(["503", "099"].map(status), [Some(503), Some(99)]);
    assert_eq!(["42", "+42", "1000", "50x"].map(status), [None; 4]);
    let looks = ["5xx", "9XX", "55xx", "4-5", "404-403", "1-2"];
    assert_eq!(looks.map(looks_like_statuses), [true; 6]);
    let not = ["xx", "axx", "-", "4-", "-5", "a-5", "5-a", "404", "4xxx"];
    assert_eq!(not.map(looks_like_statuses), [false; 9]);
}
