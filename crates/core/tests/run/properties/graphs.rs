//! Random graphs without cycles, and what the graph's oracle must know of them.

use std::num::NonZeroU32;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use retrial_core::policy::{ActionKind, Policy};
use retrial_core::workflow::{
    self, Action, Condition, Quorum, Rollback, Step, StepIx, Target, Template, Transition, Workflow,
};
use serde_json::{Value, json};

use super::draw::NAMES;
use super::policies::policy;

/// A condition that the graph's oracle can judge by itself.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Exists,
    Absent,
    CodeIs(&'static str),
    CodeAmong(&'static str, &'static str),
    ExistsOr(bool),
    Input(bool),
    /// The first of all errors has this code.
    FirstIs(&'static str),
}

impl Ask {
    fn json(&self) -> Value {
        let error = || json!({"type": "exists", "field": "state._last_error"});
        let code = "state._last_error.code";
        let input = |yes: &bool| json!({"type": "eq", "field": "state.input.yes", "value": yes});
        match self {
            Self::Exists => error(),
            Self::Absent => json!({"type": "not", "condition": error()}),
            Self::CodeIs(value) => json!({"type": "eq", "field": code, "value": value}),
            Self::CodeAmong(a, b) => json!({"type": "in", "field": code, "values": [a, b]}),
            Self::ExistsOr(yes) => json!({"type": "or", "conditions": [error(), input(yes)]}),
            Self::Input(yes) => json!({"type": "and", "conditions": [input(yes)]}),
            Self::FirstIs(value) => {
                json!({"type": "eq", "field": "state._errors.0.code", "value": value})
            }
        }
    }
}

/// One drawn transition: `from` and `to` by place, what it is for.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) priority: i64,
    pub(crate) on_error: Option<Vec<String>>,
    pub(crate) ask: Option<Ask>,
}

/// A workflow, and its transitions in a form that the oracle can judge.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) workflow: Workflow,
    pub(crate) edges: Vec<Edge>,
    /// What each step requires.
    pub(crate) requires: Vec<Option<Ask>>,
}

#[derive(Clone, Debug)]
struct Node {
    after: Vec<bool>,
    join: usize,
    items: Option<usize>,
    success: usize,
    goal: bool,
    fail_fast: bool,
    requires: Option<Ask>,
    ensures: bool,
    undone: bool,
    policy: usize,
}

/// 0 is all, 1 any, n at least n - 1, of `count` at most.
fn quorum(n: usize, count: usize) -> Quorum {
    let least = u32::try_from(n.saturating_sub(1).min(count)).expect("few");
    match (n, NonZeroU32::new(least)) {
        (1, _) if count > 0 => Quorum::Any,
        (2.., Some(least)) => Quorum::AtLeast(least),
        _ => Quorum::All,
    }
}

/// The condition of a step that ensures something: the result has an `n`.
pub(crate) fn ensured() -> Value {
    json!({"type": "exists", "field": "state.result.n"})
}

fn node() -> impl Strategy<Value = Node> {
    let items = prop_oneof![4 => Just(None), 1 => (0..4_usize).prop_map(Some), 1 => Just(Some(99))];
    let after = vec(prop::bool::weighted(0.3), 5);
    let goal = prop::bool::weighted(0.2);
    let ensures = prop::bool::weighted(0.1);
    let quorum = || prop_oneof![2 => Just(0), 1 => Just(1), 1 => 2..5_usize];
    let ask = prop_oneof![
        2 => any::<bool>().prop_map(Ask::Input),
        1 => Just(Ask::Exists),
        1 => Just(Ask::Absent)
    ];
    let requires = prop_oneof![5 => Just(None), 1 => ask.prop_map(Some)];
    let shape = (after, quorum(), items, quorum());
    let undone = prop::bool::weighted(0.3);
    (shape, goal, any::<bool>(), requires, ensures, undone, 0..2_usize).prop_map(
        |((after, join, items, success), goal, fail_fast, requires, ensures, undone, policy)| {
            Node { after, join, items, success, goal, fail_fast, requires, ensures, undone, policy }
        },
    )
}

fn edge() -> impl Strategy<Value = Edge> {
    let code =
        || select(vec!["500", "TIMEOUT", "KeyError", "E42", "BAD_FAN_OUT", "PRECONDITION_FAILED"]);
    let ask = prop_oneof![
        Just(Ask::Exists),
        Just(Ask::Absent),
        code().prop_map(Ask::CodeIs),
        (code(), code()).prop_map(|(a, b)| Ask::CodeAmong(a, b)),
        any::<bool>().prop_map(Ask::ExistsOr),
        any::<bool>().prop_map(Ask::Input),
        code().prop_map(Ask::FirstIs),
    ];
    let ask = prop_oneof![1 => Just(None), 2 => ask.prop_map(Some)];
    let caught = vec(select(NAMES.to_vec()).prop_map(str::to_owned), 0..3);
    let on_error = prop_oneof![1 => Just(None), 1 => caught.prop_map(Some)];
    // Places on the way from the first step to the last, fitted to the graph's size later.
    (0..60_usize, 0..60_usize, -1..=1_i64, on_error, ask)
        .prop_map(|(from, to, priority, on_error, ask)| Edge { from, to, priority, on_error, ask })
}

/// A random graph without cycles. `mirrored` turns the text order around, so that it is not the
/// order in which steps can run.
pub(crate) fn graph() -> impl Strategy<Value = Graph> {
    let harmful = prop::bool::weighted(0.3);
    let rollback = select(vec![
        Rollback::Never,
        Rollback::Never,
        Rollback::OnFailure,
        Rollback::OnCancel,
        Rollback::Always,
    ]);
    let shape = (vec(node(), 1..6), vec(edge(), 0..9), any::<bool>());
    (shape, vec(policy(), 2), harmful, rollback).prop_map(
        |((nodes, edges, mirrored), policies, harmful, rollback)| {
            assemble(nodes, edges, &policies, mirrored, harmful, rollback)
        },
    )
}

fn assemble(
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    policies: &[Policy],
    mirrored: bool,
    harmful: bool,
    rollback: Rollback,
) -> Graph {
    let count = nodes.len();
    let place = |n: usize| if mirrored { count - 1 - n } else { n };
    let at = |n: usize| StepIx(u16::try_from(place(n)).expect("few steps"));
    let build = |(n, node): (usize, &Node)| Step {
        args: Template::try_from(json!({"x": 0.1})).expect("no templates"),
        after: (0..n).filter(|from| node.after[*from]).map(at).collect(),
        // 99 stands for a list that is none.
        for_each: node.items.map(|items| {
            let list = if items == 99 { json!("${input.none}") } else { json!(vec![0; items]) };
            Template::try_from(list).expect("a template")
        }),
        join: quorum(node.join, node.after.iter().take(n).filter(|a| **a).count()),
        success: node.items.map_or(Quorum::All, |_| quorum(node.success, 4)),
        goal: node.goal,
        fail_fast: node.fail_fast,
        requires: node.requires.as_ref().map(condition),
        ensures: node.ensures.then(|| serde_json::from_value(ensured()).expect("a condition")),
        ..Step::new(format!("s{}", place(n)), "act", policies[node.policy].clone())
    };
    let mut steps: Vec<Step> = nodes.iter().enumerate().map(build).collect();
    let mut requires: Vec<Option<Ask>> = nodes.iter().map(|n| n.requires.clone()).collect();
    if mirrored {
        steps.reverse();
        requires.reverse();
    }
    let undone = nodes.iter().enumerate().filter(|(_, node)| node.undone);
    for (n, node) in undone {
        steps.push(Step {
            compensates: Some(at(n)),
            ..Step::new(format!("u{}", place(n)), "act", policies[node.policy].clone())
        });
        requires.push(None);
    }
    let edges: Vec<Edge> = edges
        .into_iter()
        .filter(|_| count > 1)
        .map(|e| {
            let from = e.from % (count - 1);
            let to = from + 1 + e.to % (count - 1 - from);
            Edge { from: place(from), to: place(to), ..e }
        })
        .collect();
    let transition = |e: &Edge| Transition {
        from: StepIx(u16::try_from(e.from).expect("few steps")),
        to: StepIx(u16::try_from(e.to).expect("few steps")),
        priority: e.priority,
        on_error: e.on_error.as_ref().map(|names| names.iter().cloned().collect()),
        condition: e.ask.as_ref().map(condition),
    };
    let action = Action {
        kind: ActionKind::ToolCall,
        target: Target::Registered,
        idempotent: harmful.then_some(false),
        inner_attempts: None,
        webhook: None,
        heartbeat_timeout: None,
        guard: Default::default(),
    };
    let parts = workflow::WorkflowParts {
        name: "drawn".into(),
        actions: [("act".to_owned(), action)].into(),
        steps,
        transitions: edges.iter().map(transition).collect(),
        rollback,
        ..workflow::WorkflowParts::default()
    };
    Graph { workflow: Workflow::try_from(parts).expect("no cycle"), edges, requires }
}

fn condition(ask: &Ask) -> Condition {
    serde_json::from_value(ask.json()).expect("a condition")
}
