//! A run's record as bytes, without its code and its fields, which have columns. Part of the stored format.
//!
//! The first byte is the format. A record that begins with another byte is from before there were
//! formats: it is JSON. Numbers have seven bits in a byte, the lowest first, and the eighth says that
//! more follow. What may be absent has a byte before it.

use super::{Decided, Receipt, Record};
use crate::run::{Digest, LetterId, RunId, TaskId, Version};
use crate::store::{CommitId, RunPhase};
use crate::time::Timestamp;
use crate::workflow::StepIx;

const FORMAT: u8 = 1;

impl Record {
    pub(in crate::store) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Out(vec![FORMAT]);
        out.text(&self.workflow);
        out.0.extend(self.digest.to_bytes());
        out.0.extend(self.creation.to_bytes());
        let phase = RunPhase::ALL.iter().position(|phase| *phase == self.phase);
        out.number(phase.unwrap_or_default() as u64);
        out.number(self.created.as_nanos());
        out.number(self.version.0);
        out.number(self.floor.0);
        out.option(self.snapshot, |out, version| out.number(version.0));
        for count in [self.results, self.queued, self.letters, self.waiting] {
            out.number(count);
        }
        out.option(self.key.as_deref(), Out::text);
        out.option(self.redrives, |out, letter| {
            out.0.extend(letter.run.to_bytes());
            out.task(letter.task);
        });
        for time in [self.ended, self.archived] {
            out.option(time, |out, time| out.number(time.as_nanos()));
        }
        for receipt in &self.receipts {
            out.number(receipt.id.writer);
            out.number(receipt.id.counter);
            match receipt.decided {
                Decided::Landed(version) => out.option(Some(version.0), Out::number),
                Decided::Refused(task) => {
                    out.option(None, Out::number);
                    out.task(task);
                }
            }
        }
        out.0
    }

    /// `None` where it is not one that was written.
    pub(in crate::store) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let Some(rest) = bytes.strip_prefix(&[FORMAT]) else {
            return serde_json::from_slice(bytes).ok();
        };
        let mut from = In(rest);
        let mut record = Self {
            workflow: from.text()?.into(),
            digest: Digest::from_bytes(from.array()?),
            creation: Digest::from_bytes(from.array()?),
            phase: *RunPhase::ALL.get(usize::try_from(from.number()?).ok()?)?,
            created: from.time()?,
            version: Version(from.number()?),
            floor: Version(from.number()?),
            snapshot: from.option(In::number)?.map(Version),
            results: from.number()?,
            queued: from.number()?,
            letters: from.number()?,
            waiting: from.number()?,
            key: from.option(|from| Some(from.text()?.into()))?,
            redrives: from.option(|from| {
                Some(LetterId { run: RunId::from_bytes(from.array()?), task: from.task()? })
            })?,
            ended: from.option(In::time)?,
            archived: from.option(In::time)?,
            code: None,
            fields: Default::default(),
            receipts: Vec::new(),
        };
        while !from.0.is_empty() {
            let id = CommitId { writer: from.number()?, counter: from.number()? };
            let decided = match from.option(In::number)? {
                Some(version) => Decided::Landed(Version(version)),
                None => Decided::Refused(from.task()?),
            };
            record.receipts.push(Receipt { id, decided });
        }
        Some(record)
    }
}

struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(0x80 | (n & 0x7f) as u8);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
    }

    fn task(&mut self, task: TaskId) {
        self.number(task.step.0.into());
        self.number(task.item.into());
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.0.push(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }
}

struct In<'b>(&'b [u8]);

impl<'b> In<'b> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut n = 0;
        for place in 0..10 {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    fn text(&mut self) -> Option<&'b str> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn time(&mut self) -> Option<Timestamp> {
        self.number().map(Timestamp::from_nanos)
    }

    fn task(&mut self) -> Option<TaskId> {
        let step = StepIx(u16::try_from(self.number()?).ok()?);
        Some(TaskId { step, item: u32::try_from(self.number()?).ok()? })
    }

    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let task = TaskId { step: StepIx(300), item: 70_000 };
        let receipt =
            |writer, decided| Receipt { id: CommitId { writer, counter: 1 << 40 }, decided };
        Record {
            workflow: "order \u{e9}".into(),
            digest: Digest::of(b"digest"),
            creation: Digest::of(b"creation"),
            phase: RunPhase::Deactivated,
            created: Timestamp::from_nanos(u64::MAX),
            version: Version(127),
            floor: Version(128),
            snapshot: Some(Version(5)),
            results: 1,
            queued: 2,
            letters: 3,
            waiting: 4,
            key: Some("key".into()),
            redrives: Some(LetterId { run: RunId::from_bytes([7; 16]), task }),
            ended: Some(Timestamp::from_nanos(9)),
            archived: None,
            code: None,
            fields: Default::default(),
            receipts: vec![
                receipt(u64::MAX, Decided::Landed(Version(300))),
                receipt(2, Decided::Refused(task)),
            ],
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let full = record();
        let bare = Record {
            snapshot: None,
            key: None,
            redrives: None,
            ended: None,
            archived: Some(Timestamp::from_nanos(1)),
            receipts: vec![],
            ..record()
        };
        for record in [full, bare] {
            assert_eq!(Record::from_bytes(&record.to_bytes()), Some(record));
        }
    }

    #[test]
    fn a_record_from_before_there_were_formats_is_read() {
        let json = serde_json::to_vec(&record()).ok();
        assert_eq!(json.and_then(|json| Record::from_bytes(&json)), Some(record()));
    }

    #[test]
    fn a_record_that_was_cut_is_not_read_as_itself() {
        let bytes = record().to_bytes();
        for end in 0..bytes.len() {
            assert_ne!(Record::from_bytes(&bytes[..end]), Some(record()), "{end}");
        }
    }
}
