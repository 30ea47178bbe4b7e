//! Several stores on one database, each behind a gate, on a clock that stands still until it is turned.

use std::net::SocketAddr;
use std::sync::Arc;

use retrial::runtime::TokioRuntime;
use retrial::store::{Answer, Claim, Claimed, PostgresOptions, PostgresStore, Request, Store as _};
use retrial::time::Timestamp;
use retrial_testkit::postgres_server::{Server, Setup, Stop};
use tokio::sync::Notify;
use tokio_postgres::Client;

use super::gate::Gate;
use super::judge::{Round, answered};
use super::turns::{Choice, Next, Turns};
use crate::postgres::kit::{CLOCK_OF_A_TABLE, EMPTY};
use crate::store_model::naive::Naive;
use crate::store_model::script::{Answered, ask};

/// When the clock begins.
const START: u64 = 1_000_000;
const SCHEMA: &str = "gated";

pub(super) struct World {
    gates: Vec<Gate>,
    stores: Vec<Arc<PostgresStore>>,
    changed: Arc<Notify>,
    admin: Client,
    /// The states that the database may be in, by the model.
    candidates: Vec<Naive>,
    /// Statements that were let go one at a time.
    pub(super) statements: u64,
    /// Connections that were cut, answers that were lost, and crashes of the server.
    pub(super) troubles: u64,
    /// Races so far: each has bytes and counters of its own.
    pub(super) races: u64,
    now: u64,
    /// Dropped last.
    server: Server,
}

impl World {
    /// With so many stores, which have answered nothing yet.
    pub(super) async fn of(stores: usize) -> Self {
        // A statement that waits for the housekeeping of tables would seem to wait for another's lock.
        let settings = [("autovacuum", "off"), ("synchronous_commit", "on")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let server = Server::start_as(Setup { settings, ..Setup::default() });
        connect(server.port()).await.close().await;
        let admin = admin(&server).await;
        admin.batch_execute(CLOCK_OF_A_TABLE).await.unwrap();
        let changed = Arc::new(Notify::new());
        let mut gates = Vec::new();
        for _ in 0..stores {
            let at = SocketAddr::from(([127, 0, 0, 1], server.port()));
            gates.push(Gate::before(at, &changed).await);
        }
        let (stores, candidates) = (Vec::new(), Vec::new());
        let (statements, troubles, races, now) = (0, 0, 0, START);
        let mut world = Self {
            gates,
            stores,
            changed,
            admin,
            candidates,
            statements,
            troubles,
            races,
            now,
            server,
        };
        world.begin_again().await;
        world
    }

    /// Empties everything, and opens the stores anew.
    pub(super) async fn begin_again(&mut self) {
        for store in self.stores.drain(..) {
            Arc::into_inner(store).unwrap().close().await;
        }
        self.now = START;
        self.empty().await;
        let begin =
            format!("UPDATE clock SET ahead = 0, seen = 0; UPDATE turned SET now = {START}");
        self.admin.batch_execute(&begin).await.unwrap();
        for gate in &self.gates {
            self.stores.push(Arc::new(connect(gate.port()).await));
        }
    }

    /// Empties the tables. Rows of guards stay: stores that are open remember for which there are some.
    pub(super) async fn empty(&mut self) {
        self.admin.batch_execute(EMPTY).await.unwrap();
        let guards = "UPDATE guards SET state = NULL, sum = NULL";
        self.admin.batch_execute(guards).await.unwrap();
        self.candidates = vec![Naive::new(Timestamp::from_nanos(self.now))];
    }

    /// Asks one store while the others are silent, and judges the answer.
    pub(super) async fn ask(&mut self, place: usize, request: Request) {
        let answer = ask(&*self.stores[place], request.clone()).await;
        self.judge_alone(place, request, answer);
    }

    /// The same for a claim, whose answer the caller needs.
    pub(super) async fn claim(&mut self, place: usize, claim: Claim) -> Claimed {
        let claimed = self.stores[place].claim(claim.clone()).await.unwrap();
        self.judge_alone(place, Request::Claim(claim), Ok(Answer::Claim(claimed.clone())));
        claimed
    }

    fn judge_alone(&mut self, place: usize, request: Request, answer: Answered) {
        let mut round = Round::default();
        let said = format!("store {place} alone: {request:?}\n{answer:?}");
        round.ask_last(request, answer);
        self.judge(round, || said);
    }

    /// The clock goes on while all are silent.
    pub(super) async fn turn(&mut self, by: u64) {
        self.now += by;
        turn(&self.admin, by).await;
        let mut round = Round::default();
        round.tick(by, 0);
        self.judge(round, String::new);
    }

    /// Asks the stores all at once, one statement after the other as `choose` says, and judges the
    /// answers. Gives them by store.
    pub(super) async fn ask_together(
        &mut self,
        requests: Vec<(usize, Request)>,
        mut choose: impl FnMut(&[Choice]) -> Next,
    ) -> Vec<(usize, Request, Answered)> {
        let mut turns = Turns::new(&self.gates, &self.stores, &self.changed);
        requests.into_iter().for_each(|(place, request)| turns.send(place, request));
        let (mut round, before) = (Round::default(), self.troubles);
        loop {
            let choices = turns.choices(&self.admin).await;
            if choices.is_empty() {
                break;
            }
            let next = choose(&choices);
            turns.decide(next, &choices);
            match next {
                Next::Release(_) => self.statements += 1,
                Next::Cut(_) | Next::LoseAnswer(_) => self.troubles += 1,
                Next::Tick => {
                    self.now += TICK;
                    turn(&self.admin, TICK).await;
                    round.tick(TICK, turns.decisions());
                }
                Next::Crash => {
                    self.troubles += 1;
                    // Claims do not wait for the disk: here none is lost, so that each answer counts.
                    self.admin.batch_execute("CHECKPOINT").await.unwrap();
                    self.server.stop(Stop::Crash);
                    self.server.start_again();
                    self.admin = admin(&self.server).await;
                }
            }
        }
        let mut told = turns.told.join("\n");
        let mut answers = Vec::new();
        for (place, done) in turns.land().await {
            told += &format!("\nstore {place}: {:?}\n{:?}", done.request, done.answer);
            let known = answered(&done.answer);
            let again = match &known {
                None => {
                    let again = ask(&*self.stores[place], done.request.clone()).await;
                    told += &format!("\nand again: {again:?}");
                    Some(again)
                }
                Some(_) => None,
            };
            round.ask(&done, again.as_ref(), self.troubles > before);
            if let Some(again) = &again {
                round.ask_last(done.request.clone(), again.clone());
            }
            answers.extend(known.or(again).map(|answer| (place, done.request, answer)));
        }
        self.judge(round, || told);
        answers
    }

    fn judge(&mut self, round: Round, told: impl FnOnce() -> String) {
        let before = std::mem::take(&mut self.candidates);
        self.candidates = round.explain(&before);
        let many = before.len();
        let found = &self.candidates;
        assert!(!found.is_empty(), "no order explains it, from {many} states:\n{}", told());
        assert!(found.len() < 500, "too many states may be the true one");
    }
}

/// By how much the clock goes on while statements wait.
const TICK: u64 = 17_000;

async fn connect(port: u16) -> PostgresStore {
    let url = format!("postgres://retrial@127.0.0.1:{port}/postgres?sslmode=disable");
    let mut options = PostgresOptions::from_url(&url).unwrap().schema(SCHEMA).unwrap();
    options.writers = 1;
    PostgresStore::connect(TokioRuntime::current(), options).await.unwrap()
}

async fn admin(server: &Server) -> Client {
    let client = server.client("postgres").await;
    client.batch_execute(&format!("SET search_path TO {SCHEMA}")).await.unwrap();
    client
}

async fn turn(admin: &Client, by: u64) {
    admin.batch_execute(&format!("UPDATE turned SET now = now + {by}")).await.unwrap();
}
