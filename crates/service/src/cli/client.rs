//! The HTTP client for a service.

use std::fmt;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use retrial::net::{Connect, TcpConnect, Url};
use retrial::runtime::{Runtime, TokioRuntime};
use retrial::time::Nanos;

use super::error::CliError;

/// The most bytes read of an answer.
const MAX_ANSWER: usize = 256 * 1024 * 1024;
/// How long an answer may take. A service gives up sooner.
const ANSWER_TIMEOUT: Nanos = Nanos::from_secs(120);

/// A service's address and token.
pub(super) struct Client {
    url: Url,
    token: Option<HeaderValue>,
}

impl Client {
    pub(super) fn new(url: &str, token: Option<String>) -> Result<Self, CliError> {
        let url: Url = url.parse().map_err(|e| CliError::input(format!("the service: {e}")))?;
        if url.user().is_some() {
            return Err(CliError::input("the service's URL contains a user name or a password")
                .help("a service takes a token instead: RETRIAL_TOKEN or --token-file"));
        }
        let header = |token: String| {
            let value = HeaderValue::try_from(format!("Bearer {}", token.trim()));
            let mut value = value
                .map_err(|_| CliError::input("the token contains a character that a header can't"));
            value.iter_mut().for_each(|value| value.set_sensitive(true));
            value
        };
        Ok(Self { url, token: token.map(header).transpose()? })
    }

    /// The status and the body of the answer.
    pub(super) async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(u16, Bytes), CliError> {
        let to = self.url.authority();
        // A service may be below a path of its host.
        let below = self.url.target().trim_end_matches('/');
        let uri = format!("{below}{}", request.uri());
        *request.uri_mut() = uri.parse().map_err(|e| CliError::input(format!("{to}: {e}")))?;
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::try_from(to.host_header()) {
            headers.insert(header::HOST, host);
        }
        headers.extend(self.token.clone().map(|token| (header::AUTHORIZATION, token)));
        let runtime = TokioRuntime::current();
        let end = runtime.now().after(ANSWER_TIMEOUT);
        tokio::select! {
            biased;
            answer = self.talk(request) => answer,
            () = runtime.sleep_until(end) => {
                Err(CliError::store(format!("{to} did not answer within {ANSWER_TIMEOUT}")))
            }
        }
    }

    async fn talk(&self, request: Request<Full<Bytes>>) -> Result<(u16, Bytes), CliError> {
        let to = self.url.authority();
        let broken = |e: &dyn fmt::Display| CliError::store(format!("calling {to}: {e}"));
        let stream = TcpConnect::new().connect(to).await.map_err(|e| broken(&e))?;
        let made = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = made.map_err(|e| broken(&e))?;
        // Ends with this future, or with the process.
        let _connection = TokioRuntime::current().spawn(async {
            let _ = connection.await;
        });
        read(sender.send_request(request).await.map_err(|e| broken(&e))?)
            .await
            .map_err(|e| broken(&e))
    }
}

/// The status and the body, read to its end.
pub(super) async fn read<B>(answer: Response<B>) -> Result<(u16, Bytes), String>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
    Ok((status, body.map_err(|e| e.to_string())?.to_bytes()))
}
