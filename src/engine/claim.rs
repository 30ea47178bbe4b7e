use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::World;
use super::lanes::Message;
use super::node::Node;
use super::places::Offer;
use crate::runtime::Runtime;
use crate::store::{Claim, ClaimId, Claimed, Store};
use crate::time::{Nanos, Timestamp};
use crate::workflow::Need;

/// The most tasks asked for at once.
const BATCH: usize = 256;
/// The longest that a node which has more to do than places waits for more of them to be free.
const GATHER: Nanos = Nanos::from_millis(10);

/// Reserves due tasks while there are free places, and hands them to their lanes.
pub(super) async fn claim<W: World>(node: Arc<Node<W>>) {
    let mut unable = Unable::default();
    // Work may have been due for long.
    node.alarm.ring();
    loop {
        let latest = node.runtime.now().after(node.config.poll);
        tokio::select! {
            biased;
            () = node.alarm.wait(&node.runtime, latest) => {}
            () = node.store.news() => {}
            () = node.places.freed() => {}
        }
        while !node.is_closing() {
            let Some(took) = claim_once(&node, &mut unable).await else { break };
            // Where a claim takes long, the next one is worth a wait as long: it asks for more.
            tokio::select! {
                biased;
                () = node.places.many_free() => {}
                () = node.sleep(took.min(GATHER)) => {}
            }
        }
        if node.is_closing() {
            return;
        }
    }
}

/// The needs that this node can't serve and has logged.
#[derive(Debug, Default)]
struct Unable(BTreeSet<Need>);

impl Unable {
    /// Says once of each action that waits for longer than a lease that it is not to be had here:
    /// a node that has it would have come by then.
    fn notice(&mut self, claimed: &Claimed, lease: Nanos) {
        let waits = |(_, since): &&(Need, Timestamp)| claimed.at.since(*since) > lease;
        let long: BTreeSet<Need> =
            claimed.unable.iter().filter(waits).map(|(need, _)| need.clone()).collect();
        for need in long.difference(&self.0) {
            tracing::warn!("tasks wait for {need}, which is not registered on this node");
        }
        self.0 = long;
    }
}

/// One claim. Where there may be more to claim at once, how long the store took.
async fn claim_once<W: World>(node: &Arc<Node<W>>, unable: &mut Unable) -> Option<Nanos> {
    let Offer { places, full } = node.places.offer(BATCH).await?;
    // Who shuts the node down waits for the places that are taken by then: either it sees these, or
    // this sees it.
    fence(Ordering::SeqCst);
    if node.is_closing() {
        return None;
    }
    let wanted = places.len();
    let begun = node.runtime.now();
    let claimed = ask(node, wanted, full).await;
    let took = node.runtime.now().since(begun);
    unable.notice(&claimed, node.config.lease);
    let more = claimed.tasks.len() >= wanted;
    node.own_tokens.add(&claimed.tasks);
    for (task, place) in claimed.tasks.into_iter().zip(places) {
        let place = node.places.take(place, Arc::clone(&task.need.action));
        node.send(task.run, Message::Claimed(task, place)).await;
    }
    if let Some(next) = claimed.next_due {
        node.alarm.set(node.runtime.now().after(next.since(claimed.at)));
    }
    more.then_some(took)
}

/// Claims with the same id until the store answers, so that a lost answer reserves nothing twice.
async fn ask<W: World>(node: &Node<W>, limit: usize, full: BTreeSet<Arc<str>>) -> Claimed {
    let id = node.next_id();
    let claim = Claim {
        id: ClaimId { writer: id.writer, counter: id.counter },
        limit,
        lasts: node.config.lease,
        chance: node.runtime.random(),
        able: Arc::clone(&node.able),
        full,
    };
    let (asked, mut failures) = (node.runtime.now(), 0);
    loop {
        match node.store.claim(claim.clone()).await {
            Ok(claimed) => {
                node.clock.hear(claimed.at, asked, &node.runtime);
                return claimed;
            }
            Err(error) => node.store_pause(failures, &error).await,
        }
        failures += 1;
    }
}
