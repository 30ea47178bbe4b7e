//! A link to a store on which the test says what happens to each request.

use std::sync::Arc;
use std::time::Duration;

use retrial::engine::{Config, Engine};
use retrial::runtime::TokioRuntime;
use retrial::store::{Answer, Request, Store, StoreError};

use super::{Acts, Watched};

/// What happens to a request on a [`Link`].
#[derive(Default)]
pub(crate) struct Way {
    /// How long it takes to arrive.
    pub(crate) there: Duration,
    /// How long its answer takes.
    pub(crate) back: Duration,
    /// The answer, if the store is not asked.
    pub(crate) instead: Option<Answer>,
}

/// A node's link to a store.
pub(crate) struct Link {
    store: Arc<Watched>,
    way: Box<dyn Fn(&Request) -> Way + Send + Sync>,
}

impl Store for Link {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let Way { there, back, instead } = (self.way)(&request);
        tokio::time::sleep(there).await;
        let answer = match instead {
            Some(answer) => Ok(answer),
            None => self.store.ask(request).await,
        };
        let is_empty = matches!(&answer, Ok(Answer::Expired(found)) if found.tasks.is_empty());
        if !is_empty {
            tokio::time::sleep(back).await;
        }
        answer
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        self.store.news()
    }
}

/// A node over such a link.
pub(crate) async fn over(
    store: &Arc<Watched>,
    way: impl Fn(&Request) -> Way + Send + Sync + 'static,
    acts: &Acts,
    config: Config,
) -> Engine<(TokioRuntime, Arc<Link>, Acts)> {
    let link = Arc::new(Link { store: Arc::clone(store), way: Box::new(way) });
    Engine::start(TokioRuntime::current(), link, acts.clone(), config, Vec::new()).await
}
