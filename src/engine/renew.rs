use std::sync::Arc;

use super::World;
use super::node::Node;
use crate::store::{Holding, Store};
use crate::time::Nanos;

/// Extends the leases of the attempts in progress, at a third of a lease. An attempt whose lease is
/// lost is called off: its outcome would be refused (spec decision 16).
pub(super) async fn renew<W: World>(node: Arc<Node<W>>) {
    let pause = Nanos::new(node.config.lease.get() / 3).max(Nanos::from_millis(1));
    loop {
        node.sleep(pause).await;
        let held: Vec<Holding> = holdings(&node);
        if held.is_empty() {
            continue;
        }
        match node.store.renew(held.clone()).await {
            Ok(renewed) => {
                node.clock.hear(renewed.at, &node.runtime);
                for holding in renewed.lost(&held) {
                    node.call_off(holding.run, holding.task, holding.token);
                }
            }
            // The next round comes before the lease ends; a commit's fence is what decides.
            Err(error) => tracing::warn!(%error, "leases could not be renewed"),
        }
    }
}

fn holdings<W: World>(node: &Node<W>) -> Vec<Holding> {
    let lasts = node.config.lease;
    let held = node.held();
    held.iter()
        .map(|((run, task), h)| Holding { run: *run, task: *task, token: h.token, lasts })
        .collect()
}
