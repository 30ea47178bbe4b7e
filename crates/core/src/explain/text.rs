//! The explanation for people.

use std::fmt;

use super::{Delay, Explained, Explanation, words};
use crate::policy::{Counting, Preset, Rule};
use crate::time::Nanos;

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(explanation) => explanation.fmt(f),
            Self::Steps { workflow, steps } => {
                writeln!(f, "Workflow {workflow}: the policies of {} steps.", steps.len())?;
                steps.iter().try_for_each(|s| write!(f, "\n{s}"))
            }
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let preset = Preset::of(&self.policy);
        let what = match preset {
            Some(preset) => format!("the preset {preset}"),
            None => format!("a policy in the dialect {}", self.policy.dialect().name()),
        };
        match &self.step {
            Some(named) => {
                let step = named.step.as_deref().unwrap_or_default();
                writeln!(f, "Step {step}: {what}, from {}.", named.origin)?;
            }
            None => writeln!(f, "{}{}.", what[..1].to_uppercase(), &what[1..])?,
        }
        if let Some(preset) = preset {
            writeln!(f, "Source: {}.", preset.source())?;
        }
        writeln!(f, "{}", self.limits())?;
        let rules = self.policy.rules().iter().zip(&self.delays).enumerate();
        rules.into_iter().try_for_each(|(at, (r, d))| self.rule(f, at + 1, r, d))?;
        if self.policy.rules().is_empty() {
            writeln!(f, "\n{}", words::limit(self.policy.limit()))?;
        }
        if !self.warnings.is_empty() {
            writeln!(f)?;
        }
        self.warnings.iter().try_for_each(|w| writeln!(f, "Warning: {w}."))
    }
}

impl Explanation {
    fn limits(&self) -> String {
        let mut parts = Vec::new();
        match self.policy.attempt_timeout() {
            Some(limit) => parts.push(format!("Each attempt may take {limit}.")),
            None => parts.push(words::default_timeout()),
        }
        if let Some(limit) = self.policy.total_timeout() {
            parts.push(format!("All attempts and waits together may take {limit}."));
            let reserve = self.policy.at_deadline().reserve();
            let reserve = reserve.map(|unset| self.policy.attempt_timeout().unwrap_or(unset));
            parts.extend(reserve.map(words::at_deadline));
        }
        if !self.policy.counting().is_shared() {
            parts.push(words::total(self.policy.limit()));
        }
        if let Some(n) = self.policy.timeout_retries() {
            parts.push(format!("Timeouts may cause at most {n} of the retries."));
        }
        let declared = self.step.as_ref().and_then(|named| named.action.as_ref());
        let harmful = declared.and_then(|action| action.idempotent) == Some(false);
        parts.extend(words::unknown_outcome(harmful, self.policy.retries_unknown_outcome()));
        parts.extend(self.policy.budget().map(words::budget));
        let alerts =
            declared.and_then(|a| Some((a.guard.error_budget.as_ref()?, a.webhook.as_ref())));
        parts.extend(alerts.map(|(budget, webhook)| words::error_budget(budget, webhook)));
        parts.push(format!("A Retry-After of up to {} is obeyed.", self.policy.max_retry_after()));
        parts.join(" ")
    }

    fn rule(
        &self,
        f: &mut fmt::Formatter<'_>,
        number: usize,
        rule: &Rule,
        delays: &[Delay],
    ) -> fmt::Result {
        let matcher = words::matcher(&rule.matcher, self.policy.dialect());
        writeln!(f, "\nRule {number} is for {matcher}.")?;
        let limit = match self.policy.counting() {
            Counting::Shared => words::limit(rule.limit),
            Counting::PerRule { .. } => words::own_limit(rule.limit),
        };
        writeln!(f, "{limit} {}", words::backoff(rule))?;
        table(f, delays)?;
        let shown = u32::try_from(delays.len()).unwrap_or(u32::MAX);
        match rule.limit.count() {
            None => writeln!(f, "  and so on"),
            Some(n) if n - 1 > shown => writeln!(f, "  and {} more", n - 1 - shown),
            Some(_) => Ok(()),
        }
    }
}

/// A column a fact, right-aligned. Sums are of waits alone.
fn table(f: &mut fmt::Formatter<'_>, delays: &[Delay]) -> fmt::Result {
    if delays.is_empty() {
        return Ok(());
    }
    let head = ["retry", "earliest", "latest", "earliest sum", "latest sum"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(delays.iter().map(row)).collect();
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3), width(4)];
    rows.iter().try_for_each(|r| {
        r.iter().zip(widths).try_for_each(|(cell, width)| write!(f, "  {cell:>width$}"))?;
        writeln!(f)
    })
}

fn row(delay: &Delay) -> [String; 5] {
    let down = |n: Nanos| Nanos::from_millis(n.as_millis()).to_string();
    let up = |n: Nanos| Nanos::from_millis(n.as_millis_ceil()).to_string();
    [
        delay.retry.to_string(),
        down(delay.earliest),
        up(delay.latest),
        down(delay.earliest_sum),
        up(delay.latest_sum),
    ]
}
