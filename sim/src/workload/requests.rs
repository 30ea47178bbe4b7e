//! How actions are asked, and what else they are told. Drawn from a separate stream and rarely: most
//! requests are POSTs of a few arguments.

use serde_json::json;

use super::Draw;
use super::sketch::{Draft, Request, StepDraft};

/// Asks some endpoints of some seeds in other ways, and gives steps more arguments.
pub(super) fn draw(seed: u64, drafts: &mut [Draft]) {
    let mut draw = Draw::new(seed, "requests");
    if !draw.chance(30) {
        return;
    }
    for draft in drafts {
        let fanned: Vec<String> =
            draft.steps.iter().filter(|s| s.items.is_some()).map(|s| s.id.clone()).collect();
        let is_program = draft.is_program;
        for step in &mut draft.steps {
            if !is_program && draw.chance(40) {
                arguments(&mut draw, step, &fanned);
            }
            if step.shares.is_none() && !step.is_shared && !step.is_function && draw.chance(40) {
                step.request = request(&mut draw, step);
            }
        }
    }
}

/// Lists, what is not there, texts with several parts, and all that a fanned-out step left.
fn arguments(draw: &mut Draw, step: &mut StepDraft, fanned: &[String]) {
    let text = json!("${input.n} of ${input.none}, and ${input.word}.");
    let list = json!(["${input.n}", {"deep": "${input.none}"}, [text.clone()], 1.5, true]);
    step.more.insert("more".to_owned(), draw.pick([text, list]));
    if let Some(id) = step.after.iter().find(|id| fanned.contains(*id)) {
        let of = draw.pick(["succeeded", "failed", "errors", "result.0", "none"]);
        step.more.insert("part".to_owned(), json!(format!("${{steps.{id}.{of}}}")));
        step.more.insert("all".to_owned(), json!(format!("${{steps.{id}}}")));
    }
}

fn request(draw: &mut Draw, step: &StepDraft) -> Request {
    // A query and a form hold no lists in lists and no tables.
    let is_plain = step.after.is_empty() && step.items.is_none() && step.more.is_empty();
    let methods: &[&str] =
        if is_plain { &["GET", "DELETE", "POST", "PUT"] } else { &["POST", "PUT", "PATCH"] };
    let method = methods[draw.index(methods.len())];
    let rest = draw.pick(["", "/${args.n}", "?n=${args.n}", "/of/${args.n}?again=${args.n}&x"]);
    let has_body = matches!(method, "POST" | "PUT" | "PATCH");
    let body = (is_plain && has_body && draw.chance(40)).then_some("form");
    let is_judged = step.words.contains_key("ensures");
    let answer = (!is_judged && draw.chance(20)).then(|| draw.pick(["text", "status"]));
    Request { method, rest, body, answer }
}
