//! The draft of a commit: what a batch of messages changes, before it is durable.

use std::sync::Arc;

use bytes::Bytes;

use super::Config;
use super::alerts::{self, NewRun};
use super::guarding::{GuardInputs, Guarded};
use super::lane::Batch;
use super::lanes::{Command, Message, queue_changes};
use crate::failure::sanitise;
use crate::run::{
    self, Event, Impossible, Input, Letter, Outcome, Phase, Recorded, RunState, Token,
};
use crate::store::{Fence, Guarding, LetterRow, QueueChange, Raised, ResultRow, RunPhase};
use crate::time::Timestamp;

/// What one commit changes, before it is durable.
pub(super) struct Draft {
    pub(super) state: RunState,
    pub(super) events: Vec<Recorded>,
    pub(super) fences: Vec<Fence>,
    pub(super) queue: Vec<QueueChange>,
    pub(super) results: Vec<ResultRow>,
    pub(super) letters: Vec<LetterRow>,
    pub(super) started: Vec<Token>,
    pub(super) calls_off: bool,
    /// The messages that changed something, by place.
    pub(super) changed: Vec<usize>,
    pub(super) guards: Vec<Guarding>,
    /// The alerts that its events record.
    pub(super) raised: Vec<Raised>,
    /// The runs that call webhooks.
    pub(super) new_runs: Vec<NewRun>,
    guarded: Guarded,
}

impl Draft {
    pub(super) fn new(state: RunState, guarded: Guarded) -> Self {
        Self {
            state,
            events: Vec::new(),
            fences: Vec::new(),
            queue: Vec::new(),
            results: Vec::new(),
            letters: Vec::new(),
            started: Vec::new(),
            calls_off: false,
            changed: Vec::new(),
            guards: Vec::new(),
            raised: Vec::new(),
            new_runs: Vec::new(),
            guarded,
        }
    }

    /// Takes in one message of `batch`; whether it does anything. `before` is the run before the
    /// draft.
    ///
    /// # Errors
    /// When the run is damaged.
    pub(super) fn take(
        &mut self,
        before: &RunState,
        message: &Message,
        batch: &Batch,
        now: Timestamp,
        config: &Config,
    ) -> Result<bool, Impossible> {
        let Some((input, fence)) = reading(message, &batch.denied, config) else {
            return Ok(false);
        };
        let input = &input;
        let mut events = Vec::new();
        if let Some(cost) = cost_of(message) {
            events.extend(self.state.handle(&cost, now, &config.functions)?);
        }
        for raised in batch.raised.iter().filter(|raised| alerts::is_about(raised, message)) {
            events.extend(self.tell(raised, now, config)?);
        }
        events.extend(self.state.handle(input, now, &config.functions)?);
        if events.is_empty() {
            return Ok(false);
        }
        self.fences.extend(fence);
        let (guarded, queue, guards) = (&self.guarded, &self.queue[..], &mut self.guards);
        GuardInputs { guarded, before, queue, guards }.add(input, &events);
        let progress = match message {
            Message::Ended { progress, .. } => progress.as_ref(),
            _ => None,
        };
        self.queue.extend(queue_changes(&self.state, &events, config, progress));
        for recorded in &events {
            self.note(&recorded.event, input);
        }
        self.events.extend(events);
        Ok(true)
    }

    /// Takes in that a guard holds a start back.
    ///
    /// # Errors
    /// When the run is damaged.
    pub(super) fn hold(
        &mut self,
        hold: &Input,
        now: Timestamp,
        config: &Config,
    ) -> Result<(), Impossible> {
        self.events.extend(self.state.handle(hold, now, &config.functions)?);
        Ok(())
    }

    fn tell(
        &mut self,
        raised: &Raised,
        now: Timestamp,
        config: &Config,
    ) -> Result<Vec<Recorded>, Impossible> {
        let (input, new_run) = alerts::input_of(&self.state, raised, now, config)?;
        let events = self.state.handle(&input, now, &config.functions)?;
        if !events.is_empty() {
            self.raised.push(*raised);
            self.new_runs.extend(new_run);
        }
        Ok(events)
    }

    fn note(&mut self, event: &Event, input: &Input) {
        match (event, input) {
            (Event::TaskSucceeded { task, attempt, .. }, Input::Succeeded { result, .. }) => {
                let result = Bytes::from(result.to_string());
                self.results.push(ResultRow { task: *task, attempt: *attempt, result });
            }
            (Event::TaskFailed { error, .. }, _) => {
                let code = error.code.as_str().to_owned();
                self.letters.extend(Letter::left_by(&self.state, event).map(|(task, letter)| {
                    let body = run::encode_letter(&letter);
                    let message = sanitise::message(&letter.error.message, LetterRow::MAX_MESSAGE);
                    LetterRow { task, action: letter.action, code, message, body }
                }));
            }
            (Event::AttemptStarted { token, .. }, _) => self.started.push(*token),
            (
                Event::TaskCancelled { .. }
                | Event::RollbackStarted { .. }
                | Event::RunEnded { .. },
                _,
            ) => self.calls_off = true,
            _ => {}
        }
    }
}

impl Draft {
    /// Whether one of the messages about a task or the run changes nothing. When other nodes write to
    /// the store too, the lane's state may be outdated. A message that changes nothing makes no commit,
    /// so no conflict would show that.
    pub(super) fn ignores_some(&self, batch: &Batch) -> bool {
        batch.messages.iter().enumerate().any(|(place, message)| {
            use Message::{Behind, Claimed, Command, Ended, Expired};
            let is_about = matches!(
                message,
                Claimed(..) | Expired { .. } | Ended { .. } | Command(..) | Behind
            );
            is_about && !self.changed.contains(&place)
        })
    }
}

/// What an attempt that ended says that it cost.
fn cost_of(message: &Message) -> Option<Input> {
    match message {
        Message::Ended { task, token, cost: Some(cost), .. } => {
            Some(Input::Cost { task: *task, token: *token, cost: *cost })
        }
        _ => None,
    }
}

/// What a message means to the run, and the token that must still be good when it lands. `denied`
/// are the attempts whose retries the retry budget denies.
fn reading(message: &Message, denied: &[Token], config: &Config) -> Option<(Input, Option<Fence>)> {
    Some(match message {
        Message::Claimed(claimed, _) => {
            let (task, attempt, token) = (claimed.task, claimed.attempt, claimed.token);
            let default_timeout = config.attempt_timeout;
            let input = Input::Claimed { task, attempt, token, default_timeout };
            (input, Some(Fence::Held { task, token }))
        }
        Message::Ended { task, token, outcome, .. } => {
            let (task, token, denied) = (*task, *token, denied.contains(token));
            let input = match outcome {
                // A success that the budget had a say in is one that broke what its step ensures.
                Ok(_) if denied => {
                    Input::Failed { task, token, failure: run::broken_ensures(), denied }
                }
                Ok(result) => Input::Succeeded { task, token, result: Arc::clone(result) },
                Err(failure) => Input::Failed { task, token, failure: failure.clone(), denied },
            };
            (input, Some(Fence::Held { task, token }))
        }
        Message::Expired { task, token, lapse, orphan } => {
            let (task, token, lapse, denied) = (*task, *token, *lapse, denied.contains(token));
            let fence =
                if *orphan { Fence::Held { task, token } } else { Fence::Lapsed { task, token } };
            let quarantine_after = config.quarantine_after;
            (Input::Expired { task, token, lapse, denied, quarantine_after }, Some(fence))
        }
        Message::Command(command, _) => {
            let input = match command {
                Command::Cancel(reason) => Input::Cancel { reason: reason.clone() },
                Command::Rollback(reason) => Input::Rollback { reason: reason.clone() },
                Command::Deactivate => Input::Deactivate,
                Command::Activate => Input::Activate,
                Command::Pause(reason) => Input::Pause { reason: reason.clone() },
                Command::Resume => Input::Resume,
                Command::Fail { step, item, reason } => {
                    Input::Fail { step: *step, item: *item, reason: reason.clone() }
                }
                Command::Release { step, item, reason } => {
                    Input::Release { step: *step, item: *item, reason: reason.clone() }
                }
            };
            (input, None)
        }
        Message::Recover(_) | Message::Retire | Message::Behind => return None,
    })
}

/// The run's phase as its head in the store says it.
pub(super) fn phase_of(state: &RunState) -> RunPhase {
    match state.phase() {
        Phase::Running if state.paused().is_some() => RunPhase::Paused,
        Phase::Running => RunPhase::Running,
        Phase::Deactivated => RunPhase::Deactivated,
        Phase::Ended(Outcome::Completed) => RunPhase::Completed,
        Phase::Ended(Outcome::Failed { .. }) => RunPhase::Failed,
        Phase::Ended(Outcome::Cancelled { .. }) => RunPhase::Cancelled,
    }
}
