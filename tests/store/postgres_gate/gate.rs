//! A gate before a PostgreSQL server: each statement of one store waits there until it is let go.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, JoinSet};

use super::messages::{FromClient, FromServer, Statement};

/// The gate of one store. Its connections end when it is dropped.
pub(super) struct Gate {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    state: Mutex<State>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// Whether statements wait. If not, they pass.
    holds: bool,
    lines: BTreeMap<u64, Line>,
    /// Server processes of connections that have ended.
    left: Vec<i32>,
}

/// One connection.
struct Line {
    process: Option<i32>,
    held: VecDeque<Held>,
    /// Statements that were let go, and those of them that the server has answered.
    sent: u64,
    answered: u64,
    /// Whether the last of them was about the connection.
    sets_up: bool,
    /// The SQL of the last.
    text: String,
    loses_answer: bool,
    /// Its transaction has failed: statements pass until that has ended.
    has_failed: bool,
    to_server: mpsc::UnboundedSender<Option<Vec<u8>>>,
}

struct Held {
    statement: Statement,
    /// The client did not wait for the answer to the one before.
    is_pipelined: bool,
}

/// A connection whose next statement waits at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) line: u64,
    pub(super) text: String,
    pub(super) is_pipelined: bool,
}

/// A connection whose statement the server has not answered.
#[derive(Clone, Debug)]
pub(super) struct Executing {
    /// The server's process; none while the connection is set up.
    pub(super) process: Option<i32>,
    pub(super) text: String,
}

/// What the connections of a gate do.
#[derive(Debug, Default)]
pub(super) struct Standing {
    pub(super) waiting: Vec<Waiting>,
    pub(super) executing: Vec<Executing>,
    /// The server's processes whose connections have ended.
    pub(super) left: Vec<i32>,
}

impl Gate {
    /// A gate that is open. `changed` is told when anything arrives, is answered or ends.
    pub(super) async fn before(server: SocketAddr, changed: &Arc<Notify>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Arc::clone(changed) });
        let of_all = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            let mut carried = JoinSet::new();
            for line in 0.. {
                let Ok((client, _)) = listener.accept().await else { return };
                carried.spawn(carry(line, client, server, Arc::clone(&of_all)));
                while carried.try_join_next().is_some() {}
            }
        });
        Self { address, shared, accepting }
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on statements wait, or pass.
    pub(super) fn hold(&self, holds: bool) {
        self.shared.state().holds = holds;
    }

    pub(super) fn standing(&self) -> Standing {
        let state = self.shared.state();
        let mut standing = Standing { left: state.left.clone(), ..Standing::default() };
        for (number, line) in &state.lines {
            if line.sent > line.answered {
                let (process, text) = (line.process, line.text.clone());
                standing.executing.push(Executing { process, text });
            } else if let Some(Held { statement, is_pipelined }) = line.held.front() {
                let (text, is_pipelined) = (statement.text.clone(), *is_pipelined);
                standing.waiting.push(Waiting { line: *number, text, is_pipelined });
            }
        }
        standing
    }

    /// Lets the next statement of `line` go. Where `loses_answer`, the connection ends once the
    /// server has answered, and nobody hears the answer.
    pub(super) fn release(&self, line: u64, loses_answer: bool) {
        let mut state = self.shared.state();
        let Some(line) = state.lines.get_mut(&line) else { return };
        let Some(held) = line.held.pop_front() else { return };
        line.loses_answer = loses_answer;
        line.send(held.statement);
    }

    /// Ends a connection.
    pub(super) fn cut(&self, line: u64) {
        if let Some(line) = self.shared.state().lines.get(&line) {
            let _ = line.to_server.send(None);
        }
    }

    /// Forgets processes that have ended.
    pub(super) fn forget_those_that_left(&self, gone: &[i32]) {
        self.shared.state().left.retain(|process| !gone.contains(process));
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Line {
    fn send(&mut self, statement: Statement) {
        self.sent += 1;
        self.sets_up = statement.is_about_the_connection();
        self.text = statement.text;
        let _ = self.to_server.send(Some(statement.bytes));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn arrived(&self, number: u64, statement: Statement) {
        let mut state = self.state();
        let holds = state.holds;
        let Some(line) = state.lines.get_mut(&number) else { return };
        let passes = line.has_failed || line.held.is_empty() && statement.is_about_the_connection();
        if holds && !passes {
            let is_asking = line.sent > line.answered && !line.sets_up;
            let is_pipelined = is_asking || !line.held.is_empty();
            line.held.push_back(Held { statement, is_pipelined });
        } else {
            line.send(statement);
        }
    }

    fn answered(&self, number: u64, answers: u64, from_server: &FromServer) {
        let mut state = self.state();
        let Some(line) = state.lines.get_mut(&number) else { return };
        line.answered += answers;
        line.process = from_server.process;
        line.has_failed = from_server.has_failed;
        while line.has_failed
            && let Some(Held { statement, .. }) = line.held.pop_front()
        {
            line.send(statement);
        }
    }

    fn loses_answer(&self, number: u64) -> bool {
        self.state().lines.get(&number).is_some_and(|line| line.loses_answer)
    }

    fn ended(&self, number: u64) {
        let mut state = self.state();
        let process = state.lines.remove(&number).and_then(|line| line.process);
        state.left.extend(process);
    }
}

/// Carries one connection until one side ends it or it is cut.
async fn carry(number: u64, mut client: TcpStream, server: SocketAddr, shared: Arc<Shared>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (to_server, mut released) = mpsc::unbounded_channel();
    let line = Line {
        process: None,
        held: VecDeque::new(),
        sent: 0,
        answered: 0,
        sets_up: true,
        text: String::new(),
        loses_answer: false,
        has_failed: false,
        to_server,
    };
    shared.state().lines.insert(number, line);
    let (mut from_client, mut from_server) = (FromClient::default(), FromServer::default());
    let (mut asked, mut told) = (vec![0; 16 * 1_024], vec![0; 16 * 1_024]);
    loop {
        tokio::select! {
            biased;
            next = released.recv() => {
                let Some(Some(bytes)) = next else { break };
                if server.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            read = server.read(&mut told) => {
                let Ok(length @ 1..) = read else { break };
                let answers = from_server.take(&told[..length]);
                let is_lost = shared.loses_answer(number);
                if is_lost && answers > 0 {
                    break;
                }
                if !is_lost && client.write_all(&told[..length]).await.is_err() {
                    break;
                }
                shared.answered(number, answers, &from_server);
            }
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { break };
                let statements = from_client.take(&asked[..length]);
                statements.into_iter().for_each(|statement| shared.arrived(number, statement));
            }
        }
        shared.changed.notify_one();
    }
    drop((client, server));
    shared.ended(number);
    shared.changed.notify_one();
}
