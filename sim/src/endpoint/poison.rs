//! Requests that end the process that makes them.

use retrial::time::Nanos;

use super::serve::Endpoint;
use crate::node::SimNode;

/// How long a process that a poison has ended stays down.
const DOWN: Nanos = Nanos::from_millis(200);

impl Endpoint {
    /// The nodes that send requests, so that a poison can end them. The endpoint's own node holds it,
    /// and must not be among them: both would stay for ever.
    pub(crate) fn asked_by(&self, nodes: &[SimNode]) {
        let _ = self.0.nodes.set(nodes.to_vec());
    }

    /// Ends the process of the node that asks.
    pub(super) async fn poison(&self, node: &str) {
        let found = self.0.nodes.get().into_iter().flatten().find(|n| n.name() == node);
        if let Some(node) = found {
            node.end_by_poison(DOWN).await;
        }
    }
}
