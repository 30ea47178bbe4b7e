//! The exporter's requests, over the network seam.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};

use crate::net::{Connect, Url};

/// The most bytes read of an answer.
const MAX_ANSWER: usize = 64 * 1024;

/// Sends each request over a new connection. Has no timeout.
pub(super) struct NetworkClient<C>(C);

impl<C> NetworkClient<C> {
    pub(super) fn new(network: C) -> Self {
        Self(network)
    }
}

impl<C> fmt::Debug for NetworkClient<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NetworkClient")
    }
}

impl<C: Connect> NetworkClient<C> {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let url: Url = request.uri().to_string().parse()?;
        let stream = self.0.connect(url.authority()).await?;
        let (mut head, body) = request.into_parts();
        head.headers.insert(HOST, HeaderValue::from_str(&url.authority().host_header())?);
        head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        head.uri = url.target().parse()?;
        let request = Request::from_parts(head, Full::new(body));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Dropping the sender after the answer ends the connection.
        let talk = async move {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        let (answered, _) = tokio::join!(talk, connection);
        answered
    }
}

impl<C: Connect> HttpClient for NetworkClient<C> {
    fn send_bytes<'s, 'f>(
        &'s self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(self.send(request))
    }
}
