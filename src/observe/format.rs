//! Formats names, counts and durations.

use crate::failure::RetryKind;
use crate::failure::sanitise::clean;
use crate::run::TaskId;
use crate::time::Nanos;
use crate::workflow::{StepIx, Workflow};

/// Seconds with one decimal, halves rounded up: `5.2s`.
pub(super) fn seconds(length: Nanos) -> String {
    const TENTH: u64 = 100_000_000;
    let nanos = length.get();
    let tenths = nanos / TENTH + u64::from(nanos % TENTH >= TENTH / 2);
    format!("{}.{}s", tenths / 10, tenths % 10)
}

/// Millionths as whole percents, rounded down; below 1% with decimals: `50%`, `0.5%`.
pub(super) fn percent(millionths: u64) -> String {
    match millionths {
        0..10_000 => format!("{}%", crate::dialect::millionths(millionths.saturating_mul(100))),
        _ => format!("{}%", millionths / 10_000),
    }
}

/// `1 retry`, `2 retries`.
pub(super) fn counted(n: u32, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// The step's id.
pub(super) fn step_name(workflow: &Workflow, at: StepIx) -> String {
    workflow.step(at).map_or_else(|| format!("step {}", at.0), |step| clean(&step.id))
}

/// The step's id; for a fanned-out step with the item, as in `fetch[3]`.
pub(super) fn task_name(workflow: &Workflow, task: TaskId) -> String {
    let name = step_name(workflow, task.step);
    if fans_out(workflow, task.step) { format!("{name}[{}]", task.item) } else { name }
}

/// The trigger of a retry, as fields, labels and attributes spell it.
pub(super) fn kind_name(kind: RetryKind) -> &'static str {
    match kind {
        RetryKind::Failure => "failure",
        RetryKind::Timeout => "timeout",
        RetryKind::LeaseLost => "lease_lost",
    }
}

/// Whether the step has one task for each item.
pub(super) fn fans_out(workflow: &Workflow, at: StepIx) -> bool {
    workflow.fans_out(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_to_tenths() {
        let shown = |ms| seconds(Nanos::from_millis(ms));
        assert_eq!(shown(0), "0.0s");
        assert_eq!(shown(49), "0.0s");
        assert_eq!(shown(50), "0.1s");
        assert_eq!(shown(1_949), "1.9s");
        assert_eq!(shown(1_950), "2.0s");
        assert_eq!(shown(3_600_000), "3600.0s");
        assert_eq!(seconds(Nanos::MAX), "18446744073.7s");
    }

    #[test]
    fn shares_are_whole_percents_where_they_can_be() {
        assert_eq!(
            [0, 1, 5_000, 10_000, 999_999].map(percent),
            ["0%", "0.0001%", "0.5%", "1%", "99%"]
        );
        assert_eq!(percent(15_000_000), "1500%");
    }
}
