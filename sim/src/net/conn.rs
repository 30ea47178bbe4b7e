//! The state that the two ends of a connection share: the position of each direction, its
//! obstacles, and how it ends.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use madsim::net::TcpStream;
use retrial::run::mix;
use retrial::time::Mono;

use super::plan::Direction;
use crate::incarnation::Incarnation;

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    /// The node that connected.
    pub(super) from: Arc<str>,
    /// The listener's incarnation.
    pub(super) to: Incarnation,
    /// Which connection from the one node to the other, from 0.
    pub(super) number: u64,
    /// `from>to#number`.
    pub(super) name: String,
    /// The name in 64 bits.
    key: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    request: Pipe,
    response: Pipe,
    /// The faults, by place in the plan, that have struck here.
    pub(super) struck: BTreeSet<usize>,
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// Bytes that were sent.
    pub(super) sent: u64,
    /// Bytes that were read.
    pub(super) read: u64,
    /// From which byte on nothing may be read before when, in order.
    pub(super) holds: VecDeque<(u64, Mono)>,
    /// After which byte it ends, and how.
    pub(super) end: Option<(u64, Ending)>,
    /// A reader that waits for more than bytes.
    pub(super) reader: Option<Waker>,
}

/// How a direction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Closed cleanly.
    Closed,
    /// Reset.
    Reset,
}

impl Pipe {
    /// Ends it after `byte`, unless it has ended.
    pub(super) fn finish(&mut self, byte: u64, how: Ending) {
        if self.end.is_none() {
            self.end = Some((byte, how));
        }
        self.wake();
    }

    /// Whether the reader has anything to find: bytes or the end.
    pub(super) fn has_news(&self) -> bool {
        self.sent > self.read || self.end.is_some()
    }

    /// Until when the next byte is held back. Forgets holds that are over.
    pub(super) fn held(&mut self, now: Mono) -> Option<Mono> {
        while let Some(&(byte, until)) = self.holds.front() {
            if byte > self.read {
                return None;
            }
            if now < until {
                return Some(until);
            }
            self.holds.pop_front();
        }
        None
    }

    /// How many bytes may be read before the next hold.
    pub(super) fn free(&self) -> u64 {
        self.holds.front().map_or(u64::MAX, |(byte, _)| byte.saturating_sub(self.read))
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }
}

impl State {
    pub(super) fn pipe(&mut self, direction: Direction) -> &mut Pipe {
        match direction {
            Direction::Request => &mut self.request,
            Direction::Response => &mut self.response,
        }
    }

    /// Resets the connection as seen from the end that sends along `out`: bytes that it sent still
    /// arrive before the reset, bytes that it has not read are lost.
    pub(super) fn reset(&mut self, out: Direction) {
        let sent = self.pipe(out).sent;
        self.pipe(out).finish(sent, Ending::Reset);
        let back = self.pipe(out.back());
        // An earlier close of the other end is lost with the bytes before it.
        back.end = Some((back.read, Ending::Reset));
        back.wake();
    }

    /// Closes both directions where they are.
    pub(super) fn cut(&mut self) {
        for direction in [Direction::Request, Direction::Response] {
            let sent = self.pipe(direction).sent;
            self.pipe(direction).finish(sent, Ending::Closed);
        }
    }

    /// Lets both readers look again.
    pub(super) fn wake(&mut self) {
        [Direction::Request, Direction::Response].into_iter().for_each(|d| self.pipe(d).wake());
    }

    /// Lets go of everything that is held back.
    pub(super) fn release(&mut self) {
        for direction in [Direction::Request, Direction::Response] {
            let pipe = self.pipe(direction);
            pipe.holds.clear();
            pipe.wake();
        }
    }
}

impl Direction {
    /// The other direction.
    pub(super) fn back(self) -> Self {
        match self {
            Self::Request => Self::Response,
            Self::Response => Self::Request,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Conn {
    pub(super) fn new(from: &str, to: Incarnation, number: u64) -> Arc<Self> {
        let name = format!("{from}>{}#{number}", to.node());
        let key = name.bytes().fold(0, |key, byte| mix(key ^ u64::from(byte)));
        Arc::new(Self { from: from.into(), to, number, name, key, state: Mutex::default() })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node that sends along `direction`.
    pub(super) fn sender(&self, direction: Direction) -> &str {
        match direction {
            Direction::Request => &self.from,
            Direction::Response => self.to.node(),
        }
    }

    /// Chance of what begins at `position`, its own.
    pub(super) fn chance(&self, seed: u64, direction: Direction, position: u64) -> u64 {
        mix(mix(seed ^ self.key) ^ mix(position ^ ((direction as u64) << 63)))
    }

    /// The most bytes that one call may move at `position`: a pure function of the seed, the
    /// connection and the position. Every fourth call is tiny, every fourth small.
    pub(super) fn step(&self, seed: u64, direction: Direction, position: u64) -> usize {
        const LARGE: usize = 16 * 1024;
        let drawn = self.chance(seed, direction, position);
        let size = (drawn >> 8) as usize;
        match drawn % 4 {
            0 => 1 + size % 16,
            1 => 1 + size % 256,
            _ => LARGE,
        }
    }
}

/// One end of a connection. The network keeps it, so that a dead node's end stays open.
#[derive(Debug)]
pub(super) struct End {
    /// Its number in the network.
    pub(super) id: u64,
    /// Its incarnation.
    pub(super) incarnation: Incarnation,
    /// The direction that it sends in.
    pub(super) out: Direction,
    pub(super) conn: Arc<Conn>,
    inner: Mutex<Option<TcpStream>>,
}

impl End {
    pub(super) fn new(
        id: u64,
        incarnation: Incarnation,
        out: Direction,
        conn: Arc<Conn>,
        inner: TcpStream,
    ) -> Arc<Self> {
        Arc::new(Self { id, incarnation, out, conn, inner: Mutex::new(Some(inner)) })
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Option<TcpStream>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
