//! Claims whose answers are lost.

use std::net::SocketAddr;

use retrial::store::Store;

use crate::postgres_faults::opened::open;
use crate::postgres_faults::script::Story;
use crate::postgres_proxy::{Fault, From, Proxy, Strike, Way};
use retrial_testkit::postgres_server::Server;

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
