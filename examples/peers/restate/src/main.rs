//! A durable greeting that is served to a Restate server, which calls it and retries it.

use restate_sdk::prelude::*;

struct Hello;

#[service]
impl Hello {
    #[handler]
    async fn greet(&self, ctx: Context<'_>, name: String) -> HandlerResult<String> {
        let retried = RunRetryPolicy::default().max_attempts(4);
        let greeting = ctx.run(|| async move { Ok(format!("Hello, {name}!")) });
        Ok(greeting.retry_policy(retried).await?)
    }
}

#[tokio::main]
async fn main() {
    let endpoint = Endpoint::builder().bind(Hello).build();
    HttpServer::new(endpoint).listen_and_serve(([127, 0, 0, 1], 9080).into()).await;
}
