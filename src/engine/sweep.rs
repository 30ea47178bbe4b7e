use std::collections::BTreeSet;
use std::sync::Arc;

use super::World;
use super::lanes::Message;
use super::node::Node;
use crate::runtime::Runtime;
use crate::store::Store;
use crate::time::Nanos;

/// The most expired leases looked at in one pass that the pass before did not find.
const BATCH: usize = 256;

/// Finds expired leases, whoever held them, and sends them to their runs' lanes. Also ends idle lanes.
pub(super) async fn sweep<W: World>(node: Arc<Node<W>>) {
    let most = Nanos::new(node.config.lease.get() / 3).max(Nanos::from_millis(1));
    let mut failures = 0;
    let (mut last, mut left) = (BTreeSet::new(), 0);
    loop {
        // What the last pass found as well comes on top: the leases of runs that can't be loaded
        // stay where they are, and must not hide the others.
        let asked = node.runtime.now();
        let pause = match node.store.expired(BATCH.saturating_add(left)).await {
            Ok(expired) => {
                failures = 0;
                node.clock.hear(expired.at, asked, &node.runtime);
                let found: BTreeSet<_> =
                    expired.tasks.iter().map(|t| (t.run, t.task, t.token)).collect();
                left = found.intersection(&last).count();
                last = found;
                let next = expired.next.map_or(most, |next| next.since(expired.at));
                for found in expired.tasks {
                    let (task, token, lapse) = (found.task, found.token, found.lapse);
                    let message = Message::Expired { task, token, lapse, orphan: false };
                    node.send(found.run, message).await;
                }
                next.clamp(Nanos::from_millis(1), most)
            }
            Err(error) => {
                node.store_pause(failures, &error).await;
                failures += 1;
                continue;
            }
        };
        let before = node.runtime.now().as_nanos().saturating_sub(node.config.lane_idle.get());
        for run in node.lanes.idle(crate::time::Mono::from_nanos(before)) {
            node.hint(run, Message::Retire);
        }
        node.sleep(pause).await;
    }
}
