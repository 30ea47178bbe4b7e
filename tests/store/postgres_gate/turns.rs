//! Whose statement is next. A decision is made only when everything stands still: each request has
//! been answered, or waits at its gate, or waits in the server for a lock. So what was decided says
//! all that happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use retrial::store::{Answer, PostgresStore, Request, Store as _, StoreError};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::Client;

use super::gate::{Executing, Gate, Standing, Waiting};

/// How long everything may take to stand still.
const PATIENCE: Duration = Duration::from_secs(60);

/// What happens next, to the connection at a place among those that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Its statement is let go.
    Release(usize),
    /// It ends, and its statement never arrives.
    Cut(usize),
    /// Its statement is let go, and the answer never arrives.
    LoseAnswer(usize),
    /// The clock goes on, whoever waits.
    Tick,
    /// The server crashes and starts again.
    Crash,
}

/// A connection that waits, and of which store it is.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) store: usize,
    pub(super) waiting: Waiting,
}

/// A request that has been answered.
pub(super) struct Done {
    pub(super) request: Request,
    pub(super) answer: Result<Answer, StoreError>,
    /// The decision after which it was answered.
    pub(super) ended: usize,
}

struct Flying {
    request: Request,
    answer: JoinHandle<Result<Answer, StoreError>>,
    landed: Arc<AtomicBool>,
    ended: Option<usize>,
}

/// Stores whose requests are in flight, one each at most, with their gates.
pub(super) struct Turns<'t> {
    gates: &'t [Gate],
    stores: &'t [Arc<PostgresStore>],
    changed: &'t Notify,
    flying: Vec<Option<Flying>>,
    decisions: usize,
    /// What was decided, to be read where something is wrong.
    pub(super) told: Vec<String>,
}

impl<'t> Turns<'t> {
    pub(super) fn new(
        gates: &'t [Gate],
        stores: &'t [Arc<PostgresStore>],
        changed: &'t Notify,
    ) -> Self {
        let flying = stores.iter().map(|_| None).collect();
        Self { gates, stores, changed, flying, decisions: 0, told: Vec::new() }
    }

    /// Sends `request` to the store at `place`, whose statements wait from now on.
    pub(super) fn send(&mut self, place: usize, request: Request) {
        self.gates[place].hold(true);
        let (store, asked) = (Arc::clone(&self.stores[place]), request.clone());
        let landed = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&landed);
        let answer = tokio::spawn(async move {
            let answer = store.ask(asked).await;
            is_over.store(true, Ordering::SeqCst);
            answer
        });
        self.flying[place] = Some(Flying { request, answer, landed, ended: None });
    }

    /// What can happen next, once everything stands still; nothing where all has been answered.
    pub(super) async fn choices(&mut self, admin: &Client) -> Vec<Choice> {
        let (until, mut has_changed) = (Instant::now() + PATIENCE, true);
        loop {
            assert!(Instant::now() < until, "it never stands still after {:#?}", self.told);
            let standing: Vec<Standing> = self.gates.iter().map(Gate::standing).collect();
            if self.stands_still(&standing, has_changed, admin).await {
                self.hold_no_claim_up(&standing);
                self.take_ends();
                let of = |(store, standing): (usize, Standing)| {
                    let of_store = move |waiting| Choice { store, waiting };
                    standing.waiting.into_iter().map(of_store)
                };
                let choices: Vec<_> = standing.into_iter().enumerate().flat_map(of).collect();
                let ends = self.flying.iter().flatten().all(|flying| flying.ended.is_some());
                let told = &self.told;
                assert!(ends || !choices.is_empty(), "they wait for each other after {told:#?}");
                return choices;
            }
            // Nobody says that a statement waits for a lock: what does not change is looked at.
            let change = timeout(Duration::from_millis(1), self.changed.notified());
            has_changed = change.await.is_ok();
        }
    }

    /// Claims wait for no lock: whoever stops in the middle of a transaction holds none of them up.
    fn hold_no_claim_up(&self, standing: &[Standing]) {
        for Executing { text, .. } in standing.iter().flat_map(|standing| &standing.executing) {
            let is_of_a_claim = text.starts_with("WITH RECURSIVE") || text.contains(" claims ");
            assert!(!is_of_a_claim, "a claim waits for a lock after {:#?}: {text}", self.told);
        }
    }

    async fn stands_still(&self, standing: &[Standing], moves: bool, admin: &Client) -> bool {
        for (flying, standing) in self.flying.iter().zip(standing) {
            let has_landed = |flying: &Flying| flying.landed.load(Ordering::SeqCst);
            let is_free = flying.as_ref().is_none_or(has_landed);
            if !is_free && standing.waiting.is_empty() && standing.executing.is_empty() {
                return false;
            }
        }
        let executing = standing.iter().flat_map(|s| &s.executing);
        let executing: Vec<_> = executing.map(|executing| executing.process).collect();
        let left: Vec<i32> = standing.iter().flat_map(|s| &s.left).copied().collect();
        // What has ended lets go of its locks as it goes: who waits for one is asked afterwards.
        (left.is_empty() || self.have_gone(&left, admin).await)
            && (executing.is_empty() || !moves && wait_for_locks(&executing, admin).await)
    }

    /// Whether nothing is left of processes whose connections have ended, no lock above all.
    async fn have_gone(&self, left: &[i32], admin: &Client) -> bool {
        const THERE: &str = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY($1)";
        let there = admin.query_one(THERE, &[&left]).await.unwrap().get::<_, i64>(0) > 0;
        if !there {
            self.gates.iter().for_each(|gate| gate.forget_those_that_left(left));
        }
        !there
    }

    fn take_ends(&mut self) {
        for flying in self.flying.iter_mut().flatten() {
            if flying.landed.load(Ordering::SeqCst) {
                flying.ended.get_or_insert(self.decisions);
            }
        }
    }

    /// Does what was decided, but for ticks and crashes, which the caller does.
    pub(super) fn decide(&mut self, next: Next, choices: &[Choice]) {
        self.decisions += 1;
        let place = match next {
            Next::Release(place) | Next::Cut(place) | Next::LoseAnswer(place) => place,
            Next::Tick | Next::Crash => return self.told.push(format!("{next:?}")),
        };
        let Choice { store, waiting } = &choices[place];
        let (gate, Waiting { line, text, .. }) = (&self.gates[*store], waiting);
        let text: String = text.chars().take(60).collect();
        self.told.push(match next {
            Next::Release(_) => format!("{store}/{line} {text}"),
            _ => format!("{store}/{line} {text} !! {next:?}"),
        });
        match next {
            Next::Cut(_) => gate.cut(*line),
            _ => gate.release(*line, matches!(next, Next::LoseAnswer(_))),
        }
    }

    /// How many decisions there were.
    pub(super) fn decisions(&self) -> usize {
        self.decisions
    }

    /// All requests with their answers, by store.
    pub(super) async fn land(self) -> Vec<(usize, Done)> {
        let mut done = Vec::new();
        for (place, flying) in self.flying.into_iter().enumerate() {
            self.gates[place].hold(false);
            if let Some(Flying { request, answer, ended, .. }) = flying {
                let (answer, ended) = (answer.await.unwrap(), ended.unwrap_or(self.decisions));
                done.push((place, Done { request, answer, ended }));
            }
        }
        done
    }
}

/// Whether each of these processes waits for a lock.
async fn wait_for_locks(executing: &[Option<i32>], admin: &Client) -> bool {
    const WAITING: &str = "SELECT DISTINCT pid FROM pg_locks WHERE NOT granted";
    let waiting = admin.query(WAITING, &[]).await.unwrap();
    let waiting: Vec<i32> = waiting.iter().map(|row| row.get(0)).collect();
    executing.iter().all(|process| process.is_some_and(|process| waiting.contains(&process)))
}
