//! What an error of somebody else's means: its code, its types, and whether trying again can help.
//!
//! To add an error of one more library, add a function, and a line to `known`.

use std::error::Error;
use std::io;

use crate::failure::{Failure, NetworkFault};
use crate::net::ConnectError;

/// The most sources that are followed.
const DEEPEST: usize = 32;

/// Reads an error by the first one that is known among it and its sources: a [`Failure`], a
/// [`ConnectError`], an `io::Error`, and with their features an error of `hyper` or `reqwest`. Any
/// other has the code `ERROR` and is retryable, since whoever asks for retries wants them.
#[must_use]
pub fn error(error: &(dyn Error + 'static)) -> Failure {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    let known = chain.take(DEEPEST).find_map(known);
    known.unwrap_or_else(|| Failure::new("ERROR", &error.to_string()).retryable())
}

/// As [`error`](fn@error), for an error of the type `name`, which heads the types of its failure.
pub(crate) fn named(wrong: &(dyn Error + 'static), name: &str) -> Failure {
    let failure = error(wrong);
    let path = name.split('<').next().unwrap_or(name);
    let short = path.rsplit("::").next().unwrap_or(path);
    if failure.lineage().iter().any(|known| known == short) || wrong.is::<Failure>() {
        return failure;
    }
    let types: Vec<String> =
        std::iter::once(short.to_owned()).chain(failure.lineage().iter().cloned()).collect();
    failure.with_lineage(types)
}

fn known(error: &(dyn Error + 'static)) -> Option<Failure> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return Some(failure.clone());
    }
    if let Some(error) = error.downcast_ref::<ConnectError>() {
        return Some(error.clone().into());
    }
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return Some(self::reqwest(error));
    }
    #[cfg(feature = "reqwest-middleware")]
    if let Some(error) = error.downcast_ref::<reqwest_middleware::Error>() {
        return Some(self::reqwest_middleware(error));
    }
    #[cfg(feature = "http")]
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return Some(self::hyper(error));
    }
    error.downcast_ref::<io::Error>().map(self::io)
}

/// Reads an `io::Error` by its kind: faults of the network are retryable `NETWORK_ERROR`s, a timeout
/// is a `TIMEOUT` whose outcome is unknown, and what the file system or the arguments rule out is
/// permanent. An error that holds another one is read by that.
#[must_use]
pub fn io(error: &io::Error) -> Failure {
    use io::ErrorKind as Kind;
    if let Some(inner) = error.get_ref().and_then(|inner| known(inner)) {
        return inner;
    }
    let (message, kind) = (error.to_string(), error.kind());
    let network = |fault| Failure::network(fault, &message);
    match kind {
        Kind::ConnectionRefused => network(NetworkFault::Refused),
        Kind::ConnectionReset | Kind::BrokenPipe => network(NetworkFault::Reset),
        Kind::ConnectionAborted => network(NetworkFault::Aborted),
        Kind::UnexpectedEof => network(NetworkFault::Cut).with_unknown_outcome(),
        Kind::NotConnected
        | Kind::HostUnreachable
        | Kind::NetworkUnreachable
        | Kind::NetworkDown
        | Kind::AddrNotAvailable => network(NetworkFault::Other),
        Kind::TimedOut => Failure::timed_out(&message).with_unknown_outcome(),
        Kind::NotFound
        | Kind::PermissionDenied
        | Kind::AlreadyExists
        | Kind::InvalidInput
        | Kind::InvalidData
        | Kind::Unsupported
        | Kind::NotADirectory
        | Kind::IsADirectory
        | Kind::DirectoryNotEmpty
        | Kind::ReadOnlyFilesystem
        | Kind::FileTooLarge
        | Kind::ArgumentListTooLong => named_kind(kind, &message),
        _ => named_kind(kind, &message).retryable(),
    }
}

/// The kind's name is the code and the type.
fn named_kind(kind: io::ErrorKind, message: &str) -> Failure {
    let name = format!("{kind:?}");
    Failure::new(&name, message).with_lineage([name.as_str(), "OSError"])
}

/// Reads an HTTP status outside 2xx: the status is the code, and 5xx and 429 are retryable.
#[must_use]
pub fn status(status: u16) -> Failure {
    Failure::http(status, &format!("HTTP {status}"))
}

/// Reads an error of `hyper`: by its cause, where that is an `io::Error`; a message cut short, or
/// a connection that closed, is a retryable `NETWORK_ERROR`; a mistake of the caller's is permanent.
#[cfg(feature = "http")]
#[must_use]
pub fn hyper(error: &hyper::Error) -> Failure {
    let message = error.to_string();
    if error.is_timeout() {
        return Failure::timed_out(&message).with_unknown_outcome();
    }
    if error.is_user() {
        return Failure::new("ERROR", &message);
    }
    if error.is_parse() {
        return Failure::bad_response(&message);
    }
    match error.source().and_then(known) {
        Some(cause) => cause,
        None if error.is_incomplete_message() => {
            Failure::network(NetworkFault::Cut, &message).with_unknown_outcome()
        }
        None => Failure::network(NetworkFault::Other, &message).with_unknown_outcome(),
    }
}

/// Reads an error of `reqwest`: a status by [`status`](fn@status), a failure to connect as a
/// retryable `NETWORK_ERROR`, a timeout as a `TIMEOUT`, a body that can't be read as `BAD_RESPONSE`,
/// and a request that can't be built as permanent. Addresses are left out of messages: they may hold
/// secrets.
#[cfg(feature = "reqwest")]
#[must_use]
pub fn reqwest(error: &reqwest::Error) -> Failure {
    if let Some(code) = error.status() {
        return status(code.as_u16());
    }
    let message = words(error);
    if error.is_builder() {
        return Failure::new("ERROR", &message);
    }
    if error.is_timeout() {
        let failure = Failure::timed_out(&message);
        return if error.is_connect() { failure } else { failure.with_unknown_outcome() };
    }
    if error.is_decode() || error.is_redirect() {
        return Failure::bad_response(&message);
    }
    let cause = std::iter::successors(error.source(), |&error| error.source());
    let cause = cause.take(DEEPEST).find_map(|error| error.downcast_ref::<io::Error>().map(io));
    let fault = cause.unwrap_or_else(|| Failure::network(NetworkFault::Other, &message));
    if error.is_connect() { fault } else { fault.with_unknown_outcome() }
}

/// Reads an error of `reqwest-middleware`: that of `reqwest`, or a middleware's by [`error`](fn@error).
#[cfg(feature = "reqwest-middleware")]
#[must_use]
pub fn reqwest_middleware(error: &reqwest_middleware::Error) -> Failure {
    match error {
        reqwest_middleware::Error::Reqwest(error) => self::reqwest(error),
        reqwest_middleware::Error::Middleware(error) => self::error(error.as_ref()),
    }
}

/// The innermost cause, which says most, and no address.
#[cfg(feature = "reqwest")]
fn words(error: &reqwest::Error) -> String {
    let chain = std::iter::successors(error.source(), |&error| error.source());
    let cause = chain.take(DEEPEST).last().map(ToString::to_string);
    cause.unwrap_or_else(|| "the request failed".to_owned())
}
