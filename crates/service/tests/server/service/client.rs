//! A client: one request a connection, and event streams that can be cut at any byte.

use std::net::SocketAddr;
use std::sync::OnceLock;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::contract;

/// What the services say of themselves.
static DOCUMENT: OnceLock<Value> = OnceLock::new();

/// An answer whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The JSON of an answer with this status.
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }
}

/// Asks the service at one address.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) to: SocketAddr,
    /// Sent with every request.
    pub(crate) headers: Vec<(String, String)>,
}

impl Client {
    pub(crate) fn new(to: SocketAddr) -> Self {
        Self { to, headers: Vec::new() }
    }

    /// The same with one more header.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        headers.push((name.to_owned(), value.to_owned()));
        Self { headers, ..self.clone() }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Response<Incoming> {
        let stream = TcpStream::connect(self.to).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request = request.header("host", self.to.to_string());
        }
        let typed = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if !body.is_empty() && !typed {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(body.to_owned()));
        sender.send_request(request.body(body).unwrap()).await.unwrap()
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let response = self.send(method, path, body).await;
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let answer = Answer { status, headers, text: String::from_utf8(bytes.to_vec()).unwrap() };
        self.hold(method, path, &answer).await;
        answer
    }

    /// Holds an answer against the OpenAPI document, which is the same for every service.
    async fn hold(&self, method: &str, path: &str, answer: &Answer) {
        let document = match DOCUMENT.get() {
            Some(document) => document,
            None => {
                let response = self.send("GET", "/openapi.json", "").await;
                let bytes = response.into_body().collect().await.unwrap().to_bytes();
                let document: Value = serde_json::from_slice(&bytes).unwrap();
                if document["openapi"].is_null() {
                    return;
                }
                DOCUMENT.get_or_init(|| document)
            }
        };
        let kind = answer.header("content-type").unwrap_or_default();
        let told = (answer.status, kind, answer.text.as_str());
        let mut faults = contract::answer_faults(document, (method, path), told);
        faults.truncate(20);
        assert!(faults.is_empty(), "{faults:#?}");
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, &body.to_string()).await
    }

    /// An event stream.
    pub(crate) async fn stream(&self, path: &str) -> Stream {
        let response = self.send("GET", path, "").await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Stream { body: response.into_body(), text: String::new(), taken: 0 }
    }
}

/// One message of an event stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

/// An event stream that is being read. Dropping it cuts the connection.
pub(crate) struct Stream {
    body: Incoming,
    /// Everything that came.
    pub(crate) text: String,
    taken: usize,
}

impl Stream {
    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.take() {
                return Some(message);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// The messages that came whole within the first `bytes` bytes, and whether the stream ended
    /// before that.
    pub(crate) async fn within(mut self, bytes: usize) -> (Vec<Message>, bool) {
        let mut ended = false;
        while self.text.len() < bytes && !ended {
            ended = !self.more().await;
        }
        self.text.truncate(bytes);
        let mut all = Vec::new();
        while let Some(message) = self.take() {
            all.push(message);
        }
        (all, ended)
    }

    async fn more(&mut self) -> bool {
        match self.body.frame().await {
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                self.text.push_str(std::str::from_utf8(&data).unwrap());
                true
            }
            Some(Err(_)) | None => false,
        }
    }

    fn take(&mut self) -> Option<Message> {
        loop {
            let rest = &self.text[self.taken..];
            let end = rest.find("\n\n")?;
            let block = rest[..end].to_owned();
            self.taken += end + 2;
            let field = |name: &str| {
                let prefix = format!("{name}: ");
                block.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
            };
            if let (Some(event), Some(data)) = (field("event"), field("data")) {
                let id = field("id").map(|id| id.parse().unwrap());
                return Some(Message { id, event, data: serde_json::from_str(&data).unwrap() });
            }
        }
    }
}
