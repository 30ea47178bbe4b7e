//! Production: tokio, a redb file, HTTP.

use std::sync::Arc;

use retrial::action::{ActionSet, HttpActions, Registry};
use retrial::engine::{Config, Engine};
use retrial::net::TcpConnect;
use retrial::observe::Observer;
use retrial::runtime::TokioRuntime;
use retrial::store::DynStore;

use super::Lookup;

/// The world of the command line. All commands have the same, so that the engine is compiled once.
pub(super) type CliWorld = (TokioRuntime, DynStore, ActionSet<TcpConnect>);

/// An engine on `store`, whose actions connect with `network`. `lookup` gives the variables that headers name.
pub(super) async fn start(
    runtime: TokioRuntime,
    store: DynStore,
    config: Config,
    observers: Vec<Arc<dyn Observer>>,
    network: TcpConnect,
    lookup: Lookup,
) -> Engine<CliWorld> {
    let http = HttpActions::new(network, lookup);
    let actions = ActionSet::new(Registry::new(), http);
    Engine::start(runtime, store, actions, config, observers).await
}
