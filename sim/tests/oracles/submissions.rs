use std::sync::Arc;

use retrial::run::{RunId, Version};
use retrial_sim::unstable::evidence::RunEvidence;
use retrial_sim::unstable::oracle::Report;
use retrial_sim::unstable::oracle::interventions::judge;
use retrial_sim::unstable::oracle::submissions::{
    KEY_USED_TWICE, LED_ASTRAY, REFUSED_WITHOUT_NEED,
};
use serde_json::json;

use crate::kit::{found, healthy, recovered};
use crate::lists::text;

fn other() -> RunId {
    RunId::from_bytes([9; 16])
}

/// A run with a key, and somebody who submits the same under that key, with input `n`.
fn again(n: u64, change: impl Fn(&mut RunEvidence)) -> Report {
    let mut script = recovered();
    let first = script.run_mut();
    first.key = Some("k".to_owned());
    first.text = Some(Arc::new(text()));
    first.input = json!({ "n": 1 }).as_object().cloned();
    first.answer = Some(first.id);
    let mut second = RunEvidence::new(other(), 1, Arc::clone(&first.workflow), first.submitted_at);
    (second.key, second.text) = (first.key.clone(), first.text.clone());
    (second.input, second.answer) = (json!({ "n": n }).as_object().cloned(), Some(first.id));
    change(&mut second);
    script.world.runs.push(second);
    judge(&script.world)
}

#[test]
fn x8_a_key_leads_to_its_run_and_to_no_other() {
    healthy(&again(1, |_| {}));
    found(&again(2, |_| {}), LED_ASTRAY);
    found(&again(1, |second| second.key = None), LED_ASTRAY);
    found(&again(1, |second| second.answer = Some(RunId::from_bytes([1; 16]))), LED_ASTRAY);
}

#[test]
fn x8_a_submission_is_refused_where_other_work_has_its_key_and_nowhere_else() {
    let refused = |second: &mut RunEvidence| {
        (second.answer, second.refused) = (None, Some("the key is taken".to_owned()));
    };
    healthy(&again(2, refused));
    found(&again(1, refused), REFUSED_WITHOUT_NEED);
}

#[test]
fn x8_a_key_that_makes_two_runs_is_found() {
    found(&again(1, |second| second.version = Version(1)), KEY_USED_TWICE);
}
