//! A node that renews what it holds is not noticed, whatever keeps it from doing so; one that forgets
//! a lease is, and one that gives up a claim that had no answer.

use std::time::Duration;

use madsim::time::sleep;
use retrial::run::{TaskId, Version};
use retrial::store::{Claimed, CommitId, Renewal, Renewed, RunPhase};
use retrial::workflow::{Able, StepIx};

use super::*;
use crate::evidence::Slip;

const TASK: TaskId = TaskId { step: StepIx(0), item: 0 };
const LEASE: Nanos = Nanos::from_secs(30);

/// Everything that it is asked lands, at once. Renewals take this long, and claims first end like
/// these, the last one first.
struct Yes(Duration, Mutex<Vec<StoreError>>);

impl Store for Yes {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let at = Timestamp::default();
        Ok(match request {
            Request::Renew(held) => {
                sleep(self.0).await;
                Answer::Renew(Renewed { at, answers: vec![Renewal::Held; held.len()] })
            }
            Request::Claim(_) => match lock(&self.1).pop() {
                Some(error) => return Err(error),
                None => Answer::Claim(Claimed {
                    at,
                    tasks: Vec::new(),
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
        let store = Yes(Duration::from_secs(renewals_take), Mutex::default());
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
            let claim = Claim {
                id: ClaimId { writer: 1, counter: *counter },
                limit: 1,
                lasts: LEASE,
                chance: 0,
                able: Arc::new(Able::Anything),
                full: [].into(),
            };
            let _ = node.watch.ask(Request::Claim(claim)).await;
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
