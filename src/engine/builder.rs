use std::sync::Arc;

use super::{Config, Engine};
use crate::action::{Actions, Function, Registry};
use crate::observe::Observer;
use crate::runtime::{Runtime, TokioRuntime};
use crate::store::{MemoryStore, Store};

/// An engine that is not started yet.
#[must_use = "nothing runs before `start`"]
pub struct Builder<R, S, A> {
    runtime: R,
    store: S,
    actions: A,
    config: Config,
    observers: Vec<Arc<dyn Observer>>,
}

impl Engine<(TokioRuntime, MemoryStore<TokioRuntime>, Registry)> {
    /// Builds an engine on tokio, with a store in memory and no actions, unless told otherwise.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as tokio does.
    pub fn builder() -> Builder<TokioRuntime, MemoryStore<TokioRuntime>, Registry> {
        let runtime = TokioRuntime::current();
        Builder {
            store: MemoryStore::new(runtime.clone()),
            runtime,
            actions: Registry::new(),
            config: Config::default(),
            observers: Vec::new(),
        }
    }
}

impl<R, S> Builder<R, S, Registry> {
    /// Registers an async function, as [`Registry::register`] does.
    pub fn action<M>(mut self, name: &str, function: impl Function<M>) -> Self {
        self.actions.register(name, function);
        self
    }
}

impl<R: Runtime, S: Store, A: Actions> Builder<R, S, A> {
    /// Keeps runs in this store.
    pub fn store<Other: Store>(self, store: Other) -> Builder<R, Other, A> {
        let Self { runtime, actions, config, observers, .. } = self;
        Builder { runtime, store, actions, config, observers }
    }

    /// Invokes these actions, in place of those so far.
    pub fn actions<Other: Actions>(self, actions: Other) -> Builder<R, S, Other> {
        let Self { runtime, store, config, observers, .. } = self;
        Builder { runtime, store, actions, config, observers }
    }

    /// Works as `config` says.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Shows `observer` what happens. May be called several times.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Starts it: see [`Engine::start`].
    pub async fn start(self) -> Engine<(R, S, A)> {
        let Self { runtime, store, actions, config, observers } = self;
        Engine::start(runtime, store, actions, config, observers).await
    }
}
