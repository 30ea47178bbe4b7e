use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::strict_heads::StrictHeads;
use retrial::runtime::Runtime;
use retrial::time::Nanos;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection that fails when its peer leaves written data unread for too long. Otherwise a peer
/// that never reads would occupy a connection forever. What it reads has [`StrictHeads`].
pub(super) struct WriteTimeout {
    stream: TcpStream,
    heads: StrictHeads,
    new_timeout: Box<dyn Fn() -> Sleep + Send>,
    /// The timeout of the write that is pending.
    pending: Option<Sleep>,
}

impl WriteTimeout {
    /// `head`: the most bytes of a request's head.
    pub(super) fn new(
        stream: TcpStream,
        runtime: impl Runtime,
        within: Nanos,
        head: usize,
    ) -> Self {
        let new_timeout = Box::new(move || -> Sleep {
            let runtime = runtime.clone();
            Box::pin(async move { runtime.sleep_until(runtime.now().after(within)).await })
        });
        Self { stream, heads: StrictHeads::new(head), new_timeout, pending: None }
    }

    fn watched<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.pending = None;
            return written;
        }
        let pending = self.pending.get_or_insert_with(|| (self.new_timeout)());
        pending.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for WriteTimeout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.heads.follow(&mut buf.filled_mut()[before..]);
        read
    }
}

impl AsyncWrite for WriteTimeout {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watched(written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watched(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
