//! A server on loopback that does one thing to every connection.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a server beside the tests, outside every simulated path; what it can't do fails the test"
)]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

/// What the server does once it has read a request.
#[derive(Clone)]
pub(crate) enum Script {
    /// Sends these bytes and closes.
    Send(Vec<u8>),
    /// Resets the connection.
    Reset,
}

/// Ends when it is dropped.
pub(crate) struct Server {
    host: String,
    seen: Mutex<mpsc::UnboundedReceiver<Request>>,
    accepting: JoinHandle<()>,
}

/// A request as it came in.
pub(crate) struct Request {
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    /// Every value of a header.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect()
    }
}

pub(crate) async fn serve(script: Script) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (tell, seen) = mpsc::unbounded_channel();
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, script.clone(), tell.clone()));
        }
    });
    Server { host, seen: Mutex::new(seen), accepting }
}

impl Server {
    pub(crate) fn host(&self) -> String {
        self.host.clone()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }

    /// The next request that was read whole.
    pub(crate) async fn request(&self) -> Request {
        self.seen.lock().await.recv().await.expect("the server runs")
    }

    pub(crate) fn was_never_asked(&self) -> bool {
        self.seen.try_lock().is_ok_and(|mut seen| seen.try_recv().is_err())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn answer(mut stream: TcpStream, script: Script, tell: mpsc::UnboundedSender<Request>) {
    let Some(request) = read_request(&mut stream).await else { return };
    let _ = tell.send(request);
    match script {
        Script::Send(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            // Closing with unread bytes would reset; the client closes first.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
        // A linger of zero makes closing send a reset.
        Script::Reset => stream.set_zero_linger().expect("an open socket"),
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Request> {
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
    let line = lines.next()?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|l| l.split_once(": "))
        .map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()))
        .collect();
    let length = headers.iter().find(|(n, _)| n == "content-length");
    let length: usize = length.map_or(0, |(_, v)| v.parse().expect("a length"));
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Request { line, headers, body: String::from_utf8(body).ok()? })
}
