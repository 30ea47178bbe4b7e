//! Error budgets with alerts, and the webhooks that receive them.

use serde_json::{Map, Value, json};

use super::sketch::Draft;
use super::{Draw, Swarm, replies};
use crate::scenario::{ENDPOINT_HOST, EndpointPlan};

/// The action that receives alerts, where there is one.
const WEBHOOK: &str = "do_alert";

/// Gives some actions an error budget. Returns the endpoints of their webhooks. It draws from a
/// separate stream, so all other draws stay the same.
pub(super) fn add(seed: u64, swarm: &Swarm, drafts: &mut [Draft]) -> Vec<EndpointPlan> {
    let mut draw = Draw::new(seed, "alerts");
    let mut plans = Vec::new();
    for draft in drafts {
        if !draw.chance(12) {
            continue;
        }
        let at = draw.index(draft.steps.len());
        let mut budget = budget(&mut draw);
        if draw.chance(70) {
            let path = format!("/{}-alert", draft.name);
            budget.insert("webhook".to_owned(), json!(WEBHOOK));
            let kind = draw.pick(["tool_call", "tool_call", "agent_call"]);
            let http = format!("POST http://{ENDPOINT_HOST}{path}");
            draft.others.insert(WEBHOOK.to_owned(), json!({"http": http, "kind": kind}));
            plans.push(replies::plan_for(&mut draw, swarm, path, 1, false));
        }
        if let Some(step) = draft.steps.get_mut(at) {
            step.action.insert("error_budget".to_owned(), Value::Object(budget));
        }
    }
    plans
}

fn budget(draw: &mut Draw) -> Map<String, Value> {
    let mut budget = Map::new();
    budget.insert("target".to_owned(), json!(draw.pick([0.5, 0.8, 0.95])));
    // A world is shorter than an hour, so that nothing leaves the window.
    budget.insert("window".to_owned(), json!(draw.pick(["500ms", "3s", "1h", "1h"])));
    budget.insert("min_calls".to_owned(), json!(draw.pick([1, 1, 2, 4])));
    let alerts = [json!([0.5, 1.0]), json!([1.0]), json!([0.25, 0.5, 1.5])];
    budget.insert("alerts".to_owned(), draw.pick(alerts));
    budget
}
