//! What nodes report, on redb. Like that of definitions, the table is opened when it is used. A damaged
//! report is left out: its node writes another soon.

use bytes::Bytes;

use super::super::reports::{Report, StoredReport};
use super::super::seam::StoreError;
use super::checked_table::{CheckedTable, Fault};
use super::layout::{headed, read_headed};
use super::records::RedbRecords;

fn read(key: &[u8], value: &[u8]) -> Option<StoredReport> {
    let (at, body) = read_headed(value)?;
    let node = String::from_utf8(key.to_vec()).ok()?;
    Some(StoredReport { report: Report { node, body: Bytes::copy_from_slice(body) }, at })
}

impl RedbRecords<'_> {
    pub(super) fn read_reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        let mut reports = Vec::new();
        for row in self.all_reports()?.all().map_err(|error| self.fail(error))? {
            match row {
                Ok((key, value)) => reports.extend(read(&key, &value)),
                Err(Fault::Rot(_)) => {}
                Err(Fault::Storage(error)) => return Err(self.fail(error)),
            }
        }
        Ok(reports)
    }

    pub(super) fn write_report(&mut self, stored: &StoredReport) -> Result<(), StoreError> {
        let StoredReport { report: Report { node, body }, at } = stored;
        let head = self.encode(at)?;
        let done = self.all_reports()?.put(node.as_bytes(), &headed(&head, body));
        self.write(done)
    }

    pub(super) fn delete_report(&mut self, node: &str) -> Result<(), StoreError> {
        let done = self.all_reports()?.remove(node.as_bytes());
        self.write(done)
    }

    fn all_reports(&self) -> Result<CheckedTable<'_>, StoreError> {
        self.table_in_use("reports")
    }
}
