//! Stored bytes of the run: events, snapshots, dead letters.

use retrial::run::{
    DecodeError, Recorded, RunId, RunState, decode, decode_letter, decode_snapshot, encode,
    encode_letter, encode_snapshot,
};

/// Separates the events of a run.
const NEXT: u8 = b'\n';

/// What was read is written, and read as the same again.
fn check<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    read: impl Fn(&[u8]) -> Result<T, DecodeError>,
    write: impl Fn(&T) -> bytes::Bytes,
) {
    if let Ok(value) = read(bytes) {
        let written = write(&value);
        let again = read(&written).unwrap_or_else(|e| panic!("{written:?}: {e}"));
        assert_eq!(again, value);
        assert_eq!(write(&again), written);
    }
}

pub(crate) fn record(bytes: &[u8]) {
    check(bytes, decode, encode);
    check(bytes, decode_snapshot, encode_snapshot);
    check(bytes, decode_letter, encode_letter);
    let events = bytes.split(|b| *b == NEXT).map(decode);
    let Ok(events) = events.collect::<Result<Vec<Recorded>, _>>() else { return };
    // Events that can't follow each other are refused by their number.
    let run = RunId::from_random(1, 2);
    match RunState::replay(run, &events) {
        Ok(state) => check(&encode_snapshot(&state), decode_snapshot, encode_snapshot),
        Err(refused) => {
            assert!(refused.number.0 <= events.len() as u64, "{refused:?} of {}", events.len());
        }
    }
}
