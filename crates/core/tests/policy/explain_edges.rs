//! Where one phrase or warning ends and another begins.

use super::explain::{explained, words};

fn warnings(text: &str) -> String {
    let json = explained(text, None).to_json();
    let of = json.get("steps").map_or(&json, |steps| &steps[0]);
    of["warnings"].to_string()
}

/// Of the rules that match, the one with the most attempts governs, on a tie the first.
#[test]
fn a_rule_that_never_governs_is_told_from_one_that_does() {
    for (text, found) in [
        ("[(A, B) -> retry: 5] [A -> retry: 2]", Some("rule 2: it never governs: rule 1")),
        ("[A -> retry: 2] [A -> retry: 2]", Some("rule 2: it never governs: rule 1")),
        ("[retry: 2] [A -> retry: 2]", Some("rule 2: it never governs: rule 1")),
        ("[A -> retry: 2] [retry: 2]", None),
        ("[retry: 1] [A -> retry: 3]", None),
        ("[A -> retry: 5] [(A, B) -> retry: 2]", None),
    ] {
        let told = warnings(text);
        match found {
            Some(found) => assert!(told.contains(found), "{text}: {told}"),
            None => assert_eq!(told, "[]", "{text}"),
        }
    }
}

#[test]
fn a_first_delay_at_the_cap_is_not_above_it() {
    let work = |retries: i32, first: u32, cap: u32| {
        warnings(&format!(
            r#"{{"max_retries": {retries}, "backoff": {first}, "max_backoff": {cap}}}"#
        ))
    };
    assert_eq!(work(2, 100, 100), "[]");
    assert!(work(1, 101, 100).contains("its first delay of 101ms is above the cap"));
    assert!(!work(0, 101, 100).contains("above the cap"));
}

/// A workflow of one step that says `more`, and an action that says `of_action`.
fn step(more: &str, of_action: &str) -> String {
    warnings(&format!(
        "workflow = 'w'\n[actions.a]\n{of_action}\n[[steps]]\nid = 's'\naction = 'a'\n{more}\n"
    ))
}

#[test]
fn tasks_that_fail_together_and_wait_alike_are_told() {
    let told = "there is no jitter; add jitter, such as full";
    let retry = |policy: &str| format!("retry_config = {{ {policy} }}");
    let fan_out = |policy: &str| step(&format!("for_each = [1]\n{}", retry(policy)), "");
    assert!(fan_out("jitter = 'none', initial_delay = 1").contains(told));
    assert_eq!(fan_out("jitter = 'full', initial_delay = 1"), "[]");
    assert_eq!(fan_out("jitter = 'none', initial_delay = 0"), "[]");
    assert!(!fan_out("jitter = 'none', max_attempts = 1").contains(told));
    assert_eq!(step(&retry("jitter = 'none', initial_delay = 1"), ""), "[]");
}

#[test]
fn layers_that_multiply_their_attempts_are_told() {
    let three = "retry = '[retry: 2]'";
    let told = step(three, "inner_attempts = 4");
    assert!(
        told.contains("each of 3 attempts makes up to 4 of its own: 12 calls in all"),
        "{told}"
    );
    let unlimited = "work_config = { max_retries = -1, backoff = 100 }";
    let told = step(unlimited, "inner_attempts = 2");
    assert!(told.contains("each of unlimited attempts makes up to 2 of its own"), "{told}");
    assert_eq!(step(three, "inner_attempts = 1"), "[]");
    assert_eq!(step(three, ""), "[]");
    assert_eq!(step("retry = '[retry: 0]'", "inner_attempts = 4"), "[]");
}

#[test]
fn each_growth_has_its_phrase() {
    let work = |more: &str| words(&format!(r#"{{"max_retries": 1, {more}}}"#));
    for (more, phrase) in [
        (r#""backoff": 5, "backoff_type": "linear""#, "Waits 5ms times the number of the retry"),
        (
            r#""backoff": 5, "backoff_type": "linear", "backoff_step": 7"#,
            "Waits 5ms, then 7ms more each time",
        ),
        (r#""backoff": 0, "backoff_type": "exponential""#, "Retries at once, without jitter."),
        (r#""backoff_type": "list", "delays": [3]"#, "Waits 3ms before each retry"),
        (r#""backoff_type": "list", "delays": [3, 4]"#, "Waits 3ms, 4ms, then always 4ms"),
        (
            r#""backoff_type": "list", "delays": [1, 2, 3, 4, 5, 6, 7, 8]"#,
            "Waits 1ms, 2ms, 3ms, 4ms, 5ms, 6ms, 7ms, 8ms, then always 8ms",
        ),
        (
            r#""backoff_type": "list", "delays": [1, 2, 3, 4, 5, 6, 7, 8, 9]"#,
            "Waits 1ms, 2ms, 3ms, 4ms, 5ms, 6ms, 7ms, 8ms and so on, 9 delays, then always 9ms",
        ),
    ] {
        let told = work(more);
        assert!(told.contains(phrase), "{more}: {told}");
    }
}

#[test]
fn which_failures_a_rule_is_for_is_told_in_full() {
    let execution = |names: &str| {
        words(&format!(r#"{{"retry_policy": {{"max_attempts": 2, "backoff": "none"{names}}}}}"#))
    };
    assert!(execution("").contains("TIMEOUT (the dialect's default list)."));
    let own = execution(r#", "retryable_errors": ["TIMEOUT"]"#);
    assert!(own.contains("type or ancestor is TIMEOUT.\n"), "{own}");
    let none = execution(r#", "retryable_errors": []"#);
    assert!(none.contains("Rule 1 is for no failure."), "{none}");
    let same = "[(\"429\", \"500\", \"503\", NETWORK_ERROR, TIMEOUT) -> retry: 1]";
    assert!(!words(same).contains("default list"), "{}", words(same));
    let many = |count: u32| {
        let names: Vec<String> = (100..100 + count).map(|n| format!("E{n}")).collect();
        words(&format!("[({}) -> retry: 1]", names.join(", ")))
    };
    assert!(many(20).contains("E118 or E119."), "{}", many(20));
    assert!(many(21).contains("E118, E119 or 1 more."), "{}", many(21));
}

/// Decision 8: what happens after an unknown outcome is said where it matters.
#[test]
fn an_unknown_outcome_is_told_where_it_matters() {
    let of = |action: &str, more: &str| {
        words(&format!(
            "workflow = 'w'\n[actions.a]\n{action}\n[[steps]]\nid = 's'\naction = 'a'\nretry = '[retry: 1] {more}'\n"
        ))
    };
    let not = "The action is not idempotent: it is not retried after an unknown outcome.";
    let all = "An unknown outcome is retried even if the action is not idempotent.";
    let anyway = "[retry_unknown_outcome: true]";
    for (action, more, told) in [
        ("idempotent = false", "", Some(not)),
        ("idempotent = false", anyway, Some(all)),
        ("idempotent = true", anyway, Some(all)),
        ("idempotent = true", "", None),
        ("", "", None),
    ] {
        let words = of(action, more);
        for phrase in [not, all] {
            assert_eq!(words.contains(phrase), told == Some(phrase), "{action} {more}: {words}");
        }
    }
}
