//! Steps that share one action. Drawn from a separate stream and rarely: most steps have a separate
//! action.

use serde_json::json;

use super::Draw;
use super::sketch::{Draft, StepDraft};

/// Lets steps and compensations of some seeds invoke the action of another step, mostly one attempt
/// at a time. A workflow that uses the same action limits it alike, so that its state is theirs
/// together.
pub(super) fn draw(seed: u64, drafts: &mut [Draft]) {
    let mut draw = Draw::new(seed, "sharing");
    if !draw.chance(20) {
        return;
    }
    let may_share = |step: &&StepDraft| !step.words.contains_key("ensures");
    let ids: Vec<String> = drafts
        .iter()
        .filter(|draft| !draft.is_program)
        .flat_map(|draft| draft.steps.iter().filter(may_share).map(|step| step.id.clone()))
        .collect();
    let Some(owner) = ids.get(draw.index(ids.len().max(1))) else { return };
    let alone = draw.chance(80);
    for draft in drafts {
        let owned = draft.steps.iter_mut().find(|step| step.id == *owner);
        let Some(owned) = owned else { continue };
        if alone {
            owned.action.insert("concurrency".to_owned(), json!(1));
        }
        if draft.is_program || !may_share(&&*owned) {
            continue;
        }
        let (path, is_function) = (owned.path.clone(), owned.is_function);
        let is_limited = owned.policy.limits_time();
        let mut shared = false;
        for step in draft.steps.iter_mut().filter(|step| step.id != *owner) {
            // The endpoint may hang where its own step limits the time of an attempt.
            let ends = step.policy.limits_time() || !is_limited;
            if !ends || step.words.contains_key("ensures") || !draw.chance(60) {
                continue;
            }
            shared = true;
            step.shares = Some(owner.clone());
            step.path.clone_from(&path);
            step.is_function = is_function;
            step.more.remove("to");
            step.words.remove("heartbeat_timeout");
            if is_function {
                step.more.insert("to".to_owned(), json!(path));
            }
        }
        if let Some(owned) = draft.steps.iter_mut().find(|step| step.id == *owner) {
            owned.is_shared = shared;
        }
    }
}
