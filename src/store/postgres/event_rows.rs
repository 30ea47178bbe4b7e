//! The events of one commit as the bytes of one row. Part of the stored format.
//!
//! The first byte is the format of the row, in which the highest bit is set. In the first each event
//! follows with its length before it. A row from before there were formats is one event, which begins
//! with the event's own format: there that bit is not set.

use bytes::{BufMut as _, Bytes, BytesMut};

const FORMAT: u8 = 0x81;
const LENGTH: usize = size_of::<u32>();

/// The row of these events. `None` where one is longer than any row may be.
pub(super) fn pack(events: &[Bytes]) -> Option<Bytes> {
    let size = events.iter().map(|event| LENGTH + event.len()).sum::<usize>();
    let mut row = BytesMut::with_capacity(1 + size);
    row.put_u8(FORMAT);
    for event in events {
        row.put_u32(u32::try_from(event.len()).ok()?);
        row.put_slice(event);
    }
    Some(row.freeze())
}

/// The events of a row. `None` where it is not one that was written.
pub(super) fn unpack(row: &[u8]) -> Option<Vec<Bytes>> {
    let Some(mut rest) = row.strip_prefix(&[FORMAT]) else {
        return Some(vec![Bytes::copy_from_slice(row)]);
    };
    let mut events = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<LENGTH>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (event, after) = after.split_at_checked(length)?;
        events.push(Bytes::copy_from_slice(event));
        rest = after;
    }
    rest.is_empty().then_some(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_back_the_events_of_its_commit() {
        let events = [&b"{}"[..], b"", b"\x01another"].map(Bytes::from_static);
        for count in 0..=events.len() {
            let row = pack(&events[..count]).unwrap_or_default();
            assert_eq!(unpack(&row), Some(events[..count].to_vec()));
        }
    }

    #[test]
    fn a_row_from_before_there_were_formats_is_one_event() {
        let event = b"\x01[1,{}]";
        assert_eq!(unpack(event), Some(vec![Bytes::from_static(event)]));
    }

    #[test]
    fn a_row_that_was_cut_is_noticed() {
        let row = pack(&[&b"one"[..], b"two"].map(Bytes::from_static)).unwrap_or_default();
        let whole = [1, 1 + LENGTH + 3, row.len()];
        for end in (1..row.len()).filter(|end| !whole.contains(end)) {
            assert_eq!(unpack(&row[..end]), None, "{end}");
        }
    }
}
