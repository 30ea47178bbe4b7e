//! The release of the engine that runs at a node: this one, unless a world has others.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use retrial::engine::{Config, Engine, EventsError, Handle};
use retrial::observe::Observer;
use retrial::run::Version;
use retrial::store::{AskLetters, DynStore, LetterFilter, OpenError, RedbStore};

use super::action_network::ActionNetwork;
use super::functions::SimActions;
use super::order::{Listener, Order};
use crate::disk::SimDisk;
use crate::evidence::Told;
use crate::incarnation::Incarnation;
use crate::runtime::SimRuntime;

/// A future of any size.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A release of the engine, behind this release's types.
pub trait Release: Send + Sync + 'static {
    /// Opens the store on a node's own disk.
    fn open(
        &self,
        runtime: SimRuntime,
        disk: SimDisk,
        incarnation: Incarnation,
    ) -> Boxed<'static, Result<DynStore, NotOpened>>;

    /// Starts an engine.
    fn start(&self, parts: EngineParts) -> Boxed<'static, Arc<dyn Orders>>;
}

/// What an engine starts with.
pub struct EngineParts {
    /// The node's clocks, tasks and chance.
    pub runtime: SimRuntime,
    /// Its store.
    pub store: DynStore,
    /// What steps invoke.
    pub actions: SimActions,
    /// The network of its HTTP actions.
    pub network: ActionNetwork,
    /// The value of every variable of its environment.
    pub environment: String,
    /// Its settings.
    pub config: Config,
    /// What it tells of its events.
    pub observers: Vec<Arc<dyn Observer>>,
}

/// An engine that takes orders.
pub trait Orders: Send + Sync {
    /// Carries an order out and sends its reply.
    fn serve(&self, order: Order) -> Boxed<'_, ()>;
}

/// Why a store does not open.
#[derive(Clone, Debug)]
pub struct NotOpened {
    /// The reason.
    pub why: String,
    /// Whether what it holds can't be read, so that opening it again leads nowhere.
    pub is_lost: bool,
}

/// Which release runs in each incarnation of each node. Clones share it.
#[derive(Clone)]
pub struct Releases(Arc<Chosen>);

type Chosen = dyn Fn(&Incarnation) -> Arc<dyn Release> + Send + Sync;

impl Releases {
    /// The releases that `of` names.
    #[must_use]
    pub fn new(of: impl Fn(&Incarnation) -> Arc<dyn Release> + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }

    pub(super) fn of(&self, incarnation: &Incarnation) -> Arc<dyn Release> {
        (self.0)(incarnation)
    }
}

impl Default for Releases {
    fn default() -> Self {
        Self::new(|_| Arc::new(ThisRelease))
    }
}

/// The release that this source is.
#[derive(Clone, Copy, Debug)]
pub struct ThisRelease;

type Simulated = (SimRuntime, DynStore, SimActions);

impl Release for ThisRelease {
    fn open(
        &self,
        runtime: SimRuntime,
        disk: SimDisk,
        incarnation: Incarnation,
    ) -> Boxed<'static, Result<DynStore, NotOpened>> {
        Box::pin(async move {
            let backend = move || Ok(disk.open(&incarnation));
            let opened = RedbStore::open_with_backend(runtime, PLACE, backend).await;
            opened.map(DynStore::new).map_err(|error| NotOpened {
                why: error.to_string(),
                is_lost: !matches!(error, OpenError::Io { .. } | OpenError::Locked { .. }),
            })
        })
    }

    fn start(&self, parts: EngineParts) -> Boxed<'static, Arc<dyn Orders>> {
        Box::pin(async move {
            let EngineParts { runtime, store, actions, config, observers, .. } = parts;
            let engine =
                Engine::<Simulated>::start(runtime, store, actions, config, observers).await;
            let started: Arc<dyn Orders> = Arc::new(engine);
            started
        })
    }
}

/// How a simulated disk is named to who opens the store on it.
pub const PLACE: &str = "the simulated disk";

impl Orders for Engine<Simulated> {
    fn serve(&self, order: Order) -> Boxed<'_, ()> {
        Box::pin(serve(self, order))
    }
}

async fn serve(engine: &Engine<Simulated>, order: Order) {
    // The caller may be gone by then.
    match order {
        Order::Submit(submission, reply) => {
            let _ = reply.send(engine.submit(submission).await.map(|s| s.run));
        }
        Order::Cancel(run, reply) => {
            let _ = reply.send(engine.cancel(run, "called off by its user").await);
        }
        Order::Rollback(run, reply) => {
            let _ = reply.send(engine.rollback(run, "rolled back by its user").await);
        }
        Order::Deactivate(run, reply) => {
            let _ = engine.deactivate(run).await;
            let _ = reply.send(());
        }
        Order::Activate(run, reply) => {
            let _ = engine.activate(run).await;
            let _ = reply.send(());
        }
        Order::Pause(run, reply) => {
            let _ = engine.pause(run, "somebody looks at it").await;
            let _ = reply.send(());
        }
        Order::Resume(run, reply) => {
            let _ = engine.resume(run).await;
            let _ = reply.send(());
        }
        Order::Fail(run, step, item, reply) => {
            let _ = reply.send(engine.fail(run, &step, item, "somebody gave it up").await);
        }
        Order::Release(run, reply) => {
            let _ = reply.send(engine.release(run, None, None, "somebody looked at it").await);
        }
        Order::Archive(run, reply) => {
            let _ = reply.send(engine.archive(run).await);
        }
        Order::Letters(reply) => {
            let filter = LetterFilter::default();
            let ask = AskLetters { after: None, limit: 10_000, filter };
            let _ = reply.send(engine.letters(ask).await);
        }
        Order::Letter(id, reply) => {
            let _ = reply.send(engine.letter(id).await);
        }
        Order::Redrive(id, reply) => {
            let _ = reply.send(engine.redrive(id).await.map(|new| new.run));
        }
        Order::Discard(id, reply) => {
            let _ = reply.send(engine.discard(id, "nobody wants it").await);
        }
        Order::Prune(retention, reply) => {
            let _ = reply.send(engine.prune(retention).await);
        }
        Order::Follow(run, from, listener) => {
            let _ = follow(engine.handle(run), from, &listener).await;
        }
        Order::Shutdown(reply) => {
            engine.clone().shutdown().await;
            let _ = reply.send(());
        }
    }
}

/// Tells what there is to tell, while somebody listens.
async fn follow(run: Handle<Simulated>, from: Option<Version>, listener: &Listener) -> Option<()> {
    let Some(from) = from else {
        let outcome = run.outcome().await.map(|ended| Told::Outcome(ended.outcome));
        return listener.tell(outcome.unwrap_or_else(|e| Told::Refused(e.to_string()))).await;
    };
    let mut events = run.events_from(from);
    while let Some(next) = events.next().await {
        let told = match next {
            Ok(happened) => Told::Event(happened.number, happened.recorded),
            Err(EventsError::Compacted { from, to }) => Told::Compacted(from, to),
            Err(EventsError::Run(error)) => {
                return listener.tell(Told::Refused(error.to_string())).await;
            }
        };
        listener.tell(told).await?;
    }
    listener.tell(Told::Over).await
}
