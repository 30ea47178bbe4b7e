//! The planned faults of a node.

use std::future::Future;
use std::sync::{Arc, Weak};

use retrial::time::{Mono, Nanos};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::{Inner, SimNode};
use crate::clock::true_now;
use crate::disk::CrashOutcome;
use crate::fault::FaultKind;
use crate::net::Window;
use crate::sync::lock;

/// How long a slow node runs between two pauses.
const RUNS: Nanos = Nanos::from_millis(20);

/// When a crash happens. Numbers count from 0, over all the node's lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashAt {
    /// At this true time, or at once when it has passed.
    Time(Mono),
    /// Just before this poll of the node.
    Poll(u64),
    /// In the middle of this call of the node's disk.
    DiskOp(u64),
}

/// A crash as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crash {
    /// When.
    pub at: CrashAt,
    /// Which unsynced writes survive.
    pub outcome: CrashOutcome,
    /// How long the node stays down.
    pub down: Nanos,
}

/// A pause as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// The true time at which the node pauses.
    pub at: Mono,
    /// For how long.
    pub lasts: Nanos,
}

impl SimNode {
    /// Plans a crash. One that is due while the node is down, or after it healed, does not happen.
    pub fn plan_crash(&self, crash: Crash) {
        let (dead, died) = oneshot::channel();
        let node = Arc::downgrade(&self.0);
        let die = move || {
            let may = |node: &Arc<Inner>| !lock(&node.state).healed;
            if node.upgrade().filter(may).is_some_and(|node| node.die(crash.outcome)) {
                // The receiver is gone once the world has ended.
                let _ = dead.send(());
            }
        };
        match crash.at {
            CrashAt::Poll(poll) => self.0.poll_counter.at_poll(poll, die),
            CrashAt::DiskOp(op) => {
                if let Some(disk) = &self.0.disk {
                    disk.at_op(op, die);
                }
            }
            CrashAt::Time(at) => supervise(async move {
                until(at).await;
                die();
            }),
        }
        let node = Arc::downgrade(&self.0);
        supervise(async move {
            if let (Ok(()), Some(node)) = (died.await, Weak::upgrade(&node)) {
                Self(node).clean_up_and_restart(crash.down).await;
            }
        });
    }

    /// Plans a crash just before the node's poll number `poll`, from 0 and over all its
    /// incarnations.
    pub fn crash_at_poll(&self, poll: u64, outcome: CrashOutcome, down: Nanos) {
        self.plan_crash(Crash { at: CrashAt::Poll(poll), outcome, down });
    }

    /// Plans a pause.
    pub fn plan_pause(&self, pause: Pause) {
        let node = self.clone();
        supervise(async move {
            until(pause.at).await;
            if lock(&node.0.state).healed {
                return;
            }
            node.pause();
            until(pause.at.after(pause.lasts)).await;
            node.resume();
        });
    }

    /// Plans that the node is slow for a while: it pauses for `stands`, runs for a short time, and
    /// pauses again.
    pub fn plan_slowness(&self, window: Window, stands: Nanos) {
        let node = self.clone();
        supervise(async move {
            until(window.from).await;
            while window.holds(true_now()) && !lock(&node.0.state).healed {
                if node.incarnation().is_over() {
                    return;
                }
                node.0.fault(FaultKind::SlowNode, "stands still");
                node.freeze();
                madsim::time::sleep(stands.into()).await;
                node.resume();
                madsim::time::sleep(RUNS.into()).await;
            }
        });
    }
}

/// Runs `future` in the world outside every node.
fn supervise(future: impl Future<Output = ()> + Send + 'static) {
    drop(madsim::task::spawn(future));
}

async fn until(at: Mono) {
    madsim::time::sleep(at.since(true_now()).into()).await;
}
