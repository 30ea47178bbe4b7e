//! A proxy before a PostgreSQL server that breaks connections at planned places.
//!
//! Decides which bytes pass. It knows of the protocol where a message begins and whether it is a
//! `COMMIT`, and must never know what else is asked, nor change a byte. To add a way of
//! breaking, add a [`Strike`] and its arm in `strike`.
#![allow(
    dead_code,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a proxy beside the tests, outside every simulated path; each test uses a part of it"
)]

mod framing;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use framing::{Begun, Framing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// From where bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// From the moment at which the fault is armed.
    Arming,
    /// From the first byte of the next `COMMIT` that a client sends.
    Commit,
}

/// What happens to the byte that is struck and all that would follow it on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    /// Both sides see the end of the stream.
    End,
    /// Both sides see a reset.
    Reset,
    /// Neither side sees anything, for as long; then the stream ends.
    Stall(Duration),
}

/// So many bytes pass this way, whatever their connection, and the byte after them is struck.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) way: Way,
    pub(crate) from: From,
    pub(crate) passing: u64,
    pub(crate) strike: Strike,
}

/// Ends, with all its connections, when it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    control: Arc<Control>,
    accepting: JoinHandle<()>,
}

struct Control {
    books: Mutex<Books>,
    /// Counted up to end every connection there is.
    ended: watch::Sender<u64>,
    /// How long each piece of bytes is held back, in either direction.
    delay: Mutex<Duration>,
}

/// What passed, and what is to be struck.
#[derive(Default)]
struct Books {
    passed: Passed,
    commits: u64,
    fault: Option<Armed>,
    /// Of how many `COMMIT`s one loses its answer; none at 0.
    lose_each: u64,
    struck: u64,
}

/// What passed each way since it was last asked for.
#[derive(Default)]
pub(crate) struct Passed {
    pub(crate) to_server: Stream,
    pub(crate) to_client: Stream,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) bytes: u64,
    /// Where in them messages begin.
    pub(crate) messages: Vec<u64>,
}

impl Stream {
    fn pass(&mut self, passing: usize, messages: &[usize]) {
        let passed = messages.iter().filter(|at| **at < passing);
        self.messages.extend(passed.map(|at| self.bytes + *at as u64));
        self.bytes += passing as u64;
    }
}

struct Armed {
    fault: Fault,
    /// Bytes that may still pass, once the count has begun.
    left: Option<u64>,
    /// The connection whose bytes count; any where absent.
    only: Option<u64>,
}

/// A piece of bytes that has arrived.
struct Piece<'p> {
    connection: u64,
    way: Way,
    length: usize,
    begun: &'p Begun,
}

impl Proxy {
    pub(crate) async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let control = Arc::new(Control {
            books: Mutex::default(),
            ended: watch::Sender::new(0),
            delay: Mutex::default(),
        });
        let for_all = Arc::clone(&control);
        let accepting = tokio::spawn(async move {
            let mut carried = tokio::task::JoinSet::new();
            let mut connection = 0;
            while let Ok((client, _)) = listener.accept().await {
                connection += 1;
                carried.spawn(carry(connection, client, server, Arc::clone(&for_all)));
                while carried.try_join_next().is_some() {}
            }
        });
        Self { address, control, accepting }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Breaks one connection once.
    pub(crate) fn arm(&self, fault: Fault) {
        let left = (fault.from == From::Arming).then_some(fault.passing);
        self.books().fault = Some(Armed { fault, left, only: None });
    }

    /// Breaks nothing more; whether the fault that was armed has struck.
    pub(crate) fn disarm(&self) -> bool {
        self.books().fault.take().is_none()
    }

    /// From now on each `nth` `COMMIT` reaches the server and its answer reaches nobody.
    pub(crate) fn lose_each(&self, nth: u64) {
        self.books().lose_each = nth;
    }

    /// How many connections were broken by a fault.
    pub(crate) fn struck(&self) -> u64 {
        self.books().struck
    }

    /// What passed since the last call.
    pub(crate) fn passed(&self) -> Passed {
        std::mem::take(&mut self.books().passed)
    }

    /// How many `COMMIT`s clients have sent.
    pub(crate) fn commits(&self) -> u64 {
        self.books().commits
    }

    /// Ends every connection there is.
    pub(crate) fn end_all(&self) {
        self.control.ended.send_modify(|count| *count += 1);
    }

    /// From now on each piece of bytes comes so much later.
    pub(crate) fn delay(&self, by: Duration) {
        *self.control.delay.lock().unwrap() = by;
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.control.books.lock().unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Why a connection ends.
enum End {
    /// One side ended it, or the plan did.
    Ordinary,
    Struck(Strike),
}

async fn carry(connection: u64, mut client: TcpStream, server: SocketAddr, control: Arc<Control>) {
    let mut ended = control.ended.subscribe();
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let end = {
        let (client_out, client_in) = client.split();
        let (server_out, server_in) = server.split();
        tokio::select! {
            biased;
            _ = ended.changed() => End::Ordinary,
            end = pump(connection, client_out, server_in, Way::ToServer, &control) => end,
            end = pump(connection, server_out, client_in, Way::ToClient, &control) => end,
        }
    };
    match end {
        End::Ordinary | End::Struck(Strike::End) => {}
        End::Struck(Strike::Reset) => {
            // A linger of zero makes closing send a reset.
            let _ = (client.set_zero_linger(), server.set_zero_linger());
        }
        End::Struck(Strike::Stall(long)) => {
            tokio::select! {
                biased;
                _ = ended.changed() => {}
                () = tokio::time::sleep(long) => {}
            }
        }
    }
}

/// Carries bytes one way until one side ends the connection or they are struck.
async fn pump(
    connection: u64,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    way: Way,
    control: &Control,
) -> End {
    let mut bytes = vec![0; 16 * 1_024];
    let mut framing = match way {
        Way::ToServer => Framing::of_client(),
        Way::ToClient => Framing::of_server(),
    };
    loop {
        let Ok(length @ 1..) = from.read(&mut bytes).await else { return End::Ordinary };
        let begun = framing.take(&bytes[..length]);
        let (passing, struck) = control.judge(&Piece { connection, way, length, begun: &begun });
        let delay = *control.delay.lock().unwrap();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&bytes[..passing]).await.is_err() {
            return End::Ordinary;
        }
        if let Some(strike) = struck {
            return End::Struck(strike);
        }
    }
}

impl Control {
    /// How many bytes of `piece` pass, and what strikes the next one.
    fn judge(&self, piece: &Piece<'_>) -> (usize, Option<Strike>) {
        let mut books = self.books.lock().unwrap();
        if piece.way == Way::ToServer {
            books.begin_count(piece);
            books.commits += piece.begun.commits.len() as u64;
        }
        let struck = books.take_if_within(piece);
        let passing = struck.map_or(piece.length, |(passing, _)| passing);
        let stream = match piece.way {
            Way::ToServer => &mut books.passed.to_server,
            Way::ToClient => &mut books.passed.to_client,
        };
        stream.pass(passing, &piece.begun.messages);
        (passing, struck.map(|(_, strike)| strike))
    }
}

impl Books {
    /// Begins to count where that was to begin with a `COMMIT`, and arms the loss of its answer
    /// where it is the turn of that.
    fn begin_count(&mut self, piece: &Piece<'_>) {
        for (number, at) in (self.commits + 1..).zip(&piece.begun.commits) {
            if self.fault.is_none() && self.lose_each > 0 && number % self.lose_each == 0 {
                let (way, from, strike) = (Way::ToClient, From::Commit, Strike::Reset);
                let fault = Fault { way, from, passing: 0, strike };
                self.fault = Some(Armed { fault, left: None, only: None });
            }
            let Some(Armed { fault, left: left @ None, only }) = &mut self.fault else { continue };
            // What comes before the `COMMIT` passes without being counted.
            let before = if fault.way == Way::ToServer { *at as u64 } else { 0 };
            (*left, *only) = (Some(fault.passing + before), Some(piece.connection));
        }
    }

    /// Where the fault strikes a byte of `piece`: how many pass before it, and how.
    fn take_if_within(&mut self, piece: &Piece<'_>) -> Option<(usize, Strike)> {
        let armed = self.fault.as_mut().filter(|armed| armed.fault.way == piece.way)?;
        if armed.only.is_some_and(|only| only != piece.connection) {
            return None;
        }
        let left = armed.left.as_mut()?;
        if *left >= piece.length as u64 {
            *left -= piece.length as u64;
            return None;
        }
        let struck = (usize::try_from(*left).ok()?, armed.fault.strike);
        self.fault = None;
        self.struck += 1;
        Some(struck)
    }
}
