//! A second reader of policies: what each step's text says, beside what the engine read of it.
//!
//! Decides whether the engine holds, for each step, the policy that the submitted text means. The
//! other oracles judge by that policy, so without this reader a policy that is misread would be
//! obeyed, and nobody would notice. It is written from the rows of the specification and the five
//! documents. It must never call retrial's dialect readers, nor share code with them: a bug would
//! excuse itself. It reads only texts that the engine has accepted, so it has no places, no
//! suggestions and no errors. What it does not understand (a key that it does not know, a number
//! that is not exact in nanoseconds) it does not judge; a test holds that it understands every text
//! that is drawn.
//!
//! It follows a policy to its step: the step's own, the action's, the default of the kind, the
//! default of all, the built-in one. It does not cover
//!
//! - policies built in Rust and definitions in stored form, which are not in any dialect;
//! - a retry budget that is written as a table;
//! - the operator's defaults (`RETRY_*`), which no world sets;
//! - runs that no user asked for (redriven letters, webhooks of alerts): the engine takes their
//!   definitions from others.
//!
//! To add a dialect, write a function from its value to a [`PlainPolicy`], and name its key in
//! `steps`. To add a setting, add a field to [`PlainPolicy`] and read it in `fields`.

mod brackets;
mod fields;
mod held;
mod plain;
mod presets;
mod steps;
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use plain::{Growth, PlainBudget, PlainPolicy, PlainRule};
pub use steps::{StepPolicy, policies};

use super::Report;
use crate::evidence::{Evidence, RunEvidence};

/// The engine holds another policy than the text means.
pub const POLICY_MISREAD: &str = "policy_misread";

/// Judges the policies of each workflow that was submitted, once.
pub(super) fn judge(report: &mut Report, evidence: &Evidence) {
    let mut judged: Vec<&RunEvidence> = Vec::new();
    for run in &evidence.runs {
        let is_same = |other: &&RunEvidence| {
            let (Some(text), Some(of_other)) = (&run.text, &other.text) else { return false };
            Arc::ptr_eq(text, of_other) && Arc::ptr_eq(&run.workflow, &other.workflow)
        };
        if !judged.iter().any(is_same) {
            judged.push(run);
            of_run(report, run);
        }
    }
}

fn of_run(report: &mut Report, run: &RunEvidence) {
    let Some(text) = &run.text else { return };
    let Some(read) = policies(text) else { return };
    for (place, step) in run.workflow.steps().iter().enumerate() {
        let of_step = |read: &&StepPolicy| read.id.as_ref().is_some_and(|id| *id == step.id);
        let Some(said) = read.iter().find(of_step).or_else(|| {
            // A program's calls have no ids of their own.
            read.get(place).filter(|read| read.id.is_none())
        }) else {
            continue;
        };
        let Some(said) = said.policy.as_ref().filter(|_| !text.builder.contains_key(&step.id))
        else {
            continue;
        };
        let held = PlainPolicy::from(&step.policy);
        report.check(*said == held, run.id, POLICY_MISREAD, || {
            format!("step `{}`: {}", step.id, differences(&said.fields(), &held.fields()))
        });
    }
}

/// Each field of which the two policies say something else.
fn differences(said: &BTreeMap<String, String>, held: &BTreeMap<String, String>) -> String {
    let none = || "absent".to_owned();
    let mut fields: Vec<&String> = said.keys().chain(held.keys()).collect();
    fields.sort();
    fields.dedup();
    let different = fields.into_iter().filter(|field| said.get(*field) != held.get(*field));
    let shown: Vec<String> = different
        .map(|field| {
            let of =
                |side: &BTreeMap<String, String>| side.get(field).cloned().unwrap_or_else(none);
            format!("{field} is {} in the text and {} in the engine", of(said), of(held))
        })
        .collect();
    shown.join("; ")
}
