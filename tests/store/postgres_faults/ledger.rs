//! The endpoints that runs call, and their own ledger of what truly arrived.
//!
//! It knows nothing of the engine: it reads requests and writes down what it answered.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

/// A request and its outcome. Written down before the first byte of its answer is sent.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The task's receipt token.
    pub(crate) receipt: String,
    /// From 1.
    pub(crate) attempt: u32,
    /// Which run, by its submission's number.
    pub(crate) number: u64,
    pub(crate) at: Instant,
    pub(crate) answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// 200, with receipt and attempt as the result.
    Success,
    /// 503.
    Refusal,
    /// What was asked was done, and the connection ends before that is said.
    Silence,
}

/// Listens until it is dropped.
pub(crate) struct Ledger {
    address: String,
    book: Arc<Book>,
    listening: JoinHandle<()>,
}

struct Book {
    seed: u64,
    entries: Mutex<Vec<Entry>>,
    /// How many requests to `/held` have arrived.
    arrived: watch::Sender<usize>,
    /// Lets requests to `/held` be answered.
    released: Semaphore,
}

impl Ledger {
    /// `seed` draws which requests are refused or answered by silence.
    pub(crate) async fn open(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let entries = Mutex::default();
        let (arrived, released) = (watch::Sender::new(0), Semaphore::new(0));
        let book = Arc::new(Book { seed, entries, arrived, released });
        let shared = Arc::clone(&book);
        let listening = tokio::spawn(async move {
            let mut served = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                served.spawn(serve(stream, Arc::clone(&shared)));
                while served.try_join_next().is_some() {}
            }
        });
        Self { address, book, listening }
    }

    /// Where `path` is. `/work` fails now and then, `/held` answers once it is released.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All that arrived so far, in order.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.book.entries.lock().unwrap().clone()
    }

    /// Waits until so many requests to `/held` have arrived in all.
    pub(crate) async fn arrived(&self, many: usize) {
        let mut arrived = self.book.arrived.subscribe();
        arrived.wait_for(|n| *n >= many).await.unwrap();
    }

    /// Lets so many requests to `/held` be answered.
    pub(crate) fn release(&self, many: usize) {
        self.book.released.add_permits(many);
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

struct Request {
    path: String,
    receipt: String,
    attempt: u32,
    number: u64,
}

async fn serve(mut stream: TcpStream, book: Arc<Book>) {
    let Some(request) = read(&mut stream).await else { return };
    let Request { path, receipt, attempt, number } = request;
    let answer = match path.as_str() {
        "/held" => Answer::Success,
        _ => drawn(book.seed, &receipt, attempt),
    };
    let at = Instant::now();
    let said = format!("{{\"receipt\":\"{receipt}\",\"attempt\":{attempt}}}");
    book.entries.lock().unwrap().push(Entry { receipt, attempt, number, at, answer });
    if path == "/held" {
        book.arrived.send_modify(|n| *n += 1);
        book.released.acquire().await.unwrap().forget();
    }
    let head = match answer {
        Answer::Success => "HTTP/1.1 200 OK",
        Answer::Refusal => "HTTP/1.1 503 Service Unavailable",
        Answer::Silence => return,
    };
    let length = said.len();
    let whole = format!("{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{said}");
    let _ = stream.write_all(whole.as_bytes()).await;
    let _ = stream.shutdown().await;
    // Closing with unread bytes would reset the answer away.
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
}

/// One first attempt in eight is refused, and one attempt in forty done in silence.
fn drawn(seed: u64, receipt: &str, attempt: u32) -> Answer {
    let dice = receipt.bytes().fold(seed ^ u64::from(attempt), |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3).rotate_left(23)
    });
    match attempt {
        1 if dice % 8 == 0 => Answer::Refusal,
        ..=3 if dice / 8 % 40 == 0 => Answer::Silence,
        _ => Answer::Success,
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
    let mut lines = text.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let header = |name: &str| {
        let named = |line: &str| {
            let (n, value) = line.split_once(':')?;
            n.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        lines.clone().find_map(named)
    };
    let length: usize = header("content-length")?.parse().ok()?;
    let (receipt, retry) = (header("receipt-token")?, header("x-retry-attempt")?);
    while bytes.len() < head + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body: serde_json::Value = serde_json::from_slice(&bytes[head + 4..]).ok()?;
    let attempt = retry.parse::<u32>().ok()? + 1;
    Some(Request { path, receipt, attempt, number: body["number"].as_u64()? })
}
