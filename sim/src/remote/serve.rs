//! The store's side.

use std::io;
use std::sync::Arc;

use madsim::time::sleep;
use retrial::store::Store;
use retrial::time::Nanos;
use tokio::io::{AsyncWriteExt as _, WriteHalf};
use tokio::sync::mpsc;

use super::protocol::{AnswerFrame, RequestFrame, frame, read};
use super::{StoreEffect, StoreFaults, StoreOp};
use crate::net::{ShimStream, SimListener};

/// Serves `store` to all who connect, until `listener` fails. Run it on the store's own node.
/// Requests of one connection run concurrently.
///
/// # Errors
/// Those of [`SimListener::accept`].
pub async fn serve<S: Store>(
    store: Arc<S>,
    listener: SimListener,
    faults: StoreFaults,
) -> io::Result<()> {
    let name: Arc<str> = listener.incarnation().node().into();
    loop {
        let stream = listener.accept().await?;
        let peer = stream.peer().into();
        let connection = Connection {
            store: Arc::clone(&store),
            faults: faults.clone(),
            name: Arc::clone(&name),
            peer,
        };
        madsim::task::spawn(connection.serve(stream));
    }
}

/// Serves one connection.
struct Connection<S> {
    store: Arc<S>,
    faults: StoreFaults,
    /// The store's node.
    name: Arc<str>,
    /// The caller's node.
    peer: Arc<str>,
}

impl<S> Clone for Connection<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            faults: self.faults.clone(),
            name: Arc::clone(&self.name),
            peer: Arc::clone(&self.peer),
        }
    }
}

impl<S: Store> Connection<S> {
    /// Reads requests until the connection ends.
    async fn serve(self, stream: ShimStream) {
        let (mut requests, answers) = tokio::io::split(stream);
        let (out, queue) = mpsc::unbounded_channel();
        madsim::task::spawn(write(queue, answers));
        while let Ok(request) = read::<RequestFrame>(&mut requests).await {
            let effect = self.faults.strike(&self.name, &self.peer, StoreOp::of(&request.ask));
            madsim::task::spawn(self.clone().answer(request, effect, out.clone()));
        }
    }

    /// Answers one request, as often and as late as `effect` demands.
    async fn answer(
        self,
        RequestFrame { id, ask }: RequestFrame,
        effect: Option<StoreEffect>,
        out: mpsc::UnboundedSender<AnswerFrame>,
    ) {
        match effect {
            Some(StoreEffect::LoseRequest) => return,
            Some(StoreEffect::Delay { by }) => sleep(by.into()).await,
            Some(StoreEffect::LoseAnswer | StoreEffect::Duplicate { .. }) | None => {}
        }
        let again = match effect {
            Some(StoreEffect::Duplicate { after }) => Some((ask.clone(), after)),
            _ => None,
        };
        let result = self.store.ask(ask).await;
        if effect != Some(StoreEffect::LoseAnswer) {
            // If the connection has ended, no caller waits.
            let _ = out.send(AnswerFrame { id, result });
        }
        if let Some((ask, after)) = again {
            if after > Nanos::ZERO {
                sleep(after.into()).await;
            }
            let _ = self.store.ask(ask).await;
        }
    }
}

async fn write(
    mut queue: mpsc::UnboundedReceiver<AnswerFrame>,
    mut stream: WriteHalf<ShimStream>,
) -> io::Result<()> {
    while let Some(response) = queue.recv().await {
        stream.write_all(&frame(&response)?).await?;
    }
    Ok(())
}
