//! The seam's types for lists and counts of runs.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::seam::RunPhase;
use crate::run::{Digest, LetterId, RunId, Version};
use crate::time::Timestamp;

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHead {
    /// The run.
    pub run: RunId,
    /// Its workflow's name.
    pub workflow: String,
    /// The digest of workflow and input.
    pub digest: Digest,
    /// Its phase.
    pub phase: RunPhase,
    /// Whether claiming and recovery look at it.
    pub active: bool,
    /// Its version.
    pub version: Version,
    /// When it was created, store time.
    pub created: Timestamp,
    /// When it ended, store time.
    pub ended: Option<Timestamp>,
    /// When it was archived, store time.
    pub archived: Option<Timestamp>,
    /// The dead letter that it redrives.
    pub redrives: Option<LetterId>,
    /// How many of its tasks are in the queue: those that wait and those that are leased.
    pub tasks: u64,
    /// How many of its dead letters wait.
    pub letters: u64,
    /// The key that it was submitted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The error code of its newest dead letter, whatever became of the letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The searchable fields of its input.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
}

/// A page of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heads {
    /// Store time.
    pub at: Timestamp,
    /// The runs, by id.
    pub runs: Vec<RunHead>,
    /// Damaged runs in this range. They are not in `runs` and do not count towards the limit.
    pub damaged: Vec<RunId>,
}

/// Some of the active runs that recovery takes up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stranded {
    /// The runs, the oldest first. Damaged ones are not among them.
    pub runs: Vec<RunHead>,
    /// After which run to go on; `None` after the last.
    pub next: Option<RunCursor>,
}

/// Which runs to return: those that match every field that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFilter {
    /// In this phase.
    pub phase: Option<RunPhase>,
    /// Of this workflow.
    pub workflow: Option<String>,
    /// With an id that begins with this text, hyphens ignored, or a workflow name that contains it.
    /// The case of ASCII letters is ignored.
    pub text: Option<String>,
    /// Only runs with dead letters that wait.
    pub letters: bool,
    /// Submitted with this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// With this error code in their newest dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// With these values of searchable fields in their input.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// Created at this time or later, store time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Created before this time, store time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What a list knows of a run without reading its record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks<'a> {
    pub(super) at: RunCursor,
    pub(super) workflow: &'a str,
    pub(super) phase: RunPhase,
    pub(super) letters: u64,
    pub(super) code: Option<&'a str>,
    pub(super) fields: &'a BTreeMap<String, String>,
}

impl RunFilter {
    /// Whether the run matches.
    #[must_use]
    pub fn wants(&self, head: &RunHead) -> bool {
        let RunHead { run, created, ref workflow, phase, letters, ref fields, .. } = *head;
        let (at, code) = (RunCursor { created, run }, head.code.as_deref());
        let is_its_key = self.key.is_none() || self.key == head.key;
        let marks = Marks { at, workflow, phase, letters, code, fields };
        is_its_key && self.fits(self.ids().as_ref(), marks)
    }

    /// The ids that begin with the text; `None` if no id does.
    #[must_use]
    pub fn ids(&self) -> Option<RangeInclusive<RunId>> {
        let (mut first, mut rest) = (0_u128, u128::MAX);
        for digit in self.text.as_ref()?.chars().filter(|c| *c != '-') {
            let digit = digit.to_digit(16).filter(|_| rest > 0)?;
            first = first << 4 | u128::from(digit);
            rest >>= 4;
        }
        let above = rest.checked_add(1).map_or(0, |rest| first.wrapping_mul(rest));
        let id = |bits: u128| RunId::from_bytes(bits.to_be_bytes());
        Some(id(above)..=id(above | rest))
    }

    /// Whether a run matches, whatever its key. `ids` are those that begin with the text.
    pub(super) fn fits(&self, ids: Option<&RangeInclusive<RunId>>, marks: Marks<'_>) -> bool {
        let Marks { at: RunCursor { created, run }, workflow, phase, letters, code, fields } =
            marks;
        self.phase.is_none_or(|wanted| wanted == phase)
            && self.workflow.as_ref().is_none_or(|wanted| wanted == workflow)
            && (!self.letters || letters > 0)
            && self.code.as_ref().is_none_or(|wanted| code == Some(wanted))
            && self.fields.iter().all(|(name, value)| fields.get(name) == Some(value))
            && self.since.is_none_or(|since| created >= since)
            && self.until.is_none_or(|until| created < until)
            && self.text.as_ref().is_none_or(|text| {
                ids.is_some_and(|ids| ids.contains(&run)) || holds(workflow, text)
            })
    }
}

fn holds(name: &str, text: &str) -> bool {
    let (name, text) = (name.as_bytes(), text.as_bytes());
    text.is_empty() || name.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text))
}

/// A place in the list of runs: that of this run, even if it was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunCursor {
    /// When it was created, store time.
    pub created: Timestamp,
    /// The run.
    pub run: RunId,
}

/// Asks for a page of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskRuns {
    /// Starts with the next older run than this; `None` starts with the newest.
    pub before: Option<RunCursor>,
    /// The most runs to return; 0 counts as 1.
    pub limit: usize,
    /// Which runs.
    pub filter: RunFilter,
}

/// A page of runs, the newest first. Of runs created at the same time the greatest id comes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Store time.
    pub at: Timestamp,
    /// The runs.
    pub runs: Vec<RunHead>,
    /// Where the next page starts; `None` when there are no more runs.
    pub next: Option<RunCursor>,
    /// Damaged runs. They are not in `runs` and do not count towards the limit. Runs of which
    /// nothing can be read come with the first page, whatever the filter.
    pub damaged: Vec<RunId>,
}

/// How many runs there are. A damaged run may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Store time.
    pub at: Timestamp,
    /// Runs by phase; a phase without runs is absent.
    pub phases: BTreeMap<RunPhase, u64>,
    /// How many dead letters wait.
    pub letters: u64,
}
