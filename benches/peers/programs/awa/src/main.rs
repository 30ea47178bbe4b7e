//! Awa on its queue storage, with the settings of its own benchmark.

use std::time::{Duration, Instant};

use awa::{
    Client, InsertOpts, JobArgs, JobContext, JobError, JobResult, QueueConfig, Worker, migrations,
};
use kit::Asked;
use serde::{Deserialize, Serialize};

/// `awa.jobs` takes seconds to count what is completed; these are what it counts.
const LEFT: &str = "SELECT $1
    - coalesce((SELECT sum(completed_count) FROM awa.receipt_completion_batches), 0)::bigint
    - (SELECT count(*) FROM awa.done_entries)";

#[derive(Serialize, Deserialize, JobArgs)]
struct Nothing {
    job: u64,
}

struct Handler;

#[async_trait::async_trait]
impl Worker for Handler {
    fn kind(&self) -> &'static str {
        Nothing::kind()
    }

    async fn perform(&self, _: &JobContext) -> Result<JobResult, JobError> {
        kit::done();
        Ok(JobResult::Completed)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked = Asked::read();
    assert!(!asked.fail, "second attempts were not made within five minutes");
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(20).connect(&asked.url).await?;
    let client = || {
        let queue = QueueConfig {
            max_workers: asked.at_once as u32,
            poll_interval: Duration::from_millis(50),
            deadline_duration: Duration::ZERO,
            ..QueueConfig::default()
        };
        Client::builder(pool.clone()).queue("q", queue).register_worker(Handler).build()
    };
    match asked.phase.as_str() {
        "setup" => {
            migrations::run(&pool).await?;
            // The first client to start chooses the storage.
            let client = client()?;
            client.start().await?;
            client.shutdown(Duration::from_secs(5)).await;
        }
        "submit" => {
            let begun = Instant::now();
            for (first, end) in asked.batches(500) {
                let options = || InsertOpts { queue: "q".into(), ..InsertOpts::default() };
                let job = |job| awa::model::insert::params_with(&Nothing { job }, options());
                let jobs = (first..end).map(job).collect::<Result<Vec<_>, _>>()?;
                awa::insert_many_copy_from_pool(&pool, &jobs).await?;
            }
            kit::took(begun);
        }
        "work" => {
            let begun = Instant::now();
            let client = client()?;
            client.start().await?;
            let jobs = asked.jobs as i64;
            let left = async || sqlx::query_scalar(LEFT).bind(jobs).fetch_one(&pool).await.unwrap();
            kit::worked_off(&asked, left).await;
            kit::took(begun);
            client.shutdown(Duration::from_secs(5)).await;
        }
        phase => panic!("no phase is called {phase}"),
    }
    pool.close().await;
    Ok(())
}
