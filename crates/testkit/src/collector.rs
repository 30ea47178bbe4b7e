//! A collector in this process: an HTTP server that keeps what it accepts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A request that was answered with 200.
pub struct Accepted {
    /// Its first line and headers, lower case.
    pub head: String,
    pub body: Vec<u8>,
}

pub struct Collector {
    address: SocketAddr,
    accepted: Receiver<Accepted>,
}

impl Collector {
    /// A collector that answers with these statuses in turn, then with 200.
    #[expect(clippy::disallowed_methods, reason = "a server of its own, outside the engine")]
    pub fn new(refusals: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, accepted) = channel();
        std::thread::spawn(move || {
            let mut statuses = refusals.iter().copied().chain(std::iter::repeat(200));
            for stream in listener.incoming() {
                let (Ok(stream), Some(status)) = (stream, statuses.next()) else { return };
                if let Some(request) = answered(stream, status).filter(|_| status == 200) {
                    // A test that has ended takes nothing more.
                    let _ = tell.send(request);
                }
            }
        });
        Self { address, accepted }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request that it accepts.
    pub fn next(&self) -> Accepted {
        self.accepted.recv_timeout(Duration::from_secs(60)).unwrap()
    }
}

fn answered(stream: TcpStream, status: u16) -> Option<Accepted> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|n| *n > 0)?;
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    reader.into_inner().write_all(answer.as_bytes()).ok()?;
    Some(Accepted { head, body })
}
