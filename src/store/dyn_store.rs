//! A store whose type the compiler does not know.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::seam::{Answer, Request};
use super::{Store, StoreError};

/// Any store. An engine on it is compiled once, whatever the store is, at the price of one
/// allocation a request. Clones are the same store.
#[derive(Clone)]
pub struct DynStore(Arc<dyn Boxed>);

impl DynStore {
    /// Forgets which store it is.
    #[must_use]
    pub fn new(store: impl Store) -> Self {
        Self(Arc::new(store))
    }
}

impl fmt::Debug for DynStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DynStore")
    }
}

impl Store for DynStore {
    fn ask(&self, request: Request) -> impl Future<Output = Result<Answer, StoreError>> + Send {
        self.0.ask(request)
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        self.0.news()
    }
}

type Boxing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Store`] with futures of one size.
trait Boxed: Send + Sync + 'static {
    fn ask(&self, request: Request) -> Boxing<'_, Result<Answer, StoreError>>;
    fn news(&self) -> Boxing<'_, ()>;
}

impl<S: Store> Boxed for S {
    fn ask(&self, request: Request) -> Boxing<'_, Result<Answer, StoreError>> {
        Box::pin(Store::ask(self, request))
    }

    fn news(&self) -> Boxing<'_, ()> {
        Box::pin(Store::news(self))
    }
}
