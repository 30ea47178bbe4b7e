use tokio::io::{AsyncRead, AsyncWrite};

/// A bidirectional byte stream over any network.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> ByteStream for S {}

/// A stream without its type. Dropping it closes it.
pub type BoxStream = Box<dyn ByteStream>;
