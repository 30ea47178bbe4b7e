use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::World;
use super::lanes::{Command, Message};
use super::node::Node;
use crate::run::{Lapse, Token};
use crate::store::{ClaimedTask, LeasedTask, RunHead, Store, StoreError};

/// The leases of one step of recovery.
const PAGE: usize = 256;
/// The runs that one request looks at: at about a microsecond each, others hardly wait for it.
const LOOKED_AT: usize = 20_000;
/// The most runs that recover at once.
const AT_ONCE: usize = 64;

/// Takes up what the process before this one has left. Runs that only wait are left where they are:
/// their rows say when a claim takes them.
pub(super) async fn recover<W: World>(node: Arc<Node<W>>) {
    if node.own_tokens.are_kept() {
        end_orphans(&node).await;
        node.own_tokens.forget();
    }
    recover_runs(&node).await;
}

/// Ends the leases whose holder is known to be dead: a process before this one, on a store that only
/// one process uses.
async fn end_orphans<W: World>(node: &Arc<Node<W>>) {
    let mut after = None;
    loop {
        let leases = ask(node, || node.store.leases(after, PAGE)).await;
        let Some(last) = leases.last() else { return };
        after = Some((last.run, last.task));
        for LeasedTask { run, task, token } in leases {
            if node.own_tokens.is_orphan(token) {
                let lapse = Lapse::Lease;
                node.send(run, Message::Expired { task, token, lapse, orphan: true }).await;
            }
        }
    }
}

/// Activates the runs that are missing from the active projection, and has the lane of each whose queue
/// rows are lost write them: an active run has tasks.
async fn recover_runs<W: World>(node: &Arc<Node<W>>) {
    let mut after = None;
    loop {
        let stranded = ask(node, || node.store.stranded(after, LOOKED_AT)).await;
        let mut begun = VecDeque::new();
        for head in &stranded.runs {
            if begun.len() >= AT_ONCE {
                finish(begun.pop_front()).await;
            }
            begun.push_back(recover_run(node, head).await);
        }
        for recovering in begun {
            finish(Some(recovering)).await;
        }
        after = stranded.next;
        if after.is_none() {
            return;
        }
    }
}

/// Asks until the store answers.
async fn ask<W: World, T, F>(node: &Node<W>, question: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut failures = 0;
    loop {
        match question().await {
            Ok(answer) => return answer,
            Err(error) => node.store_pause(failures, &error).await,
        }
        failures += 1;
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

/// The tokens that this process has claimed, for as long as it ends the leases of the process before
/// it: the owner of every other lease is dead.
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

    /// Whether leases may have owners that are known to be dead.
    fn are_kept(&self) -> bool {
        self.tokens().is_some()
    }

    pub(super) fn add(&self, claimed: &[ClaimedTask]) {
        if let Some(tokens) = &mut *self.tokens() {
            tokens.extend(claimed.iter().map(|task| task.token));
        }
    }

    /// Whether the holder of `token` is known to be dead.
    fn is_orphan(&self, token: Token) -> bool {
        self.tokens().as_ref().is_some_and(|own| !own.contains(&token))
    }

    /// From now on no holder is known to be dead.
    pub(super) fn forget(&self) {
        *self.tokens() = None;
    }
}
