//! What a store records about itself: its format, and counts of what it holds.

use super::checked_table::Fault;
use super::error::OpenError;
use super::layout::FORMAT;
use super::records::RedbRecords;

pub(super) fn meta(
    place: &str,
    records: &RedbRecords<'_>,
    key: &str,
) -> Result<Vec<u8>, OpenError> {
    let got = records.meta.get(key.as_bytes()).map_err(|fault| fault_at(place, fault))?;
    got.ok_or_else(|| OpenError::damaged(place, format!("its {key} is missing")))
}

/// A count that is absent while it is 0.
pub(super) fn count(place: &str, records: &RedbRecords<'_>, name: &str) -> Result<u64, OpenError> {
    let kept = records.meta.get(name.as_bytes()).map_err(|fault| fault_at(place, fault))?;
    let Some(kept) = kept else { return Ok(0) };
    let count = kept.as_slice().try_into().map(u64::from_be_bytes);
    count.map_err(|_| OpenError::damaged(place, format!("its count of {name}")))
}

pub(super) fn check_format(place: &str, records: &RedbRecords<'_>) -> Result<(), OpenError> {
    let value = meta(place, records, "format")?;
    let found = value.as_slice().try_into().map(u32::from_be_bytes);
    match found {
        Ok(FORMAT) => Ok(()),
        Ok(found) if found > FORMAT => {
            Err(OpenError::Newer { place: place.to_owned(), found, known: FORMAT })
        }
        _ => Err(OpenError::damaged(place, "its format is not a number that was ever written")),
    }
}

fn fault_at(place: &str, fault: Fault) -> OpenError {
    match fault {
        Fault::Rot(_) => OpenError::damaged(place, "what it says about itself is rotten"),
        Fault::Storage(error) => OpenError::from_storage(place, error),
    }
}
