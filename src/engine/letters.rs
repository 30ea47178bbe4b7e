//! Reading, redriving and discarding dead letters.

use std::sync::Arc;

use super::{CommandError, Engine, Handle, Submission, SubmitError, World};
use crate::failure::{Failure, sanitise};
use crate::run::{self, Letter, LetterId};
use crate::store::{AskLetters, Discarded, LetterHead, Letters, Store, StoreError, StoredLetter};

/// A dead letter with its payload, which is not masked.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// The fields that lists show.
    pub head: LetterHead,
    /// The failures and the payload.
    pub letter: Letter,
}

impl<W: World> Engine<W> {
    /// A page of dead letters, by id.
    ///
    /// # Errors
    /// When the store is damaged.
    pub async fn letters(&self, ask: AskLetters) -> Result<Letters, CommandError> {
        let node = self.node();
        Ok(node.until_answered(|| node.store.letters(ask.clone())).await?)
    }

    /// One dead letter.
    ///
    /// # Errors
    /// When there is no such letter or it is damaged.
    pub async fn letter(&self, id: LetterId) -> Result<DeadLetter, CommandError> {
        let node = self.node();
        let stored = node.until_answered(|| node.store.letter(id)).await?;
        read(stored.ok_or(CommandError::UnknownLetter(id))?)
    }

    /// Redrives a dead letter, once: submits a new run of that step alone, with its action, its pinned
    /// policy and the stored arguments. One transaction adds the run and marks the letter. If the new
    /// task fails for good too, it leaves a letter that names this one.
    ///
    /// # Errors
    /// [`SubmitError::AlreadyRedriven`] names the first run, also after a crash of the caller or a lost
    /// answer.
    pub async fn redrive(&self, id: LetterId) -> Result<Handle<W>, SubmitError> {
        let asked = |error: CommandError| match error {
            CommandError::UnknownLetter(id) => SubmitError::UnknownLetter(id),
            CommandError::Closing => SubmitError::Closing,
            other => SubmitError::Broken(StoreError::Broken(other.to_string())),
        };
        let DeadLetter { letter, .. } = self.letter(id).await.map_err(asked)?;
        let state = self.state(id.run).await.map_err(asked)?;
        let redriven = letter.redrive(state.workflow(), id.task);
        let (workflow, input) =
            redriven.map_err(|why| SubmitError::NotRedrivable { letter: id, why })?;
        let submission = Submission::new(Arc::new(workflow)).with_input(input);
        self.submit(Submission { redrives: Some(id), ..submission }).await
    }

    /// Discards a dead letter: its task can't be redriven any more. Repeating it does nothing.
    ///
    /// # Errors
    /// When there is no such letter or it was redriven.
    pub async fn discard(&self, id: LetterId, reason: &str) -> Result<(), CommandError> {
        let node = self.node();
        let reason = sanitise::message(reason, Failure::MAX_MESSAGE);
        let discarded = node.until_answered(|| node.store.discard(id, reason.clone())).await?;
        match discarded {
            Discarded::Done => Ok(()),
            Discarded::Redriven { run } => Err(CommandError::AlreadyRedriven { letter: id, run }),
            Discarded::Unknown => Err(CommandError::UnknownLetter(id)),
        }
    }
}

fn read(stored: StoredLetter) -> Result<DeadLetter, CommandError> {
    let StoredLetter { head, body } = stored;
    let damaged = |error| CommandError::Broken(format!("letter {}: {error}", head.id));
    let letter = run::decode_letter(&body).map_err(damaged)?;
    Ok(DeadLetter { head, letter })
}
