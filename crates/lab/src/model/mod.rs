//! What a scenario is: clients, services, the edges between them, triggers, and how a run is judged.
//!
//! Decides nothing: it is data, which [`read`](crate::read) makes from a text and checks. Must never
//! know texts or events. To add a property of a service, add a field here, its key in `read`, and what
//! it does in `world`.

mod distribution;
mod limits;
mod series;

use retrial_core::guard::{GuardRules, Pace};
use retrial_core::policy::Policy;
use retrial_core::time::Nanos;

pub use distribution::{Distribution, scaled};
pub use limits::*;
pub use series::Series;

/// Everything that a run is made of.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How long it lasts.
    pub length: Nanos,
    /// What happens before this is not measured.
    pub warmup: Nanos,
    /// The first seed.
    pub seed: u64,
    /// How many seeds a verdict takes, unless asked otherwise.
    pub seeds: u32,
    /// The callees.
    pub services: Vec<Service>,
    /// The first callers.
    pub classes: Vec<Class>,
    /// Who calls whom. Those of classes come first, in their order.
    pub edges: Vec<Edge>,
    /// What goes wrong.
    pub triggers: Vec<Trigger>,
    /// What counts as good.
    pub judge: Judge,
}

/// A kind of callers.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// How many clients it has.
    pub count: u32,
    /// When their tasks begin.
    pub arrivals: Arrivals,
    /// The most tasks of one client in progress; others wait at the client.
    pub concurrency: Option<u32>,
    /// What a client does when a task fails for good.
    pub give_up: GiveUpAction,
    /// A success that comes later than this after the intended start is none.
    pub deadline: Option<Nanos>,
}

/// When the tasks of a class begin.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// An open stream with this rate in all, in tasks per second.
    Open {
        /// The rate over time.
        rate: Series,
        /// Whether the gaps are exponential; else they are even.
        poisson: bool,
    },
    /// Each client begins its next task this long after its last one ended.
    Closed {
        /// The think time.
        think: Distribution,
        /// Clients begin evenly within this time, in their order.
        ramp: Nanos,
    },
    /// So many tasks at once, once.
    Burst {
        /// How many.
        tasks: u32,
        /// When.
        at: Nanos,
    },
}

/// What a client does when a task fails for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUpAction {
    /// It goes on with its next task.
    Drop,
    /// The same, and the task is kept as a dead letter.
    DeadLetter,
    /// It begins the same task anew after a while; the latency counts from the first begin.
    Again {
        /// How long after.
        wait: Nanos,
        /// In which share of cases, in millionths; else the task is dropped.
        millionths: u32,
    },
    /// The client begins no more tasks.
    Leave,
}

/// Who calls whom, under which policy.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Its name: `web -> api`.
    pub name: String,
    /// The callee's place.
    pub to: usize,
    /// The policy of each call.
    pub policy: Policy,
    /// Whether a call may safely be made twice.
    pub idempotent: bool,
    /// The guards of the callee, as this caller keeps them.
    pub guards: GuardRules,
    /// Whether each client has guards and tokens of its own.
    pub per_client: bool,
    /// Whether a call that a guard holds back fails at once; else it waits.
    pub fail_held: bool,
    /// A bucket of tokens that retries need.
    pub tokens: Option<Tokens>,
    /// How long a message takes, each way.
    pub latency: Distribution,
    /// The share of messages that never arrive, each way.
    pub loss: f64,
}

/// A general bucket of retry tokens, in millionths of a token. What the budgets of policies can't
/// say: tokens taken by failures, a threshold, refills by each success or by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The most that it holds.
    pub capacity: u64,
    /// What it holds at first.
    pub initial: u64,
    /// What each failed attempt takes, as far as there is some or `debt` allows it.
    pub per_failure: u64,
    /// What each retry takes. It is denied where there is less.
    pub per_retry: u64,
    /// What each success adds.
    pub per_success: u64,
    /// What each first attempt adds.
    pub per_first: u64,
    /// What each second adds.
    pub per_second: u64,
    /// A retry is denied where the bucket holds no more than this.
    pub threshold: Option<u64>,
    /// How far below zero failures may take it.
    pub debt: u64,
}

/// A callee.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// How many requests it works on at once.
    pub workers: u32,
    /// How long one takes.
    pub time: Distribution,
    /// Where requests wait for a worker.
    pub queue: Queue,
    /// Whether it works on requests whose callers no longer wait.
    pub work_for_gone: bool,
    /// How it slows down with what is in flight.
    pub slower: Option<Slower>,
    /// The share of requests that fail, over time.
    pub errors: Series,
    /// How long a request that fails takes; as one that succeeds unless set.
    pub error_time: Option<Distribution>,
    /// The HTTP status of those failures.
    pub status: u16,
    /// When to come again, as those failures say.
    pub error_retry_after: Option<Nanos>,
    /// The share of the workers that there are, over time.
    pub capacity: Series,
    /// How often requests may come.
    pub rate_limit: Option<RateLimit>,
    /// Its one row under optimistic concurrency.
    pub row: Option<Row>,
    /// How it starts after a crash or a deploy.
    pub cold: Option<Cold>,
    /// What it calls for each request, one after the other: places of edges.
    pub calls: Vec<usize>,
    /// Whether a request keeps its worker while it calls.
    pub holds_worker: bool,
}

/// Where requests wait for a worker.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Which is next.
    pub order: Order,
    /// The most that wait.
    pub capacity: u32,
    /// Whether others are dropped without an answer; else they get a 503.
    pub drops: bool,
    /// The longest that one waits; then it gets a 503.
    pub timeout: Option<Nanos>,
}

/// Which waiting request is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first that came.
    Fifo,
    /// The last that came.
    Lifo,
    /// The first that came; while more than this many wait, the last that came.
    AdaptiveLifo(u32),
}

/// With more than `from` requests in the service, each takes `by` longer per further one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slower {
    /// So many take no longer.
    pub from: u32,
    /// What each further one adds, as a share of the service time.
    pub by: f64,
}

/// A rate limit of the service.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    /// How often requests may come.
    pub pace: Pace,
    /// Whether a 429 says when to come again.
    pub retry_after: bool,
}

/// How the one row is written. A write succeeds only where the version that was read is still the
/// current one; else the answer is a 409.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// The service reads when it begins to work and writes when it ends.
    Transaction,
    /// The client reads with one request and writes with a second one, within one attempt.
    ReadThenWrite,
}

/// After a start, each request takes `factor` times as long, falling evenly to once over `length`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cold {
    /// How much longer at first.
    pub factor: f64,
    /// How long until the cache is warm.
    pub length: Nanos,
}

/// Something that goes wrong for a while.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// What.
    pub kind: TriggerKind,
    /// From when.
    pub at: Nanos,
    /// For how long.
    pub length: Nanos,
}

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum TriggerKind {
    /// The class's rate is this many times as large.
    Spike(usize, f64),
    /// The service stands still.
    Pause(usize),
    /// The service has only this share of its workers.
    Capacity(usize, f64),
    /// This share of the service's requests fails.
    Errors(usize, f64),
    /// The service takes this many times as long.
    Slow(usize, f64),
    /// The service is gone, with all that it worked on; connections are refused.
    Crash(usize),
    /// The service restarts in this many parts, one after the other, each with what it worked on.
    Deploy(usize, u32),
    /// This share of the edge's messages is lost.
    Loss(usize, f64),
}

/// What counts as good.
#[derive(Clone, Debug)]
pub struct Judge {
    /// The least share of tasks that succeed.
    pub success: f64,
    /// The longest 99th percentile of latency.
    pub latency: Option<Nanos>,
    /// The end of the run is judged: its last so long.
    pub window: Nanos,
}

impl Scenario {
    /// When the last trigger is over; none without triggers.
    #[must_use]
    pub fn last_trigger_end(&self) -> Option<Nanos> {
        self.triggers.iter().map(|t| t.at.saturating_add(t.length)).max()
    }

    /// The same scenario with nothing going wrong.
    #[must_use]
    pub fn without_triggers(&self) -> Self {
        Self { triggers: Vec::new(), ..self.clone() }
    }

    /// The same scenario in which all classes have this policy.
    #[must_use]
    pub fn with_policy(mut self, policy: &Policy) -> Self {
        let classes = self.classes.len();
        for edge in self.edges.iter_mut().take(classes) {
            edge.policy = policy.clone();
            edge.guards.retry_budget = policy.budget().copied().or(edge.guards.retry_budget);
        }
        self
    }

    /// The same scenario under `factor` times the load, within the limits. Closed loops have so many
    /// more clients.
    #[must_use]
    pub fn with_load(mut self, factor: f64) -> Self {
        let many = |n: u32| (f64::from(n) * factor).clamp(1.0, f64::from(MOST_CLIENTS)) as u32;
        for class in &mut self.classes {
            class.arrivals = match &class.arrivals {
                Arrivals::Open { rate, poisson } => Arrivals::Open {
                    rate: rate.map(|r| (r * factor).min(MOST_RATE)),
                    poisson: *poisson,
                },
                Arrivals::Burst { tasks, at } => Arrivals::Burst { tasks: many(*tasks), at: *at },
                closed @ Arrivals::Closed { .. } => {
                    class.count = many(class.count);
                    closed.clone()
                }
            };
        }
        self
    }

    /// The same scenario, whose triggers last `factor` times as long. The run lasts as much longer as
    /// they do, so that it has the same time to recover.
    #[must_use]
    pub fn with_trigger(mut self, factor: f64) -> Self {
        let before = self.last_trigger_end().unwrap_or_default();
        self.triggers.retain(|_| factor > 0.0);
        for trigger in &mut self.triggers {
            trigger.length = scaled(trigger.length, factor).min(LONGEST);
        }
        let longer = self.last_trigger_end().unwrap_or_default().saturating_sub(before);
        self.length = self.length.saturating_add(longer);
        self
    }
}
