//! What is drawn: policies, workflows, scripts and disruptions, all as plain data.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use retrial::failure::{Failure, NetworkFault};
use retrial::policy::{ActionKind, Origin, Policy};
use retrial::time::Nanos;
use retrial::workflow::{self, Action, Step, StepIx, Target, Template, Transition, Workflow};
use serde_json::{Value, json};

use super::policies::{length, policy};
use crate::run_support::{End, Shot};

/// The name of the one custom backoff.
pub(crate) const CUSTOM: &str = "sevens";

/// The custom backoff: 7 ms more each time.
pub(crate) fn sevens(n: u32) -> Nanos {
    Nanos::from_millis(7 * u64::from(n))
}

/// What a failure whose outcome is unknown says.
pub(crate) const UNKNOWN: &str = "cut off";

/// Names by which rules and exception edges match.
pub(crate) const NAMES: [&str; 14] = [
    "500",
    "4xx",
    "429-503",
    "429",
    "408",
    "TIMEOUT",
    "NETWORK_ERROR",
    "ConnectionError",
    "HTTPError",
    "ClientError",
    "LookupError",
    "LEASE_LOST",
    "LeaseLostError",
    "E42",
];

fn failure() -> impl Strategy<Value = Failure> {
    let kind = select(vec![
        Failure::http(500, "broken"),
        Failure::http(503, "busy"),
        Failure::http(429, "slow down"),
        Failure::http(408, "too slow"),
        Failure::http(400, "nonsense"),
        Failure::network(NetworkFault::Reset, "reset"),
        Failure::network(NetworkFault::Cut, UNKNOWN).with_unknown_outcome(),
        Failure::work_failed("no"),
        Failure::exception("KeyError", "no such key", &["KeyError".into(), "LookupError".into()]),
        Failure::timed_out("the endpoint says so"),
        Failure::new("E42", "anything").retryable(),
    ]);
    let asks = prop_oneof![4 => Just(None), 1 => length().prop_map(Some)];
    (kind, asks).prop_map(|(failure, asks)| match asks {
        Some(wait) => failure.with_retry_after(wait),
        None => failure,
    })
}

fn shot() -> impl Strategy<Value = Shot> {
    let takes = prop_oneof![
        4 => (0..5_000_u64).prop_map(Nanos::from_millis),
        1 => Just(Nanos::ZERO),
        1 => Just(Nanos::from_secs(30)),
    ];
    let value = prop_oneof![
        Just(json!(null)),
        any::<f64>().prop_map(|x| json!(x)),
        any::<u64>().prop_map(|n| json!({"n": n, "text": "ü\u{0}\"\\"})),
    ];
    let end = prop_oneof![
        2 => value.prop_map(End::Ok),
        6 => failure().prop_map(End::Fail),
        1 => Just(End::Lost),
        1 => Just(End::Hang),
    ];
    (takes, end).prop_map(|(takes, end)| Shot { takes, end })
}

/// How the attempts of one task go.
pub(crate) fn script() -> impl Strategy<Value = Vec<Shot>> {
    vec(shot(), 0..7)
}

/// A condition that the graph's oracle can judge by itself.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Exists,
    Absent,
    CodeIs(&'static str),
    CodeAmong(&'static str, &'static str),
    ExistsOr(bool),
    Input(bool),
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
}

#[derive(Clone, Debug)]
struct Node {
    after: Vec<bool>,
    items: Option<usize>,
    goal: bool,
    fail_fast: bool,
    policy: usize,
}

fn node() -> impl Strategy<Value = Node> {
    let items = prop_oneof![4 => Just(None), 1 => (0..4_usize).prop_map(Some), 1 => Just(Some(99))];
    let after = vec(prop::bool::weighted(0.3), 5);
    let goal = prop::bool::weighted(0.2);
    (after, items, goal, any::<bool>(), 0..2_usize).prop_map(
        |(after, items, goal, fail_fast, policy)| Node { after, items, goal, fail_fast, policy },
    )
}

fn edge() -> impl Strategy<Value = Edge> {
    let code = || select(vec!["500", "TIMEOUT", "KeyError", "E42", "BAD_FAN_OUT"]);
    let ask = prop_oneof![
        Just(Ask::Exists),
        Just(Ask::Absent),
        code().prop_map(Ask::CodeIs),
        (code(), code()).prop_map(|(a, b)| Ask::CodeAmong(a, b)),
        any::<bool>().prop_map(Ask::ExistsOr),
        any::<bool>().prop_map(Ask::Input),
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
    (vec(node(), 1..6), vec(edge(), 0..9), vec(policy(), 2), any::<bool>(), harmful).prop_map(
        |(nodes, edges, policies, mirrored, harmful)| {
            assemble(nodes, edges, &policies, mirrored, harmful)
        },
    )
}

fn assemble(
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    policies: &[Policy],
    mirrored: bool,
    harmful: bool,
) -> Graph {
    let count = nodes.len();
    let place = |n: usize| if mirrored { count - 1 - n } else { n };
    let at = |n: usize| StepIx(u16::try_from(place(n)).expect("few steps"));
    let build = |(n, node): (usize, &Node)| Step {
        id: format!("s{}", place(n)),
        action: "act".into(),
        args: Template::try_from(json!({"x": 0.1})).expect("no templates"),
        after: (0..n).filter(|from| node.after[*from]).map(at).collect(),
        // 99 stands for a list that is none.
        for_each: node.items.map(|items| {
            let list = if items == 99 { json!("${input.none}") } else { json!(vec![0; items]) };
            Template::try_from(list).expect("a template")
        }),
        goal: node.goal,
        fail_fast: node.fail_fast,
        heartbeat_timeout: None,
        policy: policies[node.policy].clone(),
        origin: Origin::Task,
    };
    let mut steps: Vec<Step> = nodes.iter().enumerate().map(build).collect();
    if mirrored {
        steps.reverse();
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
        condition: e.ask.as_ref().map(|a| serde_json::from_value(a.json()).expect("a condition")),
    };
    let action = Action {
        kind: ActionKind::ToolCall,
        target: Target::Registered,
        idempotent: harmful.then_some(false),
        inner_attempts: None,
        heartbeat_timeout: None,
    };
    let parts = workflow::Parts {
        name: "drawn".into(),
        actions: [("act".to_owned(), action)].into(),
        steps,
        transitions: edges.iter().map(transition).collect(),
        ..workflow::Parts::default()
    };
    Graph { workflow: Workflow::try_from(parts).expect("no cycle"), edges }
}

/// What comes between.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Jolt {
    Cancel,
    Deactivate,
    Activate,
    /// An outcome of the n-th task's attempt under a token that is not its own.
    Stale(usize),
    /// A reservation of the n-th task for another attempt than the one it is at.
    Misclaim(usize),
}

/// A whole case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) graph: Graph,
    pub(crate) seed: u64,
    pub(crate) yes: bool,
    pub(crate) amount: f64,
    pub(crate) scripts: Vec<Vec<Shot>>,
    /// By milliseconds from the start.
    pub(crate) jolts: Vec<(u64, Jolt)>,
    pub(crate) lag: Nanos,
}

/// Any case.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    let jolt = prop_oneof![
        1 => Just(Jolt::Cancel),
        1 => Just(Jolt::Deactivate),
        1 => Just(Jolt::Activate),
        3 => (0..9_usize).prop_map(Jolt::Stale),
        3 => (0..9_usize).prop_map(Jolt::Misclaim),
    ];
    let lag = prop_oneof![3 => Just(0), 1 => 0..3_000_u64].prop_map(Nanos::from_millis);
    let jolts = vec((0..20_000_u64, jolt), 0..4);
    let amount = prop::num::f64::NORMAL;
    (graph(), any::<u64>(), any::<bool>(), amount, vec(script(), 6), jolts, lag).prop_map(
        |(graph, seed, yes, amount, scripts, mut jolts, lag)| {
            jolts.sort_by_key(|(at, _)| *at);
            Case { graph, seed, yes, amount, scripts, jolts, lag }
        },
    )
}
