//! Writes a draft as a user would: a workflow file in TOML or JSON, or an IR program.

use serde_json::{Map, Value, json};

use super::Draw;
use super::policies::PolicyDraft;
use super::sketch::{Draft, Request, StepDraft};
use crate::scenario::{ENDPOINT_HOST, Format, WorkflowText};

/// Where a policy stands: at its step, at the step's action, or among the defaults of all steps, or of
/// those whose action is of the same kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Step,
    Action,
    Kind,
    Defaults,
}

/// The draft as a file, in one of the syntaxes that can say it. `places` draws where its policies
/// stand.
pub(super) fn write(draw: &mut Draw, places: &mut Draw, draft: &Draft) -> WorkflowText {
    let toss = draw.chance(50);
    let places = place(places, draft);
    let tree = tree(draft, &places);
    let calls = || draft.steps.iter().zip(&places).map(|(step, place)| call(step, *place));
    let (format, text) = match draft.is_program {
        true => (Format::Ir, calls().collect()),
        false if toss => (Format::Toml, toml(&tree)),
        false => (Format::Json, format!("{tree:#}\n")),
    };
    let actions = draft.is_program.then(|| declarations(&tree));
    WorkflowText { format, text, actions, builder: draft.builder() }
}

/// Where each step's policy stands. Steps that have none take what others leave for them.
fn place(draw: &mut Draw, draft: &Draft) -> Vec<Place> {
    // An alert's webhook takes the defaults too, and nobody has drawn how often it may be tried.
    let mut may_be_default = draft.others.is_empty();
    let mut place = |step: &StepDraft| match draw.below(10) {
        0 if may_be_default && step.policy.field().is_some() => {
            may_be_default = false;
            if draw.chance(40) { Place::Kind } else { Place::Defaults }
        }
        1 | 2 if step.shares.is_none() => Place::Action,
        _ => Place::Step,
    };
    draft.steps.iter().map(&mut place).collect()
}

/// `b = @do_b(n=input.n, from_a=a) [retry: 3]`.
fn call(step: &StepDraft, place: Place) -> String {
    let earlier = step.after.iter().map(|id| format!(", from_{id}={id}"));
    let brackets = match &step.policy {
        PolicyDraft::Ir(text) if place == Place::Step => format!(" {text}"),
        _ => String::new(),
    };
    let (id, action, earlier) = (&step.id, action_name(step), earlier.collect::<String>());
    format!("{id} = @{action}(n=input.n{earlier}){brackets}\n")
}

/// The file's contents as one value.
fn tree(draft: &Draft, places: &[Place]) -> Value {
    let (mut actions, mut steps) = (Map::new(), Vec::new());
    let mut defaults = Map::new();
    for (draft, place) in draft.steps.iter().zip(places) {
        let (mut action, mut step) = (draft.declaration(), step(draft));
        let table = match place {
            Place::Step => &mut step,
            Place::Action => &mut action,
            Place::Kind | Place::Defaults => &mut defaults,
        };
        let policy = draft.policy.field().map(|(name, value)| (name.to_owned(), value));
        match place {
            Place::Kind => {
                let kind = draft.action.get("kind").and_then(Value::as_str).unwrap_or("tool_call");
                let policy: Map<String, Value> = policy.into_iter().collect();
                table.insert(kind.to_owned(), Value::Object(policy));
            }
            _ => table.extend(policy),
        }
        if draft.shares.is_none() {
            actions.insert(action_name(draft), Value::Object(action));
        }
        steps.push(Value::Object(step));
    }
    actions.extend(draft.others.clone());
    let mut top = json!({
        "workflow": draft.name,
        "input": draft.input,
        "actions": actions,
        "steps": steps,
    });
    if let (Some(top), false) = (top.as_object_mut(), defaults.is_empty()) {
        top.insert("defaults".to_owned(), Value::Object(defaults));
    }
    if let (Some(top), false) = (top.as_object_mut(), draft.search.is_empty()) {
        top.insert("search".to_owned(), json!(draft.search));
    }
    if let (Some(top), Some(when)) = (top.as_object_mut(), draft.rollback) {
        top.insert("rollback".to_owned(), json!(when));
    }
    if let (Some(top), false) = (top.as_object_mut(), draft.transitions.is_empty()) {
        top.insert("transitions".to_owned(), json!(draft.transitions));
    }
    top
}

impl StepDraft {
    /// The declaration of its action.
    fn declaration(&self) -> Map<String, Value> {
        let mut action = self.action.clone();
        if !self.is_function {
            let Request { method, rest, body, answer } = self.request;
            let http = format!("{method} http://{ENDPOINT_HOST}{}{rest}", self.path);
            let parts = [("http", Some(http.as_str())), ("body", body), ("answer", answer)];
            let parts = parts.into_iter().filter_map(|(key, part)| Some((key, part?)));
            action.extend(parts.map(|(key, part)| (key.to_owned(), json!(part))));
        }
        action
    }

    /// Its arguments.
    fn args(&self) -> Value {
        let mut args = Map::new();
        args.insert("n".to_owned(), json!("${input.n}"));
        if self.items.is_some() {
            args.insert("item".to_owned(), json!("${item}"));
            args.insert("index".to_owned(), json!("item ${index} of ${input.n}"));
        }
        for id in &self.after {
            args.insert(format!("from_{id}"), json!(format!("${{steps.{id}.result}}")));
        }
        args.extend(self.more.clone());
        Value::Object(args)
    }
}

pub(super) fn action_name(step: &StepDraft) -> String {
    format!("do_{}", step.shares.as_ref().unwrap_or(&step.id))
}

fn step(step: &StepDraft) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("id".to_owned(), json!(step.id));
    fields.insert("action".to_owned(), json!(action_name(step)));
    fields.insert("args".to_owned(), step.args());
    if !step.after.is_empty() {
        fields.insert("after".to_owned(), json!(step.after));
    }
    if let Some(items) = &step.items {
        fields.insert("for_each".to_owned(), items.clone());
    }
    for (name, set) in [("goal", step.goal), ("fail_fast", step.fail_fast)] {
        if set {
            fields.insert(name.to_owned(), json!(true));
        }
    }
    fields.extend(step.words.clone());
    fields
}

/// Tables of tables get headers, everything below them is inline.
fn toml(tree: &Value) -> String {
    let mut text = format!("workflow = {}\n", inline(&tree["workflow"]));
    if let Some(when) = tree.get("rollback") {
        text += &format!("rollback = {}\n", inline(when));
    }
    text += &declarations(tree);
    for (name, header) in [("steps", "[[steps]]"), ("transitions", "[[transitions]]")] {
        for one in tree.get(name).and_then(Value::as_array).into_iter().flatten() {
            text += &table(header, one);
        }
    }
    text
}

/// The tables of input, defaults and actions.
fn declarations(tree: &Value) -> String {
    let search = tree.get("search").map(|names| format!("search = {}\n", inline(names)));
    let mut text = search.unwrap_or_default() + &table("[input]", &tree["input"]);
    if let Some(defaults) = tree.get("defaults") {
        text += &table("[defaults]", defaults);
    }
    for (name, action) in tree["actions"].as_object().into_iter().flatten() {
        text += &table(&format!("[actions.{name}]"), action);
    }
    text
}

fn table(header: &str, value: &Value) -> String {
    let mut text = format!("\n{header}\n");
    for (key, value) in value.as_object().into_iter().flatten() {
        text += &format!("{key} = {}\n", inline(value));
    }
    text
}

/// A value on one line. JSON's spelling of texts, numbers and booleans is TOML's too.
fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let one = |(k, v): (&String, &Value)| format!("{} = {}", json!(k), inline(v));
            format!("{{ {} }}", fields.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
