//! Workflow definitions on redb. Their table is opened when it is used, so that a store without
//! definitions has no such table.

use bytes::Bytes;
use redb::{StorageError, TableError, TableHandle as _, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::super::definitions::{Definition, StoredDefinition};
use super::super::seam::StoreError;
use super::checked_table::{CheckedTable, Fault};
use super::layout::{headed, read_headed};
use super::mark::definition_sum;
use super::records::RedbRecords;
use crate::time::Timestamp;

const TABLE: &str = "definitions";

/// What stands before the text.
#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    revision: u64,
    at: Timestamp,
}

/// How many definitions there are, and whether all of them are undamaged.
pub(super) fn survey(txn: &WriteTransaction) -> Result<(u64, bool), redb::Error> {
    if !txn.list_tables()?.any(|table| table.name() == TABLE) {
        return Ok((0, true));
    }
    let (mut count, mut whole) = (0, true);
    for row in CheckedTable::open(txn, TABLE)?.all()? {
        count += 1;
        match row {
            Ok((key, value)) => whole &= read(&key, &value).is_some(),
            Err(Fault::Rot(_)) => whole = false,
            Err(Fault::Storage(error)) => return Err(error.into()),
        }
    }
    Ok((count, whole))
}

fn read(key: &[u8], value: &[u8]) -> Option<StoredDefinition> {
    let (Head { format, revision, at }, text) = read_headed(value)?;
    let name = String::from_utf8(key.to_vec()).ok()?;
    let definition = Definition { name, format, text: Bytes::copy_from_slice(text) };
    Some(StoredDefinition { definition, revision, at })
}

fn rotten(name: &[u8]) -> StoreError {
    let name = String::from_utf8_lossy(name);
    StoreError::Broken(format!("the store: workflow `{name}` is not what was written"))
}

impl RedbRecords<'_> {
    pub(super) fn read_definition(
        &self,
        name: &str,
    ) -> Result<Option<StoredDefinition>, StoreError> {
        if self.known.lost.names.contains(&definition_sum(name)) {
            let what = "its newest definition was lost, because the store's file rotted";
            return Err(StoreError::Broken(format!("the store: workflow `{name}`: {what}")));
        }
        let name = name.as_bytes();
        match self.definitions()?.get(name) {
            Ok(Some(value)) => read(name, &value).map(Some).ok_or_else(|| rotten(name)),
            Ok(None) if !self.known.definitions_damaged => Ok(None),
            Ok(None) => {
                let what = "the store: a workflow was lost, and this may be the one";
                Err(StoreError::Broken(what.to_owned()))
            }
            Err(Fault::Rot(_)) => Err(rotten(name)),
            Err(Fault::Storage(error)) => Err(self.fail(error)),
        }
    }

    pub(super) fn write_definition(
        &mut self,
        stored: &StoredDefinition,
        is_new: bool,
    ) -> Result<(), StoreError> {
        let StoredDefinition { definition: Definition { name, format, text }, revision, at } =
            stored.clone();
        let head = self.encode(&Head { format, revision, at })?;
        let done = self.definitions()?.put(name.as_bytes(), &headed(&head, &text));
        self.totals.definitions += u64::from(is_new);
        self.touched.names.insert(definition_sum(&stored.definition.name));
        self.write(done)
    }

    pub(super) fn read_definitions(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredDefinition>, StoreError> {
        let from = after.unwrap_or_default().as_bytes();
        let table = self.definitions()?;
        let rows = table.range(from, &[u8::MAX]).map_err(|error| self.fail(error))?;
        let mut page = Vec::new();
        for row in rows {
            if page.len() >= limit {
                break;
            }
            match row {
                Ok((key, _)) | Err(Fault::Rot(key)) if after.is_some() && key == from => {}
                Ok((key, value)) => page.push(read(&key, &value).ok_or_else(|| rotten(&key))?),
                Err(Fault::Rot(key)) => return Err(rotten(&key)),
                Err(Fault::Storage(error)) => return Err(self.fail(error)),
            }
        }
        Ok(page)
    }

    fn definitions(&self) -> Result<CheckedTable<'_>, StoreError> {
        self.table_in_use(TABLE)
    }

    /// A table that there is only once something was written to it.
    pub(super) fn table_in_use(&self, name: &'static str) -> Result<CheckedTable<'_>, StoreError> {
        CheckedTable::open(self.txn, name).map_err(|error| match error {
            TableError::Storage(error) => self.fail(error),
            other => self.fail(StorageError::Corrupted(other.to_string())),
        })
    }
}
