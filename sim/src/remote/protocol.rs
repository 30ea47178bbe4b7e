//! Frames: a length in four bytes, big-endian, and that many bytes of JSON.

use std::io;

use retrial::store::{Answer, Request, StoreError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest frame taken: a protection against reading nonsense as a length.
const MOST: u32 = 64 * 1024 * 1024;

/// A request on the wire.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RequestFrame {
    /// Pairs it with its answer on this connection.
    pub(super) id: u64,
    pub(super) ask: Request,
}

/// An answer on the wire.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AnswerFrame {
    pub(super) id: u64,
    pub(super) result: Result<Answer, StoreError>,
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
