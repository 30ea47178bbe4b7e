//! Pages of runs and of dead letters on redb, damaged ones apart.

use std::collections::BTreeSet;

use super::super::letters::{LetterFilter, LetterHead};
use super::super::records::Page;
use super::super::seam::StoreError;
use super::checked_table::Fault;
use super::error::parse;
use super::layout::{letter_key, letter_of, read_headed, run_of};
use super::records::{RECORD, RedbRecords};
use crate::run::{LetterId, RunId};

impl RedbRecords<'_> {
    pub(super) fn read_page(&self, after: Option<RunId>, limit: usize) -> Result<Page, StoreError> {
        let mut page = Page::default();
        let from = after.map_or([0; 16], RunId::to_bytes);
        let rows = self.heads.range(&from, &[u8::MAX; 16]).map_err(|error| self.fail(error))?;
        let mut last = None;
        for row in rows {
            let (run, record) = match row {
                Ok((key, value)) => (run_of(&key), parse(run_of(&key), RECORD, &value).ok()),
                Err(Fault::Rot(key)) => (run_of(&key), None),
                Err(Fault::Storage(error)) => return Err(self.fail(error)),
            };
            if after == Some(run) {
                continue;
            }
            match record.filter(|_| !self.known.damaged.contains(&run)) {
                None => page.damaged.push(run),
                Some(_) if page.records.len() >= limit => {
                    last = page.records.last().map(|(run, _)| *run);
                    break;
                }
                Some(record) => page.records.push((run, record)),
            }
        }
        // A run that was lost as a whole has no record. The next page names those after the last run.
        let in_range = |run: &&RunId| {
            after.is_none_or(|after| after < **run) && last.is_none_or(|last| **run <= last)
        };
        let known = self.known.damaged.iter().chain(&page.damaged);
        let damaged: BTreeSet<_> = known.filter(in_range).copied().collect();
        page.damaged = damaged.into_iter().collect();
        Ok(page)
    }

    pub(super) fn read_letters(
        &self,
        after: Option<LetterId>,
        limit: usize,
        filter: &LetterFilter,
    ) -> Result<(Vec<LetterHead>, Vec<LetterId>), StoreError> {
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        let from = after.map_or_else(Vec::new, letter_key);
        let rows = self.letters.range(&from, &[u8::MAX; 32]).map_err(|error| self.fail(error))?;
        for row in rows {
            let (id, head) = match row {
                Ok((key, value)) => (letter_of(&key), read_headed(&value).map(|(head, _)| head)),
                Err(Fault::Rot(key)) => (letter_of(&key), None),
                Err(Fault::Storage(error)) => return Err(self.fail(error)),
            };
            match head {
                _ if after == Some(id) => {}
                None => damaged.push(id),
                Some(head) if !filter.wants(&head) => {}
                Some(_) if found.len() >= limit => break,
                Some(head) => found.push(head),
            }
        }
        Ok((found, damaged))
    }
}
