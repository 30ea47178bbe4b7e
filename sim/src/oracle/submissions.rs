//! The part of promise 9 about submissions: a key makes one run. The same work submitted again under
//! it returns that run, and other work is refused.

use retrial::run::RunId;

use super::Report;
use super::history::asked_input;
use crate::evidence::{Evidence, RunEvidence};

/// A submission was answered with a run of other work.
pub const LED_ASTRAY: &str = "led_astray";
/// A submission was refused though nothing else had its key.
pub const REFUSED_WITHOUT_NEED: &str = "refused_without_need";
/// Several runs have one key.
pub const KEY_USED_TWICE: &str = "key_used_twice";

/// X8.
pub(super) fn judge(report: &mut Report, evidence: &Evidence) {
    let asked = || evidence.runs.iter().filter(|run| run.text.is_some());
    for run in asked() {
        let others = || asked().filter(|other| other.id != run.id && of_one_key(run, other));
        if let Some(answer) = run.answer {
            let of_another = |other: &RunEvidence| other.id == answer && is_same_work(run, other);
            let right = answer == run.id || others().any(of_another);
            report.check(right, run.id, LED_ASTRAY, || format!("its submitter is led to {answer}"));
        }
        // What a user's check submits may be refused for other reasons.
        if let Some(why) = run.refused.as_ref().filter(|_| !evidence.own.is_own) {
            let right = others().any(|other| !is_same_work(run, other));
            report.check(right, run.id, REFUSED_WITHOUT_NEED, || why.clone());
        }
        let exists = |run: &RunEvidence| run.version.0 > 0;
        let twin: Option<RunId> = others().find(|other| exists(other)).map(|other| other.id);
        report.check(!exists(run) || twin.is_none(), run.id, KEY_USED_TWICE, || {
            format!("so does {twin:?}: {:?}", run.key)
        });
    }
}

fn of_one_key(run: &RunEvidence, other: &RunEvidence) -> bool {
    run.key.is_some() && run.key == other.key
}

fn is_same_work(run: &RunEvidence, other: &RunEvidence) -> bool {
    run.workflow == other.workflow && asked_input(run) == asked_input(other)
}
