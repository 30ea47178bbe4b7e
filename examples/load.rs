//! Puts load on the nodes of a service and checks the outcome.
//!
//! ```text
//! cargo run --release --example load -- --runs 1000 --rate 100 \
//!     --call http://localhost:8080/work http://127.0.0.1:7070 http://127.0.0.1:7071
//! ```
//!
//! Submits runs of one step, which calls `--call`, each under its own idempotency key, in turn to
//! the nodes. What fails is retried at the next node under a policy of Retrial's own, so a node
//! may be killed meanwhile. Follows each run to its end, prints counts and how long runs took by
//! the store's clock, and ends with 1 where a run failed, was cancelled or got lost.
//!
//! `--in-flight N`: the most runs unfinished at once. `--token-file FILE`: the nodes' bearer token.
//! `--prefix TEXT`: what keys begin with; the same prefix again leads to the same runs.
#![expect(
    clippy::disallowed_methods,
    reason = "a client of its own: nothing of the simulation runs through it"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use retrial::failure::{Failure, NetworkFault};
use retrial::net::{Authority, Connect, TcpConnect};
use retrial::policy::{Backoff, Jitter, Policy};
use retrial::retry::PolicyExt as _;
use retrial::time::Nanos;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

const USAGE: &str = "usage: load [--runs N] [--rate N] [--in-flight N] [--token-file FILE] \
                     [--prefix TEXT] --call URL NODE...";

/// How often a run is looked at: soon at first, then less often.
const LOOK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How runs end.
const ENDS: [&str; 3] = ["completed", "failed", "cancelled"];

struct Options {
    runs: u64,
    rate: u32,
    in_flight: usize,
    prefix: String,
    call: String,
    token: Option<String>,
    nodes: Vec<Authority>,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let began = Timestamp::now().as_second();
    let mut options = Options {
        runs: 1_000,
        rate: 100,
        in_flight: 500,
        prefix: format!("load-{began}"),
        call: String::new(),
        token: None,
        nodes: Vec::new(),
    };
    while let Some(arg) = args.next() {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (arg, None),
        };
        let mut value = || value.clone().or_else(|| args.next()).ok_or(format!("{name} of what?"));
        match name.as_str() {
            "--runs" => options.runs = value()?.parse()?,
            "--rate" => options.rate = value()?.parse::<u32>()?.max(1),
            "--in-flight" => options.in_flight = value()?.parse::<usize>()?.max(1),
            "--prefix" => options.prefix = value()?,
            "--call" => options.call = value()?,
            "--token-file" => {
                options.token = Some(std::fs::read_to_string(value()?)?.trim().to_owned());
            }
            node if node.starts_with("http") => options.nodes.push(node.parse()?),
            _ => return Err(format!("unknown argument `{name}`").into()),
        }
    }
    if options.nodes.is_empty() || options.call.is_empty() {
        return Err("say what is to be called, and the nodes".into());
    }
    Ok(options)
}

/// The workflow of all runs.
fn definition(call: &str) -> String {
    format!(
        "workflow = \"load\"\n\
         [actions.work]\nhttp = {}\n\
         [[steps]]\nid = \"work\"\naction = \"work\"\nargs = {{ n = \"${{input.n}}\" }}\n\
         retry = \"[retry: 50, backoff: 100ms]\"\n",
        json!(format!("POST {call}"))
    )
}

/// The nodes, connections to them that are idle, and what was counted.
struct Load {
    options: Options,
    definition: String,
    policy: Policy,
    network: TcpConnect,
    idle: Mutex<BTreeMap<Authority, Vec<SendRequest<Full<Bytes>>>>>,
    repeated: AtomicU64,
    known: AtomicU64,
    ends: Mutex<Vec<End>>,
}

/// The outcome of a run.
struct End {
    phase: String,
    took: Duration,
}

impl Load {
    fn new(options: Options) -> Result<Self, Box<dyn Error>> {
        let backoff = Backoff::exponential(Nanos::from_millis(50)).with_jitter(Jitter::Full);
        let policy = Policy::builder()
            .attempts(200)
            .backoff(backoff.with_cap(Nanos::from_secs(2)))
            .attempt_timeout(Nanos::from_secs(10))
            .retry_unknown_outcome()
            .build()?;
        Ok(Self {
            definition: definition(&options.call),
            options,
            policy,
            network: TcpConnect::new(),
            idle: Mutex::default(),
            repeated: AtomicU64::new(0),
            known: AtomicU64::new(0),
            ends: Mutex::default(),
        })
    }

    /// Asks a node, and the next one where it fails.
    async fn ask(&self, n: u64, method: &str, path: &str, body: &str) -> Result<Value, Failure> {
        let answered = self.policy.retry(|attempt| {
            if attempt.number > 1 {
                self.repeated.fetch_add(1, Relaxed);
            }
            let turn = n + u64::from(attempt.number);
            let nodes = &self.options.nodes;
            let node = &nodes[usize::try_from(turn).unwrap_or(0) % nodes.len()];
            self.exchange(node, n, method, path, body)
        });
        answered.await.map_err(|gave_up| gave_up.failure)
    }

    async fn exchange(
        &self,
        node: &Authority,
        n: u64,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Value, Failure> {
        let broken = |e: hyper::Error| Failure::network(NetworkFault::Cut, &e.to_string());
        let mut sender = self.connection(node).await?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", node.host_header())
            .header("content-type", "application/json")
            .header("idempotency-key", format!("{}-{n}", self.options.prefix));
        if let Some(token) = &self.options.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::from(body.to_owned()));
        let request = request.map_err(|e| Failure::new("BAD_REQUEST", &e.to_string()))?;
        let answer = sender.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(broken)?.to_bytes();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.entry(node.clone()).or_default().push(sender);
        if !status.is_success() {
            return Err(Failure::http(status.as_u16(), &String::from_utf8_lossy(&body)));
        }
        serde_json::from_slice(&body).map_err(|e| Failure::bad_response(&e.to_string()))
    }

    async fn connection(&self, node: &Authority) -> Result<SendRequest<Full<Bytes>>, Failure> {
        loop {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            match idle.get_mut(node).and_then(Vec::pop) {
                Some(sender) if sender.is_closed() => {}
                Some(sender) => return Ok(sender),
                None => break,
            }
        }
        let stream = self.network.connect(node).await?;
        let made = http1::handshake(TokioIo::new(stream)).await;
        let broken = |e: hyper::Error| Failure::network(NetworkFault::Cut, &e.to_string());
        let (sender, connection) = made.map_err(broken)?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Submits run `n` and follows it to its end.
    async fn run(&self, n: u64) -> Result<End, Failure> {
        let body = json!({ "definition": self.definition, "format": "toml", "input": { "n": n } });
        let submitted = self.ask(n, "POST", "/v1/runs", &body.to_string()).await?;
        self.known.fetch_add(u64::from(submitted["existing"] == true), Relaxed);
        let path = format!("/v1/runs/{}", submitted["run"].as_str().unwrap_or_default());
        let (mut wait, longest) = LOOK;
        loop {
            tokio::time::sleep(wait).await;
            wait = (wait * 3 / 2).min(longest);
            let shown = self.ask(n, "GET", &path, "").await?;
            let time = |name: &str| shown[name].as_str()?.parse::<Timestamp>().ok();
            let phase = shown["phase"].as_str().filter(|phase| ENDS.contains(phase));
            if let (Some(phase), Some(from), Some(to)) = (phase, time("created"), time("ended")) {
                let took = to.duration_since(from).try_into().unwrap_or_default();
                return Ok(End { phase: phase.to_owned(), took });
            }
        }
    }

    /// Prints the outcomes of the runs; whether all went well.
    fn tell(&self, took: Duration) -> bool {
        let runs = self.options.runs;
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.sort_by_key(|end| end.took);
        let known = self.known.load(Relaxed);
        let rate = runs as f64 / took.as_secs_f64();
        println!("{runs} runs in {:.1}s ({rate:.0}/s), {known} known before", took.as_secs_f64());
        println!("requests sent again: {}", self.repeated.load(Relaxed));
        let count = |phase: &str| ends.iter().filter(|end| end.phase == phase).count();
        let phases = ["completed", "failed", "cancelled", "lost"];
        println!("{}", phases.map(|phase| format!("{phase}: {}", count(phase))).join(", "));
        let at = |share: f64| ends.get((ends.len() as f64 * share) as usize).or(ends.last());
        let shown =
            [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)].map(|(name, share)| {
                format!("{name} {:.2}s", at(share).map_or(0.0, |end| end.took.as_secs_f64()))
            });
        println!("from submission to end: {}", shown.join(", "));
        count("completed") as u64 == runs
    }
}

async fn put(options: Options) -> Result<bool, Box<dyn Error>> {
    let room = Arc::new(Semaphore::new(options.in_flight));
    let load = Arc::new(Load::new(options)?);
    let began = Instant::now();
    let mut beat = tokio::time::interval(Duration::from_secs(1) / load.options.rate);
    for n in 0..load.options.runs {
        beat.tick().await;
        let permit = Arc::clone(&room).acquire_owned().await?;
        let load = Arc::clone(&load);
        tokio::spawn(async move {
            let end = load.run(n).await.unwrap_or_else(|failure| {
                eprintln!("run {n}: {failure}");
                End { phase: "lost".to_owned(), took: Duration::ZERO }
            });
            load.ends.lock().unwrap_or_else(PoisonError::into_inner).push(end);
            drop(permit);
        });
    }
    let all = u32::try_from(load.options.in_flight)?;
    let _ended = room.acquire_many(all).await?;
    Ok(load.tell(began.elapsed()))
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
    match put(options).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
