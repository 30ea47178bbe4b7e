//! A workflow that uses everything, so that its record shows each form.

use super::*;

/// A policy with one rule of each shape, jitter, scope and limit.
pub(super) fn policy() -> Policy {
    let base = Nanos::from_millis(250);
    let multiplier = Multiplier::from_millionths(1_500_000).expect("at least 1");
    let rule = |matcher, limit, shape, jitter, cap| Rule {
        matcher,
        limit,
        backoff: Backoff { shape, jitter, cap },
    };
    let mut excluding = Matcher::retryable();
    excluding.except.insert("ValueError".into());
    let three = Limit::attempts(3).expect("at least one");
    let cap = Some(Nanos::from_secs(30));
    let name = "sevens".to_owned();
    let delays = DelayList::try_from(vec![base, Nanos::ZERO]).expect("not empty");
    let rules = vec![
        rule(Matcher::any(), three, Shape::None, Jitter::None, None),
        rule(excluding, Limit::Unlimited, Shape::Fixed { base }, Jitter::Full, cap),
        rule(
            Matcher::named(["KeyError", "503"]),
            three,
            Shape::Linear { base, step: Nanos::from_secs(1) },
            Jitter::Equal,
            cap,
        ),
        rule(
            Matcher::any(),
            three,
            Shape::Exponential { base, multiplier },
            Jitter::Proportional(Share::QUARTER),
            None,
        ),
        rule(Matcher::any(), three, Shape::Fibonacci { base }, Jitter::Decorrelated, cap),
        rule(Matcher::any(), three, Shape::Custom { name }, Jitter::None, None),
        rule(Matcher::any(), three, Shape::Polynomial { base, degree: 3 }, Jitter::None, cap),
        rule(Matcher::any(), three, Shape::List { delays }, Jitter::None, cap),
    ];
    let parts = PolicyParts {
        dialect: Dialect::Execution,
        rules,
        attempt_timeout: Some(Nanos::from_secs(10)),
        total_timeout: Some(Nanos::from_secs(3_600)),
        timeout_retries: Some(2),
        max_retry_after: PolicyParts::MAX_RETRY_AFTER,
        counting: Counting::PerRule { total: Limit::retries(40) },
        at_deadline: AtDeadline::Truncate { reserve: base },
        retry_unknown_outcome: true,
        budget: Some(Budget::of_first_attempts(Share::TENTH)),
    };
    Policy::try_from(parts).expect("a policy that makes sense")
}

fn step(id: &str, policy: Policy) -> Step {
    Step {
        args: Template::try_from(json!({"text": "for ${input.name}", "x": 0.1})).expect("parses"),
        ..Step::new(id, id, policy)
    }
}

/// A workflow that says everything that one can say.
pub(super) fn workflow() -> Arc<Workflow> {
    let condition = json!({"type": "and", "conditions": [
        {"type": "exists", "field": "state._last_error"},
        {"type": "not", "condition": {"type": "eq", "field": "state.input.name", "value": null}},
        {"type": "or", "conditions": [
            {"type": "in", "field": "state._last_error.code", "values": ["503", 503]}]},
    ]});
    let headers = [
        ("accept".to_owned(), HeaderText::Literal("application/json".into())),
        ("authorization".to_owned(), HeaderText::Env("TOKEN".into())),
    ];
    let endpoint = Endpoint {
        headers: headers.into_iter().collect(),
        ..Endpoint::new("POST", "https://example.org/list")
    };
    let plain = Action {
        kind: retrial_core::policy::ActionKind::ToolCall,
        target: Target::Registered,
        idempotent: None,
        inner_attempts: None,
        webhook: None,
        guard: GuardRules::default(),
        heartbeat_timeout: None,
    };
    let no_retries = Policy::no_retries(Dialect::Ir);
    let webhook = Webhook::new("each", plain.clone(), no_retries, Origin::BuiltIn);
    let list = Action {
        kind: retrial_core::policy::ActionKind::LlmCall,
        target: Target::Http(endpoint),
        idempotent: Some(true),
        inner_attempts: Some(2),
        webhook: Some(webhook),
        guard: guard(),
        heartbeat_timeout: Some(Nanos::from_secs(20)),
    };
    let mut each = step("each", policy());
    each.after = vec![StepIx(0)];
    each.for_each = Some(Template::try_from(json!("${steps.list.result}")).expect("parses"));
    each.fail_fast = true;
    each.success = Quorum::AtLeast(NonZeroU32::MIN.saturating_add(1));
    let exists = |field: &str| json!({"type": "exists", "field": field});
    each.requires = serde_json::from_value(exists("state.steps.list.result")).expect("parses");
    each.ensures = serde_json::from_value(exists("state.result")).expect("parses");
    let mut undo = step("undo", Policy::no_retries(Dialect::Builder));
    undo.compensates = Some(STEP);
    let mut next = step("next", Policy::no_retries(Dialect::Builder));
    next.after = vec![StepIx(0), STEP];
    next.join = Quorum::Any;
    each.goal = true;
    let edge = |to, priority, on_error: Option<&[&str]>, condition| Transition {
        from: STEP,
        to: StepIx(to),
        priority,
        on_error: on_error.map(|n| n.iter().map(|n| (*n).to_owned()).collect()),
        condition,
    };
    let parts = workflow::WorkflowParts {
        name: "golden".into(),
        rollback: Rollback::OnFailure,
        input: Map::from_iter([("name".to_owned(), json!("world"))]),
        actions: [("list".to_owned(), list), ("each".to_owned(), plain)].into_iter().collect(),
        steps: vec![
            step("list", policy()),
            each,
            step("handler", Policy::no_retries(Dialect::Ir)),
            next,
            undo,
        ],
        transitions: vec![
            edge(2, -1, Some(&["HTTPError", "KeyError"]), None),
            edge(3, 5, None, Some(serde_json::from_value(condition).expect("a condition"))),
        ],
        search: workflow::SearchFields::default(),
    };
    Arc::new(Workflow::try_from(parts).expect("a workflow that makes sense"))
}

fn guard() -> GuardRules {
    let three = NonZeroU32::new(3);
    let (share, window, min_calls) = (Share::QUARTER, Nanos::from_secs(30), NonZeroU32::MIN);
    let rate = Some(FailureRate { share, window, min_calls });
    let breaker = Breaker::new(three, rate, Nanos::from_secs(20), NonZeroU32::MIN);
    let pace = Pace::new(NonZeroU32::MIN, Nanos::from_secs(1));
    let retry_budget = Some(Budget::of_first_attempts(Share::TENTH));
    let (target, hour) = (Share::QUARTER, ErrorBudget::WINDOW);
    let error_budget =
        ErrorBudget::new(target, hour, ErrorBudget::MIN_CALLS, ErrorBudget::ALERTS).ok();
    let (breaker, rate) = (breaker.ok(), pace.ok());
    GuardRules { breaker, concurrency: three, rate, retry_budget, error_budget }
}
