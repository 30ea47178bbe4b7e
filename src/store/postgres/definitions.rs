//! Workflow definitions by name.

use bytes::Bytes;
use tokio_postgres::Row;

use super::super::definitions::{Definition, StoredDefinition};
use super::error::Failed;
use super::layout::{count, nanos, sum, text, time, untext};
use super::session::Session;
use super::working_set::{Checked, WorkingSet};

const COLUMNS: &str = "name, format, definition, revision, at, sum";
const DEFINE: &str = "INSERT INTO definitions (name, format, definition, revision, at, sum) \
    VALUES ($1, $2, $3, $4, $5, $6)";
const REDEFINE: &str = "UPDATE definitions SET format = $2, definition = $3, revision = $4, \
    at = $5, sum = $6 WHERE name = $1";

impl WorkingSet {
    pub(super) async fn load_definition(
        &mut self,
        session: &Session,
        name: &str,
        lock: &str,
    ) -> Result<(), Failed> {
        let statement = format!("SELECT {COLUMNS} FROM definitions WHERE name = $1 {lock}");
        let rows = session.ask(&statement, [&text(name)]).await?;
        self.definitions.insert(name.to_owned(), rows.first().map(read).transpose());
        Ok(())
    }

    pub(super) async fn load_definitions(
        &mut self,
        session: &Session,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(), Failed> {
        let statement = format!(
            "SELECT {COLUMNS} FROM definitions WHERE $1::text IS NULL OR name > $1 \
             ORDER BY name LIMIT $2"
        );
        let rows = session.ask(&statement, [&after.map(text), &count(limit as u64)]).await?;
        let page = rows.iter().map(read).collect();
        self.definition_pages.insert((after.map(str::to_owned), limit), page);
        Ok(())
    }
}

fn read(row: &Row) -> Checked<StoredDefinition> {
    let name = untext(row.get(0)).into_owned();
    let definition = Definition {
        name: name.clone(),
        format: untext(row.get(1)).into_owned(),
        text: Bytes::copy_from_slice(row.get(2)),
    };
    let revision = u64::try_from(row.get::<_, i64>(3)).unwrap_or_default();
    let stored = StoredDefinition { definition, revision, at: time(row.get(4)) };
    let is_whole = sum_of(&stored) == row.get::<_, i32>(5);
    is_whole.then_some(stored).ok_or_else(|| format!("the store: the definition `{name}`"))
}

fn sum_of(stored: &StoredDefinition) -> i32 {
    let Definition { name, format, text } = &stored.definition;
    let (revision, at) = (stored.revision.to_be_bytes(), nanos(stored.at).to_be_bytes());
    sum("definitions", &[name.as_bytes()], &[&revision, &at, format.as_bytes(), &[0], text])
}

/// Writes definitions. If two nodes define a new name at once, one of them fails and tries again.
pub(super) async fn define(session: &Session, kept: &[StoredDefinition]) -> Result<(), Failed> {
    for stored in kept {
        let Definition { name, format, text: bytes } = &stored.definition;
        let statement = if stored.revision == 1 { DEFINE } else { REDEFINE };
        let (name, format, at) = (text(name), text(format), nanos(stored.at));
        let (revision, sum, bytes) = (count(stored.revision), sum_of(stored), &bytes[..]);
        session.write(1, statement, [&name, &format, &bytes, &revision, &at, &sum]).await?;
    }
    Ok(())
}
