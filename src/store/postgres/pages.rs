//! Loads pages of runs, and dead letters.

use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::letters::{LetterFilter, LetterHead, StoredLetter};
use super::super::records::Page;
use super::error::Failed;
use super::layout::{decode, nanos, run_at, sum, task_at, text, time, uuid};
use super::load::read_record;
use super::session::Session;
use super::working_set::WorkingSet;
use crate::run::{LetterId, RunId};

const LETTER: &str = "SELECT run, step, item, head, head_sum, body, body_sum FROM letters \
    WHERE run = $1 AND step = $2 AND item = $3";
const LETTERED: &str = "SELECT run, step, item FROM letters WHERE run = $1 ORDER BY step, item";
const LETTERS: &str = "SELECT run, step, item, head, head_sum FROM letters \
    WHERE (run, step, item) > ($1, $2, $3) AND ($4::text IS NULL OR workflow = $4) \
    AND ($5::text IS NULL OR action = $5) AND ($6::text IS NULL OR code = $6) \
    AND (waiting OR NOT $7) \
    AND ($9::bigint IS NULL OR coalesce(failed, $9) >= $9) \
    AND ($10::bigint IS NULL OR failed IS NULL OR failed < $10) ORDER BY run, step, item LIMIT $8";

impl WorkingSet {
    /// Loads a page of records. A damaged record does not count towards the limit.
    pub(super) async fn load_page(
        &mut self,
        session: &Session,
        after: Option<RunId>,
        limit: usize,
        text: &str,
    ) -> Result<(), Failed> {
        let mut page = Page::default();
        let mut last = after.map(|run| uuid(run.to_bytes()));
        'more: loop {
            // One more, to find the damaged ones before it.
            let wanted = limit + 1 - page.records.len();
            let rows = session.ask(text, [&last.unwrap_or_default(), &last, &rows(wanted)]).await?;
            for row in &rows {
                let run = run_at(row, 0);
                last = Some(uuid(run.to_bytes()));
                self.updated = self.updated.max(time(row.get(3)));
                match read_record(run, row) {
                    Err(_) => page.damaged.push(run),
                    Ok(_) if page.records.len() >= limit => break 'more,
                    Ok(record) => page.records.push((run, record)),
                }
            }
            if rows.len() < wanted {
                break;
            }
        }
        let records = page.records.iter();
        self.records.extend(records.map(|(run, record)| (*run, Ok(Some(record.clone())))));
        self.pages.insert((after, limit), Ok(page));
        Ok(())
    }

    pub(super) async fn load_letter(
        &mut self,
        session: &Session,
        id: LetterId,
    ) -> Result<(), Failed> {
        let (run, step) = (uuid(id.run.to_bytes()), i32::from(id.task.step.0));
        let rows = session.ask(LETTER, [&run, &step, &i64::from(id.task.item)]).await?;
        let letter = rows.first().map(|row| {
            let head = read_head(row);
            let body: &[u8] = row.get(5);
            let is_whole = body_sum(id, body) == row.get::<_, i32>(6);
            let letter = head.filter(|_| is_whole);
            let letter =
                letter.map(|head| StoredLetter { head, body: Bytes::copy_from_slice(body) });
            letter.ok_or_else(|| format!("run {}: a dead letter is not what was written", id.run))
        });
        self.letters.insert(id, letter.transpose());
        Ok(())
    }

    pub(super) async fn load_tasks_with_letters(
        &mut self,
        session: &Session,
        run: RunId,
    ) -> Result<(), Failed> {
        let rows = session.ask(LETTERED, [&uuid(run.to_bytes())]).await?;
        self.tasks_with_letters.insert(run, Ok(rows.iter().map(|row| task_at(row, 1)).collect()));
        Ok(())
    }

    pub(super) async fn load_letters(
        &mut self,
        session: &Session,
        after: Option<LetterId>,
        limit: usize,
        filter: &LetterFilter,
    ) -> Result<(), Failed> {
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        let [workflow, action, code] = [&filter.workflow, &filter.action, &filter.code]
            .map(|wanted| wanted.as_deref().map(text));
        // Letters of the release before have no time there; the filter looks at theirs.
        let [since, until] = [filter.since, filter.until].map(|time| time.map(nanos));
        let mut last = after.map_or((Uuid::nil(), -1, -1), place_of);
        'more: loop {
            let wanted = limit + 1 - found.len();
            let (run, step, item) = last;
            let page = session
                .ask(
                    LETTERS,
                    [
                        &run,
                        &step,
                        &item,
                        &workflow.as_deref(),
                        &action.as_deref(),
                        &code.as_deref(),
                        &filter.waiting,
                        &rows(wanted),
                        &since,
                        &until,
                    ],
                )
                .await?;
            for row in &page {
                let id = LetterId { run: run_at(row, 0), task: task_at(row, 1) };
                last = place_of(id);
                match read_head(row) {
                    None => damaged.push(id),
                    Some(head) if !filter.wants(&head) => {}
                    Some(_) if found.len() >= limit => break 'more,
                    Some(head) => found.push(head),
                }
            }
            if page.len() < wanted {
                break;
            }
        }
        self.letter_pages.push(((after, limit, filter.clone()), Ok((found, damaged))));
        Ok(())
    }
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn place_of(id: LetterId) -> (Uuid, i32, i64) {
    (uuid(id.run.to_bytes()), id.task.step.0.into(), id.task.item.into())
}

fn read_head(row: &Row) -> Option<LetterHead> {
    let id = LetterId { run: run_at(row, 0), task: task_at(row, 1) };
    decode("letters", &letter_key(id).each_ref().map(Vec::as_slice), row.get(3), row.get(4))
}

fn letter_key(id: LetterId) -> [Vec<u8>; 3] {
    let task = id.task;
    [
        id.run.to_bytes().to_vec(),
        task.step.0.to_be_bytes().to_vec(),
        task.item.to_be_bytes().to_vec(),
    ]
}

pub(super) fn head_sum(id: LetterId, head: &[u8]) -> i32 {
    sum("letters", &letter_key(id).each_ref().map(Vec::as_slice), &[head])
}

pub(super) fn body_sum(id: LetterId, body: &[u8]) -> i32 {
    sum("bodies", &letter_key(id).each_ref().map(Vec::as_slice), &[body])
}
