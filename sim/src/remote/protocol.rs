//! Frames: a length in four bytes, big-endian, and that many bytes of JSON.

use std::io;

use retrial::run::{LetterId, RunId, Version};
use retrial::store::{
    Archived, AskLetters, AskRuns, Claim, Claimed, Commit, Committed, Create, Created, Defined,
    Definition, Discarded, Expired, GuardRow, Heads, Holding, Letters, Listed, Loaded, Prune,
    Pruned, QueueRow, Renewed, Store, StoreError, StoredDefinition, StoredLetter, Tally,
};
use retrial::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::StoreOp;

/// The longest frame taken: a protection against reading nonsense as a length.
const MOST: u32 = 64 * 1024 * 1024;

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// Pairs it with its answer on this connection.
    pub(super) id: u64,
    pub(super) ask: Ask,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Response {
    pub(super) id: u64,
    pub(super) result: Result<Answer, StoreError>,
}

/// One method's arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    Clock,
    Create(Create),
    Claim(Claim),
    Commit(Commit),
    Renew(Vec<Holding>),
    Expired { limit: usize },
    Load { run: RunId, after: Option<Version> },
    Heads { after: Option<RunId>, limit: usize },
    Queue(RunId),
    Trim { run: RunId, below: Version },
    Letters(AskLetters),
    Letter(LetterId),
    Discard { id: LetterId, reason: String },
    Archive(RunId),
    Prune(Prune),
    List(AskRuns),
    Tally,
    Guards,
    Define(Definition),
    Definition(String),
    Definitions { after: Option<String>, limit: usize },
}

/// One method's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Clock(Timestamp),
    Create(Created),
    Claim(Claimed),
    Commit(Committed),
    Renew(Renewed),
    Expired(Expired),
    Load(Option<Loaded>),
    Heads(Heads),
    Queue(Vec<QueueRow>),
    Trim,
    Letters(Letters),
    Letter(Option<StoredLetter>),
    Discard(Discarded),
    Archive(Archived),
    Prune(Pruned),
    List(Listed),
    Tally(Tally),
    Guards(Vec<GuardRow>),
    Define(Defined),
    Definition(Option<StoredDefinition>),
    Definitions(Vec<StoredDefinition>),
}

impl Ask {
    pub(super) fn op(&self) -> StoreOp {
        match self {
            Self::Clock => StoreOp::Clock,
            Self::Create(_) => StoreOp::Create,
            Self::Claim(_) => StoreOp::Claim,
            Self::Commit(_) => StoreOp::Commit,
            Self::Renew(_) => StoreOp::Renew,
            Self::Expired { .. } => StoreOp::Expired,
            Self::Load { .. } => StoreOp::Load,
            Self::Heads { .. } => StoreOp::Heads,
            Self::Queue(_) => StoreOp::Queue,
            Self::Trim { .. } => StoreOp::Trim,
            Self::Letters(_) | Self::Letter(_) => StoreOp::Letters,
            Self::Discard { .. } => StoreOp::Discard,
            Self::Archive(_) => StoreOp::Archive,
            Self::Prune(_) => StoreOp::Prune,
            Self::List(_) => StoreOp::List,
            Self::Tally => StoreOp::Tally,
            Self::Guards => StoreOp::Guards,
            Self::Define(_) => StoreOp::Define,
            Self::Definition(_) | Self::Definitions { .. } => StoreOp::Definitions,
        }
    }

    /// Calls `store`.
    pub(super) async fn call(self, store: &impl Store) -> Result<Answer, StoreError> {
        Ok(match self {
            Self::Clock => Answer::Clock(store.clock().await?),
            Self::Create(create) => Answer::Create(store.create(create).await?),
            Self::Claim(claim) => Answer::Claim(store.claim(claim).await?),
            Self::Commit(commit) => Answer::Commit(store.commit(commit).await?),
            Self::Renew(held) => Answer::Renew(store.renew(held).await?),
            Self::Expired { limit } => Answer::Expired(store.expired(limit).await?),
            Self::Load { run, after } => Answer::Load(store.load(run, after).await?),
            Self::Heads { after, limit } => Answer::Heads(store.heads(after, limit).await?),
            Self::Queue(run) => Answer::Queue(store.queue(run).await?),
            Self::Trim { run, below } => {
                store.trim(run, below).await?;
                Answer::Trim
            }
            Self::Letters(ask) => Answer::Letters(store.letters(ask).await?),
            Self::Letter(id) => Answer::Letter(store.letter(id).await?),
            Self::Discard { id, reason } => Answer::Discard(store.discard(id, reason).await?),
            Self::Archive(run) => Answer::Archive(store.archive(run).await?),
            Self::Prune(prune) => Answer::Prune(store.prune(prune).await?),
            Self::List(ask) => Answer::List(store.list(ask).await?),
            Self::Tally => Answer::Tally(store.tally().await?),
            Self::Guards => Answer::Guards(store.guards().await?),
            Self::Define(definition) => Answer::Define(store.define(definition).await?),
            Self::Definition(name) => Answer::Definition(store.definition(name).await?),
            Self::Definitions { after, limit } => {
                Answer::Definitions(store.definitions(after, limit).await?)
            }
        })
    }
}

/// `message` as a frame.
pub(super) fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4).ok().filter(|n| *n <= MOST).ok_or_else(too_long)?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}

/// The next message; `UnexpectedEof` when the stream ends.
pub(super) async fn read<M: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<M> {
    let length = stream.read_u32().await?;
    if length > MOST {
        return Err(too_long());
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).await?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a frame is longer than {MOST} bytes"))
}
