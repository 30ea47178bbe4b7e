//! A run's state from stored bytes.

use std::sync::{Arc, Mutex, PoisonError};

use super::lane::LaneError;
use crate::run::{self, DecodeError, Definitions, Recorded, RunId, RunState};
use crate::store::{Loaded, ResultRow, Tail};

/// The state that the stored events fold to, with its results. Invokes nothing and waits for nothing.
pub(super) fn restore(
    run: RunId,
    loaded: &Loaded,
    definitions: &Mutex<Definitions>,
) -> Result<RunState, LaneError> {
    let damaged = |error: DecodeError| LaneError::damaged(run, error);
    let definitions = || definitions.lock().unwrap_or_else(PoisonError::into_inner);
    let mut state = match &loaded.snapshot {
        Some(snapshot) => {
            let mut state = definitions().decode_snapshot(&snapshot.state).map_err(damaged)?;
            extend(&mut state, &loaded.tail)?;
            state
        }
        None => {
            let (first, rest) = loaded.tail.events.split_first().unzip();
            let first = first.map(|bytes| definitions().decode_creation(bytes));
            let rest = rest.into_iter().flatten().map(|bytes| run::decode(bytes));
            let events: Result<Vec<Recorded>, _> = first.into_iter().chain(rest).collect();
            let events = events.map_err(damaged)?;
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
