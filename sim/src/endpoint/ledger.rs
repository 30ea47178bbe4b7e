//! Records every request that arrived at an endpoint, and whether its answer was delivered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use retrial::time::Mono;
use serde_json::Value;

use crate::scenario::Reply;
use crate::user::{Request, Response};

/// One request that arrived whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it had arrived whole, true time.
    pub at: Mono,
    /// The node that sent it.
    pub node: String,
    /// The connection it came on, `from>to#number`.
    pub connection: String,
    /// Its path.
    pub path: String,
    /// Its `Receipt-Token`.
    pub token: Option<String>,
    /// Its `Idempotency-Key`.
    pub key: Option<String>,
    /// Its `X-Retry-Attempt`, where that is a number.
    pub retry_attempt: Option<u32>,
    /// Its `X-Retry-Timeout-Ms`, where that is a number.
    pub retry_timeout_ms: Option<u64>,
    /// Its body.
    pub body: Bytes,
    /// Its place among the arrivals of its token at its path, from 0.
    pub arrival: u64,
    /// The cost that its answer names, in millionths.
    pub cost: Option<u64>,
    /// The reply that was chosen when it arrived, or that healing put in its place.
    pub reply: Reply,
    /// When the handling ended, true time, whether or not anybody still listened.
    pub ended: Option<Mono>,
    /// Whether the answer was delivered, once that is known.
    pub delivery: Option<Delivery>,
    /// The user's own service that it was sent to, by host, and the whole request.
    pub service: Option<(String, Request)>,
    /// The answer of that service.
    pub response: Option<Response>,
}

impl Entry {
    /// The body as JSON, where it is.
    #[must_use]
    pub fn args(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// How the delivery of an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The network took all of it. It may still be lost on the way.
    Handed(Mono),
    /// The connection ended before that.
    Cut(Mono),
}

/// The requests that truly arrived, in the order in which they were whole. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    entries: Vec<Entry>,
    /// By path, the tokens in the order of their first arrival, each with its count.
    tokens: BTreeMap<String, Vec<(String, u64)>>,
}

/// An entry's place in its ledger.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(usize);

impl Ledger {
    /// All entries so far.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }

    /// The token's place among those at the path, and the arrival's among the token's, from 0.
    pub(super) fn arrival(&self, path: &str, token: &str) -> (usize, u64) {
        let mut inner = self.lock();
        let tokens = inner.tokens.entry(path.to_owned()).or_default();
        let place = tokens.iter().position(|(t, _)| t == token).unwrap_or_else(|| {
            tokens.push((token.to_owned(), 0));
            tokens.len() - 1
        });
        tokens[place].1 += 1;
        (place, tokens[place].1 - 1)
    }

    pub(super) fn add(&self, entry: Entry) -> Place {
        let entries = &mut self.lock().entries;
        entries.push(entry);
        Place(entries.len() - 1)
    }

    /// Another reply than the one that was chosen when the request arrived: it has healed, or a
    /// user's service has answered.
    pub(super) fn gives(&self, place: Place, reply: Reply) {
        if let Some(entry) = self.lock().entries.get_mut(place.0) {
            entry.reply = reply;
        }
    }

    /// A user's service has answered.
    pub(super) fn answered(&self, place: Place, response: Response) {
        if let Some(entry) = self.lock().entries.get_mut(place.0) {
            entry.response = Some(response);
        }
    }

    pub(super) fn ended(&self, place: Place, at: Mono) {
        if let Some(entry) = self.lock().entries.get_mut(place.0) {
            entry.ended = Some(at);
        }
    }

    pub(super) fn delivered(&self, place: Place, delivery: Delivery) {
        if let Some(entry) = self.lock().entries.get_mut(place.0) {
            entry.delivery = Some(delivery);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
