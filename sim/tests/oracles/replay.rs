use bytes::Bytes;
use retrial::run::{Recorded, Version};
use retrial::store::Snapshot;
use retrial_sim::unstable::evidence::RunEvidence;
use retrial_sim::unstable::oracle::Replayer;
use retrial_sim::unstable::oracle::replay::{
    FOLD_WRONG, LIVE_DIFFERS, REPLAY_DIFFERS, REPLAY_FAILED, SNAPSHOT_AHEAD, SNAPSHOT_DIFFERS,
    judge,
};
use retrial_sim::unstable::world::EngineReplayer;
use serde_json::{Value, json};

use crate::kit::{Script, exhausted, fanned, found, healthy, recovered};

/// A state that is the names of its events; it forgets or refuses where told.
#[derive(Default)]
pub(crate) struct Names {
    /// What a state that was stored and read again has lost.
    forgets: Option<&'static str>,
    refuses: Option<&'static str>,
}

impl Replayer for Names {
    fn fold(
        &self,
        _: &RunEvidence,
        from: Option<&[u8]>,
        events: &[Recorded],
    ) -> Result<Vec<u8>, String> {
        let mut state = String::from_utf8(from.unwrap_or_default().to_vec()).unwrap();
        if let Some(name) = self.forgets {
            state = state.replace(name, "");
        }
        for recorded in events {
            let name = recorded.event.name();
            if self.refuses == Some(name) {
                return Err(format!("{name} makes no sense here"));
            }
            state += name;
        }
        Ok(state.into_bytes())
    }
}

/// A run with the state after its first `version` events kept.
fn kept(version: usize) -> Script {
    let mut script = recovered();
    let run = script.run_mut();
    let state = Names::default().fold(run, None, &run.events[..version]).unwrap();
    run.snapshots.push(Snapshot { version: Version(version as u64), state: Bytes::from(state) });
    script
}

#[test]
fn h11_snapshots_and_live_states_that_are_folds_pass() {
    healthy(&judge(&recovered().world, &Names::default()));
    let mut script = kept(4);
    script.run_mut().live = script.run().snapshots.clone();
    healthy(&judge(&script.world, &Names::default()));
}

#[test]
fn a_trimmed_history_is_replayed_from_its_snapshot() {
    let mut script = kept(4);
    script.run_mut().events.drain(..4);
    script.run_mut().first = Version(4);
    healthy(&judge(&script.world, &Names::default()));
}

#[test]
fn a_snapshot_that_misses_an_event_is_found() {
    let mut script = kept(4);
    script.run_mut().snapshots[0].version = Version(5);
    found(&judge(&script.world, &Names::default()), SNAPSHOT_DIFFERS);
}

#[test]
fn a_snapshot_that_misses_a_field_is_found() {
    let forgetful = Names { forgets: Some("retry_scheduled"), ..Names::default() };
    found(&judge(&recovered().world, &forgetful), REPLAY_DIFFERS);
}

#[test]
fn a_state_in_memory_that_went_its_own_way_is_found() {
    let mut script = kept(4);
    script.run_mut().live = script.run_mut().snapshots.split_off(0);
    script.run_mut().live[0].state = Bytes::from_static(b"elsewhere");
    found(&judge(&script.world, &Names::default()), LIVE_DIFFERS);
}

#[test]
fn a_snapshot_from_the_future_is_found() {
    let mut script = kept(4);
    script.run_mut().snapshots[0].version = Version(99);
    found(&judge(&script.world, &Names::default()), SNAPSHOT_AHEAD);
}

#[test]
fn a_history_that_can_not_be_folded_is_found() {
    let strict = Names { refuses: Some("task_succeeded"), ..Names::default() };
    found(&judge(&recovered().world, &strict), REPLAY_FAILED);
}

/// The engine's fold, shown with a change.
struct Shown(fn(&mut Value));

impl Replayer for Shown {
    fn fold(
        &self,
        run: &RunEvidence,
        from: Option<&[u8]>,
        events: &[Recorded],
    ) -> Result<Vec<u8>, String> {
        EngineReplayer::default().fold(run, from, events)
    }

    fn shown(&self, state: &[u8]) -> Option<Value> {
        let mut state = EngineReplayer::default().shown(state)?;
        (self.0)(&mut state);
        Some(state)
    }
}

#[test]
fn h11_a_fold_is_what_its_events_say() {
    for script in [recovered(), exhausted(), fanned()] {
        for upto in 1..=script.run().events.len() {
            let mut world = script.world.clone();
            world.runs[0].events.truncate(upto);
            healthy(&judge(&world, &Shown(|_| {})));
        }
    }
}

#[test]
fn a_fold_that_differs_in_any_field_is_found() {
    let changes: [fn(&mut Value); 14] = [
        |state| state["seed"] = json!(99),
        |state| state["version"] = json!(99),
        |state| state["last_at"] = json!(99),
        |state| state["phase"] = json!("running"),
        |state| state["paused"] = json!("by somebody"),
        |state| state["undo"] = json!([]),
        |state| state["steps"][0]["phase"] = json!("active"),
        |state| state["steps"][0]["ended"] = json!(1),
        |state| state["steps"][0]["routed"] = json!(true),
        |state| state["steps"][0]["tasks"][0]["attempt"] = json!(9),
        |state| state["steps"][0]["tasks"][0]["first_started"] = Value::Null,
        |state| state["steps"][0]["tasks"][0]["timeout_retries"] = json!(9),
        |state| state["steps"][0]["tasks"][0]["due"] = json!(9),
        |state| drop(state["steps"][0]["tasks"].as_array_mut().unwrap().pop()),
    ];
    for change in changes {
        found(&judge(&recovered().world, &Shown(change)), FOLD_WRONG);
    }
}

#[test]
fn a_kept_state_is_read_a_second_time_too() {
    let mut script = recovered();
    let run = script.run_mut();
    let state = Shown(|_| {}).fold(run, None, &run.events[..4]).unwrap();
    run.live.push(Snapshot { version: Version(4), state: Bytes::from(state) });
    healthy(&judge(&script.world, &Shown(|_| {})));
    let only_there: fn(&mut Value) = |state| {
        if state["version"] == 4 {
            state["steps"][0]["tasks"][0]["delay"] = json!(9);
        }
    };
    found(&judge(&script.world, &Shown(only_there)), FOLD_WRONG);
}
