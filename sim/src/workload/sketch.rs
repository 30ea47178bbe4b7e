//! A workflow before it is written down, and how the shapes put one together.

use std::collections::BTreeMap;

use retrial::policy;
use serde_json::{Map, Value, json};

use super::policies::{self, PolicyDraft};
use super::{Draw, Swarm};

/// A workflow before it is written down.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) name: String,
    /// Whether it is written as an IR program, which has calls and nothing else.
    pub(super) is_program: bool,
    pub(super) input: Map<String, Value>,
    /// The fields of the input by which its runs are found.
    pub(super) search: &'static [&'static str],
    pub(super) steps: Vec<StepDraft>,
    pub(super) transitions: Vec<Value>,
    /// When its runs roll back automatically.
    pub(super) rollback: Option<&'static str>,
    /// Declarations of actions that no step invokes.
    pub(super) others: Map<String, Value>,
}

/// A step before it is written down. Most have an action and an endpoint of their own.
pub(super) struct StepDraft {
    pub(super) id: String,
    /// The step that it shares its action and endpoint with.
    pub(super) shares: Option<String>,
    /// Whether others use its action and endpoint.
    pub(super) is_shared: bool,
    pub(super) path: String,
    pub(super) after: Vec<String>,
    /// The list that it fans out over.
    pub(super) items: Option<Value>,
    pub(super) goal: bool,
    pub(super) fail_fast: bool,
    /// More of its keys, as a file spells them.
    pub(super) words: Map<String, Value>,
    /// More arguments.
    pub(super) more: Map<String, Value>,
    /// Whether its action is a registered function that asks its endpoint.
    pub(super) is_function: bool,
    /// Whether its first attempts take more than a second.
    pub(super) is_slow: bool,
    /// How its endpoint is asked, if it has one.
    pub(super) request: Request,
    /// An action's declaration besides its URL.
    pub(super) action: Map<String, Value>,
    pub(super) policy: PolicyDraft,
}

/// How an endpoint is asked.
pub(super) struct Request {
    pub(super) method: &'static str,
    /// What follows the endpoint's path in the URL.
    pub(super) rest: &'static str,
    pub(super) body: Option<&'static str>,
    pub(super) answer: Option<&'static str>,
}

impl Default for Request {
    fn default() -> Self {
        Self { method: "POST", rest: "", body: None, answer: None }
    }
}

impl Draft {
    /// The input of one run: the defaults, with some lists of other lengths.
    pub(super) fn input_of_a_run(&self, draw: &mut Draw) -> Map<String, Value> {
        let mut input = Map::new();
        for name in self.input.keys().filter(|k| k.starts_with("items")) {
            if draw.chance(40) {
                input.insert(name.clone(), items(draw));
            } else if draw.chance(4) {
                // Nothing to fan out over.
                input
                    .insert(name.clone(), draw.pick([json!(null), json!("many"), json!({"0": 1})]));
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
    pub(super) swarm: &'d Swarm,
    pub(super) draft: Draft,
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
            is_slow: false,
            request: Request::default(),
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
        let (list, fast) = (items(self.draw), self.draw.chance(25));
        let Some(mut step) = self.draft.steps.pop() else { return };
        let is_fanned =
            |id: &&String| self.draft.steps.iter().any(|s| s.id == **id && s.items.is_some());
        let earlier = step.after.iter().find(is_fanned).or(step.after.first());
        let likely = if earlier.is_some_and(|id| is_fanned(&id)) { 50 } else { 8 };
        step.fail_fast = fast;
        step.items = Some(match earlier {
            // What an earlier step left, which may be no list.
            Some(id) if self.draw.chance(likely) => json!(format!("${{steps.{id}.result}}")),
            _ if self.draw.chance(8) => json!(["one", "${input.n}", {"id": "${input.word}"}]),
            _ => {
                let name = format!("items_{}", step.id);
                self.draft.input.insert(name.clone(), list);
                json!(format!("${{input.{name}}}"))
            }
        });
        self.draft.steps.push(step);
    }

    pub(super) fn goal(&mut self) {
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

/// Whether a step's branch has an error.
pub(super) fn failed() -> Value {
    json!({"type": "exists", "field": {"type": "field", "path": "state._last_error"}})
}

pub(super) fn fine() -> Value {
    json!({"type": "not", "condition": failed()})
}
