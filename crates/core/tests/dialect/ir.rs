//! Waymark's and Rappel's syntax: rows W1 to W6, R2, R3, spec decision 1.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::{
    Declarations, Environment, Policies, parse_actions, parse_ir_program, parse_policy,
    tree::Format,
};
use retrial_core::policy::{Backoff, Dialect, Limit, Matcher, Origin, Policy, PolicyParts, Rule};
use retrial_core::time::Nanos;

const MINUTE: u64 = 60;

fn policy(brackets: &str) -> Policy {
    match parse_policy("p.ir", brackets, None, &Environment::default()) {
        Ok(Policies::One(policy)) => policy,
        other => panic!("{brackets}: {other:?}"),
    }
}

fn rule(names: &[&str], retries: u32, backoff_secs: u64) -> Rule {
    Rule {
        matcher: Matcher::named(names.iter().copied()),
        limit: Limit::retries(retries),
        backoff: Backoff::exponential(Nanos::from_secs(backoff_secs)),
    }
}

#[track_caller]
fn check(brackets: &str, rules: Vec<Rule>, timeout_secs: Option<u64>) {
    let mut parts = PolicyParts::new(Dialect::Ir);
    parts.rules = rules;
    parts.attempt_timeout = timeout_secs.map(Nanos::from_secs);
    assert_eq!(PolicyParts::from(policy(brackets)), parts, "{brackets}");
}

#[test]
fn w1_a_bracket_without_names_matches_all() {
    check("[retry: 3, backoff: 60]", vec![rule(&[], 3, 60)], None);
}

#[test]
fn w2_named_type() {
    check("[NetworkError -> retry: 5, backoff: 2m]", vec![rule(&["NetworkError"], 5, 120)], None);
    check("[503->retry:1]", vec![rule(&["503"], 1, 0)], None);
    check("[\"LLM-LIMIT\" -> retry: 1]", vec![rule(&["LLM-LIMIT"], 1, 0)], None);
}

// W3
#[test]
fn w3_several_types() {
    let expected = vec![rule(&["ValueError", "KeyError"], 3, 30)];
    check("[(ValueError, KeyError) -> retry: 3, backoff: 30s]", expected, None);
}

// W4
#[test]
fn w4_several_brackets_keep_their_order() {
    check(
        "[RateLimitError -> retry: 10, backoff: 1m] [NetworkError -> retry: 3, backoff: 30s]",
        vec![rule(&["RateLimitError"], 10, MINUTE), rule(&["NetworkError"], 3, 30)],
        None,
    );
}

#[test]
fn w5_the_timeout_stands_anywhere() {
    let rules = || vec![rule(&[], 3, 60)];
    check("[retry: 3, backoff: 60] [timeout: 2m]", rules(), Some(120));
    check("[timeout: 2m] [retry: 3, backoff: 60]", rules(), Some(120));
    check("[timeout: 2m]", vec![], Some(120));
}

#[test]
fn w6_durations() {
    for (text, millis) in [
        ("60", 60_000),
        ("30s", 30_000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("250ms", 250),
        ("1d", 86_400_000),
        ("0.5", 500),
        ("1.5m", 90_000),
    ] {
        let expected = Backoff::exponential(Nanos::from_millis(millis));
        let policy = policy(&format!("[retry: 1, backoff: {text}]"));
        assert_eq!(policy.rules()[0].backoff, expected, "{text}");
    }
}

/// Decision 1: `retry: n` is n + 1 attempts; what is absent is no retry and no delay.
#[test]
fn r2_decision_1_retry_counts_only_retries() {
    check("[retry: 0]", vec![rule(&[], 0, 0)], None);
    check("[backoff: 5]", vec![rule(&[], 0, 5)], None);
    assert_eq!(policy("[retry: 2]").limit().count(), Some(3));
}

#[test]
fn brackets_may_span_lines_with_comments() {
    check(
        "\n# both\n[retry: 1] # one\n[A -> retry: 2]\n",
        vec![rule(&[], 1, 0), rule(&["A"], 2, 0)],
        None,
    );
}

const PROGRAM: &str = r#"
# The whole language.
user = @fetch_user(id=7, tags=["a", 'b'], deep={k: [1.5, true, None]})  [retry: 3, backoff: 60]
score = @rate.it(who=user, name=user.name, all=input, first=input.list.0) [(A, B) -> retry: 1] [timeout: 2m] # end
@notify(text="score ${steps.score.result.value}")
@notify()
"#;

#[test]
fn w1_programs_become_workflows() {
    let document =
        parse_ir_program("dir/flow.ir", PROGRAM, &Declarations::default(), &Environment::default());
    let workflow = document.unwrap().workflow;
    assert_eq!(workflow.name(), "flow");
    let shown: Vec<String> = workflow
        .steps()
        .iter()
        .map(|s| {
            let after: Vec<u16> = s.after.iter().map(|a| a.0).collect();
            format!("{} = {} {} after {after:?}", s.id, s.action, s.args.raw())
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    user = fetch_user {"deep":{"k":[1.5,true,null]},"id":7,"tags":["a","b"]} after []
    score = rate.it {"all":"${input}","first":"${input.list.0}","name":"${steps.user.result.name}","who":"${steps.user.result}"} after [0]
    notify = notify {"text":"score ${steps.score.result.value}"} after [1]
    notify_2 = notify {} after []
    "#);
}

#[test]
fn w1_a_name_that_is_given_again_means_the_later_result() {
    let program = "x = @a()\n@b(v=x)\nx = @c(v=x)\n@d(v=x)\n";
    let document =
        parse_ir_program("f.ir", program, &Declarations::default(), &Environment::default());
    let workflow = document.unwrap().workflow;
    let after = |at: usize| workflow.steps()[at].after.iter().map(|step| step.0).collect();
    let after: Vec<Vec<u16>> = (1..4).map(after).collect();
    assert_eq!(after, [[0], [0], [2]]);
    let id = &workflow.steps()[2].id;
    assert_eq!(
        workflow.steps()[3].args.raw().to_string(),
        format!(r#"{{"v":"${{steps.{id}.result}}"}}"#)
    );
}

/// Decision 1 for the language, H7 for what stands above it.
#[test]
fn decision_1_a_call_without_brackets_is_not_retried_unless_a_default_says_so() {
    let resolve = |declared: &Declarations, environment: &Environment| {
        let document = parse_ir_program("f.ir", "@a()", declared, environment).unwrap();
        let step = document.workflow.steps()[0].clone();
        (step.origin, step.policy.limit().count())
    };
    let environment = |retries: &str| {
        let retries = retries.to_owned();
        Environment::read(move |name| (name == "RETRY_MAX_RETRIES").then(|| retries.clone()))
            .unwrap()
    };
    let file = "[actions.a]\nkind = 'llm_call'\n[defaults.llm_call]\nretry = '[retry: 4]'";
    let declared = parse_actions("a.toml", file, Format::Toml).unwrap();
    let none = Declarations::default();
    assert_eq!(resolve(&none, &Environment::default()), (Origin::Task, Some(1)));
    assert_eq!(resolve(&none, &environment("6")), (Origin::Global, Some(7)));
    assert_eq!(resolve(&declared, &environment("6")), (Origin::Kind, Some(5)));
}

#[track_caller]
fn refused(program: &str) -> String {
    let errors =
        parse_ir_program("f.ir", program, &Declarations::default(), &Environment::default());
    errors.unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn programs_that_make_no_sense() {
    let all = [
        "x = fetch()",
        "x = @fetch(a=1",
        "x = @fetch(a=1) [retry: -3]",
        "x = @fetch(a=1) [rety: 3]",
        "x = @fetch(a=1) [retry: 3, timeout: 2m]",
        "x = @fetch(a=1) [A -> timeout: 2m]",
        "x = @fetch(a=1) [timeout: 2m] [timeout: 3m]",
        "x = @fetch(a=1) [timeout: 0]",
        "x = @fetch(a=1) [retry: 3, retry: 4]",
        "x = @fetch(a=1) [retry: 1.5]",
        "x = @fetch(a=1) [retry: 99999999999]",
        "x = @fetch(a=1) [retry: 1, backoff: 5 weeks]",
        "x = @fetch(a=1) [retry: 1, backoff: -5s]",
        "x = @fetch(a=1) [retry: 1, backoff: inf]",
        "x = @fetch(a=1) [retry: 1, backoff: 99999999999999h]",
        "x = @fetch(a=1) [(A, ) retry: 3]",
        "x = @fetch(a=1) [-> retry: 3]",
        "x = @fetch(a=1) []",
        "x = @fetch(a=1) [retry: 3] y",
        "x = @fetch(a=y)",
        "x = @fetch(a=x)",
        "x = @fetch(a=\"${steps.y.result}\")",
        "x = @fetch(a=\"${item}\")",
        "x = @fetch(a=\"${oops\")",
        "x = @fetch(a=input..b)",
        "x = @fetch(a=1, a=2)",
        "x = @fetch(a='open)",
        "input = @a()",
        "usr = @a()\n@b(a=user)",
        "@b(a=later)\nlater = @a()",
        "x = @a() y = @b()",
        "é = @a()",
        "",
    ];
    let shown: Vec<String> = all.iter().map(|p| format!("{p}\n  {}", refused(p))).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    x = fetch()
      f.ir:1:5: expected `@` and the name of an action, found `f` (write a call such as x = @action(a=1))
    x = @fetch(a=1
      f.ir:1:15: expected `,` or `)`, found the end of the text
    x = @fetch(a=1) [retry: -3]
      f.ir:1:25: `retry` must be a whole number, found `-3` (use 0 to 4294967294)
    x = @fetch(a=1) [rety: 3]
      f.ir:1:18: unknown key `rety` (did you mean `retry`?)
    x = @fetch(a=1) [retry: 3, timeout: 2m]
      f.ir:1:28: `timeout` stands beside a rule (write it in a bracket of its own: [timeout: 2m])
    x = @fetch(a=1) [A -> timeout: 2m]
      f.ir:1:18: `timeout` applies to every failure and takes no `->` (write it in a bracket of its own: [timeout: 2m])
    x = @fetch(a=1) [timeout: 2m] [timeout: 3m]
      f.ir:1:32: `timeout` is given twice (keep one of them)
    x = @fetch(a=1) [timeout: 0]
      f.ir:1:27: `timeout` of zero lets no attempt run (leave it out for no timeout)
    x = @fetch(a=1) [retry: 3, retry: 4]
      f.ir:1:28: `retry` is given twice (keep one of them)
    x = @fetch(a=1) [retry: 1.5]
      f.ir:1:25: `retry` must be a whole number, found `1.5` (use 0 to 4294967294)
    x = @fetch(a=1) [retry: 99999999999]
      f.ir:1:25: `retry` must be a whole number, found `99999999999` (use 0 to 4294967294)
    x = @fetch(a=1) [retry: 1, backoff: 5 weeks]
      f.ir:1:39: expected `,` or `]`, found `w`
    x = @fetch(a=1) [retry: 1, backoff: -5s]
      f.ir:1:37: `backoff`: `-5s` may not be negative (use zero or more)
    x = @fetch(a=1) [retry: 1, backoff: inf]
      f.ir:1:37: `backoff`: `inf` must be finite (use a finite number, or leave the field out for no limit)
    x = @fetch(a=1) [retry: 1, backoff: 99999999999999h]
      f.ir:1:37: `backoff`: `99999999999999h` is too large (the longest time is about 584 years)
    x = @fetch(a=1) [(A, ) retry: 3]
      f.ir:1:24: expected `->`, found `r`
    x = @fetch(a=1) [-> retry: 3]
      f.ir:1:18: nothing stands before `->` (name an error, or leave `->` out to match all)
    x = @fetch(a=1) []
      f.ir:1:18: expected `retry`, `backoff` or `timeout`, found `]`
    x = @fetch(a=1) [retry: 3] y
      f.ir:1:28: expected `[`, `#` or the end of the line, found `y` (write one statement a line)
    x = @fetch(a=y)
      f.ir:1:14: x.a: no earlier line gives a result named `y` (use input; put a text in quotes)
    x = @fetch(a=x)
      f.ir:1:14: x.a: no earlier line gives a result named `x` (a call can only use results of earlier lines; move it down)
    x = @fetch(a="${steps.y.result}")
      f.ir:1:14: x.a: no earlier line gives a result named `y` (use input; put a text in quotes)
    x = @fetch(a="${item}")
      f.ir:1:14: x.a: `item` exists only in a fan-out
    x = @fetch(a="${oops")
      f.ir:1:14: x.a: `${oops` has a `${` without a `}`
    x = @fetch(a=input..b)
      f.ir:1:14: x.a: `input..b` has an empty part between its dots
    x = @fetch(a=1, a=2)
      f.ir:1:17: `a` is given twice (keep one of them)
    x = @fetch(a='open)
      f.ir:1:14: the text has no end (close it with ' on the same line)
    input = @a()
      f.ir:1:1: input: `input` is a reserved word (choose another name for the result)
    usr = @a()
    @b(a=user)
      f.ir:2:6: b.a: no earlier line gives a result named `user` (did you mean `usr`?; put a text in quotes)
    @b(a=later)
    later = @a()
      f.ir:1:6: b.a: no earlier line gives a result named `later` (a call can only use results of earlier lines; move it down)
    x = @a() y = @b()
      f.ir:1:10: expected `[`, `#` or the end of the line, found `y` (write one statement a line)
    é = @a()
      f.ir:1:1: expected a name or `@`, found `é`

      f.ir:1:1: workflow `f` has no steps (add at least one)
    "#);
}

#[test]
fn every_wrong_line_is_told() {
    assert_eq!(refused("x = \n@ok()\n@b(").lines().count(), 2);
}
