//! How long tests wait for what must come.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use retrial::store::StoreError;
use tokio::time::{sleep, timeout};

/// Asks until there is a definite answer, which must come within some tries.
pub(crate) async fn patient<T, F>(ask: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut failures = Vec::new();
    while failures.len() < 2_000 {
        match ask().await {
            Ok(answer) => return answer,
            Err(broken @ StoreError::Broken(_)) => panic!("{broken}"),
            Err(error) => failures.push(error),
        }
        sleep(Duration::from_millis(3)).await;
    }
    panic!("no definite answer; at last: {:?}", failures.last());
}

/// What `future` gives; fails the test where it seems never to end.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let ages = Duration::from_secs(120);
    timeout(ages, future).await.unwrap_or_else(|_| panic!("{what}: it never ends"))
}

/// Does them all at once.
pub(crate) async fn together<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        let mut is_done = true;
        for (future, done) in all.iter_mut().filter(|(_, done)| done.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(value) => *done = Some(value),
                Poll::Pending => is_done = false,
            }
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    all.into_iter().filter_map(|(_, done)| done).collect()
}
