//! A small HTTP server that fails on purpose, to try `retrial run` against.
//!
//! ```text
//! cargo run --example flaky_server -- --port 8080 --fail 2 --slow 100
//! ```
//!
//! `--fail N`: the first N requests with the same `Receipt-Token` get 503. `--slow MS`: every answer
//! waits so long. `--rate-limit`: failures are 429 with `Retry-After: 1` instead. `--quiet`: says
//! nothing. `--open`: listens on every address of the machine, not only on 127.0.0.1.
#![expect(
    clippy::disallowed_methods,
    reason = "a server of its own: nothing of the simulation runs through it"
)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

const USAGE: &str =
    "usage: flaky_server [--port N] [--fail N] [--slow MS] [--rate-limit] [--quiet] [--open]";

#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) port: u16,
    pub(crate) fail: u32,
    pub(crate) slow: Duration,
    pub(crate) rate_limit: bool,
    pub(crate) quiet: bool,
    pub(crate) open: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 8080,
            fail: 2,
            slow: Duration::ZERO,
            rate_limit: false,
            quiet: false,
            open: false,
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        let mut number = || number_after(&arg, args.next());
        match arg.as_str() {
            "--port" => {
                options.port = number()?.try_into().map_err(|_| "--port is at most 65535")?;
            }
            "--fail" => options.fail = number()?,
            "--slow" => options.slow = Duration::from_millis(number()?.into()),
            "--rate-limit" => options.rate_limit = true,
            "--quiet" => options.quiet = true,
            "--open" => options.open = true,
            _ => return Err(format!("unknown argument `{arg}`")),
        }
    }
    Ok(options)
}

fn number_after(option: &str, text: Option<String>) -> Result<u32, String> {
    let text = text.ok_or_else(|| format!("{option} needs a number"))?;
    text.parse().map_err(|_| format!("{option} needs a number, not `{text}`"))
}

/// How many requests came in for each receipt token.
type Seen = Arc<Mutex<BTreeMap<String, u32>>>;

async fn answer(
    request: Request<Incoming>,
    options: Options,
    seen: Seen,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let header = |name: &str| {
        let value = request.headers().get(name).and_then(|v| v.to_str().ok());
        value.unwrap_or("-").to_owned()
    };
    let (token, attempt) = (header("receipt-token"), header("x-retry-attempt"));
    let place = format!("{} {}", request.method(), request.uri().path());
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    tokio::time::sleep(options.slow).await;

    let count = count(&seen, &token);
    let failing = count <= options.fail;
    let status = match (failing, options.rate_limit) {
        (false, _) => StatusCode::OK,
        (true, false) => StatusCode::SERVICE_UNAVAILABLE,
        (true, true) => StatusCode::TOO_MANY_REQUESTS,
    };
    if !options.quiet {
        let status = status.as_u16();
        println!("{place} Receipt-Token: {token} X-Retry-Attempt: {attempt} -> {status}");
    }
    Ok(respond(status, count, &body.unwrap_or_default()))
}

fn count(seen: &Seen, token: &str) -> u32 {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let count = seen.entry(token.to_owned()).or_default();
    *count += 1;
    *count
}

fn respond(status: StatusCode, count: u32, args: &[u8]) -> Response<Full<Bytes>> {
    let args: serde_json::Value = serde_json::from_slice(args).unwrap_or_default();
    let body = match status.is_success() {
        true => json!({"requests": count, "args": args}),
        false => json!({"error": "not yet"}),
    };
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    if status == StatusCode::TOO_MANY_REQUESTS {
        let one = hyper::header::HeaderValue::from_static("1");
        response.headers_mut().insert(hyper::header::RETRY_AFTER, one);
    }
    response
}

/// Answers all that comes in.
pub(crate) async fn serve(listener: TcpListener, options: Options) -> std::io::Result<()> {
    if !options.quiet {
        println!("listening on http://{}", listener.local_addr()?);
    }
    let seen = Seen::default();
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream, options, Arc::clone(&seen)));
    }
}

async fn connection(stream: TcpStream, options: Options, seen: Seen) {
    let service = service_fn(|request| answer(request, options, Arc::clone(&seen)));
    // A client that hangs up is its own affair.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let host = if options.open { "0.0.0.0" } else { "127.0.0.1" };
    let served = match TcpListener::bind((host, options.port)).await {
        Ok(listener) => serve(listener, options).await,
        Err(error) => Err(error),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("can't serve on port {}: {error}", options.port);
            ExitCode::FAILURE
        }
    }
}
