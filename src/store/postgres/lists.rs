//! Lists and counts: SQL over columns that repeat parts of the records.

use tokio_postgres::Row;

use super::super::guards::{GuardRow, Guards};
use super::super::listing::{AskRuns, Listed, RunCursor, RunFilter, Stranded, Tally};
use super::error::Failed;
use super::layout::{
    count, fields_text, nanos, phase_text, read_phase, run_at, text, time, untext, uuid,
};
use super::load::{read_guard, read_record};
use super::session::Session;
use super::working_set::WorkingSet;
use crate::run::{Digest, RunId};
use crate::time::Timestamp;

/// Each filter gets the statement that its index can serve.
fn list_text(filter: &RunFilter) -> String {
    let phase = if filter.phase.is_some() { "phase = $3" } else { "$3::text IS NULL" };
    let letters = if filter.letters { "letters > 0 AND $5" } else { "NOT $5" };
    let code = if filter.code.is_some() { "code = $12" } else { "$12::text IS NULL" };
    let fields = match filter.fields.is_empty() {
        true => "$14::text IS NOT NULL",
        false => "fields @> $14::text::jsonb",
    };
    let key = match filter.key {
        Some(_) => "run = (SELECT s.run FROM submissions s WHERE s.key = $13)",
        None => "$13::text IS NULL",
    };
    format!(
        "SELECT run, record, sum, created, code, fields::text FROM runs WHERE (created, run) < ($1, $2) \
         AND created >= $10 AND ($11::bigint IS NULL OR created < $11) \
         AND {phase} AND {letters} AND {code} AND {fields} AND {key} AND ($4::text IS NULL OR workflow = $4) \
         AND ($6::text IS NULL OR run BETWEEN $7 AND $8 OR strpos(folded, $6) > 0) \
         ORDER BY created DESC, run DESC LIMIT $9"
    )
}

/// The last of the active runs that a request looks at. Each phase is in the order of its index.
const LAST_LOOKED_AT: &str = "\
    (SELECT created, run FROM runs WHERE phase = 'running' AND (created, run) > ($1, $2) \
     ORDER BY created, run LIMIT $3) \
    UNION ALL (SELECT created, run FROM runs WHERE phase = 'paused' AND (created, run) > ($1, $2) \
     ORDER BY created, run LIMIT $3) \
    ORDER BY created, run OFFSET $3 - 1 LIMIT 1";
/// A set operation, for the planner may make a search for each run of anything else where it has not
/// counted the rows yet. Runs that were created one after the other have their rows side by side.
const STRANDED: &str = "WITH page AS MATERIALIZED \
    (SELECT run FROM runs WHERE phase = 'running' AND (created, run) > ($1, $2) AND (created, run) <= ($3, $4) \
     UNION ALL \
     SELECT run FROM runs WHERE phase = 'paused' AND (created, run) > ($1, $2) AND (created, run) <= ($3, $4)), \
    stranded AS MATERIALIZED (SELECT run FROM page EXCEPT SELECT run FROM queue \
     WHERE run BETWEEN (SELECT run FROM page ORDER BY run LIMIT 1) \
     AND (SELECT run FROM page ORDER BY run DESC LIMIT 1)) \
    SELECT run, record, sum, updated, code, fields::text FROM stranded JOIN runs USING (run) \
    ORDER BY created, run";
const TALLY: &str = "SELECT phase, count(*) FROM runs GROUP BY phase";
const LETTERS: &str = "SELECT coalesce(sum(letters), 0)::bigint FROM runs WHERE letters > 0";
const GUARDS: &str = "SELECT action, state, sum FROM guards WHERE state IS NOT NULL";

/// A place after that of every run.
fn after_all() -> RunCursor {
    RunCursor { created: Timestamp::from_nanos(u64::MAX), run: RunId::from_bytes([u8::MAX; 16]) }
}

/// Active runs without a row in the queue, the oldest first.
pub(super) async fn stranded(
    session: &Session,
    after: Option<RunCursor>,
    limit: usize,
) -> Result<Stranded, Failed> {
    // Times are not negative.
    let (created, run) =
        after.map_or((-1, RunId::from_bytes([0; 16])), |at| (nanos(at.created), at.run));
    let run = uuid(run.to_bytes());
    let last = session.ask(LAST_LOOKED_AT, [&created, &run, &count(limit.max(1) as u64)]).await?;
    let last = last.first().map(|row| RunCursor { created: time(row.get(0)), run: run_at(row, 1) });
    let until = last.unwrap_or_else(after_all);
    let (to, to_run) = (nanos(until.created), uuid(until.run.to_bytes()));
    let rows = session.ask(STRANDED, [&created, &run, &to, &to_run]).await?;
    let head = |row: &Row| {
        let run = run_at(row, 0);
        // One that is damaged has no head.
        Some(read_record(run, row).ok()?.head(run))
    };
    Ok(Stranded { runs: rows.iter().filter_map(head).collect(), next: last })
}

/// A page of runs, the newest first. A damaged run does not count towards the limit.
pub(super) async fn list(
    session: &Session,
    now: Timestamp,
    ask: &AskRuns,
) -> Result<Listed, Failed> {
    let filter = &ask.filter;
    let phase = filter.phase.map(phase_text);
    let workflow = filter.workflow.as_deref().map(text);
    let part = filter.text.as_deref().map(|part| text(part).to_ascii_lowercase());
    // If no id matches, a range without ids.
    let ids = filter.ids().map(|ids| [*ids.start(), *ids.end()].map(RunId::to_bytes));
    let [first, last] = ids.unwrap_or([[u8::MAX; 16], [0; 16]]).map(uuid);
    let mut at = ask.before.unwrap_or_else(after_all);
    let since = nanos(filter.since.unwrap_or_default());
    let until = filter.until.map(nanos);
    let code = filter.code.as_deref().map(text);
    let fields = fields_text(&filter.fields);
    let key = filter.key.as_ref().map(|key| Digest::of(key.as_bytes()).to_string());
    let (limit, statement) = (ask.limit.max(1), list_text(filter));
    let mut page = Listed { at: now, runs: Vec::new(), next: None, damaged: Vec::new() };
    loop {
        let wanted = limit.saturating_add(1) - page.runs.len();
        let (created, run, most) =
            (nanos(at.created), uuid(at.run.to_bytes()), count(wanted as u64));
        let rows = session
            .ask(
                &statement,
                [
                    &created,
                    &run,
                    &phase,
                    &workflow,
                    &filter.letters,
                    &part,
                    &first,
                    &last,
                    &most,
                    &since,
                    &until,
                    &code,
                    &key,
                    &fields,
                ],
            )
            .await?;
        for row in &rows {
            if page.runs.len() >= limit {
                page.next = Some(at);
                return Ok(page);
            }
            let run = run_at(row, 0);
            at = RunCursor { created: time(row.get(3)), run };
            match read_record(run, row) {
                Ok(record) => page.runs.push(record.head(run)),
                Err(_) => page.damaged.push(run),
            }
        }
        if rows.len() < wanted {
            return Ok(page);
        }
    }
}

/// How many runs there are.
pub(super) async fn tally(session: &Session, now: Timestamp) -> Result<Tally, Failed> {
    let rows = session.ask(TALLY, []).await?;
    let number = |row: &Row, at| u64::try_from(row.get::<_, i64>(at)).unwrap_or_default();
    let waiting = session.ask(LETTERS, []).await?;
    let letters = waiting.first().map_or(0, |row| number(row, 0));
    let phases = rows.iter().filter_map(|row| Some((read_phase(row.get(0))?, number(row, 1))));
    Ok(Tally { at: now, phases: phases.collect(), letters })
}

/// Every action's guards.
pub(super) async fn guards(session: &Session, now: Timestamp) -> Result<Vec<GuardRow>, Failed> {
    let mut loaded = WorkingSet::default();
    for row in session.ask(GUARDS, []).await? {
        let action = untext(row.get(0)).into_owned();
        let state = read_guard(&action, &row);
        loaded.guards.insert(action, state);
    }
    let mut guards = Guards::default();
    loaded.fill(&mut guards);
    Ok(guards.rows(now))
}
