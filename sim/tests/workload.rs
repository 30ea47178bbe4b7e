//! What a seed draws: always the same, always whole, never nonsense, and in a few hundred seeds
//! everything that there is to draw.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use retrial::policy::{Backoff, Dialect, Limit, Matcher, Parts as PolicyParts, Policy, Rule};
use retrial::time::Nanos;
use retrial::workflow::{Condition, Parts, Step, StepIx, Template, Transition, Workflow};
use retrial_sim::evidence::Bound;
use retrial_sim::fault::FaultKind;
use retrial_sim::scenario::{Format, Reply, Scenario, Topology, WorkflowText};
use retrial_sim::workload::{Draw, bound, draw};
use serde_json::Value;

fn tree(text: &WorkflowText) -> Value {
    match text.format {
        Format::Json | Format::Stored => serde_json::from_str(&text.text).unwrap(),
        Format::Toml => toml::from_str(&text.text).unwrap(),
    }
}

/// The graph alone, every policy that stands in the text replaced by the builder's or by none.
fn graph(text: &WorkflowText) -> Workflow {
    let tree = tree(text);
    let steps = tree["steps"].as_array().unwrap();
    let place = |id: &Value| {
        let at = steps.iter().position(|s| s["id"] == *id).unwrap_or(usize::MAX);
        StepIx(u16::try_from(at).unwrap())
    };
    let step = |s: &Value| Step {
        id: s["id"].as_str().unwrap().to_owned(),
        action: s["action"].as_str().unwrap().to_owned(),
        args: Template::try_from(s["args"].clone()).unwrap(),
        after: s["after"].as_array().into_iter().flatten().map(place).collect(),
        for_each: s.get("for_each").map(|t| Template::try_from(t.clone()).unwrap()),
        goal: s["goal"] == true,
        fail_fast: s["fail_fast"] == true,
        policy: text.builder.get(s["id"].as_str().unwrap()).map_or_else(
            || Policy::no_retries(Dialect::Ir),
            |parts| Policy::try_from(parts.clone()).unwrap(),
        ),
        origin: retrial::policy::Origin::Task,
    };
    let edge = |t: &Value| Transition {
        from: place(&t["from"]),
        to: place(&t["to"]),
        priority: t["priority"].as_i64().unwrap(),
        on_error: None,
        condition: t
            .get("condition")
            .map(|c| serde_json::from_value::<Condition>(c.clone()).unwrap()),
    };
    for s in steps {
        assert!(tree["actions"].get(s["action"].as_str().unwrap()).is_some());
    }
    let transitions = tree.get("transitions").and_then(Value::as_array);
    Workflow::try_from(Parts {
        name: tree["workflow"].as_str().unwrap().to_owned(),
        input: tree["input"].as_object().unwrap().clone(),
        actions: BTreeMap::new(),
        steps: steps.iter().map(step).collect(),
        transitions: transitions.into_iter().flatten().map(edge).collect(),
    })
    .unwrap()
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
    for text in &scenario.workflows {
        for action in tree(text)["actions"].as_object().unwrap().values() {
            let url = action["http"].as_str().unwrap();
            let path = url.strip_prefix("POST http://api.test").unwrap();
            assert!(paths.contains(path), "{url}");
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
        for text in &scenario.workflows {
            graph(text);
        }
    }
}

fn dialects(scenario: &Scenario) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for text in &scenario.workflows {
        if !text.builder.is_empty() {
            found.insert("builder");
        }
        for step in tree(text)["steps"].as_array().unwrap() {
            let keys = ["retry", "work_config", "execution", "retry_config"];
            found.extend(keys.into_iter().filter(|k| step.get(*k).is_some()));
        }
    }
    found
}

fn names(reply: &Reply) -> Vec<&'static str> {
    match reply {
        Reply::Delay { then, .. } => [vec![reply.name()], names(then)].concat(),
        _ => vec![reply.name()],
    }
}

#[test]
fn a_few_hundred_seeds_draw_everything() {
    let all: Vec<Scenario> = (0..256).map(draw).collect();
    let kinds: BTreeSet<FaultKind> = all.iter().flat_map(Scenario::kinds).collect();
    assert_eq!(kinds, FaultKind::ALL.into());
    let topologies: BTreeSet<Topology> = all.iter().map(|s| s.topology).collect();
    assert_eq!(topologies.len(), 3, "{topologies:?}");
    let dialects: BTreeSet<_> = all.iter().flat_map(dialects).collect();
    assert_eq!(dialects.len(), 5, "{dialects:?}");
    let replies: BTreeSet<_> = all.iter().flat_map(Scenario::replies).flat_map(names).collect();
    assert_eq!(replies.len(), 11, "{replies:?}");
    let formats: BTreeSet<Format> =
        all.iter().flat_map(|s| &s.workflows).map(|w| w.format).collect();
    assert_eq!(formats.len(), 2);
    assert!(all.iter().any(|s| s.kinds().is_empty()), "no seed is without faults");
    assert!(all.iter().any(|s| !s.cancels.is_empty()), "no seed cancels");
    let keyed = |s: &Scenario| {
        let keys: Vec<_> = s.submissions.iter().filter_map(|s| s.key.as_ref()).collect();
        keys.len() > keys.iter().collect::<BTreeSet<_>>().len()
    };
    assert!(all.iter().any(keyed), "no seed submits twice under one key");
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
    let step = Step {
        id: "a".to_owned(),
        action: "do_a".to_owned(),
        args: Template::try_from(Value::Null).unwrap(),
        after: Vec::new(),
        for_each: None,
        goal: false,
        fail_fast: false,
        policy,
        origin: retrial::policy::Origin::Task,
    };
    let parts = Parts { name: "w0".to_owned(), steps: vec![step], ..Parts::default() };
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
    let scenario = draw(1);
    let of = |limit, base| bound(&scenario, &one_step(fixed(limit, base)));
    let short = within(of(Limit::retries(3), Nanos::from_millis(10)));
    let long = within(of(Limit::retries(3), Nanos::from_secs(600)));
    assert!(long >= short.saturating_add(Nanos::from_secs(500)), "{short} {long}");
    within(of(Limit::Unlimited, Nanos::from_secs(1)));
}

#[test]
fn bound_is_none_for_unlimited_retries_of_what_never_heals() {
    let mut scenario = draw(1);
    scenario.endpoints_heal = false;
    let delay = Nanos::from_secs(1);
    let unlimited = bound(&scenario, &one_step(fixed(Limit::Unlimited, delay)));
    assert_eq!(unlimited, Bound::UnboundedByPolicy);
    within(bound(&scenario, &one_step(fixed(Limit::retries(3), delay))));
    let mut parts = PolicyParts::from(fixed(Limit::Unlimited, delay));
    parts.total_timeout = Some(Nanos::from_secs(5));
    within(bound(&scenario, &one_step(Policy::try_from(parts).unwrap())));
}
