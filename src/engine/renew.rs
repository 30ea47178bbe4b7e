use std::sync::Arc;

use super::World;
use super::held::{Beating, Held};
use super::node::Node;
use crate::run::{RunId, TaskId, Token};
use crate::runtime::Runtime;
use crate::store::{Heartbeat, Holding, Renewed, Store};
use crate::time::{Mono, Nanos};

/// Extends the leases of the attempts in progress and of those whose outcome waits for its commit, at
/// a third of a lease, and brings heartbeats to the store, at a third of their limit. An attempt whose
/// lease is lost is called off: its outcome would be refused.
pub(super) async fn renew<W: World>(node: Arc<Node<W>>) {
    let mut last = node.runtime.now();
    loop {
        next_round(&node, last).await;
        last = node.runtime.now();
        let held: Vec<Holding> = holdings(&node);
        if held.is_empty() {
            continue;
        }
        match node.store.renew(held.clone()).await {
            Ok(renewed) => accept(&node, last, &held, &renewed),
            // The next round comes before the lease ends; a commit's fence is what decides.
            Err(error) => tracing::warn!(%error, "leases could not be renewed"),
        }
    }
}

/// Waits until leases are to be renewed again, sooner where an attempt has begun that must give
/// heartbeats often. However often those are, a lease sees at most thirty rounds.
async fn next_round<W: World>(node: &Node<W>, last: Mono) {
    loop {
        let most = node.config.round();
        let least = Nanos::new(node.config.lease.get() / 30).max(Nanos::from_millis(1));
        let beating = |limit: Nanos| Nanos::new(limit.get() / 3).max(least);
        let limits: Vec<Nanos> =
            node.held().values().filter_map(|h| Some(h.beating.as_ref()?.limit)).collect();
        let pause = limits.into_iter().map(beating).fold(most, Nanos::min);
        tokio::select! {
            biased;
            () = node.renewals.notified() => {}
            () = node.runtime.sleep_until(last.after(pause)) => return,
        }
    }
}

fn holdings<W: World>(node: &Node<W>) -> Vec<Holding> {
    let lasts = node.config.lease;
    let held = node.held();
    let holding = |((run, task), h): (&(_, _), &Held)| {
        let heartbeat = heartbeat(node, h);
        Holding { run: *run, task: *task, token: h.token, lasts, heartbeat }
    };
    held.iter().map(holding).collect()
}

/// What the store has to know of the attempt's heartbeats: nothing, where it need give none and has
/// given no progress of late. One that has ended gives no more, and need not.
fn heartbeat<W: World>(node: &Node<W>, held: &Held) -> Option<Heartbeat> {
    let progress = held.reports.progress().filter(|p| p.number > held.kept);
    let left = |b: &Beating| b.last.after(b.limit).since(node.runtime.now());
    let within = held.beating.as_ref().map(|b| match held.ended {
        true => node.config.lease,
        false => node.config.patience(left(b)),
    });
    if within.is_none() && progress.is_none() {
        return None;
    }
    Some(Heartbeat { within: within.unwrap_or(node.config.lease), progress })
}

fn accept<W: World>(node: &Node<W>, asked: Mono, held: &[Holding], renewed: &Renewed) {
    node.clock.hear(renewed.at, asked, &node.runtime);
    for holding in renewed.lost(held) {
        node.call_off(holding.run, holding.task, holding.token);
    }
    for Holding { run, task, token, heartbeat, .. } in held {
        if let Some(progress) = heartbeat.as_ref().and_then(|h| h.progress.as_ref()) {
            node.note_kept(*run, *task, *token, progress.number);
        }
    }
}

impl<W: World> Node<W> {
    /// The store has this progress of an attempt on this node, or the attempt is lost.
    fn note_kept(&self, run: RunId, task: TaskId, token: Token, number: u64) {
        self.with_held(run, task, token, |held| held.kept = held.kept.max(number));
    }
}
