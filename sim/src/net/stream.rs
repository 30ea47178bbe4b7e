//! One end of a connection as a byte stream, with the plan's faults in its way.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use madsim::time::{Sleep, TimeHandle, sleep_until};
use retrial::time::{Mono, Nanos};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Net;
use super::conn::{Conn, End, Ending, State};
use super::plan::Effect;
use crate::clock::true_now;
use crate::fault::FaultKind;
use crate::incarnation::Incarnation;
use crate::trace::Kind;

/// One end of a simulated connection. Dropping it closes the connection, unless its incarnation is
/// over.
#[derive(Debug)]
pub struct ShimStream {
    net: Net,
    end: Arc<End>,
    sleep: Option<(Mono, Pin<Box<Sleep>>)>,
}

/// Resets a connection without holding its stream.
#[derive(Clone, Debug)]
pub struct Breaker {
    net: Net,
    end: Arc<End>,
}

impl Breaker {
    /// Resets the connection: what this end sent still arrives, then both ends see the reset.
    pub fn reset(&self) {
        if self.end.incarnation.is_over() {
            return;
        }
        let text = format!("{} is reset", self.end.conn.name);
        self.net.record(self.end.incarnation.node(), Kind::Message, &text, &[]);
        self.end.conn.state().reset(self.end.out);
    }
}

/// The state that a reader checks before the bytes.
enum Gate {
    /// At most so many bytes.
    Open(u64),
    /// The end.
    Ended(Ending),
    /// Nothing before then.
    Shut(Mono),
}

impl ShimStream {
    pub(super) fn new(net: Net, end: Arc<End>) -> Self {
        Self { net, end, sleep: None }
    }

    /// The node at the other end.
    #[must_use]
    pub fn peer(&self) -> &str {
        self.end.conn.sender(self.end.out.back())
    }

    /// The connection as the history names it: `from>to#number`, numbered from 0 on its link.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.end.conn.name
    }

    /// A handle that resets the connection.
    #[must_use]
    pub fn breaker(&self) -> Breaker {
        Breaker { net: self.net.clone(), end: Arc::clone(&self.end) }
    }

    fn incarnation(&self) -> &Incarnation {
        &self.end.incarnation
    }

    fn record(&self, does: &str, bytes: &[u8]) {
        let text = format!("{} {does} {} bytes", self.end.conn.name, bytes.len());
        self.net.record(self.incarnation().node(), Kind::Message, &text, bytes);
    }

    fn strike(&self, kind: FaultKind, pipe_at: u64) {
        let text = format!("{} {} after {pipe_at} bytes", self.end.conn.name, self.end.out);
        self.net.strike(self.incarnation().node(), kind, &text);
    }

    /// The next step of the reader. It is woken when that changes by anything but bytes.
    fn gate(&self, cx: &Context<'_>) -> Gate {
        let (conn, way, now) = (&self.end.conn, self.end.out.back(), true_now());
        let parted = self.net.parted(self.peer(), self.incarnation().node(), now);
        let mut state = conn.state();
        state.pipe(way).reader = Some(cx.waker().clone());
        if let Some((fault, until)) = parted {
            if state.pipe(way).has_news() && is_planned(fault) && state.struck.insert(fault) {
                self.net.strike(self.incarnation().node(), self.net.kind(fault), &conn.name);
            }
            return Gate::Shut(until);
        }
        let pipe = state.pipe(way);
        if let Some(until) = pipe.held(now) {
            return Gate::Shut(until);
        }
        match pipe.end {
            Some((byte, how)) if byte <= pipe.read => Gate::Ended(how),
            Some((byte, _)) => Gate::Open(pipe.free().min(byte - pipe.read)),
            None => Gate::Open(pipe.free()),
        }
    }

    /// Sleeps until `until`; forever when that is the last instant.
    fn poll_sleep(&mut self, cx: &mut Context<'_>, until: Mono) -> Poll<()> {
        if until == Mono::from_nanos(u64::MAX) {
            return Poll::Pending;
        }
        if self.sleep.as_ref().is_none_or(|(armed, _)| *armed != until) {
            let wait = until.since(true_now());
            let deadline = TimeHandle::current().now_instant() + std::time::Duration::from(wait);
            self.sleep = Some((until, Box::pin(sleep_until(deadline))));
        }
        let Some((_, sleep)) = &mut self.sleep else { return Poll::Ready(()) };
        ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        Poll::Ready(())
    }

    /// Takes up to `limit` bytes that have arrived.
    fn poll_bytes(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        limit: u64,
    ) -> Poll<io::Result<()>> {
        let (conn, way) = (&self.end.conn, self.end.out.back());
        let step = self.net.step(conn, way, conn.state().pipe(way).read);
        let most = usize::try_from(limit).unwrap_or(usize::MAX).min(step).min(buf.remaining());
        if most == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(most));
        let mut inner = self.end.inner();
        let Some(inner) = inner.as_mut() else { return Poll::Ready(Err(reset())) };
        ready!(Pin::new(inner).poll_read(cx, &mut part))?;
        if part.filled().is_empty() {
            return self.orphaned();
        }
        self.record("receives", part.filled());
        let taken = part.filled().len();
        buf.advance(taken);
        conn.state().pipe(way).read += taken as u64;
        Poll::Ready(Ok(()))
    }

    /// The other end vanished without closing: the listener dropped it before accepting it. When
    /// the listener died, that is silence until its node is back.
    fn orphaned(&self) -> Poll<io::Result<()>> {
        if self.end.conn.to.is_over() { Poll::Pending } else { Poll::Ready(Err(reset())) }
    }

    /// Lets the faults strike that wait for this byte.
    fn suffer(&self, state: &mut State) {
        let (conn, out, now) = (&self.end.conn, self.end.out, true_now());
        for (i, fault) in self.net.faults() {
            let sent = state.pipe(out).sent;
            let here = fault.effect.place().is_none_or(|place| place == (out, sent));
            if !here || !fault.covers(&conn.from, conn.to.node(), conn.number, now) {
                continue;
            }
            let late = match fault.effect {
                Effect::Delay { by } => by,
                Effect::Loss { percent } => self.net.lost(conn, out, sent, percent),
                _ => Nanos::ZERO,
            };
            if !late.is_zero() {
                state.pipe(out).holds.push_back((sent, now.after(late)));
            }
            let strikes = !late.is_zero() || fault.effect.place().is_some();
            if strikes && state.struck.insert(i) {
                self.strike(fault.effect.kind(), sent);
                match fault.effect {
                    Effect::ResetAt { .. } => state.reset(out),
                    Effect::CutAt { .. } => state.cut(),
                    Effect::Stall { lasts, .. } => {
                        state.pipe(out).holds.push_back((sent, now.after(lasts)));
                    }
                    _ => {}
                }
            }
        }
    }

    /// How many bytes may be sent before the next one that a fault waits for.
    fn room(&self, sent: u64) -> usize {
        let (conn, out) = (&self.end.conn, self.end.out);
        let places = self.net.faults().filter_map(|(_, f)| {
            let (way, byte) = f.effect.place()?;
            let ahead = way == out && byte > sent && f.about(conn);
            ahead.then(|| usize::try_from(byte - sent).unwrap_or(usize::MAX))
        });
        places.min().unwrap_or(usize::MAX).min(self.net.step(conn, out, sent))
    }

    /// Sends `bytes` at once. A peer that died before it accepted is silent, not gone.
    fn send(&self, cx: &mut Context<'_>, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.end.inner();
        let Some(inner) = inner.as_mut() else { return Err(reset()) };
        let mut inner = Pin::new(inner);
        let written = inner.as_mut().poll_write(cx, bytes);
        let flushed = inner.poll_flush(cx);
        match (written, flushed) {
            (Poll::Ready(Ok(_)), Poll::Ready(Ok(()))) => Ok(()),
            _ if self.end.conn.to.is_over() => Ok(()),
            _ => Err(reset()),
        }
    }

    /// Counts a partition that keeps what was just sent from its reader.
    fn note_parted(&self, state: &mut State, now: Mono) {
        let node = self.incarnation().node();
        let Some((fault, _)) = self.net.parted(node, self.peer(), now) else { return };
        if is_planned(fault) && state.struck.insert(fault) {
            self.net.strike(node, self.net.kind(fault), &self.end.conn.name);
        }
    }
}

/// The strike of a user's fault is counted by the fault itself.
fn is_planned(fault: usize) -> bool {
    fault != Net::BY_HAND
}

impl AsyncRead for ShimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        loop {
            if me.incarnation().is_over() {
                return Poll::Pending;
            }
            match me.gate(cx) {
                Gate::Open(limit) => return me.poll_bytes(cx, buf, limit),
                Gate::Ended(Ending::Closed) => return Poll::Ready(Ok(())),
                Gate::Ended(Ending::Reset) => return Poll::Ready(Err(reset())),
                Gate::Shut(until) => ready!(me.poll_sleep(cx, until)),
            }
        }
    }
}

impl AsyncWrite for ShimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        if me.incarnation().is_over() {
            return Poll::Pending;
        }
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let (conn, out, now) = (Arc::clone(&me.end.conn), me.end.out, true_now());
        let deaf = me.net.parted(me.peer(), me.incarnation().node(), now).is_some();
        let mut state = conn.state();
        me.suffer(&mut state);
        match state.pipe(out).end {
            // News of the end does not reach a writer that the other side can't reach.
            Some(_) if deaf => return Poll::Ready(Ok(buf.len())),
            Some((_, how)) => return Poll::Ready(Err(ended(how))),
            None => {}
        }
        let bytes = &buf[..buf.len().min(me.room(state.pipe(out).sent))];
        me.send(cx, bytes)?;
        state.pipe(out).sent += bytes.len() as u64;
        me.record("sends", bytes);
        me.note_parted(&mut state, now);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.incarnation().is_over() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.incarnation().is_over() {
            return Poll::Pending;
        }
        let mut state = self.end.conn.state();
        let pipe = state.pipe(self.end.out);
        pipe.finish(pipe.sent, Ending::Closed);
        Poll::Ready(Ok(()))
    }
}

impl Drop for ShimStream {
    fn drop(&mut self) {
        self.net.dropped(&self.end);
    }
}

impl super::NetFault {
    /// Whether it concerns `conn`, at any time.
    fn about(&self, conn: &Conn) -> bool {
        self.covers(&conn.from, conn.to.node(), conn.number, self.window.from)
    }
}

fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection was reset")
}

fn ended(how: Ending) -> io::Error {
    match how {
        Ending::Closed => io::Error::new(io::ErrorKind::BrokenPipe, "the connection was closed"),
        Ending::Reset => reset(),
    }
}
