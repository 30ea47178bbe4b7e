//! What nodes report of themselves: the seam's types, and what a store does with them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::records::Records;
use super::requests::Requests;
use super::seam::StoreError;
use crate::time::{Nanos, Timestamp};

/// What a node reports of itself, for whoever looks at the store. The caller limits its length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The node's name. A report takes the place of the node's last one.
    pub node: String,
    /// What it reports. Only those who write and read reports know what it means.
    pub body: Bytes,
}

impl Report {
    /// A report that is older than this, by store time, is removed when another is stored.
    pub const KEPT: Nanos = Nanos::from_secs(2 * 24 * 3_600);
}

/// A stored report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredReport {
    /// The report.
    pub report: Report,
    /// When it was stored, store time.
    pub at: Timestamp,
}

impl StoredReport {
    /// Whether it is to be removed at `now`.
    pub(super) fn is_old(&self, now: Timestamp) -> bool {
        now.since(self.at) > Report::KEPT
    }
}

impl<S: Records> Requests<'_, S> {
    /// Stores a report and removes old ones.
    pub(super) fn report(&mut self, report: &Report) -> Result<(), StoreError> {
        for old in self.records.reports()?.iter().filter(|kept| kept.is_old(self.now)) {
            self.records.remove_report(&old.report.node)?;
        }
        self.records.put_report(&StoredReport { report: report.clone(), at: self.now })
    }
}
