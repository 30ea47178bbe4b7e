//! The events that a finding's sentence names: `#22 attempt_started`, of the finding's run or of
//! the run named last before it.

use std::collections::BTreeSet;

use retrial::run::{RunId, Version};
use serde::{Deserialize, Serialize};

use super::Finding;
use crate::evidence::Evidence;

/// An event that proves a breach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRef {
    /// Its run.
    pub run: RunId,
    /// Its number within the run, from 0.
    pub number: Version,
}

/// The length of a run's id in a text.
const ID: usize = 36;

/// The events that `finding` names, in its order, each once. A number that neither the store nor an
/// observer has is no event.
#[must_use]
pub fn named(finding: &Finding, evidence: &Evidence) -> Vec<EventRef> {
    let text = finding.text.as_str();
    let mut run = finding.run;
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for (at, _) in text.match_indices(['r', '#']) {
        let starts = text[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        if let Some(id) = run_at(&text[at..]).filter(|_| starts) {
            run = Some(id);
        }
        let (Some(run), Some(number)) = (run, number_at(&text[at..]).filter(|_| starts)) else {
            continue;
        };
        let proof = EventRef { run, number: Version(number) };
        if is_event(evidence, proof) && seen.insert((run, number)) {
            found.push(proof);
        }
    }
    found
}

fn run_at(text: &str) -> Option<RunId> {
    text.strip_prefix("run ")?.get(..ID)?.parse().ok()
}

fn number_at(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('#')?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

fn is_event(evidence: &Evidence, proof: EventRef) -> bool {
    let EventRef { run, number } = proof;
    let kept = evidence.runs.iter().find(|r| r.id == run).is_some_and(|r| {
        let end = r.first.after(r.events.len());
        (r.first..end).contains(&number)
    });
    kept || evidence
        .observed
        .iter()
        .any(|observed| observed.run == run && observed.number == number)
}

#[cfg(test)]
mod tests {
    use retrial::run::{Event, Recorded};
    use retrial::time::{Mono, Timestamp};

    use super::*;
    use crate::evidence::ObservedEvent;
    use crate::oracle::Promise;

    fn run(n: u64) -> RunId {
        RunId::from_random(n, n)
    }

    /// Two runs. Of each, an observer got events 0 to 4.
    fn evidence() -> Evidence {
        let observed = |(run, number)| ObservedEvent {
            node: "node-0".to_owned(),
            incarnation: 0,
            at: Mono::from_nanos(0),
            run,
            number: Version(number),
            recorded: Recorded { at: Timestamp::from_nanos(0), event: Event::RunResumed },
        };
        let all = [run(1), run(2)].into_iter().flat_map(|run| (0..5).map(move |n| (run, n)));
        Evidence { observed: all.map(observed).collect(), ..Evidence::default() }
    }

    fn found(of: Option<RunId>, text: &str) -> Vec<(RunId, u64)> {
        let text = text.to_owned();
        let finding = Finding { oracle: Promise::Ownership, run: of, reason: "why", text };
        named(&finding, &evidence()).into_iter().map(|p| (p.run, p.number.0)).collect()
    }

    #[test]
    fn events_are_read_from_a_finding_in_its_order() {
        let text = "#3 attempt_started 1/0 attempt 2 is followed by #1 run_ended; again #3";
        assert_eq!(found(Some(run(1)), text), [(run(1), 3), (run(1), 1)]);
        let text = format!("#2 attempt_started has the token of run {} #4 attempt_started", run(2));
        assert_eq!(found(Some(run(1)), &text), [(run(1), 2), (run(2), 4)]);
        assert_eq!(found(None, &format!("run {}: (#0)", run(2))), [(run(2), 0)]);
    }

    #[test]
    fn what_is_no_event_of_the_run_is_not_read() {
        for text in
            ["#5 was never told", "node-0>endpoints#1", "# 1", "#x", "#", "r\u{e4}n #\u{e4}"]
        {
            assert_eq!(found(Some(run(1)), text), [], "{text}");
        }
        assert_eq!(found(None, "#1 attempt_started"), []);
    }
}
