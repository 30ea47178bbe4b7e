//! A service: an engine, its monitor and its settings.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use tokio::sync::Semaphore;

use super::background_work::WorkSlots;
use super::inspector;
use super::middleware;
use super::problem::{Kind, Problem};
use super::routes::{self, Route};
use super::run_quotas::RunQuotas;
use super::stream_workflows::LargeWorkflows;
use super::{Monitor, Settings};
use retrial::action::{Cancelled, Canceller};
use retrial::engine::{Engine, World};
use retrial::time::Mono;

/// The most bytes of bodies that are being received at once: many slow clients must not fill the
/// memory.
const RECEIVING: usize = 64 * 1024 * 1024;

/// The HTTP API of one engine. Clones are handles to the same service.
pub struct Service<W: World>(pub(super) SharedState<W>);

impl<W: World> Clone for Service<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The state that all handlers share.
pub(super) type SharedState<W> = Arc<ServiceState<W>>;

pub(super) struct ServiceState<W: World> {
    pub(super) engine: Engine<W>,
    pub(super) monitor: Arc<Monitor>,
    pub(super) settings: Settings,
    pub(super) work_slots: WorkSlots,
    /// One permit for each byte of the bodies that are being received.
    pub(super) receiving: Semaphore,
    /// Each route by method and path.
    pub(super) routes: BTreeMap<(&'static str, &'static str), Route>,
    pub(super) run_quotas: RunQuotas,
    pub(super) large: LargeWorkflows,
    /// One permit for each open event stream.
    pub(super) streams: Arc<Semaphore>,
    /// The number of unfinished runs in the store when it was last counted, and the runs added
    /// since.
    pub(super) unfinished: Mutex<Option<(Mono, u64)>>,
    /// Fires when the service shuts down.
    pub(super) closing: Cancelled,
    pub(super) close: Canceller,
}

impl<W: World> Service<W> {
    /// A service for `engine`, one of whose observers must be `monitor`.
    #[must_use]
    pub fn new(engine: Engine<W>, monitor: Arc<Monitor>, settings: Settings) -> Self {
        let (close, closing) = Canceller::pair();
        let streams = Arc::new(Semaphore::new(settings.limits.streams));
        let unfinished = Mutex::default();
        let routes = routes::table::<W>().into_iter().map(|(route, _)| route);
        let routes = routes.map(|route| ((route.method, route.path), route)).collect();
        Self(Arc::new(ServiceState {
            engine,
            monitor,
            settings,
            work_slots: WorkSlots::new(),
            routes,
            run_quotas: RunQuotas::default(),
            large: LargeWorkflows::default(),
            receiving: Semaphore::new(RECEIVING),
            streams,
            unfinished,
            closing,
            close,
        }))
    }

    /// The routes, to mount in a server of your own. The token, the `Host` header and the limits of
    /// requests hold there too; the limits of connections do not.
    pub fn router(&self) -> Router {
        let mut router = Router::new();
        for (route, handler) in routes::table::<W>() {
            router = router.route(route.path, handler);
        }
        router
            .merge(inspector::routes())
            .fallback(|| async {
                Problem::not_found("no route has this path; /openapi.json lists the routes")
            })
            .method_not_allowed_fallback(|| async {
                Problem::new(
                    Kind::NoSuchMethod,
                    "the path does not take this method; /openapi.json lists the methods",
                )
            })
            .layer(axum::middleware::from_fn_with_state(
                Arc::clone(&self.0),
                middleware::handle::<W>,
            ))
            .with_state(Arc::clone(&self.0))
    }
}
