//! Events in their stored form, whose fields one sees spelled out beside the golden records that hold
//! them. The public form has its tag among the fields and must be buffered to be read; this one is read
//! in one pass.
//!
//! It is written as postcard, where variants and fields have places instead of names. So a new variant goes
//! last, here and in each enum that a field has. What may be left out, or grows, is JSON text in it
//! ([`text`]). Before, all of it was JSON: `[at, {"name": {fields}}]`, which is still read.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::SerializeTuple;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::task::Counts;
use super::{
    Cost, Digest, Event, Outcome, Phase, Recorded, RetryOf, RollbackState, RouteCause, RunId,
    RunState, StepState, TaskId, TaskTime, Token, Version,
};
use crate::failure::{ErrorCode, ErrorContext, Failure, RetryKind};
use crate::guard::{Alert, HeldBy};
use crate::policy::GiveUp;
use crate::time::{Nanos, Timestamp};
use crate::workflow::{StepIx, Workflow, written};

/// The first record of a run, its definition not read yet.
#[derive(Deserialize)]
pub(super) struct Creation<'b>(Timestamp, #[serde(borrow)] Created<'b>);

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Created<'b> {
    RunCreated {
        seed: u64,
        #[serde(borrow, deserialize_with = "text::borrowed")]
        workflow: &'b str,
        #[serde(with = "text")]
        input: Map<String, Value>,
    },
}

impl Creation<'_> {
    pub(super) fn read<E>(
        self,
        definition: impl FnOnce(&str) -> Result<Arc<Workflow>, E>,
    ) -> Result<Recorded, E> {
        let Self(at, Created::RunCreated { seed, workflow, input }) = self;
        let workflow = definition(workflow)?;
        Ok(Recorded { at, event: Event::RunCreated { seed, workflow, input } })
    }
}

/// A state, its definition not read yet.
#[derive(Deserialize)]
pub(super) struct Snapshot<'b> {
    id: RunId,
    seed: u64,
    #[serde(borrow)]
    workflow: &'b RawValue,
    input: Arc<Value>,
    version: Version,
    last_at: Timestamp,
    phase: Phase,
    #[serde(default)]
    paused: Option<String>,
    steps: Vec<StepState>,
    #[serde(default)]
    undo: Vec<TaskId>,
    #[serde(default)]
    rollback: Option<Box<RollbackState>>,
}

impl Snapshot<'_> {
    pub(super) fn read<E>(
        self,
        definition: impl FnOnce(&str) -> Result<Arc<Workflow>, E>,
    ) -> Result<RunState, E> {
        let Self { id, seed, workflow, input, version, last_at, phase, paused, .. } = self;
        let mut steps = self.steps;
        steps.iter_mut().for_each(|step| step.counts = Counts::of(&step.tasks));
        let (workflow, undo, rollback) = (definition(workflow.get())?, self.undo, self.rollback);
        let results = BTreeMap::new();
        Ok(RunState {
            id,
            seed,
            workflow,
            input,
            version,
            last_at,
            phase,
            paused,
            steps,
            undo,
            rollback,
            results,
        })
    }
}

/// A record to be written.
pub(super) struct Writes<'e>(pub(super) &'e Recorded);

/// A record that was read.
#[derive(Deserialize)]
pub(super) struct Reads(Timestamp, #[serde(with = "Stored")] Event);

impl From<Reads> for Recorded {
    fn from(Reads(at, event): Reads) -> Self {
        Self { at, event }
    }
}

impl Serialize for Writes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pair = serializer.serialize_tuple(2)?;
        pair.serialize_element(&self.0.at)?;
        pair.serialize_element(&WritesEvent(&self.0.event))?;
        pair.end()
    }
}

struct WritesEvent<'e>(&'e Event);

impl Serialize for WritesEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Stored::serialize(self.0, serializer)
    }
}

/// [`Event`] field by field. The compiler holds the two together; places, names and forms here are stored
/// bytes and change only with the format's number.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Event", rename_all = "snake_case")]
enum Stored {
    RunCreated {
        seed: u64,
        #[serde(serialize_with = "written::serialize", deserialize_with = "text::deserialize")]
        workflow: Arc<Workflow>,
        #[serde(with = "text")]
        input: Map<String, Value>,
    },
    RunActivated,
    RunDeactivated,
    StepEntered {
        step: StepIx,
        tasks: u32,
    },
    AttemptStarted {
        task: TaskId,
        attempt: u32,
        token: Token,
        #[serde(default)]
        timeout: Option<Nanos>,
        #[serde(default)]
        retries_left: Option<u32>,
        #[serde(default)]
        retry: Option<RetryOf>,
    },
    TaskHeld {
        task: TaskId,
        attempt: u32,
        by: HeldBy,
        until: Timestamp,
    },
    AttemptFailed {
        task: TaskId,
        attempt: u32,
        #[serde(with = "text")]
        failure: Failure,
        will_retry: bool,
        #[serde(default)]
        took: Nanos,
    },
    RetryScheduled {
        task: TaskId,
        attempt: u32,
        delay: Nanos,
        backoff: Nanos,
        kind: RetryKind,
        code: ErrorCode,
        #[serde(default)]
        rule: Option<u32>,
    },
    TaskQuarantined {
        task: TaskId,
        attempt: u32,
        lost: u32,
    },
    TaskReleased {
        task: TaskId,
        attempt: u32,
        reason: String,
    },
    CostReported {
        task: TaskId,
        attempt: u32,
        cost: Cost,
    },
    ErrorBudgetBurnt {
        task: TaskId,
        attempt: u32,
        alert: Alert,
        #[serde(default)]
        webhook: Option<RunId>,
    },
    TaskSucceeded {
        task: TaskId,
        attempt: u32,
        digest: Digest,
        #[serde(default)]
        spent: TaskTime,
    },
    TaskFailed {
        task: TaskId,
        attempts: u32,
        reason: GiveUp,
        #[serde(with = "text")]
        error: ErrorContext,
        #[serde(default)]
        spent: TaskTime,
    },
    TaskCancelled {
        task: TaskId,
    },
    StepSucceeded {
        step: StepIx,
    },
    StepFailed {
        step: StepIx,
        #[serde(with = "text")]
        error: ErrorContext,
    },
    StepUnreachable {
        step: StepIx,
    },
    StepSkipped {
        step: StepIx,
    },
    Routed {
        from: StepIx,
        to: StepIx,
        cause: RouteCause,
    },
    RunPaused {
        reason: String,
    },
    RunResumed,
    FailRequested {
        step: StepIx,
        #[serde(default)]
        item: Option<u32>,
        reason: String,
    },
    CancelRequested {
        reason: String,
    },
    RollbackStarted {
        #[serde(with = "text")]
        outcome: Outcome,
    },
    CompensationStarted {
        task: TaskId,
    },
    RollbackEnded {
        complete: bool,
    },
    RunEnded {
        #[serde(with = "text")]
        outcome: Outcome,
    },
}

/// A field that is JSON text in postcard. In JSON it is itself.
mod text {
    use serde::de::{DeserializeOwned, Error as _};
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    pub(super) fn serialize<S: Serializer>(
        value: &impl Serialize,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&serde_json::to_string(value).map_err(S::Error::custom)?)
    }

    pub(super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        match deserializer.is_human_readable() {
            true => T::deserialize(deserializer),
            false => {
                let text = <&str>::deserialize(deserializer)?;
                serde_json::from_str(text).map_err(D::Error::custom)
            }
        }
    }

    /// The text itself.
    pub(super) fn borrowed<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<&'de str, D::Error> {
        match deserializer.is_human_readable() {
            true => <&RawValue>::deserialize(deserializer).map(RawValue::get),
            false => <&str>::deserialize(deserializer),
        }
    }
}
