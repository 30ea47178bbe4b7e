//! Claims whose answers are lost, and claims that are lost themselves.

use std::net::SocketAddr;

use retrial::store::{Claim, ClaimId, ClaimedTask, Commit, CommitId, Committed, Store};

use crate::postgres_faults::opened::open;
use crate::postgres_faults::patience::patient;
use crate::postgres_faults::script::Story;
use crate::postgres_proxy::{Fault, From, Proxy, Strike, Way};
use retrial_testkit::postgres_server::{Server, Setup, Stop};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_claim_whose_answer_was_lost_reserves_nothing_twice() {
    let server = Server::start();
    let url = server.url(&server.database().await);
    let proxy = Proxy::before(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let store = open(&url.replace(&server.port().to_string(), &proxy.port().to_string())).await;
    let stories = [1, 2, 3].map(Story::plain);
    for story in stories {
        store.create(story.create()).await.unwrap();
    }
    let [first, lost, last] = stories.map(|story| story.claim(1));
    assert_eq!(store.claim(first).await.unwrap().tasks.len(), 1);
    proxy.arm(Fault { way: Way::ToClient, from: From::Commit, passing: 0, strike: Strike::End });
    store.claim(lost.clone()).await.unwrap_err();
    assert!(proxy.disarm(), "the answer was not lost");
    assert_eq!(store.claim(lost).await.unwrap().tasks.len(), 1);
    assert_eq!(store.claim(last).await.unwrap().tasks.len(), 1, "the third is still there");
}

// A claim does not wait for the disk. A crash that loses it leaves the task due, and whoever holds the
// lost token starts nothing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_a_claim_that_a_crash_loses_is_made_again_and_its_token_starts_nothing() {
    // Nobody writes the log for those who do not wait for it.
    let settings = [("synchronous_commit", "on"), ("wal_writer_delay", "10s")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let mut server = Server::start_as(Setup { settings, ..Setup::default() });
    let store = open(&server.url(&server.database().await)).await;
    // Once a second the store saves its time, and whatever was written before goes to the disk with it.
    for round in 1..=9 {
        let stories = [2 * round - 1, 2 * round].map(Story::plain);
        for story in stories {
            store.create(story.create()).await.unwrap();
        }
        let lost = store.claim(stories[0].claim(2)).await.unwrap().tasks;
        server.stop(Stop::Crash);
        server.start_again();
        let id = ClaimId { writer: 8, counter: round };
        let found = patient(|| store.claim(Claim { id, ..stories[0].claim(2) })).await.tasks;
        if found.is_empty() {
            continue;
        }
        let tasks =
            |claimed: &[ClaimedTask]| claimed.iter().map(|task| task.run).collect::<Vec<_>>();
        assert_eq!(tasks(&lost), stories.map(|story| story.run()));
        assert_eq!(tasks(&found), tasks(&lost), "what was created is there");
        let late = patient(|| store.commit(stories[0].start(&lost[0]))).await;
        assert!(matches!(late, Committed::Fenced { .. }), "{late:?}");
        let start =
            Commit { id: CommitId { writer: 8, counter: 1 }, ..stories[0].start(&found[0]) };
        let started = patient(|| store.commit(start.clone())).await;
        assert!(matches!(started, Committed::Applied { .. }), "{started:?}");
        return;
    }
    panic!("no claim was lost");
}
