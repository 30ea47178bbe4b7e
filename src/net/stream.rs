use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes that come and go, whatever network they cross.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> ByteStream for S {}

/// A stream of any network. Dropping it closes it.
pub type BoxStream = Box<dyn ByteStream>;
