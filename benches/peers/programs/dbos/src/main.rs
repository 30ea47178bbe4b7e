//! DBOS Transact for Rust: a workflow of one step, from eight queues that are polled every 100 ms. One
//! queue, polled each second, is its default and slower.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dbos::{Config, DBOS, Enqueue, QueueConflict, QueueOptions, StartOptions, StepOptions};
use kit::Asked;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const QUEUES: u64 = 8;

#[derive(Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("busy")]
struct Busy;

fn queue(job: u64) -> String {
    format!("q{}", job % QUEUES)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked = Asked::read();
    let dbos = DBOS::new(Config {
        app_version: Some("1".into()),
        max_connections: 20,
        migrate: asked.phase == "setup",
        listen_queues: (asked.phase != "work").then(Vec::new),
        ..Config::new("bench", asked.url.clone())
    });
    let fail = asked.fail;
    let one = dbos.register_workflow("one", move |job: u64| async move {
        let (max_attempts, interval) = (if fail { 3 } else { 1 }, Duration::from_millis(1));
        let options = StepOptions { max_attempts, interval, ..StepOptions::default() };
        let step = move || async move {
            match fail && kit::attempt(job) == 1 {
                true => Err(dbos::Error::Application(Busy)),
                false => Ok(()),
            }
        };
        dbos::step_with("nothing", options, step).await?;
        kit::done();
        dbos::Result::<(), Busy>::Ok(())
    })?;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(&asked.url).await?;
    let begun = Instant::now();
    dbos.launch().await?;
    match asked.phase.as_str() {
        "setup" => {
            let polling_interval = Duration::from_millis(100);
            for job in 0..QUEUES {
                let options = QueueOptions { polling_interval, ..QueueOptions::default() };
                let conflict = QueueConflict::UpdateIfLatestVersion;
                dbos.register_queue(&queue(job), options, conflict).await?;
            }
        }
        "submit" => {
            let (one, places) = (Arc::new(one), Arc::new(Semaphore::new(asked.at_once)));
            let mut users = JoinSet::new();
            for job in 0..asked.jobs {
                let (one, place) = (Arc::clone(&one), Arc::clone(&places).acquire_owned().await?);
                users.spawn(async move {
                    let name = queue(job);
                    let queue = Some(Enqueue::new(&name));
                    let options = StartOptions { queue, ..StartOptions::default() };
                    one.start_with(job, options).await.unwrap();
                    drop(place);
                });
            }
            while let Some(user) = users.join_next().await {
                user?;
            }
            kit::took(begun);
        }
        "work" => {
            let left = "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'";
            let left = async || sqlx::query_scalar(left).fetch_one(&pool).await.unwrap();
            kit::worked_off(&asked, left).await;
            kit::took(begun);
        }
        phase => panic!("no phase is called {phase}"),
    }
    dbos.shutdown().await;
    Ok(())
}
