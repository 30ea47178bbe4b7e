//! A node: a process of its own that works runs off until its standard input ends.
//!
//! It is this same test program, started again with its plan in the environment. It is told on
//! its standard input what to submit, and says in lines of JSON what it did.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use retrial::action::Registry;
use retrial::engine::{Config, Engine};
use retrial::observe::{Notice, Observer};
use retrial::run::{Event, RunId};
use retrial::runtime::TokioRuntime;
use retrial::store::{Answer, Committed, DynStore, Request, Store, StoreError};
use retrial::time::Nanos;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::postgres::kit::{World, with_http};
use crate::postgres_faults::opened::{Opened, open};
use crate::postgres_faults::work::Work;

/// The variable that holds a node's plan.
pub(crate) const PLAN: &str = "RETRIAL_TEST_NODE";

/// How a node works.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The store's URL.
    pub(crate) store: String,
    /// The endpoint that its runs call.
    pub(crate) endpoint: String,
    pub(crate) lease_ms: u64,
    pub(crate) concurrency: usize,
}

/// The plan of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// To submit the runs with these numbers, the last excluded.
    Submit(u64, u64),
}

/// What a node says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    /// It works.
    Ready,
    /// The run with this number is durable.
    Submitted(u64, RunId),
    /// A run has ended by a commit of this node.
    Ended(RunId),
    /// A commit about a run was not taken because of what others have written, or a lease of it was
    /// lost before its renewal.
    Refused(RunId, String),
    /// How long claims took since it was last said, in microseconds.
    Claims(Vec<u32>),
}

fn say(said: &Said) {
    println!("{}", serde_json::to_string(said).unwrap());
}

/// A store that says which commits were refused and notes how long claims take.
struct Watched {
    store: Opened,
    claims: Arc<Mutex<Vec<u32>>>,
}

impl Store for Watched {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let (begun, asked) = (Instant::now(), request.clone());
        let answer = self.store.ask(request).await;
        let refused = |run, how: &str| say(&Said::Refused(run, how.to_owned()));
        match (&asked, &answer) {
            (Request::Claim(_), _) => {
                let took = u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX);
                self.claims.lock().unwrap().push(took);
            }
            (Request::Renew(held), Ok(Answer::Renew(renewed))) => {
                renewed.lost(held).for_each(|holding| refused(holding.run, "lost"));
            }
            (Request::Commit(commit), Ok(Answer::Commit(committed))) => match committed {
                Committed::Conflict { .. } | Committed::Behind { .. } => {
                    refused(commit.run, "conflict");
                }
                Committed::Fenced { .. } => refused(commit.run, "fenced"),
                _ => {}
            },
            _ => {}
        }
        answer
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        self.store.news()
    }
}

/// Says which runs have ended.
struct Ends;

impl Observer for Ends {
    fn tell(&self, notice: &Notice<'_>) {
        if let Event::RunEnded { .. } = notice.event {
            say(&Said::Ended(notice.run));
        }
    }
}

#[test]
#[ignore = "not a test of its own: a node that other tests of this program start"]
fn works_until_its_input_ends() {
    let Ok(plan) = std::env::var(PLAN) else { return };
    let plan: Plan = serde_json::from_str(&plan).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(work(plan));
    // At once, as the engine is to be left where it is.
    std::process::exit(0);
}

async fn work(plan: Plan) {
    let runtime = TokioRuntime::current();
    let claims = Arc::default();
    let store = Watched { store: open(&plan.store).await, claims: Arc::clone(&claims) };
    let (store, actions) = (DynStore::new(store), with_http(Registry::new()));
    let config = Config {
        concurrency: plan.concurrency,
        lease: Nanos::from_millis(plan.lease_ms),
        poll: Nanos::from_millis(200),
        lane_idle: Nanos::from_secs(5),
        sole_owner: false,
        // Nodes are killed all the time, whatever their tasks do.
        quarantine_after: None,
        ..Config::default()
    };
    let engine =
        Engine::<World>::start(runtime, store, actions, config, vec![Arc::new(Ends)]).await;
    say(&Said::Ready);
    tokio::spawn(tell_of_claims(claims));
    let work = Arc::new(Work::at(&plan.endpoint));
    let mut told = listen();
    while let Some(Told::Submit(from, to)) = told.recv().await {
        let (engine, work) = (engine.clone(), Arc::clone(&work));
        tokio::spawn(async move {
            for number in from..to {
                let handle = engine.submit(work.submission(number)).await.unwrap();
                say(&Said::Submitted(number, handle.run));
            }
        });
    }
}

/// What comes on the standard input, until that ends.
fn listen() -> mpsc::UnboundedReceiver<Told> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _ = tell.send(serde_json::from_str(&line).unwrap());
        }
    });
    told
}

async fn tell_of_claims(claims: Arc<Mutex<Vec<u32>>>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let taken = std::mem::take(&mut *claims.lock().unwrap());
        say(&Said::Claims(taken));
    }
}
