//! A run's state from stored bytes.

use std::sync::Arc;

use super::lane::LaneError;
use crate::run::{self, Recorded, RunId, RunState};
use crate::store::{Loaded, ResultRow, Tail};

/// The state that the stored events fold to, with its results. Invokes nothing and waits for nothing.
pub(super) fn restore(run: RunId, loaded: &Loaded) -> Result<RunState, LaneError> {
    let mut state = match &loaded.snapshot {
        Some(snapshot) => {
            let mut state =
                run::decode_snapshot(&snapshot.state).map_err(|e| LaneError::damaged(run, e))?;
            extend(&mut state, &loaded.tail)?;
            state
        }
        None => {
            let events: Result<Vec<Recorded>, _> =
                loaded.tail.events.iter().map(|b| run::decode(b)).collect();
            let events = events.map_err(|e| LaneError::damaged(run, e))?;
            RunState::replay(run, &events).map_err(|e| LaneError::damaged(run, e))?
        }
    };
    restore_results(&mut state, &loaded.tail.results)?;
    Ok(state)
}

pub(super) fn extend(state: &mut RunState, tail: &Tail) -> Result<(), LaneError> {
    let run = state.id();
    for bytes in &tail.events {
        let event = run::decode(bytes).map_err(|e| LaneError::damaged(run, e))?;
        state.apply(&event).map_err(|e| LaneError::damaged(run, e))?;
    }
    restore_results(state, &tail.results)
}

fn restore_results(state: &mut RunState, rows: &[ResultRow]) -> Result<(), LaneError> {
    let run = state.id();
    for row in rows {
        let value = serde_json::from_slice(&row.result)
            .map_err(|e| LaneError::damaged(run, format_args!("result of {}: {e}", row.task)))?;
        state.restore_result(row.task, Arc::new(value));
    }
    Ok(())
}
