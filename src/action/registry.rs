use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use super::context_runtime::Network;
use super::{Actions, Attempt, Call, Context, Function, Outcome};
use crate::failure::Failure;
use crate::net::Connect;
use crate::workflow::{Able, Target};

type Registered = Arc<dyn Fn(Context) -> Attempt + Send + Sync>;

/// Async Rust functions by name, and the network that they use. A clone shares the functions but not
/// later registrations.
#[derive(Clone, Default)]
pub struct Registry {
    functions: BTreeMap<String, Registered>,
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

    /// Registers an async function under `name`. It replaces a function of the same name.
    ///
    /// A panic of the function is the permanent failure `PANIC`. A result that is an exception object
    /// is a failure.
    ///
    /// ```
    /// # use retrial::action::{Args, Context, Registry};
    /// #[derive(serde::Deserialize)]
    /// struct Order { item: String, count: u32 }
    ///
    /// async fn ship(Args(order): Args<Order>, context: Context) -> Result<String, std::io::Error> {
    ///     Ok(format!("{} of {} at attempt {}", order.count, order.item, context.attempt()))
    /// }
    ///
    /// let mut registry = Registry::new();
    /// registry.register("ship", ship);
    /// registry.register("ping", || async { Ok::<_, String>("pong") });
    /// ```
    pub fn register<M>(&mut self, name: &str, function: impl Function<M>) -> &mut Self {
        self.register_raw(name, move |context| function.begin(context));
        self
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

    fn find(&self, call: &Call) -> Result<&Registered, Failure> {
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
