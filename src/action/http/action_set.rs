use std::sync::Arc;

use super::HttpActions;
use crate::action::{Actions, Call, Outcome, Registry};
use crate::net::Connect;
use crate::workflow::{Able, Target};

/// Everything that a node can invoke: registered functions and HTTP endpoints. An action that the
/// workflow declares as HTTP is HTTP, even if a function has the same name.
#[derive(Clone, Debug)]
pub struct ActionSet<C> {
    registry: Registry,
    http: HttpActions<C>,
}

impl<C: Connect> ActionSet<C> {
    /// The functions of `registry` and the endpoints that `http` reaches. A registry without a
    /// network of its own uses that of `http`.
    #[must_use]
    pub fn new(mut registry: Registry, http: HttpActions<C>) -> Self {
        if registry.network.0.get().is_none() {
            registry.over(http.network.clone());
        }
        Self { registry, http }
    }
}

impl<C: Connect> Actions for ActionSet<C> {
    async fn invoke(&self, call: Call) -> Outcome {
        match call.action.as_ref().map(|a| &a.target) {
            Some(Target::Http(_)) => self.http.invoke(call).await,
            Some(Target::Registered) | None => self.registry.invoke(call).await,
        }
    }

    fn able(&self) -> Able {
        Able::Only { http: true, functions: self.registry.names().map(Arc::from).collect() }
    }
}
