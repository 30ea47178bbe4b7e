//! Actions with preconditions, postconditions and artifacts.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use super::function::{ActionError, written};
use super::{Context, Outcome, Registry};
use crate::failure::Failure;

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;
type Before = Arc<dyn Fn(Context) -> Boxed<()> + Send + Sync>;
type Act<T> = Arc<dyn Fn(Context) -> Boxed<T> + Send + Sync>;
type After<T> = Arc<dyn Fn(Context, Arc<T>) -> Boxed<()> + Send + Sync>;

/// A builder of an action, from [`Registry::action`]: its preconditions.
#[must_use = "nothing is registered before `register`"]
pub struct Contract<'r> {
    registry: &'r mut Registry,
    name: String,
    before: Vec<Before>,
}

/// A builder of an action: what follows the function.
#[must_use = "nothing is registered before `register`"]
pub struct ActionBuilder<'r, T> {
    registry: &'r mut Registry,
    name: String,
    stages: Stages<T>,
}

struct Stages<T> {
    before: Vec<Before>,
    act: Act<T>,
    conditions: Vec<After<T>>,
    artifacts: Vec<After<T>>,
}

impl Registry {
    /// Starts to build an action with conditions; [`ActionBuilder::register`] registers it.
    ///
    /// ```
    /// # use retrial::action::{Context, Registry};
    /// # let mut registry = Registry::new();
    /// registry
    ///     .action("publish")
    ///     .precondition(|_: Context| async { Ok::<_, String>(()) })
    ///     .run(|_: Context| async { Ok::<_, String>(vec![1, 2, 3]) })
    ///     .postcondition(|_: Context, rows| async move {
    ///         if rows.is_empty() { Err("no rows") } else { Ok(()) }
    ///     })
    ///     .artifacts(|_: Context, _rows| async { Ok::<_, String>(()) })
    ///     .register();
    /// assert!(registry.has("publish"));
    /// ```
    pub fn action(&mut self, name: &str) -> Contract<'_> {
        Contract { registry: self, name: name.to_owned(), before: Vec::new() }
    }
}

impl<'r> Contract<'r> {
    /// Adds a check that must pass before the function runs. Once all preconditions of a task have
    /// passed, later attempts skip them. If one fails, the attempt fails with `PRECONDITION_FAILED`,
    /// permanent, whatever class the error has.
    ///
    /// If the node crashes before a renewal stores that the checks passed, they run again.
    pub fn precondition<F, Fut, E, K>(mut self, check: F) -> Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: ActionError<K> + Send,
    {
        self.before.push(Arc::new(move |context| {
            let checked = check(context);
            Box::pin(async move { checked.await.map_err(|error| unmet(&error.into_failure())) })
        }));
        self
    }

    /// Sets the function.
    pub fn run<F, Fut, T, E, K>(self, function: F) -> ActionBuilder<'r, T>
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + Send + Sync + 'static,
        E: ActionError<K> + Send,
    {
        let act: Act<T> = Arc::new(move |context| {
            let done = function(context);
            Box::pin(async move { done.await.map_err(E::into_failure) })
        });
        let Self { registry, name, before } = self;
        let (conditions, artifacts) = (Vec::new(), Vec::new());
        ActionBuilder { registry, name, stages: Stages { before, act, conditions, artifacts } }
    }
}

impl<'r, T: Serialize + Send + Sync + 'static> ActionBuilder<'r, T> {
    /// Adds a check of the function's result. If it fails, the attempt fails with
    /// `POSTCONDITION_FAILED`, retryable, whatever class the error has. A retry runs the function,
    /// the postconditions and the artifacts again.
    pub fn postcondition<F, Fut, E, K>(mut self, check: F) -> Self
    where
        F: Fn(Context, Arc<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: ActionError<K> + Send,
    {
        self.stages.conditions.push(Arc::new(move |context, result| {
            let checked = check(context, result);
            Box::pin(async move { checked.await.map_err(|error| broken(&error.into_failure())) })
        }));
        self
    }

    /// Adds a step that stores the function's artifacts, after all postconditions. If it fails, the
    /// attempt fails with `ARTIFACTS_FAILED`, retryable, whatever class the error has.
    pub fn artifacts<F, Fut, E, K>(mut self, store: F) -> Self
    where
        F: Fn(Context, Arc<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: ActionError<K> + Send,
    {
        self.stages.artifacts.push(Arc::new(move |context, result| {
            let stored = store(context, result);
            Box::pin(async move { stored.await.map_err(|error| unstored(&error.into_failure())) })
        }));
        self
    }

    /// Registers the action. It replaces an action of the same name.
    pub fn register(self) -> &'r mut Registry {
        let Self { registry, name, stages } = self;
        let stages = Arc::new(stages);
        registry.register_raw(&name, move |context| {
            let stages = Arc::clone(&stages);
            Box::pin(async move { stages.attempt(context).await })
        });
        registry
    }
}

impl<T: Serialize> Stages<T> {
    async fn attempt(&self, context: Context) -> Outcome {
        if !self.before.is_empty() && !context.reports().is_checked() {
            for check in &self.before {
                check(context.clone()).await?;
            }
            context.reports().check();
        }
        let result = Arc::new((self.act)(context.clone()).await?);
        let value = written(&*result)?;
        for after in self.conditions.iter().chain(&self.artifacts) {
            after(context.clone(), Arc::clone(&result)).await?;
        }
        Ok(value)
    }
}

fn unmet(error: &Failure) -> Failure {
    Failure::precondition(error.message())
}

fn broken(error: &Failure) -> Failure {
    Failure::postcondition(error.message())
}

fn unstored(error: &Failure) -> Failure {
    Failure::new("ARTIFACTS_FAILED", error.message()).with_lineage(["ArtifactsError"]).retryable()
}
