use redb::{ReadableTable, StorageError, Table, TableDefinition, WriteTransaction};

/// Bytes by bytes. `RedbRecords` knows what they mean.
pub(super) type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// One table, whose every value carries a CRC32C over table, key and value: redb itself notices
/// few of the bits that rot on a cleanly closed file.
pub(super) struct CheckedTable<'txn> {
    name: &'static str,
    table: Table<'txn, &'static [u8], &'static [u8]>,
}

/// Why a row could not be read.
#[derive(Debug)]
pub(super) enum Fault {
    /// The row under this key, as stored, is not what was written.
    Rot(Vec<u8>),
    /// The database failed.
    Storage(StorageError),
}

impl From<StorageError> for Fault {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

/// A checked row: its key and value.
pub(super) type Row = (Vec<u8>, Vec<u8>);

const SUM: usize = 4;

impl<'txn> CheckedTable<'txn> {
    pub(super) fn open(
        txn: &'txn WriteTransaction,
        name: &'static str,
    ) -> Result<Self, redb::TableError> {
        Ok(Self { name, table: txn.open_table(Definition::new(name))? })
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let Some(stored) = self.table.get(key)? else { return Ok(None) };
        self.checked(key, stored.value()).map(Some)
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
        let mut stored = Vec::with_capacity(SUM + value.len());
        stored.extend_from_slice(&self.sum(key, value).to_le_bytes());
        stored.extend_from_slice(value);
        self.table.insert(key, stored.as_slice()).map(drop)
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Result<(), StorageError> {
        self.table.remove(key).map(drop)
    }

    /// Removes the rows from `from` up to and including `to`, readable or not.
    pub(super) fn remove_range(&mut self, from: &[u8], to: &[u8]) -> Result<(), StorageError> {
        self.table.retain_in(from..=to, |_, _| false)
    }

    /// The rows from `from` up to and including `to`. A fault is one row's; the next may be read.
    pub(super) fn range(
        &self,
        from: &[u8],
        to: &[u8],
    ) -> Result<impl DoubleEndedIterator<Item = Result<Row, Fault>>, StorageError> {
        let rows = self.table.range(from..=to)?;
        Ok(rows.map(|row| {
            let (key, stored) = row?;
            let key = key.value().to_vec();
            self.checked(&key, stored.value()).map(|value| (key, value))
        }))
    }

    /// Every row.
    pub(super) fn all(&self) -> Result<impl Iterator<Item = Result<Row, Fault>>, StorageError> {
        self.range(&[], &[u8::MAX; 64])
    }

    fn checked(&self, key: &[u8], stored: &[u8]) -> Result<Vec<u8>, Fault> {
        match stored.split_first_chunk::<SUM>() {
            Some((sum, value)) if u32::from_le_bytes(*sum) == self.sum(key, value) => {
                Ok(value.to_vec())
            }
            _ => Err(Fault::Rot(key.to_vec())),
        }
    }

    fn sum(&self, key: &[u8], value: &[u8]) -> u32 {
        let sum = crc32c::crc32c_append(crc32c::crc32c(self.name.as_bytes()), key);
        crc32c::crc32c_append(sum, value)
    }
}
