use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context_runtime::Network;
use super::result::{Measure, exception};
use super::{Actions, Call, Context, Outcome};
use crate::failure::Failure;
use crate::net::Connect;
use crate::workflow::{Able, Target};

pub(super) type Attempt = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Function = Arc<dyn Fn(Context) -> Attempt + Send + Sync>;

/// Async Rust functions by name, and the network that they use. A clone shares the functions but not
/// later registrations.
#[derive(Clone, Default)]
pub struct Registry {
    functions: BTreeMap<String, Function>,
    pub(super) network: Network,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the network of [`Context::connect`] and `Context::http`. Without it the functions use the
    /// network of the `ActionSet` around them, or else the system's.
    pub fn over(&mut self, network: impl Connect) -> &mut Self {
        self.network = Network::over(network);
        self
    }

    /// Registers `function` under `name`. It replaces a function of the same name.
    ///
    /// A panic of the function is the permanent failure `PANIC`. A result that is an exception object
    /// is a failure.
    pub fn register<F, Fut, T, E>(&mut self, name: &str, function: F) -> &mut Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize,
        E: Into<Failure>,
    {
        self.register_raw(name, move |context| {
            let attempt = function(context);
            Box::pin(async move { read(attempt.await) })
        });
        self
    }

    /// Registers a function that takes its arguments deserialized. Arguments that do not fit its type
    /// fail with `BAD_ARGUMENTS`, permanent.
    ///
    /// ```
    /// # use retrial::action::{Context, Registry};
    /// #[derive(serde::Deserialize)]
    /// struct Order { item: String, count: u32 }
    ///
    /// let mut registry = Registry::new();
    /// registry.register_typed("ship", |_: Context, order: Order| async move {
    ///     Ok::<_, String>(format!("{} of {}", order.count, order.item))
    /// });
    /// ```
    pub fn register_typed<A, F, Fut, T, E>(&mut self, name: &str, function: F) -> &mut Self
    where
        A: DeserializeOwned,
        F: Fn(Context, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize,
        E: Into<Failure>,
    {
        self.register(name, move |context: Context| {
            let begun = context.args::<A>().map(|args| function(context, args));
            async move { begun?.await.map_err(Into::into) }
        })
    }

    pub(super) fn register_raw(
        &mut self,
        name: &str,
        function: impl Fn(Context) -> Attempt + Send + Sync + 'static,
    ) {
        self.functions.insert(name.to_owned(), Arc::new(function));
    }

    /// Whether there is a function under `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    fn find(&self, call: &Call) -> Result<&Function, Failure> {
        if let Some(Target::Http(_)) = call.action.as_ref().map(|a| &a.target) {
            let message =
                format!("`{}` is an HTTP action; this node has no HTTP client", call.name);
            return Err(Failure::new("UNSUPPORTED_ACTION", &message));
        }
        self.functions.get(&call.name).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            let message = format!(
                "no action `{}` is registered on this node; registered: {known}",
                call.name
            );
            Failure::new("UNKNOWN_ACTION", &message).with_lineage(["UnknownActionError"])
        })
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl Actions for Registry {
    async fn invoke(&self, call: Call) -> Outcome {
        let function = Arc::clone(self.find(&call)?);
        let network = self.network.clone();
        unwinding(move || function(Context::new(call, network))).await
    }

    fn able(&self) -> Able {
        Able::Only { http: false, functions: self.names().map(Arc::from).collect() }
    }
}

pub(super) fn read<T: Serialize, E: Into<Failure>>(returned: Result<T, E>) -> Outcome {
    let returned = returned.map_err(Into::into)?;
    let measure = Measure::of(&returned);
    measure.depth()?;
    let value = serde_json::to_value(returned).map_err(|error| {
        let message = format!("the result can't be written as JSON: {error}");
        Failure::new("BAD_RESULT", &message).with_lineage(["BadResultError", "ValueError"])
    })?;
    match exception(&value) {
        Some(failure) => Err(failure),
        None => measure.size().map(|()| value),
    }
}

/// Runs an attempt to its end or to its panic. A future that panicked is not polled again.
async fn unwinding(begin: impl FnOnce() -> Attempt) -> Outcome {
    let mut attempt = catch_unwind(AssertUnwindSafe(begin)).map_err(|p| panicked(&*p))?;
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| attempt.as_mut().poll(cx)))
            .unwrap_or_else(|payload| Poll::Ready(Err(panicked(&*payload))))
    })
    .await
}

fn panicked(payload: &(dyn Any + Send)) -> Failure {
    let words = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with a value that is no text");
    Failure::new("PANIC", &format!("the action panicked: {words}")).with_lineage(["PanicError"])
}
