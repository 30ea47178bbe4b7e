use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use crate::net::{Authority, BoxStream, Connect, ConnectError, TcpConnect};
use crate::runtime::Runtime;
use crate::time::{Mono, Timestamp};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A runtime without its type, with only what functions may use.
trait DynRuntime: Send + Sync {
    fn now(&self) -> Mono;
    fn wall(&self) -> Timestamp;
    fn random(&self) -> u64;
    fn sleep_until(&self, at: Mono) -> Boxed<'_, ()>;
}

impl<R: Runtime> DynRuntime for R {
    fn now(&self) -> Mono {
        Runtime::now(self)
    }

    fn wall(&self) -> Timestamp {
        Runtime::wall(self)
    }

    fn random(&self) -> u64 {
        Runtime::random(self)
    }

    fn sleep_until(&self, at: Mono) -> Boxed<'_, ()> {
        Box::pin(Runtime::sleep_until(self, at))
    }
}

/// The clocks, timers and randomness of a node, for the functions that it runs. Clones share them.
#[derive(Clone)]
pub struct ContextRuntime(Arc<dyn DynRuntime>);

impl ContextRuntime {
    /// The context runtime of a node on `runtime`.
    #[must_use]
    pub fn by(runtime: impl Runtime) -> Self {
        Self(Arc::new(runtime))
    }

    pub(super) fn now(&self) -> Mono {
        self.0.now()
    }

    pub(super) fn wall(&self) -> Timestamp {
        self.0.wall()
    }

    pub(super) fn random(&self) -> u64 {
        self.0.random()
    }

    pub(super) async fn sleep_until(&self, at: Mono) {
        self.0.sleep_until(at).await;
    }
}

impl fmt::Debug for ContextRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContextRuntime")
    }
}

/// A network without its type.
pub(super) trait DynConnect: Send + Sync {
    fn connect<'a>(&'a self, to: &'a Authority) -> Boxed<'a, Result<BoxStream, ConnectError>>;
}

impl<C: Connect> DynConnect for C {
    fn connect<'a>(&'a self, to: &'a Authority) -> Boxed<'a, Result<BoxStream, ConnectError>> {
        Box::pin(async move { Ok(Box::new(self.connect(to).await?) as BoxStream) })
    }
}

/// The network that functions use: the given one, or else the system's, created on first use.
#[derive(Clone, Default)]
pub(super) struct Network(pub(super) Arc<OnceLock<Box<dyn DynConnect>>>);

impl Network {
    pub(super) fn over(network: impl Connect) -> Self {
        let given: Box<dyn DynConnect> = Box::new(network);
        Self(Arc::new(OnceLock::from(given)))
    }

    pub(super) async fn connect(&self, to: &Authority) -> Result<BoxStream, ConnectError> {
        self.0.get_or_init(|| Box::new(TcpConnect::new())).connect(to).await
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Network")
    }
}
