//! A flaky HTTP server in this process, with its own ledger of what arrived.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Its place among the requests with the same receipt token, from 1.
    pub(crate) nth: usize,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    pub(crate) fn token(&self) -> &str {
        self.header("receipt-token")
    }
}

/// What the server does with a request.
pub(crate) enum Answer {
    Status(u16, &'static str),
    /// An empty object, and what the attempt cost, in millionths.
    Cost(u16, u64),
    /// Nothing, for as long as the client waits.
    Hang,
    /// These bytes at once, then a letter every few milliseconds for as long as the client waits.
    Trickle(&'static str),
}

type Ledger = Arc<(Mutex<Vec<Seen>>, Condvar)>;

pub(crate) struct Endpoint {
    address: SocketAddr,
    ledger: Ledger,
}

impl Endpoint {
    /// A server that asks `script` what to answer.
    #[expect(clippy::disallowed_methods, reason = "a server of its own, outside the engine")]
    pub(crate) fn new(script: impl Fn(&Seen) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ledger = Ledger::default();
        let kept = Arc::clone(&ledger);
        std::thread::spawn(move || {
            let mut hanging = Vec::new();
            for stream in listener.incoming() {
                // A client that was killed is no reason to stop.
                hanging.extend(stream.ok().and_then(|s| serve(s, &kept, &script)));
            }
        });
        Self { address, ledger }
    }

    /// A server that fails the first `n` requests of each task with 503.
    pub(crate) fn failing(n: usize) -> Self {
        Self::new(move |seen| match seen.nth {
            nth if nth <= n => Answer::Status(503, r#"{"error":"busy"}"#),
            _ => Answer::Status(200, r#"{"success":true,"rows":[7,8]}"#),
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.ledger.0.lock().unwrap().clone()
    }

    /// Waits until `n` requests have arrived.
    pub(crate) fn wait_for(&self, n: usize) {
        let (seen, arrived) = &*self.ledger;
        let guard = seen.lock().unwrap();
        let most = Duration::from_secs(60);
        let (guard, late) = arrived.wait_timeout_while(guard, most, |seen| seen.len() < n).unwrap();
        assert!(!late.timed_out(), "only {} of {n} requests came", guard.len());
    }
}

/// Answers one request; gives back the stream that it leaves hanging.
fn serve(
    stream: TcpStream,
    ledger: &Ledger,
    script: &impl Fn(&Seen) -> Answer,
) -> Option<TcpStream> {
    let mut reader = BufReader::new(stream);
    let mut seen = read(&mut reader)?;
    let answer = {
        let mut all = ledger.0.lock().unwrap();
        seen.nth = 1 + all.iter().filter(|s| s.token() == seen.token()).count();
        all.push(seen.clone());
        script(&seen)
    };
    ledger.1.notify_all();
    let mut stream = reader.into_inner();
    let (status, body, more) = match answer {
        Answer::Status(status, body) => (status, body, String::new()),
        Answer::Cost(status, cost) => (status, "{}", format!("x-cost: {cost}\r\n")),
        Answer::Hang => return Some(stream),
        Answer::Trickle(head) => {
            trickle(stream, head);
            return None;
        }
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         {more}connection: close\r\n\r\n"
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    None
}

/// Ends when the client has closed the connection.
#[expect(clippy::disallowed_methods, reason = "a server of its own, outside the engine")]
fn trickle(mut stream: TcpStream, head: &'static str) {
    std::thread::spawn(move || {
        let mut sent = stream.write_all(head.as_bytes());
        while sent.is_ok() {
            std::thread::sleep(Duration::from_millis(10));
            sent = stream.write_all(b"a");
        }
    });
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let path = lines.first()?.split(' ').nth(1)?.to_owned();
    let headers: Vec<(String, String)> = lines[1..]
        .iter()
        .filter_map(|l| l.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, n)| n.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { path, headers, body: String::from_utf8(body).ok()?, nth: 0 })
}
