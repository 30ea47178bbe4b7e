//! Random scripts over the memory store and the PostgreSQL store, on clocks that are turned together:
//! both answer alike, to the nanosecond.

use std::collections::BTreeMap;

use proptest::prelude::*;
use retrial::run::Token;
use retrial::store::{
    Answer, Claim, ClaimId, MemoryStore, PostgresOptions, Report, Request, Store as _,
};
use retrial::time::{Nanos, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_postgres::Client;

use super::kit::{CLOCK_OF_A_TABLE, EMPTY, connect, new_schema, schema_of, server};
use crate::postgres_faults::script::Story;
use crate::store_model::script::{Answered, Op, Script, ask};
use crate::store_world::Turned;

const START: u64 = 1_000_000;

/// The tokens of both stores: each draws its own.
#[derive(Default)]
struct Tokens {
    to_postgres: BTreeMap<String, String>,
    to_memory: BTreeMap<String, String>,
}

fn name(token: Token) -> String {
    serde_json::from_value(serde_json::to_value(token).unwrap()).unwrap()
}

/// The same, with names replaced.
fn renamed<T: Serialize + DeserializeOwned>(value: &T, names: &BTreeMap<String, String>) -> T {
    fn walk(value: &mut Value, names: &BTreeMap<String, String>) {
        match value {
            Value::String(text) => text.clone_from(names.get(text).unwrap_or(&text.clone())),
            Value::Array(values) => values.iter_mut().for_each(|value| walk(value, names)),
            Value::Object(fields) => fields.values_mut().for_each(|value| walk(value, names)),
            _ => {}
        }
    }
    let mut json = serde_json::to_value(value).unwrap();
    walk(&mut json, names);
    serde_json::from_value(json).unwrap()
}

impl Tokens {
    fn request(&self, request: &Request) -> Request {
        renamed(request, &self.to_postgres)
    }

    fn answer(&self, answered: Answered) -> Answered {
        answered.map(|answer| renamed(&answer, &self.to_memory))
    }

    /// Takes in which tokens the stores gave for the same tasks.
    fn meet(&mut self, memory: &Answered, postgres: &Answered) {
        let (Ok(Answer::Claim(one)), Ok(Answer::Claim(other))) = (memory, postgres) else { return };
        for (one, other) in one.tasks.iter().zip(&other.tasks) {
            if (one.run, one.task) == (other.run, other.task) {
                self.to_postgres.insert(name(one.token), name(other.token));
                self.to_memory.insert(name(other.token), name(one.token));
            }
        }
    }
}

/// A schema whose clock is a table.
async fn turned_schema() -> (PostgresOptions, Client) {
    let mut options = new_schema();
    (options.connections, options.writers) = (2, 1);
    connect(&options).await.close().await;
    let client = server().client("postgres").await;
    client.batch_execute(&format!("SET search_path TO {}", schema_of(&options))).await.unwrap();
    client.batch_execute(CLOCK_OF_A_TABLE).await.unwrap();
    (options, client)
}

async fn empty(client: &Client) {
    client.batch_execute(EMPTY).await.unwrap();
    let rest = "DELETE FROM guards; UPDATE clock SET ahead = 0, seen = 0";
    client.batch_execute(rest).await.unwrap();
}

async fn turn(client: &Client, now: u64) {
    client.batch_execute(&format!("UPDATE turned SET now = {now}")).await.unwrap();
}

async fn check(
    options: &PostgresOptions,
    client: &Client,
    ops: Vec<Op>,
) -> Result<(), TestCaseError> {
    let (runtime, mut now) = (Turned::at(START), START);
    let memory = MemoryStore::starting_at(runtime.clone(), Timestamp::from_nanos(START));
    empty(client).await;
    turn(client, now).await;
    let postgres = connect(options).await;
    let (mut script, mut tokens) = (Script::default(), Tokens::default());
    for op in ops {
        // Whole microseconds, so that no two rows become due at the same instant by chance.
        now += op.turn * 1_000;
        runtime.turn(Nanos::new(op.turn * 1_000));
        turn(client, now).await;
        let call = script.call(op);
        let from_memory = ask(&memory, call.clone()).await;
        let from_postgres = ask(&postgres, tokens.request(&call)).await;
        tokens.meet(&from_memory, &from_postgres);
        prop_assert_eq!(&from_memory, &tokens.answer(from_postgres), "{:?}", call);
        script.saw(&call, &from_memory);
    }
    for call in Script::everything() {
        let from_memory = ask(&memory, call.clone()).await;
        let from_postgres = tokens.answer(ask(&postgres, call.clone()).await);
        prop_assert_eq!(&from_memory, &from_postgres, "at last: {:?}", call);
    }
    postgres.close().await;
    Ok(())
}

/// Half of them, so that two cores have one each.
fn check_many() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (options, client) = tokio.block_on(turned_schema());
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) };
    let scripts = prop::collection::vec(Op::any(), 1..60);
    let mut runner = prop::test_runner::TestRunner::new(config);
    let held = runner.run(&scripts, |ops| tokio.block_on(check(&options, &client, ops)));
    assert!(held.is_ok(), "{}", held.unwrap_err());
}

#[test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
fn the_postgres_store_answers_as_the_memory_store() {
    check_many();
}

#[test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
fn the_postgres_store_answers_as_the_memory_store_to_other_scripts() {
    check_many();
}

/// A report is kept for two days, whatever its node does then.
#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c16_reports_of_nodes_that_are_gone_are_removed() {
    let (options, client) = turned_schema().await;
    let runtime = Turned::at(START);
    let memory = MemoryStore::starting_at(runtime.clone(), Timestamp::from_nanos(START));
    turn(&client, START).await;
    let postgres = connect(&options).await;
    let report = |node: &str| Report { node: node.to_owned(), body: "counts".into() };
    let (kept, moment) = (Report::KEPT.get(), 1_000);
    let mut now = START;
    for (node, later, left) in
        [("a", 0, vec!["a"]), ("b", kept, vec!["a", "b"]), ("c", moment, vec!["b", "c"])]
    {
        now += later;
        runtime.turn(Nanos::new(later));
        turn(&client, now).await;
        memory.report(report(node)).await.unwrap();
        postgres.report(report(node)).await.unwrap();
        let found = memory.reports().await.unwrap();
        assert_eq!(found, postgres.reports().await.unwrap());
        assert_eq!(found.iter().map(|kept| &*kept.report.node).collect::<Vec<_>>(), left);
    }
    postgres.close().await;
}

/// The last claim of a writer is known until nothing is reserved by it. Another's claim forgets it then.
#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn claims_of_writers_that_are_gone_are_forgotten() {
    let (options, client) = turned_schema().await;
    let postgres = connect(&options).await;
    let writers = async || {
        let rows = client.query("SELECT writer FROM claims ORDER BY writer", &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>()
    };
    let lasts = Nanos::from_secs(10);
    let mut now = START;
    for (writer, left) in [(1, vec![1]), (2, vec![1, 2]), (3, vec![2, 3])] {
        turn(&client, now).await;
        let story = Story::plain(writer);
        postgres.create(story.create()).await.unwrap();
        let id = ClaimId { writer, counter: 1 };
        let claimed = postgres.claim(Claim { id, lasts, ..story.claim(1) }).await.unwrap();
        assert_eq!(claimed.tasks.len(), 1);
        assert_eq!(writers().await, left);
        now += lasts.get() / 2;
    }
    postgres.close().await;
}
