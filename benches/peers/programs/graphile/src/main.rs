//! Graphile Worker's port to Rust, with the settings of its own benchmark: a local queue of 5,000 jobs,
//! completions in batches of 5 ms.

use std::sync::Arc;
use std::time::{Duration, Instant};

use graphile_worker::{
    Database, IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler,
    WorkerContext, WorkerOptions, WorkerUtils,
};
use kit::Asked;
use serde::{Deserialize, Serialize};

const SCHEMA: &str = "graphile_worker";
const BATCH: Duration = Duration::from_millis(5);

#[derive(Serialize, Deserialize)]
struct Nothing {
    job: u64,
}

impl TaskHandler for Nothing {
    const IDENTIFIER: &'static str = "nothing";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        kit::done();
        Ok::<(), String>(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked = Asked::read();
    assert!(!asked.fail, "it waits for seconds before a second attempt");
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(40).connect(&asked.url).await?;
    let utils = WorkerUtils::new(Database::from(pool.clone()), SCHEMA);
    match asked.phase.as_str() {
        "setup" => utils.migrate().await?,
        "submit" => {
            let begun = Instant::now();
            for (first, end) in asked.batches(500) {
                let job = |job| RawJobSpec {
                    identifier: Nothing::IDENTIFIER.into(),
                    payload: serde_json::json!({ "job": job }),
                    spec: JobSpec::default(),
                };
                utils.add_raw_jobs(&(first..end).map(job).collect::<Vec<_>>()).await?;
            }
            kit::took(begun);
        }
        "work" => {
            let begun = Instant::now();
            let options = WorkerOptions::default()
                .pg_pool(pool.clone())
                .schema(SCHEMA)
                .concurrency(asked.at_once)
                .poll_interval(BATCH)
                .listen_os_shutdown_signals(false)
                .define_job::<Nothing>()
                .local_queue(LocalQueueConfig::default().with_size(5_000))
                .complete_job_batch_delay(BATCH);
            let worker = Arc::new(options.init().await?);
            let running = tokio::spawn({
                let worker = Arc::clone(&worker);
                async move { worker.run().await.unwrap() }
            });
            let left = "SELECT count(*) FROM graphile_worker._private_jobs";
            let left = async || sqlx::query_scalar(left).fetch_one(&pool).await.unwrap();
            kit::worked_off(&asked, left).await;
            kit::took(begun);
            worker.request_shutdown();
            let _ = tokio::time::timeout(Duration::from_secs(10), running).await;
        }
        phase => panic!("no phase is called {phase}"),
    }
    Ok(())
}
