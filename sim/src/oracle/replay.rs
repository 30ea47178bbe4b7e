//! Promise 4: replay. Folding snapshot k and the events after it gives the live state, for every k,
//! byte for byte.

use retrial::run::Recorded;
use retrial::store::Snapshot;
use serde_json::Value;

use super::{Promise, Report, expected_state};
use crate::evidence::{Evidence, RunEvidence};

/// A stored snapshot is not the fold of the events before it.
pub const SNAPSHOT_DIFFERS: &str = "snapshot_differs";
/// A fold from a snapshot or from a cut does not meet the fold from the start.
pub const REPLAY_DIFFERS: &str = "replay_differs";
/// A state held in memory is not the fold of the events before it.
pub const LIVE_DIFFERS: &str = "live_differs";
/// A fold failed.
pub const REPLAY_FAILED: &str = "replay_failed";
/// A fold is not what its events say, read a second time.
pub const FOLD_WRONG: &str = "fold_wrong";
/// A snapshot claims more events than there are.
pub const SNAPSHOT_AHEAD: &str = "snapshot_ahead";

/// Of how many kept states each history is read a second time, beside its whole.
const READ_TWICE: usize = 8;

/// The most cuts tried of one history; longer ones are sampled evenly.
const CUTS: usize = 64;

/// Folds events into a state, without invoking an action and without waiting.
pub trait Replayer {
    /// The encoded state after `events`, from the encoded state `from` or from nothing. The run is
    /// given for its id and results; its events must not be looked at.
    ///
    /// # Errors
    /// Why the events or the bytes of `from` can't be folded.
    fn fold(
        &self,
        run: &RunEvidence,
        from: Option<&[u8]>,
        events: &[Recorded],
    ) -> Result<Vec<u8>, String>;

    /// The state as people read it, for a comparison with what the events say; none where that is not
    /// asked for.
    fn shown(&self, _state: &[u8]) -> Option<Value> {
        None
    }
}

/// Judges promise 4.
#[must_use]
pub fn judge(evidence: &Evidence, replayer: &dyn Replayer) -> Report {
    let mut report = Report::new(Promise::Replay);
    for run in evidence.runs.iter().filter(|r| !r.damaged && !r.events.is_empty()) {
        judge_run(&mut report, run, replayer);
    }
    report
}

/// Where folding starts: a trimmed history starts from its oldest kept snapshot.
fn origin(run: &RunEvidence) -> Option<(u64, Option<&[u8]>)> {
    if run.first.0 == 0 {
        return Some((0, None));
    }
    let kept = run.snapshots.iter().filter(|s| s.version >= run.first);
    let oldest = kept.min_by_key(|s| s.version)?;
    Some((oldest.version.0, Some(&oldest.state)))
}

fn judge_run(report: &mut Report, run: &RunEvidence, replayer: &dyn Replayer) {
    let Some((start, from)) = origin(run) else { return };
    let Some(events) = after(run, start) else { return };
    let whole = replayer.fold(run, from, events);
    report.check(whole.is_ok(), run.id, REPLAY_FAILED, || {
        format!("from event {start}: {}", whole.clone().err().unwrap_or_default())
    });
    let Ok(whole) = whole else { return };
    for (kept, reason) in [(&run.snapshots, SNAPSHOT_DIFFERS), (&run.live, LIVE_DIFFERS)] {
        for snapshot in kept.iter().filter(|s| s.version.0 >= start) {
            stored(report, run, replayer, snapshot, reason, (start, from), &whole);
        }
    }
    cuts(report, run, replayer, (start, from), events, &whole);
    if run.first.0 == 0 {
        read_again(report, run, replayer, &whole);
    }
}

/// The states that a whole history leads to, now and where they were kept, are what its events say.
fn read_again(report: &mut Report, run: &RunEvidence, replayer: &dyn Replayer, whole: &[u8]) {
    let kept = run.snapshots.iter().chain(&run.live).take(READ_TWICE);
    let kept = kept.map(|kept| (kept.version.0, &kept.state[..]));
    for (version, state) in kept.chain([(run.events.len() as u64, whole)]) {
        let Some(shown) = replayer.shown(state) else { return };
        let count = usize::try_from(version).unwrap_or(usize::MAX);
        let Some(events) = run.events.get(..count) else { continue };
        let difference = expected_state::difference(run.id, events, &shown);
        report.check(difference.is_none(), run.id, FOLD_WRONG, || {
            format!("after {version} events: {}", difference.unwrap_or_default())
        });
    }
}

/// The events from number `number` on, if the history reaches that far.
fn after(run: &RunEvidence, number: u64) -> Option<&[Recorded]> {
    let skip = usize::try_from(number.checked_sub(run.first.0)?).ok()?;
    run.events.get(skip..)
}

/// A kept state must be the fold of what came before, and lead to the same end.
fn stored(
    report: &mut Report,
    run: &RunEvidence,
    replayer: &dyn Replayer,
    snapshot: &Snapshot,
    reason: &'static str,
    (start, from): (u64, Option<&[u8]>),
    whole: &[u8],
) {
    let version = snapshot.version.0;
    let (Some(tail), Some(events)) = (after(run, version), after(run, start)) else {
        report.check(false, run.id, SNAPSHOT_AHEAD, || {
            format!("a state of {version} events where {} are known", run.events.len())
        });
        return;
    };
    let before = &events[..events.len() - tail.len()];
    let folded = replayer.fold(run, from, before);
    report.check(folded.as_deref() == Ok(&snapshot.state[..]), run.id, reason, || {
        format!("the state kept at event {version} is not the fold of the events before it")
    });
    meets(report, run, replayer, version, &snapshot.state, tail, whole);
}

fn meets(
    report: &mut Report,
    run: &RunEvidence,
    replayer: &dyn Replayer,
    version: u64,
    state: &[u8],
    tail: &[Recorded],
    whole: &[u8],
) {
    let ended = replayer.fold(run, Some(state), tail);
    report.check(ended.as_deref() == Ok(whole), run.id, REPLAY_DIFFERS, || {
        let why = ended.err().unwrap_or_else(|| "another state".to_owned());
        format!("from event {version} on, replay gives {why}")
    });
}

/// A history cut anywhere folds to the same state. One fold is stored and read back at every cut; only
/// where it does not meet the whole, each cut is looked at alone.
fn cuts(
    report: &mut Report,
    run: &RunEvidence,
    replayer: &dyn Replayer,
    (start, from): (u64, Option<&[u8]>),
    events: &[Recorded],
    whole: &[u8],
) {
    let stride = events.len().div_ceil(CUTS).max(1);
    let places = || (1..events.len()).step_by(stride);
    let (first, rest) = events.split_at(events.len().min(1));
    let mut parts = std::iter::once(first).chain(rest.chunks(stride));
    let folded = parts.try_fold(from.map(<[u8]>::to_vec), |state, part| {
        replayer.fold(run, state.as_deref(), part).map(Some)
    });
    let meets_whole = folded.is_ok_and(|state| state.as_deref() == Some(whole));
    for cut in places() {
        if meets_whole {
            report.check(true, run.id, REPLAY_DIFFERS, String::new);
            continue;
        }
        let (before, tail) = events.split_at(cut);
        match replayer.fold(run, from, before) {
            Ok(state) => {
                meets(report, run, replayer, start + cut as u64, &state, tail, whole);
            }
            Err(why) => report.check(false, run.id, REPLAY_FAILED, || {
                format!("of the first {cut} events: {why}")
            }),
        }
    }
}
