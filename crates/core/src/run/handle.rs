//! How a run moves: an input is decided on, its events are applied, and what follows from them is
//! decided until nothing does.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Event, Impossible, Input, Recorded, RunId, RunState, Version, advance, decide};
use crate::policy::Functions;
use crate::time::Timestamp;
use crate::workflow::Workflow;

impl RunState {
    /// A new run and its first events. `input` overlays the workflow's defaults key by key.
    ///
    /// # Errors
    /// When one of the events can't follow those before it: the workflow is damaged.
    pub fn create(
        id: RunId,
        seed: u64,
        workflow: Arc<Workflow>,
        input: Map<String, Value>,
        now: Timestamp,
    ) -> Result<(Self, Vec<Recorded>), Impossible> {
        let mut merged = workflow.input().clone();
        merged.extend(input);
        let mut state = Self::before_creation(id, Arc::clone(&workflow));
        let created = Event::RunCreated { seed, workflow, input: merged };
        let mut events = Vec::new();
        state.record(created, now, &mut events)?;
        state.settle(now, &mut events)?;
        invariant_eq!(state.version, Version::START.after(events.len()), "each event is stored");
        Ok((state, events))
    }

    /// The state that `events`, from the first, fold to.
    ///
    /// # Errors
    /// When they do not begin with a creation or one of them can't follow those before it.
    pub fn replay<'e>(
        id: RunId,
        events: impl IntoIterator<Item = &'e Recorded>,
    ) -> Result<Self, Impossible> {
        let mut events = events.into_iter().peekable();
        let Some(Event::RunCreated { workflow, .. }) = events.peek().map(|r| &r.event) else {
            return Err(Impossible {
                number: Version::START,
                event: "the first event is not run_created",
            });
        };
        let mut state = Self::before_creation(id, Arc::clone(workflow));
        for event in events {
            state.apply(event)?;
        }
        Ok(state)
    }

    /// Takes one input in: decides, applies, and goes on deciding until nothing follows. Returns
    /// the events in order; none when the input changes nothing (a stale token, an ended run).
    ///
    /// # Errors
    /// When an event that was decided can't follow those before it: the stored state is damaged.
    /// The run is then left half way and must be dropped; nothing of it may be stored.
    pub fn handle(
        &mut self,
        input: &Input,
        now: Timestamp,
        functions: &Functions,
    ) -> Result<Vec<Recorded>, Impossible> {
        let mut events = Vec::new();
        let before = self.version;
        let now = now.max(self.last_at).max(self.not_before(input));
        for event in decide_and_keep(self, input, now, functions) {
            self.record(event, now, &mut events)?;
        }
        if !events.is_empty() {
            self.settle(now, &mut events)?;
        }
        invariant_eq!(self.version, before.after(events.len()), "each event is stored");
        Ok(events)
    }

    fn settle(&mut self, now: Timestamp, events: &mut Vec<Recorded>) -> Result<(), Impossible> {
        invariant!(!events.is_empty(), "a run moves only by what happens to it");
        loop {
            let next = advance(self, now);
            if next.is_empty() {
                return Ok(());
            }
            for event in next {
                self.record(event, now, events)?;
            }
        }
    }

    fn record(
        &mut self,
        event: Event,
        now: Timestamp,
        events: &mut Vec<Recorded>,
    ) -> Result<(), Impossible> {
        let recorded = Recorded { at: now.max(self.last_at), event };
        self.apply(&recorded)?;
        invariant!(events.last().is_none_or(|e| e.at <= recorded.at), "time never goes back");
        events.push(recorded);
        Ok(())
    }
}

/// Decides, and keeps the result of a success at hand for what the success leads to.
fn decide_and_keep(
    state: &mut RunState,
    input: &Input,
    now: Timestamp,
    functions: &Functions,
) -> Vec<Event> {
    let events = decide(state, input, now, functions);
    if let Input::Succeeded { task, result, .. } = input
        && matches!(events[..], [Event::TaskSucceeded { .. }])
    {
        invariant!(state.task(*task).is_some(), "what succeeds exists");
        state.results.insert(*task, Arc::clone(result));
    }
    events
}
