//! Shapes of workflows: every one makes sense, and each shows another part of the routing rows.

use std::collections::BTreeMap;

use retrial::policy;
use serde_json::{Map, Value, json};

use super::policies::{self, PolicyDraft};
use super::{Draw, Swarm, partial, sagas};

/// A workflow before it is written down.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) name: String,
    /// Whether it is written as an IR program, which has calls and nothing else.
    pub(super) is_program: bool,
    pub(super) input: Map<String, Value>,
    pub(super) steps: Vec<StepDraft>,
    pub(super) transitions: Vec<Value>,
    /// When a run of it rolls back by itself.
    pub(super) rollback: Option<&'static str>,
    /// Declarations of actions that no step invokes.
    pub(super) others: Map<String, Value>,
}

/// A step before it is written down. Most have an action and an endpoint of their own.
pub(super) struct StepDraft {
    pub(super) id: String,
    /// The step whose action and endpoint it uses.
    pub(super) shares: Option<String>,
    /// Whether others use its action and endpoint.
    pub(super) is_shared: bool,
    pub(super) path: String,
    pub(super) after: Vec<String>,
    /// The input whose items it fans out over.
    pub(super) items: Option<String>,
    pub(super) goal: bool,
    pub(super) fail_fast: bool,
    /// More of its keys, as a file spells them.
    pub(super) words: Map<String, Value>,
    /// More arguments.
    pub(super) more: Map<String, Value>,
    /// Whether its action is a registered function that asks its endpoint.
    pub(super) is_function: bool,
    /// An action's declaration besides its URL.
    pub(super) action: Map<String, Value>,
    pub(super) policy: PolicyDraft,
}

impl Draft {
    /// The input of one run: the defaults, with some lists of other lengths.
    pub(super) fn input_of_a_run(&self, draw: &mut Draw) -> Map<String, Value> {
        let mut input = Map::new();
        for name in self.input.keys().filter(|k| k.starts_with("items")) {
            if draw.chance(40) {
                input.insert(name.clone(), items(draw));
            }
        }
        input.insert("n".to_owned(), json!(draw.below(1_000)));
        input
    }

    /// The policies that are built in Rust, by step.
    pub(super) fn builder(&self) -> BTreeMap<String, policy::PolicyParts> {
        let built = self.steps.iter().filter_map(|s| match &s.policy {
            PolicyDraft::Builder(parts) => Some((s.id.clone(), parts.clone())),
            _ => None,
        });
        built.collect()
    }
}

/// A list of a few items; rarely none, rarely many.
fn items(draw: &mut Draw) -> Value {
    let count = draw.pick([0, 1, 2, 2, 3, 3, 4, 5, 6, 20]);
    (0..count).map(|i: u64| json!({"id": i, "weight": draw.below(9)})).collect()
}

/// Makes steps and remembers what they need.
pub(super) struct Sketch<'d> {
    pub(super) draw: &'d mut Draw,
    swarm: &'d Swarm,
    draft: Draft,
}

impl Sketch<'_> {
    pub(super) fn step(&mut self, id: &str, after: &[&str]) {
        let path = format!("/{}-{id}", self.draft.name);
        let policy = if self.draft.is_program {
            policies::draw_program(self.draw, self.swarm.hangs())
        } else {
            policies::draw(self.draw, self.swarm.hangs())
        };
        let action = self.action();
        self.draft.steps.push(StepDraft {
            id: id.to_owned(),
            shares: None,
            is_shared: false,
            path,
            after: after.iter().map(|s| (*s).to_owned()).collect(),
            items: None,
            goal: false,
            fail_fast: false,
            words: Map::new(),
            more: Map::new(),
            is_function: false,
            action,
            policy,
        });
    }

    fn action(&mut self) -> Map<String, Value> {
        let mut action = Map::new();
        if self.draw.chance(30) {
            action.insert(
                "kind".to_owned(),
                json!(self.draw.pick(["tool_call", "llm_call", "agent_call"])),
            );
        }
        if self.draw.chance(20) {
            action.insert("idempotent".to_owned(), json!(self.draw.chance(50)));
        }
        if let (Some(secret), true) = (self.swarm.secrets.first(), self.draw.chance(30)) {
            let header = format!("Bearer {secret}");
            action.insert("headers".to_owned(), json!({"authorization": header}));
        }
        action
    }

    /// Fans the last step out, if that can be said.
    pub(super) fn fan(&mut self) {
        if self.draft.is_program {
            return;
        }
        let list = items(self.draw);
        let fast = self.draw.chance(25);
        let Some(step) = self.draft.steps.last_mut() else { return };
        let name = format!("items_{}", step.id);
        step.items = Some(name.clone());
        step.fail_fast = fast;
        self.draft.input.insert(name, list);
    }

    fn goal(&mut self) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.goal = true;
        }
    }

    /// The steps so far.
    pub(super) fn ids(&self) -> Vec<String> {
        self.draft.steps.iter().map(|s| s.id.clone()).collect()
    }

    pub(super) fn rolls_back(&mut self, when: &'static str) {
        self.draft.rollback = Some(when);
    }

    /// Gives the last step another key.
    pub(super) fn word(&mut self, key: &str, value: Value) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.words.insert(key.to_owned(), value);
        }
    }

    /// Gives the last step another argument.
    pub(super) fn arg(&mut self, name: &str, value: Value) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.more.insert(name.to_owned(), value);
        }
    }

    pub(super) fn edge(&mut self, from: &str, to: &str, priority: i64, condition: Option<Value>) {
        let mut edge = json!({"from": from, "to": to, "priority": priority});
        if let (Some(condition), Some(edge)) = (condition, edge.as_object_mut()) {
            edge.insert("condition".to_owned(), condition);
        }
        self.draft.transitions.push(edge);
    }

    /// An exception edge: `errors` are types or codes, or `true` for all.
    pub(super) fn catch(&mut self, from: &str, to: &str, priority: i64, errors: Value) {
        let edge = json!({"from": from, "to": to, "priority": priority, "on_error": errors});
        self.draft.transitions.push(edge);
    }
}

pub(super) fn failed() -> Value {
    json!({"type": "exists", "field": {"type": "field", "path": "state._last_error"}})
}

fn fine() -> Value {
    json!({"type": "not", "condition": failed()})
}

/// The `n`-th workflow of a scenario.
pub(super) fn draw(draw: &mut Draw, swarm: &Swarm, n: u64) -> Draft {
    let shapes: [fn(&mut Sketch<'_>); 17] = [
        single,
        chain,
        fan,
        fan,
        diamond,
        handler,
        by_code,
        exceptions,
        goals,
        parallel,
        long,
        program,
        partial::fan,
        partial::join,
        partial::gather,
        sagas::saga,
        sagas::saga,
    ];
    let shape = draw.pick(shapes);
    let mut input = Map::from_iter([("n".to_owned(), json!(n))]);
    if let (Some(secret), true) = (swarm.secrets.get(1), draw.chance(40)) {
        let key = draw.pick(["password", "api_key", "token"]);
        input.insert(key.to_owned(), json!(secret));
    }
    let draft = Draft { name: format!("w{n}"), input, ..Draft::default() };
    let mut sketch = Sketch { draw, swarm, draft };
    shape(&mut sketch);
    let plain = !sketch.draft.is_program && sketch.draft.rollback.is_none();
    if plain && sketch.draw.chance(12) {
        partial::conditions(&mut sketch);
    }
    sketch.draft
}

fn single(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
}

fn chain(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &["a"]);
    if sketch.draw.chance(50) {
        sketch.step("c", &["b"]);
    }
}

/// A fan-out, before or after another step.
fn fan(sketch: &mut Sketch<'_>) {
    if sketch.draw.chance(50) {
        sketch.step("a", &[]);
        sketch.step("b", &["a"]);
    } else {
        sketch.step("b", &[]);
    }
    sketch.fan();
    if sketch.draw.chance(50) {
        sketch.step("c", &["b"]);
    }
}

/// Two branches and a join.
fn diamond(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &["a"]);
    sketch.step("c", &["a"]);
    if sketch.draw.chance(40) {
        sketch.fan();
    }
    sketch.step("d", &["b", "c"]);
}

/// Test 3 of Capability 5: a success path and an error handler.
fn handler(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &[]);
    sketch.step("c", &[]);
    sketch.edge("a", "b", 1, Some(fine()));
    sketch.edge("a", "c", 2, Some(failed()));
    if sketch.draw.chance(50) {
        sketch.step("d", &[]);
        sketch.edge("c", "d", 1, None);
    } else if sketch.draw.chance(70) {
        // A handler's success clears the error, and its failure ends the run: whatever
        // happens, nothing leads to `f`.
        sketch.step("d", &[]);
        sketch.step("f", &[]);
        sketch.edge("c", "f", 1, Some(failed()));
        sketch.edge("c", "d", 2, Some(fine()));
    }
    if sketch.draw.chance(30) {
        // What follows a handler has no error to handle any more, and may fail anew.
        sketch.step("e", &["c"]);
    }
}

/// Handlers by code, the first by priority.
fn by_code(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &[]);
    sketch.step("c", &[]);
    sketch.step("d", &[]);
    let codes =
        sketch.draw.pick([json!(["503", "500"]), json!(["TIMEOUT"]), json!(["WORK_FAILED"])]);
    let code = "state._last_error.code";
    sketch.edge("a", "b", 5, Some(failed()));
    sketch.edge("a", "c", 1, Some(json!({"type": "in", "field": code, "values": codes})));
    let network = json!({"type": "eq", "field": code, "value": "NETWORK_ERROR"});
    let either = json!({"type": "or", "conditions": [network, {"type": "eq", "field": code, "value": "400"}]});
    sketch.edge("a", "d", 3, Some(json!({"type": "and", "conditions": [failed(), either]})));
}

/// Exception edges by type and code, and one for every failure; they go before a transition that
/// asks for the error.
fn exceptions(sketch: &mut Sketch<'_>) {
    for id in ["a", "b", "c", "d", "e"] {
        sketch.step(id, &[]);
    }
    let errors = [
        json!(["TimeoutError", "503"]),
        json!("HTTPError"),
        json!(["ConnectionError", "BAD_RESPONSE"]),
        json!(["ValueError", "WORK_FAILED"]),
    ];
    let errors = sketch.draw.pick(errors);
    sketch.catch("a", "b", 2, errors);
    if sketch.draw.chance(50) {
        sketch.catch("a", "c", 5, json!(true));
    }
    sketch.edge("a", "d", 7, Some(failed()));
    sketch.edge("a", "e", 1, None);
}

/// A goal behind one path, and side steps that it does not need.
fn goals(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &["a"]);
    sketch.goal();
    sketch.step("c", &["a"]);
    if sketch.draw.chance(40) {
        sketch.step("d", &[]);
        sketch.edge("c", "d", 1, Some(failed()));
    }
}

/// Branches that have nothing to do with each other.
fn parallel(sketch: &mut Sketch<'_>) {
    let ids = ["a", "b", "c", "d"];
    let count = sketch.draw.index(3) + 2;
    for id in ids.iter().take(count) {
        sketch.step(id, &[]);
        if sketch.draw.chance(30) {
            sketch.fan();
        }
    }
}

/// Rarely something larger.
fn long(sketch: &mut Sketch<'_>) {
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let count = sketch.draw.index(5) + 4;
    for (at, id) in ids.iter().enumerate().take(count) {
        let mut before = ids[..at].to_vec();
        while before.len() > 2 {
            let gone = sketch.draw.index(before.len());
            before.remove(gone);
        }
        sketch.step(id, &before);
        if sketch.draw.chance(25) {
            sketch.fan();
        }
    }
}

/// What an IR program can say.
fn program(sketch: &mut Sketch<'_>) {
    sketch.draft.is_program = true;
    let shapes: [fn(&mut Sketch<'_>); 5] = [single, chain, diamond, parallel, long];
    let shape = sketch.draw.pick(shapes);
    shape(sketch);
}
