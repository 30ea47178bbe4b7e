//! What a store that was opened has lost: the acknowledged commit that redb took back.

use redb::{Database, TableHandle as _, WriteTransaction};

use super::checked_table::{CheckedTable, Fault};
use super::error::OpenError;
use super::layout::{Totals, run_of};
use super::mark::{Mark, NameSum, Shared, Touched};
use super::meta::{check_format, count};
use super::records::{KnownDamage, RedbRecords};

/// The runs and names of commits that were lost. The table is there once something was lost.
const TABLE: &str = "lost";

/// Compares the store with its mark, before anything else is read. What a lost commit changed is
/// written down, because the next commit overwrites the mark.
pub(super) fn settle(place: &str, db: &Database, backend: &Shared) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { place: place.to_owned(), source };
    let mark = Mark::read(backend).map_err(io)?;
    let txn = db.begin_write().map_err(|e| OpenError::from_storage(place, e))?;
    let known = KnownDamage::default();
    let mut records = RedbRecords::open(&txn, &known, Totals::default())
        .map_err(|e| OpenError::from_storage(place, e))?;
    check_format(place, &records)?;
    let commits = count(place, &records, "commits")?;
    let marked = mark.as_ref().map_or(0, |mark| mark.commit);
    if marked == commits {
        drop(records);
        return txn.abort().map_err(|e| OpenError::from_storage(place, e));
    }
    let storage = |error| OpenError::from_storage(place, error);
    if marked > commits {
        let lost = mark.and_then(|mark| mark.touched).filter(|_| marked == commits + 1);
        let lost = lost.ok_or_else(|| OpenError::damaged(place, "its newest commits are lost"))?;
        put(&txn, &lost, marked).map_err(|e| OpenError::from_storage(place, e))?;
    }
    // A commit without a mark may still be acknowledged. After another one it can't be taken back.
    let commit = marked.max(commits) + 1;
    records.write_commits(commit).map_err(storage)?;
    drop(records);
    txn.commit().map_err(|e| OpenError::from_storage(place, e))?;
    Mark { commit, touched: Some(Touched::default()) }.write(backend).map_err(io)
}

fn put(txn: &WriteTransaction, lost: &Touched, commit: u64) -> Result<(), redb::Error> {
    let mut table = CheckedTable::open(txn, TABLE)?;
    let runs = lost.runs.iter().map(|run| run.to_bytes().to_vec());
    let names = lost.names.iter().map(|name| name.to_vec());
    for key in runs.chain(names) {
        table.put(&key, &commit.to_be_bytes())?;
    }
    Ok(())
}

/// The runs and the names of which a commit was lost.
pub(super) fn survey(txn: &WriteTransaction) -> Result<Touched, redb::Error> {
    let mut lost = Touched::default();
    if !txn.list_tables()?.any(|table| table.name() == TABLE) {
        return Ok(lost);
    }
    for row in CheckedTable::open(txn, TABLE)?.all()? {
        let key = match row {
            Ok((key, _)) | Err(Fault::Rot(key)) => key,
            Err(Fault::Storage(error)) => return Err(error.into()),
        };
        match NameSum::try_from(key.as_slice()) {
            Ok(name) => _ = lost.names.insert(name),
            Err(_) => _ = lost.runs.insert(run_of(&key)),
        }
    }
    Ok(lost)
}
