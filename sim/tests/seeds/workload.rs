//! What a seed draws: always the same, always whole, never nonsense, and in a few hundred seeds
//! everything that there is to draw.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use retrial::policy::{
    Backoff, Dialect, Functions, Jitter, Limit, Matcher, Policy, PolicyParts, Rule, Shape,
};
use retrial::time::Nanos;
use retrial::workflow::{Step, Target, Template, Workflow, WorkflowParts};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::evidence::Bound;
use retrial_sim::unstable::oracle::{Delays, delays};
use retrial_sim::unstable::scenario::{Format, Reply, Scenario, Topology};
use retrial_sim::unstable::workload::{
    Draw, TaskOrder, bound, draw, draw_in_order, functions, workflow,
};
use serde::Serialize;
use serde_json::Value;

fn workflows(scenario: &Scenario) -> Vec<Workflow> {
    let texts = scenario.workflows.iter().enumerate();
    texts.map(|(place, text)| workflow(place, text).unwrap()).collect()
}

fn check_references(scenario: &Scenario) {
    let nodes = scenario.topology.nodes();
    for submission in &scenario.submissions {
        assert!(submission.workflow < scenario.workflows.len());
        assert!(submission.node < nodes);
        assert!(submission.at <= scenario.heal_at);
    }
    for cancel in &scenario.cancels {
        assert!(cancel.submission < scenario.submissions.len() && cancel.node < nodes);
    }
    assert_eq!(scenario.clocks.len(), scenario.topology.clocks() as usize);
    let paths: BTreeSet<_> = scenario.endpoints.iter().map(|e| e.path.as_str()).collect();
    assert_eq!(paths.len(), scenario.endpoints.len());
    for rest in &scenario.deactivations {
        assert!(rest.submission < scenario.submissions.len() && rest.node < nodes);
        assert!(rest.from <= rest.until && rest.until <= scenario.heal_at);
    }
    for workflow in workflows(scenario) {
        for step in workflow.steps() {
            let path = match &workflow.actions()[&step.action].target {
                Target::Http(to) => to.url.strip_prefix("http://api.test").unwrap(),
                Target::Registered => step.args.raw()["to"].as_str().unwrap(),
            };
            // Arguments may follow.
            let is_at = |at: &&str| {
                path.strip_prefix(at).is_some_and(|r| r.is_empty() || r.starts_with(['/', '?']))
            };
            assert!(paths.iter().any(is_at), "{path}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_seed_draws_one_whole_scenario(seed: u64) {
        let scenario = draw(seed);
        prop_assert_eq!(&draw(seed), &scenario);
        let text = serde_json::to_string(&scenario).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Scenario>(&text).unwrap(), &scenario);
        check_references(&scenario);
    }
}

fn names(reply: &Reply) -> Vec<&'static str> {
    match reply {
        Reply::Delay { then, .. } => [vec![reply.name()], names(then)].concat(),
        _ => vec![reply.name()],
    }
}

/// The tag of a value's JSON.
fn tag(value: &impl Serialize) -> String {
    match serde_json::to_value(value).unwrap() {
        Value::String(name) => name,
        Value::Object(map) => match map.get("kind") {
            Some(kind) => kind.as_str().unwrap().to_owned(),
            None => map.keys().next().unwrap().clone(),
        },
        other => panic!("{other} has no tag"),
    }
}

fn check_tags<T: Serialize>(found: impl Iterator<Item = T>, all: &[&str]) {
    let found: BTreeSet<String> = found.map(|value| tag(&value)).collect();
    assert_eq!(found, all.iter().map(|name| (*name).to_owned()).collect());
}

/// What a seed draws in an order of tasks that is asked for differs in that alone.
#[test]
fn an_order_of_tasks_can_be_asked_for() {
    let ordered = ["any", "lasting", "anew"].map(|name| {
        let order: TaskOrder = name.parse().unwrap();
        assert_eq!(order.to_string(), name);
        let scenario = draw_in_order(7, order);
        assert_eq!(Scenario { priorities: draw(7).priorities, ..scenario.clone() }, draw(7));
        scenario.priorities.map(|priorities| priorities.anew)
    });
    assert_eq!(ordered, [None, Some(false), Some(true)]);
    assert!("some".parse::<TaskOrder>().is_err());
}

#[test]
fn a_few_hundred_seeds_draw_everything() {
    let all: Vec<Scenario> = (0..512).map(draw).collect();
    let kinds: BTreeSet<FaultKind> = all.iter().flat_map(Scenario::kinds).collect();
    assert_eq!(kinds, FaultKind::ALL.into());
    let topologies: BTreeSet<Topology> = all.iter().map(|s| s.topology).collect();
    assert_eq!(topologies.len(), 3, "{topologies:?}");
    let replies: BTreeSet<_> = all.iter().flat_map(Scenario::replies).flat_map(names).collect();
    assert_eq!(replies.len(), 13, "{replies:?}");
    let formats: BTreeSet<Format> =
        all.iter().flat_map(|s| &s.workflows).map(|w| w.format).collect();
    assert_eq!(formats, [Format::Toml, Format::Json, Format::Ir].into());
    assert!(all.iter().any(|s| s.kinds().is_empty()), "no seed is without faults");
    assert!(all.iter().any(|s| s.places.is_some()), "no seed has few places");
    assert!(all.iter().any(|s| s.attempt_timeout.is_some()), "no seed has a default timeout");
    assert!(all.iter().any(|s| s.quarantine_after.is_some()), "no seed has a quarantine");
    assert!(all.iter().any(|s| s.lane_idle.is_some()), "no seed lets runs leave memory soon");
    assert!(all.iter().any(|s| s.sync_takes == Some(Nanos::ZERO)), "no disk takes no time");
    let orders: BTreeSet<Option<bool>> =
        all.iter().map(|s| s.priorities.as_ref().map(|priorities| priorities.anew)).collect();
    assert_eq!(orders.len(), 3, "tasks are polled in three ways");
    let released = |s: &Scenario| !s.interventions.releases.is_empty();
    assert!(all.iter().any(released), "no seed releases");
    assert!(all.iter().any(|s| !s.cancels.is_empty()), "no seed cancels");
    assert!(all.iter().any(|s| !s.deactivations.is_empty()), "no seed deactivates");
    let keyed = |s: &Scenario| {
        let keys: Vec<_> = s.submissions.iter().filter_map(|s| s.key.as_ref()).collect();
        keys.len() > keys.iter().collect::<BTreeSet<_>>().len()
    };
    assert!(all.iter().any(keyed), "no seed submits twice under one key");
}

#[test]
fn a_few_hundred_seeds_draw_every_policy_and_every_edge() {
    let all: Vec<Workflow> = (0..512).map(draw).flat_map(|s| workflows(&s)).collect();
    let steps = || all.iter().flat_map(Workflow::steps);
    let rules = || steps().flat_map(|s| s.policy.rules());
    let dialects = ["ir", "work_config", "execution", "retry_config", "preset", "builder"];
    check_tags(steps().map(|s| s.policy.dialect()), &dialects);
    let shapes =
        ["none", "fixed", "linear", "exponential", "fibonacci", "custom", "polynomial", "list"];
    check_tags(rules().map(|r| &r.backoff.shape), &shapes);
    let jitters = ["none", "proportional", "full", "equal", "decorrelated"];
    check_tags(rules().map(|r| r.backoff.jitter), &jitters);
    check_tags(rules().map(|r| &r.matcher.scope), &["any", "retryable", "names"]);
    let customs: BTreeSet<&str> = rules()
        .filter_map(|r| match &r.backoff.shape {
            Shape::Custom { name } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(customs.len(), 3, "{customs:?}");
    assert!(customs.iter().all(|name| functions().get(name).is_some()));
    let edges = || all.iter().flat_map(Workflow::transitions);
    let shown = |has: bool, what: &str| assert!(has, "no seed draws {what}");
    shown(rules().any(|r| r.limit == Limit::Unlimited), "unlimited retries");
    shown(rules().any(|r| r.backoff.cap.is_some()), "a cap");
    shown(rules().any(|r| !r.matcher.except.is_empty()), "an exclusion");
    shown(steps().any(|s| s.policy.attempt_timeout().is_some()), "an attempt timeout");
    shown(steps().any(|s| s.policy.total_timeout().is_some()), "a total timeout");
    shown(steps().any(|s| s.policy.timeout_retries().is_some()), "a timeout budget");
    shown(steps().any(|s| !s.policy.counting().is_shared()), "a count for each rule");
    shown(steps().any(|s| !s.policy.at_deadline().is_give_up()), "truncated delays");
    shown(steps().any(|s| s.fail_fast && s.for_each.is_some()), "fail_fast");
    shown(steps().any(|s| s.goal), "a goal");
    shown(steps().any(|s| !s.success.is_all()), "a partial success");
    shown(steps().any(|s| !s.join.is_all()), "a join that can do without some");
    shown(steps().any(|s| s.compensates.is_some()), "a compensation");
    shown(all.iter().any(|w| w.rollback().on_failure()), "a rollback");
    shown(steps().any(|s| s.requires.is_some()), "a precondition");
    shown(steps().any(|s| s.ensures.is_some()), "a postcondition");
    shown(edges().any(|t| t.condition.is_some()), "a condition");
    shown(edges().any(|t| t.on_error.as_ref().is_some_and(|e| !e.is_empty())), "a typed edge");
    shown(edges().any(|t| t.on_error.as_ref().is_some_and(BTreeSet::is_empty)), "a catch-all");
}

// The oracles' model and the functions themselves were written apart.
#[test]
fn h17_the_model_knows_every_custom_function() {
    let functions = functions();
    for name in ["squares", "zigzag", "late"] {
        let function = functions.get(name).unwrap();
        let shape = Shape::Custom { name: name.to_owned() };
        let backoff = Backoff { shape, jitter: Jitter::None, cap: None };
        let limited = Rule { matcher: Matcher::any(), limit: Limit::retries(9), backoff };
        let unlimited = Rule { limit: Limit::Unlimited, ..limited.clone() };
        for n in 1..=9 {
            let given = u128::from(function(n).get());
            let right = |low| Some(Delays { low, high: low });
            assert_eq!(delays(&limited, n, None), right(given), "{name} {n}");
            // Spec decision 10.
            assert_eq!(delays(&unlimited, n, None), right(given.max(10_000_000)), "{name} {n}");
        }
    }
}

#[test]
fn another_seed_draws_another_scenario() {
    let drawn: BTreeSet<String> =
        (0..64).map(|n| serde_json::to_string(&draw(n)).unwrap()).collect();
    assert_eq!(drawn.len(), 64);
}

#[test]
fn chance_is_the_same_on_every_machine() {
    let mut draw = Draw::new(7, "golden");
    let first: Vec<u64> = (0..3).map(|_| draw.bits()).collect();
    insta::assert_debug_snapshot!(first, @"
    [
        13092488648020125682,
        16689581411563056876,
        17153184793894267503,
    ]
    ");
    let mut below = Draw::new(7, "range");
    assert!((0..1_000).all(|_| (3..=9).contains(&below.between(3, 9))));
}

fn one_step(policy: Policy) -> Vec<Arc<Workflow>> {
    let step =
        Step { args: Template::try_from(Value::Null).unwrap(), ..Step::new("a", "do_a", policy) };
    let parts =
        WorkflowParts { name: "w0".to_owned(), steps: vec![step], ..WorkflowParts::default() };
    vec![Arc::new(Workflow::try_from(parts).unwrap())]
}

fn fixed(limit: Limit, base: Nanos) -> Policy {
    let mut parts = PolicyParts::new(Dialect::Builder);
    let mut backoff = Backoff::exponential(base);
    backoff.cap = Some(base);
    parts.rules.push(Rule { matcher: Matcher::any(), limit, backoff });
    Policy::try_from(parts).unwrap()
}

fn within(bound: Bound) -> Nanos {
    match bound {
        Bound::Within(time) => time,
        Bound::UnboundedByPolicy => panic!("unbounded"),
    }
}

#[test]
fn bound_grows_with_delays_and_is_finite_once_endpoints_heal() {
    let (scenario, none) = (draw(1), Functions::default());
    let of = |limit, base| bound(&scenario, &one_step(fixed(limit, base)), &none);
    let short = within(of(Limit::retries(3), Nanos::from_millis(10)));
    let long = within(of(Limit::retries(3), Nanos::from_secs(600)));
    assert!(long >= short.saturating_add(Nanos::from_secs(500)), "{short} {long}");
    within(of(Limit::Unlimited, Nanos::from_secs(1)));
}

#[test]
fn bound_is_none_for_unlimited_retries_of_what_never_heals() {
    let (mut scenario, none) = (draw(1), Functions::default());
    scenario.endpoints_heal = false;
    let delay = Nanos::from_secs(1);
    let unlimited = bound(&scenario, &one_step(fixed(Limit::Unlimited, delay)), &none);
    assert_eq!(unlimited, Bound::UnboundedByPolicy);
    within(bound(&scenario, &one_step(fixed(Limit::retries(3), delay)), &none));
    let mut parts = PolicyParts::from(fixed(Limit::Unlimited, delay));
    parts.total_timeout = Some(Nanos::from_secs(5));
    within(bound(&scenario, &one_step(Policy::try_from(parts).unwrap()), &none));
}

#[test]
fn without_one_kind_of_fault_the_others_stay() {
    let mut met = BTreeSet::new();
    for seed in 0..64 {
        let scenario = draw(seed);
        let kinds = scenario.kinds();
        for kind in FaultKind::ALL {
            let rest: BTreeSet<_> = kinds.iter().copied().filter(|k| *k != kind).collect();
            assert_eq!(scenario.without(kind).kinds(), rest, "seed {seed} without {kind}");
            let is_same = scenario.without(kind) == scenario;
            assert_eq!(is_same, !kinds.contains(&kind), "seed {seed} without {kind}");
        }
        met.extend(kinds);
    }
    assert_eq!(met.len(), FaultKind::ALL.len(), "only {met:?} were drawn");
}
