//! Notices as an async stream: in order, bounded, honest about what was dropped.

use std::future::Future as _;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake};

use retrial::observe::{Feed, Lagged, Notices, Observer, feed, json};
use retrial::run::Event;

use crate::fixtures::*;

fn of(capacity: usize) -> (Feed, Notices) {
    feed(NonZeroUsize::new(capacity).unwrap())
}

fn told(feed: &impl Observer, events: &[(u64, Event)]) {
    tell(feed, run(1), events);
}

async fn rest(mut notices: Notices) -> Vec<Result<u64, Lagged>> {
    let mut all = Vec::new();
    while let Some(next) = notices.next().await {
        all.push(next.map(|notice| notice.number.0));
    }
    all
}

#[tokio::test]
async fn h16_a_stream_gives_every_notice_in_order() {
    let (feed, mut notices) = of(100);
    let events = failing(task(FETCH), Some(3), &[2_000, 4_000]);
    told(&feed, &events);
    drop(feed);
    let mut expected = Vec::new();
    each(run(1), &events, |notice| expected.push(json::object(notice)));
    for expected in expected {
        let given = notices.next().await.unwrap().unwrap();
        assert_eq!(json::object(&given.notice()), expected);
    }
    assert!(notices.next().await.is_none());
}

#[tokio::test]
async fn h16_a_reader_waits_for_what_is_told_later() {
    let (feed, notices) = of(5);
    let engine = async move {
        for event in failing(task(FETCH), Some(3), &[2_000]) {
            told(&feed, &[event]);
            tokio::task::yield_now().await;
        }
    };
    let ((), read) = tokio::join!(engine, rest(notices));
    assert_eq!(read, [Ok(0); 5]);
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A reader that moves to another task is woken there.
#[test]
fn h16_who_waited_last_is_woken() {
    let (feed, mut notices) = of(5);
    let [first, last] = [(); 2].map(|()| Arc::new(Woken(AtomicBool::new(false))));
    for reader in [&first, &last] {
        let waker = Arc::clone(reader).into();
        assert!(pin!(notices.next()).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    told(&feed, &failing(task(FETCH), Some(3), &[]));
    assert!(last.0.load(Ordering::SeqCst));
}

#[tokio::test]
async fn h16_a_slow_reader_is_told_how_much_it_missed() {
    let (feed, notices) = of(3);
    told(&feed, &failing(task(FETCH), Some(3), &[2_000, 4_000]));
    drop(feed);
    let expected = [Err(Lagged { missed: 5 }), Ok(5), Ok(6), Ok(7)];
    assert_eq!(rest(notices).await, expected);
}

/// Nobody reads any more: nothing is kept for them.
#[tokio::test]
async fn a_reader_that_goes_away_changes_nothing() {
    let (feed, notices) = of(3);
    drop(notices);
    told(&feed, &failing(task(FETCH), Some(3), &[2_000, 4_000]));
}
