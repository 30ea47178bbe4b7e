//! What people do to dead letters (C18).

use std::sync::Arc;

use super::{CommandError, Engine, Handle, Submission, SubmitError, World};
use crate::failure::{Failure, sanitise};
use crate::run::{self, Letter, LetterId};
use crate::store::{AskLetters, Discarded, LetterHead, Letters, Store, StoreError, StoredLetter};

/// A dead letter whole. Its payload is unmasked (spec decision 20).
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// What lists show of it.
    pub head: LetterHead,
    /// The rest.
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
    /// When there is none of that name or it is damaged.
    pub async fn letter(&self, id: LetterId) -> Result<DeadLetter, CommandError> {
        let node = self.node();
        let stored = node.until_answered(|| node.store.letter(id)).await?;
        read(stored.ok_or(CommandError::UnknownLetter(id))?)
    }

    /// Tries a dead letter's task again, once: a new run of that step alone, with its action, its
    /// pinned policy and its arguments as they were kept. The run and the mark on the letter are
    /// one transaction; where the new task fails for good too, it leaves a letter that names this
    /// one.
    ///
    /// # Errors
    /// [`SubmitError::AlreadyRedriven`] names the run that was first, also where the caller crashed
    /// or an answer was lost in between.
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

    /// Puts a dead letter aside: nobody will try its task again. Doing so twice is doing it once.
    ///
    /// # Errors
    /// When there is none of that name or it was redriven.
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
