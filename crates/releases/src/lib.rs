//! Two releases of the engine in one simulated world: nodes that are upgraded and downgraded while
//! runs are under way.
//!
//! Decides how each seam of the engine is crossed between this release and an older one: what crosses
//! is written as JSON by one and read by the other, as a stored form is. Must never know what a store
//! or an engine does with it. The dependency `older` is this release too, unless
//! `scripts/two-releases.sh` puts another in its place. To pass on what a new seam has, write a module
//! beside these and use it in [`Older`].

mod actions;
mod commands;
mod network;
mod observers;
mod runtime;
mod seeds;
mod store;

use std::sync::Arc;

use older::engine::{Config, Engine};
use older::policy::Functions;
use older::store::{DynStore, OpenError, RedbStore};
use older::time::Nanos;
use retrial_sim::unstable::disk::SimDisk;
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::retrial::{self as newer, policy, store::DynStore as NewerStore};
use retrial_sim::unstable::runtime::SimRuntime;
use retrial_sim::unstable::workload;
use retrial_sim::unstable::world::{Boxed, EngineParts, NotOpened, Orders, PLACE, Release};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use seeds::{OLDER, THIS, run, scenario};

/// The older release.
#[derive(Clone, Copy, Debug)]
pub struct Older;

/// The world of its engine.
type World = (runtime::OfOlder, DynStore, actions::OfOlder);

impl Release for Older {
    fn open(
        &self,
        runtime: SimRuntime,
        disk: SimDisk,
        incarnation: Incarnation,
    ) -> Boxed<'static, Result<NewerStore, NotOpened>> {
        Box::pin(async move {
            let backend = move || Ok(disk.open(&incarnation));
            let runtime = runtime::OfOlder(runtime);
            let opened = RedbStore::open_with_backend(runtime, PLACE, backend).await;
            opened.map(|store| NewerStore::new(store::OfNewer(store))).map_err(|error| NotOpened {
                why: error.to_string(),
                is_lost: !matches!(error, OpenError::Io { .. } | OpenError::Locked { .. }),
            })
        })
    }

    fn start(&self, parts: EngineParts) -> Boxed<'static, Arc<dyn Orders>> {
        Box::pin(async move {
            let EngineParts { runtime, store, actions, network, environment, config, observers } =
                parts;
            let engine = Engine::<World>::start(
                runtime::OfOlder(runtime.clone()),
                DynStore::new(store::OfOlder(store)),
                actions::OfOlder::new(runtime, actions, network, environment),
                settings(&config),
                vec![Arc::new(observers::OfOlder::new(observers))],
            );
            let started: Arc<dyn Orders> = Arc::new(commands::Running(engine.await));
            started
        })
    }
}

/// The settings that a simulated node has beside the defaults of its release.
fn settings(config: &newer::engine::Config) -> Config {
    Config {
        concurrency: config.concurrency,
        action_share: config.action_share,
        attempt_timeout: config.attempt_timeout.map(nanos),
        quarantine_after: config.quarantine_after,
        lease: nanos(config.lease),
        poll: nanos(config.poll),
        sole_owner: config.sole_owner,
        snapshot_tail: config.snapshot_tail,
        lane_idle: nanos(config.lane_idle),
        functions: functions(&config.functions),
        ..Config::default()
    }
}

fn functions(registered: &policy::Functions) -> Functions {
    let mut functions = Functions::default();
    for name in workload::BACKOFFS {
        if let Some(function) = registered.get(name).cloned() {
            functions.register(name, move |retry| nanos(function(retry)));
        }
    }
    functions
}

fn nanos(length: newer::time::Nanos) -> Nanos {
    Nanos::new(length.get())
}

/// What `value` of one release is in the other.
fn try_across<T: DeserializeOwned>(value: &impl Serialize) -> serde_json::Result<T> {
    serde_json::from_slice(&serde_json::to_vec(value)?)
}

/// The same where no release can be without it.
///
/// # Panics
/// When the other release can't read it: then the two can't run side by side.
#[expect(clippy::panic, reason = "it ends the world, which is what such releases deserve")]
fn across<T: DeserializeOwned>(value: &impl Serialize) -> T {
    match try_across(value) {
        Ok(read) => read,
        Err(why) => panic!("one release can't read {}: {why}", std::any::type_name::<T>()),
    }
}
