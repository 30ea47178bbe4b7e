//! Hints between the nodes of a database: a transaction that leaves something due notifies the
//! others, once.

use std::future::{pending, poll_fn};
use std::sync::Arc;

use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::Failed;
use super::options::PostgresOptions;
use super::session::Session;
use crate::runtime::{Runtime as _, TokioRuntime};
use crate::time::Nanos;

/// All schemas of a database share this channel.
const LISTEN: &str = "LISTEN retrial";
/// PostgreSQL sends it with the COMMIT, and not at all if that fails.
const TELL: &str = "SELECT pg_notify('retrial', $1)";
/// How long to wait before listening again after the connection broke.
const AGAIN: Nanos = Nanos::from_secs(5);

/// Notifies other nodes, and recognises this node's own notifications.
pub(super) struct Notifier {
    schema: String,
    node: u64,
}

impl Notifier {
    pub(super) fn new(schema: &str, node: u64) -> Self {
        Self { schema: schema.to_owned(), node }
    }

    pub(super) async fn notify(&self, session: &Session, is_news: bool) -> Result<(), Failed> {
        let Self { schema, node } = self;
        let said = format!("{schema} {node:016x}");
        session.write(usize::from(is_news), TELL, [&said]).await.map(drop)
    }

    /// Whether another node of this schema sent it.
    fn is_from_another_node(&self, said: &str) -> bool {
        let Some((schema, node)) = said.split_once(' ') else { return false };
        schema == self.schema && node != format!("{:016x}", self.node)
    }
}

/// Listens for as long as it is polled. Notifications without a connection are lost, so each new
/// connection begins with a hint.
pub(super) async fn listen(
    runtime: TokioRuntime,
    options: PostgresOptions,
    tls: MakeRustlsConnect,
    own: Arc<Notifier>,
    news: Arc<Notify>,
) {
    loop {
        if let Err(error) = listen_once(&options, tls.clone(), &own, &news).await {
            tracing::debug!(
                error = super::error::message_of(&error),
                "not listening to other nodes"
            );
        }
        runtime.sleep_until(runtime.now().after(AGAIN)).await;
    }
}

async fn listen_once(
    options: &PostgresOptions,
    tls: MakeRustlsConnect,
    own: &Notifier,
    news: &Notify,
) -> Result<(), Error> {
    let (client, mut connection) = options.client_config().connect(tls).await?;
    let ask = async {
        client.batch_execute(LISTEN).await?;
        news.notify_one();
        pending().await
    };
    let listen = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(said) = message?
                && own.is_from_another_node(said.payload())
            {
                news.notify_one();
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
