//! Which of the rare cases the runs of a workflow may meet, by what its definition has. Those that
//! depend on faults alone are left out, and those that only the simulation's own functions meet.

use std::collections::BTreeSet;

use retrial::policy::{Dialect, Policy, Shape};
use retrial::workflow::{Quorum, Step, Workflow};

use super::{
    ALERT, COMPENSATION, COUNT_PER_RULE, ENSURES, JOIN, OUTCOME_UNKNOWN, PARTIAL, PRESET, REQUIRES,
    ROLLBACK, TRUNCATED, WEBHOOK, WRITTEN_DELAYS, guards,
};

/// The [`FEATURES`](super::FEATURES) that runs of `workflow` may meet.
#[must_use]
pub fn features_of(workflow: &Workflow) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut may = |holds: bool, features: &[&'static str]| {
        found.extend(features.iter().copied().filter(|_| holds));
    };
    let rollback = workflow.rollback();
    may(rollback.on_failure() || rollback.on_cancel(), &[ROLLBACK]);
    for step in workflow.steps() {
        of_step(step, &mut may);
        of_policy(&step.policy, &mut may);
        let action = workflow.actions().get(&step.action);
        let Some(action) = action else { continue };
        may(action.idempotent == Some(false), &[OUTCOME_UNKNOWN]);
        may(action.webhook.is_some(), &[WEBHOOK]);
        let guard = &action.guard;
        may(guard.breaker.is_some(), &[guards::BREAKER, guards::PROBE]);
        may(guard.concurrency.is_some(), &[guards::CONCURRENCY]);
        may(guard.rate.is_some(), &[guards::RATE]);
        may(guard.error_budget.is_some(), &[ALERT]);
        may(guard.retry_budget.is_some(), &[guards::DENIED]);
    }
    found
}

fn of_step(step: &Step, may: &mut impl FnMut(bool, &[&'static str])) {
    may(step.compensates.is_some(), &[COMPENSATION]);
    may(step.success != Quorum::All, &[PARTIAL]);
    may(step.join != Quorum::All, &[JOIN]);
    may(step.requires.is_some(), &[REQUIRES]);
    may(step.ensures.is_some(), &[ENSURES]);
}

fn of_policy(policy: &Policy, may: &mut impl FnMut(bool, &[&'static str])) {
    may(policy.dialect() == Dialect::Preset, &[PRESET]);
    may(!policy.counting().is_shared(), &[COUNT_PER_RULE]);
    may(policy.total_timeout().is_some(), &[TRUNCATED]);
    may(policy.budget().is_some(), &[guards::GROUP]);
    let is_written = |shape: &Shape| matches!(shape, Shape::List { .. } | Shape::Polynomial { .. });
    may(policy.rules().iter().any(|rule| is_written(&rule.backoff.shape)), &[WRITTEN_DELAYS]);
}

#[cfg(test)]
mod tests {
    use retrial::dialect::{Environment, Format, parse_workflow};

    use super::*;

    fn of(text: &str) -> Vec<&'static str> {
        let read = parse_workflow("w.toml", text, Format::Toml, &Environment::default());
        read.map(|read| features_of(&read.workflow).into_iter().collect()).unwrap_or_default()
    }

    #[test]
    fn a_workflow_may_meet_what_it_has() {
        let plain = "workflow = \"w\"\n[[steps]]\nid = \"a\"\naction = \"x\"\n";
        let http = "[actions.x]\nhttp = \"POST http://x.test/\"\n";
        assert_eq!(of(&format!("{plain}{http}")), [""; 0]);
        let guarded = format!("{plain}{http}breaker = {{ failures = 2, open = \"1s\" }}\n");
        assert_eq!(of(&guarded), [guards::BREAKER, guards::PROBE]);
        let saga = format!(
            "rollback = \"always\"\n{plain}requires = {{ type = \"exists\", field = \"state.input\" }}\n\
             [[steps]]\nid = \"b\"\naction = \"x\"\ncompensates = \"a\"\n{http}"
        );
        assert_eq!(of(&saga), [COMPENSATION, REQUIRES, ROLLBACK]);
    }
}
