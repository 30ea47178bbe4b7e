//! Apalis on PostgreSQL, at its best: fetches of 256 tasks, and no row lock as each begins.

use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage};
use kit::Asked;

const QUEUE: &str = "q";

async fn nothing(job: u64, fail: Data<bool>) -> Result<(), BoxDynError> {
    if *fail && kit::attempt(job) == 1 {
        return Err("busy".into());
    }
    kit::done();
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked = Asked::read();
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(20).connect(&asked.url).await?;
    match asked.phase.as_str() {
        "setup" => PostgresStorage::setup(&pool).await?,
        "submit" => {
            let begun = Instant::now();
            for (first, end) in asked.batches(500) {
                let task = |job: u64| TaskBuilder::new(serde_json::to_vec(&job).unwrap()).build();
                let mut transaction = pool.begin().await?;
                let tasks = (first..end).map(task).collect();
                apalis_postgres::queries::push_tasks(&mut *transaction, QUEUE, tasks).await?;
                transaction.commit().await?;
            }
            kit::took(begun);
        }
        "work" => {
            let begun = Instant::now();
            let config = Config::default().queue(QUEUE).batch_size(256).lock_tasks(false);
            let backend = PostgresStorage::<u64>::new(&pool)
                .with_config(config)
                .poll_with_interval(Duration::from_millis(50));
            let worker = WorkerBuilder::new("w")
                .backend(backend)
                .concurrency(asked.at_once)
                .data(asked.fail)
                .parallelize(tokio::spawn)
                .build(nothing);
            let left = "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'";
            let left = async || sqlx::query_scalar(left).fetch_one(&pool).await.unwrap();
            tokio::select! {
                ended = worker.run() => panic!("the worker ended: {:?}", ended.err()),
                () = kit::worked_off(&asked, left) => kit::took(begun),
            }
        }
        phase => panic!("no phase is called {phase}"),
    }
    Ok(())
}
