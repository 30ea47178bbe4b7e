//! What one commit takes in.

use tokio::sync::mpsc;

use crate::engine::alerts::Expected;
use crate::engine::lanes::{Command, Message};
use crate::run::{Input, Token};
use crate::store::Raised;

/// The most messages in one commit.
const MOST: usize = 256;

/// The messages that one commit takes in, and what the store has answered to drafts of it.
///
/// A message leaves its batch when it lands, or when the store refuses it: then it is dropped, and
/// with it the slot or the reply that it holds.
#[derive(Default)]
pub(in crate::engine) struct Batch {
    /// In the order of arrival.
    pub(in crate::engine) messages: Vec<Message>,
    /// The holds of circuit breakers in place of the claims that they refuse.
    pub(in crate::engine) holds: Vec<Input>,
    /// The attempts whose retries the retry budget denies.
    pub(in crate::engine) denied: Vec<Token>,
    /// The alerts that the store raises for the last draft.
    pub(in crate::engine) raised: Vec<Raised>,
    /// The lanes of runs that the commit may add.
    pub(in crate::engine) expected: Expected,
}

impl Batch {
    /// Waits for a message and takes along what else has arrived. `None` when no sender is left.
    pub(super) async fn receive(inbox: &mut mpsc::Receiver<Box<Message>>) -> Option<Self> {
        let mut messages = vec![*inbox.recv().await?];
        while messages.len() < MOST && !messages.last().is_some_and(activates) {
            let Ok(next) = inbox.try_recv() else { break };
            messages.push(*next);
        }
        Some(Self { messages, ..Self::default() })
    }

    /// Whether the lane is asked to end, and to do nothing else.
    pub(super) fn only_retires(&self) -> bool {
        self.messages.iter().all(|message| matches!(message, Message::Retire))
    }

    /// Whether recovery asks for the run's queue rows to be checked.
    pub(super) fn recovers(&self) -> bool {
        self.messages.iter().any(|message| matches!(message, Message::Recover(_)))
    }
}

/// An activation is the last message of its batch. The store takes a run out of the archive when a
/// commit leaves it active; if the same commit also ended the run, it would stay archived.
fn activates(message: &Message) -> bool {
    matches!(message, Message::Command(Command::Activate, _))
}
