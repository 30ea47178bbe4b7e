use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::draft::phase_of;
use super::lanes::queue_changes;
use super::node::Node;
use super::{Config, World};
use crate::policy::Shape;
use crate::run::{self, Digest, Letter, LetterId, NotRedrivable, Recorded, RunId, RunState};
use crate::runtime::Runtime;
use crate::store::{CommitId, Create, Created, Store, StoreError};
use crate::workflow::{Need, Workflow};

/// A request for a new run.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The definition, pinned to the run with its policies.
    pub workflow: Arc<Workflow>,
    /// The input. It replaces the workflow's default input key by key.
    pub input: Map<String, Value>,
    /// The submission's idempotency key.
    pub key: Option<String>,
    /// The run's id and seed; the node draws them when absent.
    pub id: Option<(RunId, u64)>,
    /// The dead letter that the run redrives, which is marked with it: [`super::Engine::redrive`]
    /// fills the rest in from the letter.
    pub redrives: Option<LetterId>,
    /// Whether it is refused where this node can't run one of the actions.
    pub require_actions: bool,
}

impl Submission {
    /// A run of `workflow` on its default input.
    #[must_use]
    pub fn new(workflow: impl Into<Arc<Workflow>>) -> Self {
        Self {
            workflow: workflow.into(),
            input: Map::new(),
            key: None,
            id: None,
            redrives: None,
            require_actions: false,
        }
    }

    /// A run of `workflow` with a typed input, which is serialised to JSON.
    ///
    /// # Errors
    /// [`SubmitError::BadInput`] where that is no JSON object.
    pub fn typed(
        workflow: impl Into<Arc<Workflow>>,
        input: &impl Serialize,
    ) -> Result<Self, SubmitError> {
        match serde_json::to_value(input) {
            Ok(Value::Object(input)) => Ok(Self::new(workflow).with_input(input)),
            Ok(_) => Err(SubmitError::BadInput("it is not an object".to_owned())),
            Err(error) => Err(SubmitError::BadInput(error.to_string())),
        }
    }

    /// Sets the input.
    #[must_use]
    pub fn with_input(mut self, input: Map<String, Value>) -> Self {
        self.input = input;
        self
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Refuses the submission where the node can't run one of the workflow's actions, instead of a run
    /// that waits for a node that can. Where no other node is expected ([`Config::sole_owner`]) such a
    /// run is logged as a warning.
    #[must_use]
    pub fn require_actions(mut self) -> Self {
        self.require_actions = true;
        self
    }

    /// Of workflow and input: tells a repeated submission from a conflicting one.
    #[must_use]
    pub fn digest(&self) -> Digest {
        if self.input.is_empty() {
            return Digest::of_pair(&self.workflow, self.workflow.input());
        }
        let mut input = self.workflow.input().clone();
        input.extend(self.input.clone());
        Digest::of_pair(&self.workflow, &input)
    }
}

/// An accepted submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Submitted {
    pub(super) run: RunId,
    /// Whether it is an earlier submission's, under the same key.
    pub(super) existing: bool,
}

/// Why a submission was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// An earlier submission used the key for another workflow or input.
    #[error(
        "the key `{key}` belongs to run {run}, which has another workflow or input; use another key"
    )]
    KeyConflict {
        /// The key.
        key: String,
        /// The first run.
        run: RunId,
    },
    /// A policy names a backoff function that this node does not have.
    #[error("step `{step}` uses the backoff function `{name}`, which is not registered here")]
    UnknownFunction {
        /// The step, or the webhook.
        step: String,
        /// The function.
        name: String,
    },
    /// The submission requires the workflow's actions, and the node can't run this one.
    #[error("step `{step}` needs the {need}, which this node can't run; register it")]
    MissingAction {
        /// The step.
        step: String,
        /// The action.
        need: Need,
    },
    /// The input can't be written as a JSON object.
    #[error("the input can't be written as a JSON object: {0}")]
    BadInput(String),
    /// The input is too large to store.
    #[error("the input has {size} bytes; at most {most} are stored")]
    InputTooLarge {
        /// Its size as JSON.
        size: usize,
        /// The limit.
        most: usize,
    },
    /// What is to be stored is nested too deeply to be read back.
    #[error("workflow and input are nested {depth} deep; at most {most} are stored")]
    TooDeep {
        /// How deep.
        depth: usize,
        /// The limit.
        most: usize,
    },
    /// Another run has redriven the letter before: a letter is redriven once.
    #[error("letter {letter} was redriven before, by run {run}")]
    AlreadyRedriven {
        /// The letter.
        letter: LetterId,
        /// The run that redrives it.
        run: RunId,
    },
    /// The letter was discarded.
    #[error("letter {0} was discarded")]
    LetterDiscarded(LetterId),
    /// There is no such letter.
    #[error("letter {0} is not in the store")]
    UnknownLetter(LetterId),
    /// The letter's task can't be tried again.
    #[error("letter {letter} can't be redriven: {why}")]
    NotRedrivable {
        /// The letter.
        letter: LetterId,
        /// What stands in the way.
        why: NotRedrivable,
    },
    /// The node is shutting down.
    #[error("the node is shutting down and takes no submissions")]
    Closing,
    /// The store holds damaged data.
    #[error("{0}")]
    Broken(StoreError),
}

/// What adds a new run, without key, letter or the id of who submits it.
pub(super) fn creation(
    state: &RunState,
    events: &[Recorded],
    digest: Digest,
    config: &Config,
) -> Create {
    Create {
        run: state.id(),
        key: None,
        digest,
        id: CommitId::default(),
        workflow: state.workflow().name().to_owned(),
        fields: state.workflow().search().values(state.input()),
        events: run::encode_all(events),
        queue: queue_changes(state, events, config, None),
        phase: phase_of(state),
        redrives: None,
    }
}

/// The largest input stored, in bytes of JSON.
const MAX_INPUT: usize = 256 * 1_024;
impl<W: World> Node<W> {
    /// Adds a run; returns once it is durable. Sends the same bytes until the store answers.
    pub(super) async fn submit(
        self: &Arc<Self>,
        submission: Submission,
    ) -> Result<Submitted, SubmitError> {
        self.check(&submission)?;
        let digest = submission.digest();
        let Submission { workflow, input, key, id, redrives, require_actions: _ } = submission;
        let now = self.clock.now(&self.runtime);
        let (id, seed) = id.unwrap_or_else(|| {
            let draw = || self.runtime.random();
            (RunId::created_at(now, draw(), draw()), draw())
        });
        let (state, events) = RunState::create(id, seed, Arc::clone(&workflow), input, now)
            .map_err(|wrong| {
                SubmitError::Broken(StoreError::Broken(format!("run {id}: {wrong}")))
            })?;
        let create = Create {
            key: key.clone(),
            id: self.next_id(),
            redrives,
            ..creation(&state, &events, digest, &self.config)
        };
        let depth = events.iter().map(|recorded| run::nesting(&recorded.event)).max().unwrap_or(0);
        if depth > run::MAX_NESTING {
            return Err(SubmitError::TooDeep { depth, most: run::MAX_NESTING });
        }
        let queue = create.queue.clone();
        let expectation = self.expect(id);
        let asked = self.runtime.now();
        match self.create(create).await? {
            Created::New { at } => {
                self.clock.hear(at, asked, &self.runtime);
                self.tell(id, &workflow, run::Version::START, &events);
                if let Some(expectation) = expectation {
                    self.fulfil(&expectation, state);
                }
                self.wake_for(&queue);
                Ok(Submitted { run: id, existing: false })
            }
            Created::Existing { run, at } => {
                self.clock.hear(at, asked, &self.runtime);
                Ok(Submitted { run, existing: true })
            }
            Created::KeyConflict { run } => {
                Err(SubmitError::KeyConflict { key: key.unwrap_or_default(), run })
            }
            refused => Err(not_redriven(redrives, refused)),
        }
    }

    async fn create(&self, create: Create) -> Result<Created, SubmitError> {
        let mut failures = 0;
        loop {
            if self.is_closing() {
                return Err(SubmitError::Closing);
            }
            match self.store.create(create.clone()).await {
                Ok(created) => return Ok(created),
                Err(error @ StoreError::Broken(_)) => return Err(SubmitError::Broken(error)),
                Err(error) => self.store_pause(failures, &error).await,
            }
            failures += 1;
        }
    }

    fn check(&self, submission: &Submission) -> Result<(), SubmitError> {
        if self.is_closing() {
            return Err(SubmitError::Closing);
        }
        let size = serde_json::to_string(&submission.input).map_or(0, |text| text.len());
        let most = submission.redrives.map_or(MAX_INPUT, |_| MAX_INPUT + Letter::MAX_PAYLOAD);
        if size > most {
            return Err(SubmitError::InputTooLarge { size, most });
        }
        self.check_actions(submission)?;
        let steps = submission.workflow.steps().iter().map(|step| (&*step.id, &step.policy));
        let actions = submission.workflow.actions().values();
        let webhooks = actions.filter_map(|a| a.webhook.as_ref()).map(|w| (w.name(), w.policy()));
        for (step, policy) in steps.chain(webhooks) {
            for rule in policy.rules() {
                if let Shape::Custom { name } = &rule.backoff.shape
                    && self.config.functions.get(name).is_none()
                {
                    let (step, name) = (step.to_owned(), name.clone());
                    return Err(SubmitError::UnknownFunction { step, name });
                }
            }
        }
        Ok(())
    }

    /// A run that waits for an action that nobody will have is refused, or said.
    fn check_actions(&self, submission: &Submission) -> Result<(), SubmitError> {
        let workflow = &submission.workflow;
        let missing = workflow.beyond(&self.able);
        let missing = missing.and_then(|at| Some((workflow.step(at)?, workflow.need(at)?)));
        let Some((step, need)) = missing else { return Ok(()) };
        let step = step.id.clone();
        if submission.require_actions {
            return Err(SubmitError::MissingAction { step, need });
        }
        if self.config.sole_owner {
            let workflow = workflow.name();
            tracing::warn!(
                "step `{step}` of `{workflow}` will wait: it needs the {need}, which is not \
                 registered on this node"
            );
        }
        Ok(())
    }
}

/// Why the store did not let `letter` be redriven.
fn not_redriven(letter: Option<LetterId>, refused: Created) -> SubmitError {
    match (letter, refused) {
        (Some(letter), Created::AlreadyRedriven { run }) => {
            SubmitError::AlreadyRedriven { letter, run }
        }
        (Some(letter), Created::LetterDiscarded) => SubmitError::LetterDiscarded(letter),
        (Some(letter), Created::UnknownLetter) => SubmitError::UnknownLetter(letter),
        (_, other) => {
            let what = format!("it answered a submission with {other:?}");
            SubmitError::Broken(StoreError::Broken(what))
        }
    }
}
