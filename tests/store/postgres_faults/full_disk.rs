//! A disk on which no file may grow: a limit of the server's processes stands in for it, as
//! `ulimit -f` would set it.

use bytes::Bytes;
use retrial::run::Version;
use retrial::store::{Create, Created, Store, StoreError};

use crate::postgres_faults::opened::open;
use crate::postgres_faults::patience::{patient, soon};
use crate::postgres_faults::script::{Story, begin};
use crate::postgres_faults::seed::Seed;
use crate::postgres_faults::server;

/// More than a segment of the server's log, which is made whole.
const LITTLE: u64 = 20 << 20;
/// Less than that: nothing can be logged any more.
const NOTHING: u64 = 1 << 20;

/// A run whose one event is large, and is not made smaller by packing.
fn large(story: Story) -> Create {
    let mut seed = Seed::of(story.number);
    let bytes: Vec<u8> = (0..32_000).flat_map(|_| seed.draw().to_be_bytes()).collect();
    Create { events: vec![Bytes::from(bytes)], queue: vec![], ..story.create() }
}

async fn keeps(store: &impl Store, story: Story) {
    let loaded = patient(|| store.load(story.run(), Some(Version::START))).await.unwrap();
    assert_eq!(loaded.tail.events, large(story).events, "{story:?}");
}

// C8: what was acknowledged stays, what was not is refused, and all goes on when there is room.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_a_full_disk_loses_nothing_that_was_acknowledged() {
    let server = server::start();
    let store = open(&server.url(&server.database().await)).await;
    let story = Story::plain(100_000);
    let token = begin(&store, &[story]).await[0];
    server::limit_files(&server, Some(LITTLE));
    let mut acknowledged = 0;
    let refused = loop {
        let next = Story::plain(acknowledged + 1);
        match store.create(large(next)).await {
            Ok(Created::New { .. }) => acknowledged += 1,
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
        assert!(acknowledged < 1_000, "the disk is never full");
    };
    println!("{acknowledged} runs were added, then: {refused}");
    let rest = [acknowledged + 1, acknowledged + 2, acknowledged + 1].map(Story::plain);
    for story in rest {
        let again = store.create(large(story)).await;
        let typed = matches!(again, Err(StoreError::NotDone(_) | StoreError::Unknown(_)));
        assert!(typed, "{again:?}");
    }
    for number in 1..=acknowledged {
        keeps(&store, Story::plain(number)).await;
    }
    server::limit_files(&server, None);
    for story in rest {
        let added = soon("with room", patient(|| store.create(large(story)))).await;
        assert!(matches!(added, Created::New { .. }), "{added:?}");
        keeps(&store, story).await;
    }
    patient(|| store.commit(story.end(token))).await;
}

// C8: where not even the log can be written the server goes down, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_a_log_that_is_full_loses_nothing_that_was_acknowledged() {
    let mut server = server::start();
    let store = open(&server.url(&server.database().await)).await;
    for number in 1..=10 {
        patient(|| store.create(large(Story::plain(number)))).await;
    }
    server::limit_files(&server, Some(NOTHING));
    for number in 11..=20 {
        let refused = soon("without a log", store.create(large(Story::plain(number)))).await;
        let typed = matches!(refused, Err(StoreError::NotDone(_) | StoreError::Unknown(_)));
        assert!(typed, "{refused:?}");
    }
    server::kill_and_start_again(&mut server);
    for number in 1..=20 {
        let added = patient(|| store.create(large(Story::plain(number)))).await;
        assert!(matches!(added, Created::New { .. }), "{added:?}");
        keeps(&store, Story::plain(number)).await;
    }
}
