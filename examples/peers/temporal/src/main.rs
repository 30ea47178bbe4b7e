//! A durable greeting: a worker of a Temporal server, which starts it and retries its activity.

use std::error::Error;
use std::time::Duration;

use temporalio_client::envconfig::LoadClientConfigProfileOptions;
use temporalio_client::{
    Client, ClientOptions, Connection, WorkflowGetResultOptions, WorkflowStartOptions,
};
use temporalio_macros::{activities, workflow, workflow_methods};
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use temporalio_sdk::{
    ActivityOptions, Runtime, Worker, WorkerOptions, WorkflowContext, WorkflowResult,
};

pub struct Greetings;

#[activities]
impl Greetings {
    #[activity]
    pub async fn greet(_: ActivityContext, name: String) -> Result<String, ActivityError> {
        Ok(format!("Hello, {name}!"))
    }
}

#[workflow]
#[derive(Default)]
struct Hello;

#[workflow_methods]
impl Hello {
    #[run]
    async fn run(ctx: &mut WorkflowContext<Self>, name: String) -> WorkflowResult<String> {
        let options = ActivityOptions::start_to_close_timeout(Duration::from_secs(10));
        Ok(ctx.execute_activity(Greetings::greet, name, options).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::from_current_tokio(Default::default())?;
    let (server, options) =
        ClientOptions::load_from_config(LoadClientConfigProfileOptions::default())?;
    let client = Client::new(Connection::connect(server).await?, options)?;
    let options = WorkerOptions::new("hello").register_workflow::<Hello>()?;
    let options = options.register_activities(Greetings).build();
    let mut worker = Worker::new(&runtime, client.clone(), options)?;
    let started = WorkflowStartOptions::new("hello", "hello-1").build();
    let run = client.start_workflow(Hello::run, "world".to_owned(), started).await?;
    tokio::select! {
        ended = worker.run() => ended?,
        greeting = run.get_result(WorkflowGetResultOptions::default()) => println!("{}", greeting?),
    }
    Ok(())
}
