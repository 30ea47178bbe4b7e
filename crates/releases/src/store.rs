//! A store of one release for the other.

use std::future::Future;

use older::store::{Answer, Request, Store, StoreError};
use retrial_sim::unstable::retrial::store as newer;

use crate::{across, try_across};

/// For the older release.
pub(crate) struct OfOlder(pub(crate) newer::DynStore);

impl Store for OfOlder {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        match newer::Store::ask(&self.0, across(&request)).await {
            // What can't be read is found where it is stored: other runs go on.
            Ok(answer) => try_across(&answer).map_err(|why| StoreError::Broken(why.to_string())),
            Err(error) => Err(across(&error)),
        }
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        newer::Store::news(&self.0)
    }
}

/// For the newer release.
pub(crate) struct OfNewer<S>(pub(crate) S);

impl<S: Store> newer::Store for OfNewer<S> {
    async fn ask(&self, request: newer::Request) -> Result<newer::Answer, newer::StoreError> {
        match self.0.ask(across(&request)).await {
            Ok(answer) => {
                try_across(&answer).map_err(|why| newer::StoreError::Broken(why.to_string()))
            }
            Err(error) => Err(across(&error)),
        }
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        self.0.news()
    }
}
