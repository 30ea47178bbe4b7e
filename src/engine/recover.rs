use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::World;
use super::lanes::{Command, Message};
use super::node::Node;
use crate::run::Token;
use crate::store::{ClaimedTask, RunHead, Store};

/// The runs looked at in one step of recovery.
const PAGE: usize = 256;
/// The most runs that recover at once.
const AT_ONCE: usize = 64;

/// Reads the stored run heads page by page and skips ended, deactivated and archived runs. Activates
/// the runs that are missing from the active projection, and has each lane compare its state with its
/// queue rows.
pub(super) async fn recover<W: World>(node: Arc<Node<W>>) {
    let mut after = None;
    let mut failures = 0;
    loop {
        let page = match node.store.heads(after, PAGE).await {
            Ok(page) => page,
            Err(error) => {
                node.store_pause(failures, &error).await;
                failures += 1;
                continue;
            }
        };
        failures = 0;
        let Some(last) = page.runs.last() else { return node.own_tokens.forget() };
        after = Some(last.run);
        let mut begun = VecDeque::new();
        for head in page.runs.iter().filter(|h| h.phase.is_active() && h.archived.is_none()) {
            if begun.len() >= AT_ONCE {
                finish(begun.pop_front()).await;
            }
            begun.push_back(recover_run(&node, head).await);
        }
        for recovering in begun {
            finish(Some(recovering)).await;
        }
    }
}

async fn recover_run<W: World>(node: &Arc<Node<W>>, head: &RunHead) -> oneshot::Receiver<()> {
    if !head.active {
        let (reply, _) = oneshot::channel();
        node.send(head.run, Message::Command(Command::Activate, reply)).await;
    }
    let (done, finished) = oneshot::channel();
    node.send(head.run, Message::Recover(done)).await;
    finished
}

async fn finish(recovering: Option<oneshot::Receiver<()>>) {
    if let Some(finished) = recovering {
        // A lane that can't load its run drops the reply and has said why.
        let _ = finished.await;
    }
}

/// The tokens that this process has claimed, for as long as it recovers the runs of the process
/// before it: the owner of every other lease is dead.
#[derive(Debug)]
pub(super) struct OwnTokens(Mutex<Option<BTreeSet<Token>>>);

impl OwnTokens {
    /// Remembers nothing where leases may have owners elsewhere.
    pub(super) fn new(sole_owner: bool) -> Self {
        Self(Mutex::new(sole_owner.then(BTreeSet::new)))
    }

    fn tokens(&self) -> MutexGuard<'_, Option<BTreeSet<Token>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, claimed: &[ClaimedTask]) {
        if let Some(tokens) = &mut *self.tokens() {
            tokens.extend(claimed.iter().map(|task| task.token));
        }
    }

    /// Whether the holder of `token` is known to be dead.
    pub(super) fn is_orphan(&self, token: Token) -> bool {
        self.tokens().as_ref().is_some_and(|own| !own.contains(&token))
    }

    /// From now on no holder is known to be dead.
    pub(super) fn forget(&self) {
        *self.tokens() = None;
    }
}
