use std::sync::Arc;

use super::World;
use super::lanes::{Command, Message};
use super::node::Node;
use crate::store::{RunHead, Store};

/// The runs looked at in one step of recovery.
const PAGE: usize = 256;

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
        let Some(last) = page.runs.last() else { return };
        after = Some(last.run);
        for head in page.runs.iter().filter(|h| h.phase.is_active() && h.archived.is_none()) {
            recover_run(&node, head).await;
        }
    }
}

async fn recover_run<W: World>(node: &Arc<Node<W>>, head: &RunHead) {
    if !head.active {
        let (reply, _) = tokio::sync::oneshot::channel();
        node.send(head.run, Message::Command(Command::Activate, reply)).await;
    }
    let (done, finished) = tokio::sync::oneshot::channel();
    node.send(head.run, Message::Recover(done)).await;
    // A lane that can't load its run drops the reply and has said why.
    let _ = finished.await;
}
