//! Users that wait for a run's outcome or read its events, at one node after another.

use madsim::time::sleep;
use retrial::run::{RunId, Version};
use retrial::time::Nanos;
use tokio::sync::mpsc;

use super::order::{Listener, Order};
use super::users::Users;
use crate::clock::{true_now, until};
use crate::evidence::{Followed, Told};
use crate::scenario::{Follower, Place};
use crate::sync::lock;

/// How long a user waits before asking another node.
const PAUSE: Nanos = Nanos::from_millis(50);
/// After so many questions a user gives up: no node can read the run.
const IN_VAIN: u32 = 400;

impl Users {
    /// Follows a run, once it is there, until there is nothing more to be told.
    pub(super) async fn follow(&self, follower: Follower) {
        until(follower.at).await;
        let Some(run) = self.acknowledged(follower.submission).await else { return };
        let mut from = follower.from.map(Version);
        for asked in 0..IN_VAIN {
            let node = (follower.node + asked) % self.nodes();
            if self.follow_at(node, run, &mut from, follower.rest).await {
                return;
            }
            sleep(PAUSE.into()).await;
        }
    }

    /// The run of a submission, if it is not refused.
    async fn acknowledged(&self, submission: usize) -> Option<RunId> {
        let asked = self.id_of(submission);
        loop {
            let (mut run, mut refused) = (None, true);
            self.with_run(asked, |found| {
                (run, refused) = (found.answer, found.refused.is_some());
            });
            if run.is_some() || refused {
                return run;
            }
            sleep(PAUSE.into()).await;
        }
    }

    /// Asks one node, and hears what it says. Whether nothing can follow.
    async fn follow_at(
        &self,
        node: u32,
        run: RunId,
        from: &mut Option<Version>,
        rest: Nanos,
    ) -> bool {
        let (tell, mut hear) = mpsc::channel(1);
        if !self.send(node, Order::Follow(run, *from, Listener(tell))) {
            return false;
        }
        let node = Place::Node(node).node();
        self.note(&format!("run {run} is followed at {node} from {from:?}"));
        let asked = true_now();
        let place = {
            let mut all = lock(&self.interventions);
            let followed = Followed { run, node, asked, from: *from, rest, told: Vec::new() };
            all.followed.push(followed);
            all.followed.len() - 1
        };
        while let Some(told) = hear.recv().await {
            match &told {
                Told::Event(number, _) => *from = Some(number.after(1)),
                Told::Compacted(_, to) => *from = Some(*to),
                // A node that shuts down refuses; or the run is damaged, which no node changes.
                Told::Outcome(_) | Told::Over | Told::Refused(_) => {}
            }
            let last = matches!(told, Told::Outcome(_) | Told::Over);
            if let Some(followed) = lock(&self.interventions).followed.get_mut(place) {
                followed.told.push((true_now(), told));
            }
            if last {
                self.note(&format!("nothing more is told of run {run}"));
                return true;
            }
            sleep(rest.into()).await;
        }
        false
    }
}
