//! Workflows with fewer steps, and steps with fewer settings. Files are edited as JSON; of a
//! program in IR text calls are left out, and brackets.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::scenario::{Format, Scenario, WorkflowText};
use crate::workload;

/// How many steps the workflow has, as far as they can be counted.
pub(super) fn count(workflow: &WorkflowText) -> usize {
    match workflow.format {
        Format::Ir => workflow.text.lines().count(),
        _ => tree(workflow).map_or(0, |tree| steps(&tree).len()),
    }
}

/// The steps of all workflows.
pub(super) fn all(scenario: &Scenario) -> usize {
    scenario.workflows.iter().map(count).sum()
}

/// Without some steps, and what names them: only where every text still makes sense.
pub(super) fn without(scenario: &Scenario, piece: Range<usize>) -> Option<Scenario> {
    let mut smaller = scenario.clone();
    let mut first = 0;
    for (place, workflow) in smaller.workflows.iter_mut().enumerate() {
        let mine = first..first + count(workflow);
        first = mine.end;
        let of_mine = piece.start.max(mine.start)..piece.end.min(mine.end);
        if of_mine.is_empty() {
            continue;
        }
        let of_mine = of_mine.start - mine.start..of_mine.end - mine.start;
        *workflow = match workflow.format {
            Format::Ir => without_lines(workflow, &of_mine),
            _ => without_steps(workflow, &of_mine)?,
        };
        workload::workflow(place, workflow).ok()?;
    }
    Some(smaller)
}

/// Each setting of each step and each bracket of a call left out, one at a time.
pub(super) fn settings(scenario: &Scenario) -> Vec<Scenario> {
    let mut ways = Vec::new();
    for (place, workflow) in scenario.workflows.iter().enumerate() {
        let simpler = match workflow.format {
            Format::Ir => without_a_bracket(workflow),
            _ => without_a_setting(workflow),
        };
        for text in simpler {
            if text != *workflow && workload::workflow(place, &text).is_ok() {
                let mut way = scenario.clone();
                way.workflows[place] = text;
                ways.push(way);
            }
        }
    }
    ways
}

/// The file as JSON; none where it is no file, or no JSON.
fn tree(workflow: &WorkflowText) -> Option<Value> {
    match workflow.format {
        Format::Toml => toml::from_str(&workflow.text).ok(),
        Format::Json => serde_json::from_str(&workflow.text).ok(),
        Format::Ir | Format::Stored => None,
    }
}

fn written(workflow: &WorkflowText, tree: &Value) -> WorkflowText {
    let text = format!("{tree:#}\n");
    WorkflowText { format: Format::Json, text, ..workflow.clone() }
}

fn steps(tree: &Value) -> &[Value] {
    tree["steps"].as_array().map_or(&[], Vec::as_slice)
}

fn without_steps(workflow: &WorkflowText, piece: &Range<usize>) -> Option<WorkflowText> {
    let mut tree = tree(workflow)?;
    let id = |step: &Value| step["id"].as_str().map(str::to_owned);
    let mut gone: Vec<String> = steps(&tree).get(piece.clone())?.iter().filter_map(id).collect();
    let undoes = |step: &Value, gone: &[String]| {
        step["compensates"].as_str().is_some_and(|of| gone.iter().any(|g| g == of))
    };
    let more: Vec<String> =
        steps(&tree).iter().filter(|step| undoes(step, &gone)).filter_map(id).collect();
    gone.extend(more);
    let is_gone = |name: Option<&str>| name.is_some_and(|name| gone.iter().any(|g| g == name));
    let list = tree["steps"].as_array_mut()?;
    list.retain(|step| !is_gone(step["id"].as_str()));
    for step in list.iter_mut().filter_map(Value::as_object_mut) {
        if let Some(Value::Array(after)) = step.get_mut("after") {
            after.retain(|name| !is_gone(name.as_str()));
        }
        if let Some(args) = step.get_mut("args").and_then(Value::as_object_mut) {
            args.retain(|_, value| {
                let text = value.to_string();
                !gone.iter().any(|id| text.contains(&format!("steps.{id}.")))
            });
        }
    }
    if let Some(Value::Array(edges)) = tree.get_mut("transitions") {
        edges.retain(|edge| !is_gone(edge["from"].as_str()) && !is_gone(edge["to"].as_str()));
    }
    let used = |name: &str| steps(&tree).iter().any(|step| step["action"] == name);
    let unused: Vec<String> = keys(&tree["actions"]).filter(|name| !used(name)).collect();
    let actions = tree.get_mut("actions").and_then(Value::as_object_mut);
    actions.into_iter().for_each(|all| all.retain(|name, _| !unused.contains(name)));
    Some(written(workflow, &tree))
}

fn keys(tree: &Value) -> impl Iterator<Item = String> + '_ {
    tree.as_object().into_iter().flat_map(Map::keys).cloned()
}

/// The settings that a step needs.
const NEEDED: [&str; 2] = ["id", "action"];

fn without_a_setting(workflow: &WorkflowText) -> Vec<WorkflowText> {
    let Some(tree) = tree(workflow) else { return Vec::new() };
    let mut trees = Vec::new();
    let mut edit = |change: &dyn Fn(&mut Value)| {
        let mut changed = tree.clone();
        change(&mut changed);
        trees.push(changed);
    };
    for key in keys(&tree).filter(|key| !["workflow", "steps", "actions"].contains(&key.as_str())) {
        edit(&|tree| drop(tree.as_object_mut().and_then(|top| top.remove(&key))));
    }
    for at in 0..tree["transitions"].as_array().map_or(0, Vec::len) {
        edit(&|tree| {
            drop(tree["transitions"].as_array_mut().map(|edges| edges.remove(at)));
        });
    }
    for (at, step) in steps(&tree).iter().enumerate() {
        for key in keys(step).filter(|key| !NEEDED.contains(&key.as_str())) {
            edit(&|tree| drop(tree["steps"][at].as_object_mut().and_then(|s| s.remove(&key))));
            for inner in keys(&step[&key]) {
                edit(&|tree| {
                    let table = tree["steps"][at][&key].as_object_mut();
                    drop(table.and_then(|table| table.remove(&inner)));
                });
            }
        }
    }
    for name in keys(&tree["actions"]) {
        for key in keys(&tree["actions"][&name]).filter(|key| key != "http") {
            edit(&|tree| {
                let action = tree["actions"][&name].as_object_mut();
                drop(action.and_then(|action| action.remove(&key)));
            });
        }
    }
    trees.iter().map(|tree| written(workflow, tree)).collect()
}

fn without_lines(workflow: &WorkflowText, piece: &Range<usize>) -> WorkflowText {
    let kept = workflow.text.lines().enumerate().filter(|(n, _)| !piece.contains(n));
    let text = kept.map(|(_, line)| format!("{line}\n")).collect();
    WorkflowText { text, ..workflow.clone() }
}

fn without_a_bracket(workflow: &WorkflowText) -> Vec<WorkflowText> {
    let text = &workflow.text;
    let opens = text.match_indices(" [").map(|(at, _)| at);
    let brackets = opens.filter_map(|at| Some(at..at + text[at..].find(']')? + 1));
    let without =
        |bracket: Range<usize>| format!("{}{}", &text[..bracket.start], &text[bracket.end..]);
    brackets.map(|b| WorkflowText { text: without(b), ..workflow.clone() }).collect()
}
