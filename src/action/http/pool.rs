//! Connections that stay open between attempts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::connection::Connection;
use super::exchange::{Answer, Lack};
use crate::net::Authority;
use crate::time::{Mono, Nanos};

/// The most idle connections of all hosts.
const MOST: usize = 256;

/// Idle connections by host. Nothing polls them: that one has closed shows when it is used again,
/// before anything is sent.
#[derive(Clone)]
pub(super) struct Pool {
    per_host: usize,
    idle: Nanos,
    kept: Arc<Mutex<BTreeMap<Authority, Vec<Kept>>>>,
}

struct Kept {
    connection: Connection,
    since: Mono,
}

impl Pool {
    pub(super) fn new(per_host: usize, idle: Nanos) -> Self {
        Self { per_host, idle, kept: Arc::default() }
    }

    /// The connection to `to` that was used last, if it has not been idle for too long.
    pub(super) fn take(&self, to: &Authority, now: Mono) -> Option<Connection> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let of_host = kept.get_mut(to)?;
        let found = of_host.pop();
        if of_host.is_empty() {
            kept.remove(to);
        }
        found.filter(|found| found.since.after(self.idle) > now).map(|found| found.connection)
    }

    /// Keeps the connection that `answer` came over, unless more of the answer is to come.
    pub(super) fn keep(
        &self,
        to: &Authority,
        connection: Connection,
        answer: Answer,
        now: Mono,
    ) -> Answer {
        if !matches!(answer.lacks, Some(Lack::TooLong)) {
            self.put(to, connection, now);
        }
        answer
    }

    /// Closes those that were idle for too long, of any host.
    fn put(&self, to: &Authority, connection: Connection, now: Mono) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, of_host| {
            of_host.retain(|kept| kept.since.after(self.idle) > now);
            !of_host.is_empty()
        });
        let all: usize = kept.values().map(Vec::len).sum();
        let of_host = kept.entry(to.clone()).or_default();
        if of_host.len() >= self.per_host.min(MOST) && !of_host.is_empty() {
            of_host.remove(0);
        } else if all >= MOST {
            return;
        }
        of_host.push(Kept { connection, since: now });
    }
}
