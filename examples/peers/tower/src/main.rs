//! One service whose requests are retried.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tower::retry::Policy;
use tower::{ServiceBuilder, ServiceExt as _};

/// So many retries are left; each waits for 100 ms.
#[derive(Clone)]
struct Left(u32);

impl Policy<&'static str, String, std::io::Error> for Left {
    type Future = Pin<Box<dyn Future<Output = ()>>>;

    fn retry(
        &mut self,
        _: &mut &'static str,
        answer: &mut std::io::Result<String>,
    ) -> Option<Self::Future> {
        answer.as_ref().err()?;
        self.0 = self.0.checked_sub(1)?;
        Some(Box::pin(tokio::time::sleep(Duration::from_millis(100))))
    }

    fn clone_request(&mut self, request: &&'static str) -> Option<&'static str> {
        Some(request)
    }
}

async fn greet(name: &str) -> std::io::Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let service = ServiceBuilder::new().retry(Left(3)).service_fn(greet);
    println!("{}", service.oneshot("world").await?);
    Ok(())
}
