//! A node that renews what it holds is not noticed, whatever keeps it from doing so; one that forgets
//! a lease is, one that gives up a claim that had no answer, and one that leaves what it has reserved.

use std::time::Duration;

use madsim::time::sleep;
use retrial::run::{TaskId, Version};
use retrial::store::{ClaimedTask, CommitId, Renewal, Renewed, RunPhase};
use retrial::workflow::{Able, Need, StepIx, Via};

use super::*;
use crate::evidence::Slip;

const TASK: TaskId = TaskId { step: StepIx(0), item: 0 };
const LEASE: Nanos = Nanos::from_secs(30);

/// Everything that it is asked lands, at once. Renewals take this long, and claims first end like
/// these, the last one first. The next claim gets these tasks.
struct Yes(Duration, Mutex<Vec<StoreError>>, Mutex<Vec<ClaimedTask>>);

impl Store for Yes {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let at = Timestamp::from_nanos(true_now().as_nanos());
        Ok(match request {
            Request::Renew(held) => {
                sleep(self.0).await;
                Answer::Renew(Renewed { at, answers: vec![Renewal::Held; held.len()] })
            }
            Request::Claim(_) => match lock(&self.1).pop() {
                Some(error) => return Err(error),
                None => Answer::Claim(Claimed {
                    at,
                    tasks: std::mem::take(&mut lock(&self.2)),
                    next_due: None,
                    unable: Vec::new(),
                }),
            },
            _ => Answer::Commit(Committed::Applied { version: Version::START, at }),
        })
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

struct Node {
    watch: NodeWatch<Yes>,
    seen: Seen,
}

fn run(n: u64) -> RunId {
    RunId::from_random(n, n)
}

fn token(n: u64) -> Token {
    Token::from_random(n, n)
}

impl Node {
    fn new(renewals_take: u64) -> Self {
        let (seen, of) = (Seen::default(), Incarnation::new("node", 0));
        let store = Yes(Duration::from_secs(renewals_take), Mutex::default(), Mutex::default());
        Self { watch: NodeWatch::new(store, seen.clone(), of), seen }
    }

    async fn commit(&self, n: u64, fences: Vec<Fence>, queue: Vec<QueueChange>) {
        let commit = Commit {
            id: CommitId { writer: 1, counter: n },
            run: run(n),
            expect: Version::START,
            fences,
            events: Vec::new(),
            queue,
            results: Vec::new(),
            letters: Vec::new(),
            phase: RunPhase::Running,
            snapshot: None,
            guards: Vec::new(),
            raised: Vec::new(),
            creates: Vec::new(),
        };
        self.watch.ask(Request::Commit(commit)).await.unwrap();
    }

    async fn starts(&self, n: u64) {
        let lease = QueueChange::Lease {
            task: TASK,
            attempt: 1,
            token: token(n),
            lasts: LEASE,
            timeout: None,
            heartbeat: None,
        };
        self.commit(n, Vec::new(), vec![lease]).await;
    }

    /// Claims a task of each of these runs.
    async fn claims(&self, counter: u64, runs: &[u64]) {
        let task = |n: &u64| ClaimedTask {
            run: run(*n),
            task: TASK,
            attempt: 1,
            need: Need { action: "a".into(), via: Via::Http },
            token: token(*n),
            progress: None,
        };
        *lock(&self.watch.store.2) = runs.iter().map(task).collect();
        let claim = Claim {
            id: ClaimId { writer: 1, counter },
            limit: 1,
            lasts: LEASE,
            chance: 0,
            able: Arc::new(Able::Anything),
            full: [].into(),
        };
        let _ = self.watch.ask(Request::Claim(claim)).await;
    }

    async fn renews(&self, runs: &[u64]) {
        let holding = |n: &u64| {
            let (run, token) = (run(*n), token(*n));
            Holding { run, task: TASK, token, lasts: LEASE, heartbeat: None }
        };
        self.watch.ask(Request::Renew(runs.iter().map(holding).collect())).await.unwrap();
    }

    /// Stores the outcome; how many leases were left out.
    async fn ends(&self, n: u64) -> usize {
        self.commit(n, vec![Fence::Held { task: TASK, token: token(n) }], Vec::new()).await;
        let said = self.seen.leases();
        assert!(said.compared > 0);
        said.contradictions.iter().filter(|found| found.slip == Slip::NotRenewed).count()
    }
}

/// Claims by these numbers, of which the first end like these, and one is answered at last. Whether the
/// node gave one up.
fn gives_up(ends: &[StoreError], numbers: &[u64]) -> bool {
    let mut given_up = false;
    in_a_world(0, async |node| {
        *lock(&node.watch.store.1) = ends.iter().rev().cloned().collect();
        for counter in numbers {
            node.claims(*counter, &[]).await;
        }
        let said = node.seen.leases();
        assert!(said.compared > 0);
        given_up = said.contradictions.iter().any(|found| found.slip == Slip::ClaimGivenUp);
    });
    given_up
}

#[test]
fn a_claim_that_may_have_been_carried_out_is_asked_for_until_it_is_answered() {
    let unknown = || StoreError::Unknown(String::new());
    let not_done = || StoreError::NotDone(String::new());
    assert!(!gives_up(&[], &[1, 2]));
    assert!(!gives_up(&[unknown(), not_done()], &[1, 1, 1, 2]));
    assert!(!gives_up(&[not_done()], &[1, 2]));
    assert!(gives_up(&[unknown()], &[1, 2]));
    assert!(gives_up(&[unknown(), not_done()], &[1, 1, 2]));
}

/// How many reservations of the second run's task, claimed at first, are known to be in vain once a
/// claim is made after `test`.
fn in_vain(test: impl AsyncFnOnce(&Node)) -> usize {
    let mut found = 0;
    in_a_world(0, async |node| {
        node.claims(1, &[2]).await;
        test(&node).await;
        node.claims(2, &[]).await;
        let said = node.seen.leases();
        assert!(said.in_vain.iter().all(|reservation| reservation.run == run(2)));
        found = said.in_vain.len();
    });
    found
}

#[test]
fn a_reservation_that_no_commit_speaks_of_is_in_vain() {
    assert_eq!(in_vain(async |_| secs(31).await), 1);
    assert_eq!(in_vain(async |_| secs(29).await), 0, "it is not over");
    let used = async |node: &Node| {
        node.starts(2).await;
        secs(31).await;
    };
    assert_eq!(in_vain(used), 0);
    let stood_still = async |node: &Node| {
        node.watch.incarnation.halt();
        secs(31).await;
    };
    assert_eq!(in_vain(stood_still), 0);
}

async fn secs(n: u64) {
    sleep(Duration::from_secs(n)).await;
}

/// A node on a store whose renewals take so many seconds begins an attempt of the first run.
fn in_a_world(renewals_take: u64, test: impl AsyncFnOnce(Node)) {
    madsim::runtime::Runtime::new().block_on(async {
        let node = Node::new(renewals_take);
        node.starts(1).await;
        test(node).await;
    });
}

#[test]
fn a_lease_that_is_renewed_each_third_is_not_left_out() {
    in_a_world(0, async |node| {
        for _ in 0..5 {
            secs(10).await;
            node.renews(&[1]).await;
        }
        secs(19).await;
        assert_eq!(node.ends(1).await, 0);
    });
}

#[test]
fn a_lease_that_renewals_forget_is_left_out() {
    in_a_world(0, async |node| {
        node.starts(2).await;
        for _ in 0..3 {
            secs(10).await;
            node.renews(&[2]).await;
        }
        assert_eq!(node.ends(2).await, 0);
        assert_eq!(node.ends(1).await, 1);
    });
}

#[test]
fn a_lease_that_was_left_out_for_a_while_is_noticed() {
    in_a_world(0, async |node| {
        secs(21).await;
        node.renews(&[1]).await;
        assert_eq!(node.ends(1).await, 1);
    });
}

#[test]
fn a_node_that_stood_still_could_not_renew() {
    in_a_world(0, async |node| {
        node.watch.incarnation.halt();
        secs(25).await;
        node.watch.incarnation.halt();
        node.renews(&[1]).await;
        assert_eq!(node.ends(1).await, 0);
    });
}

#[test]
fn while_a_renewal_waits_for_its_answer_no_other_is_due() {
    in_a_world(25, async |node| {
        secs(10).await;
        node.renews(&[1]).await;
        secs(19).await;
        assert_eq!(node.ends(1).await, 0);
        // It takes off what it waited for, and no more.
        node.starts(2).await;
        node.renews(&[]).await;
        secs(21).await;
        assert_eq!(node.ends(2).await, 1);
    });
}
