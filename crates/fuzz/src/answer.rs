//! The answer of an endpoint to an HTTP action.

use std::sync::Arc;

use retrial::action::{Actions, Call, Canceller, ContextRuntime, HttpActions, MAX_RESULT, Reports};
use retrial::net::{Authority, Connect, ConnectError};
use retrial::run::{MAX_NESTING, RunId, TaskId};
use retrial::runtime::TokioRuntime;
use retrial::time::Timestamp;
use retrial::workflow::{Action, Endpoint, Nesting, StepIx, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::block_on;

/// A network whose every endpoint answers these bytes and closes.
#[derive(Clone)]
struct Answers(Arc<[u8]>);

impl Connect for Answers {
    type Stream = DuplexStream;

    async fn connect(&self, _: &Authority) -> Result<DuplexStream, ConnectError> {
        let (near, mut far) = duplex(4096);
        let answer = Arc::clone(&self.0);
        tokio::spawn(async move {
            // What precedes the request would answer nothing.
            if far.read(&mut [0; 4096]).await.is_ok() {
                let _ = far.write_all(&answer).await;
            }
        });
        Ok(near)
    }
}

fn call() -> Call {
    let endpoint = Endpoint::new("POST", "http://endpoint.test/");
    let action = Action {
        kind: Default::default(),
        target: Target::Http(endpoint),
        idempotent: None,
        inner_attempts: None,
        webhook: None,
        guard: Default::default(),
        heartbeat_timeout: None,
    };
    let (run, task) = (RunId::from_random(1, 2), TaskId { step: StepIx(0), item: 0 });
    Call {
        run,
        task,
        step: "step".to_owned(),
        name: "act".to_owned(),
        action: Some(Arc::new(action)),
        args: Default::default(),
        attempt: 1,
        retries_left: None,
        timeout: None,
        heartbeat_timeout: None,
        progress: None,
        reports: Reports::default(),
        at: Timestamp::from_nanos(1_700_000_000_000_000_000),
        cancelled: Canceller::pair().1,
        context_runtime: ContextRuntime::by(TokioRuntime::current()),
    }
}

pub(crate) fn answer(bytes: &[u8]) {
    let network = Answers(bytes.into());
    let outcome =
        block_on(async { HttpActions::new(network, |_: &str| None).invoke(call()).await });
    match outcome {
        Ok(result) => {
            let is_2xx = |line: &[u8]| line.starts_with(b"HTTP/1.") && line.get(9) == Some(&b'2');
            assert!(bytes.split(|b| *b == b'\n').any(is_2xx), "a success without a 2xx");
            let written = serde_json::to_vec(&result).unwrap();
            assert!(written.len() <= MAX_RESULT && Nesting::of(&written) <= MAX_NESTING);
        }
        Err(failure) => {
            assert!(!failure.code().as_str().is_empty());
            assert!(failure.message().chars().count() <= 1_000, "{}", failure.message());
        }
    }
}
