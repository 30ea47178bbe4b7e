//! Hints between the nodes of a database: a transaction that leaves something due tells so, once.

use std::future::{pending, poll_fn};
use std::sync::Arc;

use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::Failed;
use super::options::PostgresOptions;
use super::session::Session;
use crate::runtime::Runtime;
use crate::time::Nanos;

/// The channel of all schemas of a database.
const LISTEN: &str = "LISTEN retrial";
/// Sent with the COMMIT, and not at all where that comes to nothing.
const TELL: &str = "SELECT pg_notify('retrial', $1)";
/// How long to wait before listening again where the connection broke.
const AGAIN: Nanos = Nanos::from_secs(5);

/// What a node says of itself.
pub(super) struct Voice {
    schema: String,
    node: u64,
}

impl Voice {
    pub(super) fn new(schema: &str, node: u64) -> Self {
        Self { schema: schema.to_owned(), node }
    }

    pub(super) async fn tell(&self, session: &Session, is_news: bool) -> Result<(), Failed> {
        let Self { schema, node } = self;
        let said = format!("{schema} {node:016x}");
        session.write(usize::from(is_news), TELL, [&said]).await.map(drop)
    }

    /// Whether another node of this schema said it.
    fn is_others(&self, said: &str) -> bool {
        let Some((schema, node)) = said.split_once(' ') else { return false };
        schema == self.schema && node != format!("{:016x}", self.node)
    }
}

/// Listens for as long as it is polled. What is said while there is no connection is missed, so
/// each new one begins with a hint.
pub(super) async fn listen<R: Runtime>(
    runtime: R,
    options: PostgresOptions,
    tls: MakeRustlsConnect,
    own: Arc<Voice>,
    heard: Arc<Notify>,
) {
    loop {
        if let Err(error) = hear(&options, tls.clone(), &own, &heard).await {
            tracing::debug!(error = super::error::told(&error), "not listening to other nodes");
        }
        runtime.sleep_until(runtime.now().after(AGAIN)).await;
    }
}

async fn hear(
    options: &PostgresOptions,
    tls: MakeRustlsConnect,
    own: &Voice,
    heard: &Notify,
) -> Result<(), Error> {
    let (client, mut connection) = options.prepared().connect(tls).await?;
    let ask = async {
        client.batch_execute(LISTEN).await?;
        heard.notify_one();
        pending().await
    };
    let listen = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(said) = message?
                && own.is_others(said.payload())
            {
                heard.notify_one();
            }
        }
        Ok(())
    };
    tokio::select! {
        biased;
        ended = listen => ended,
        failed = ask => failed,
    }
}
