//! Writes what requests changed, with one statement for each table.

use uuid::Uuid;

use super::super::letters::LetterStatus;
use super::definitions::define;
use super::error::Failed;
use super::event_rows::pack;
use super::layout::{count, encode, fields_text, nanos, phase_text, sum, text, uuid};
use super::load::TaskColumns;
use super::load_history::{result_sum, snapshot_sum};
use super::pages::{body_sum, head_sum};
use super::records::Changes;
use super::rows::ChangedRows;
use super::session::{Session, Value};
use crate::run::LetterId;
use crate::time::Timestamp;

const NEW_RUNS: &str = "INSERT INTO runs (run, record, sum, updated, workflow, phase, created, \
    letters, folded, code, fields) \
    SELECT r, b, s, $4, w, p, c, l, f, e, i::jsonb FROM unnest($1::uuid[], $2::bytea[], $3::int[], \
    $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[]) \
    u(r, b, s, w, p, c, l, f, e, i)";
const RUNS: &str = "UPDATE runs SET record = b, sum = s, updated = $4, workflow = w, phase = p, \
    created = c, letters = l, folded = f, code = e, fields = i::jsonb FROM unnest($1::uuid[], \
    $2::bytea[], $3::int[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::text[], \
    $10::text[], $11::text[]) u(r, b, s, w, p, c, l, f, e, i) WHERE run = r";
const KEYS: &str = "INSERT INTO submissions (key, run, sum) \
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::int[])";
const EVENTS: &str = "INSERT INTO events (run, version, event, sum) \
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::int[])";
const RESULTS: &str = "INSERT INTO results (run, place, at, step, item, attempt, result, sum) \
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::int[], $5::bigint[], \
    $6::bigint[], $7::bytea[], $8::int[])";
const SNAPSHOTS: &str = "INSERT INTO snapshots (run, version, state, sum) \
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::int[]) \
    ON CONFLICT (run) DO UPDATE SET version = excluded.version, state = excluded.state, \
    sum = excluded.sum";
const LETTERS: &str = "INSERT INTO letters (run, step, item, head, head_sum, body, body_sum, \
    workflow, action, code, waiting, failed) \
    SELECT * FROM unnest($1::uuid[], $2::int[], $3::bigint[], $4::bytea[], $5::int[], \
    $6::bytea[], $7::int[], $8::text[], $9::text[], $10::text[], $11::boolean[], $12::bigint[]) \
    ON CONFLICT (run, step, item) DO UPDATE SET head = excluded.head, \
    head_sum = excluded.head_sum, waiting = excluded.waiting";
const GUARDS: &str = "UPDATE guards g SET state = u.state, sum = u.sum \
    FROM unnest($1::text[], $2::bytea[], $3::int[]) u(action, state, sum) \
    WHERE g.action = u.action";
/// The row that holds the first event to be kept stays whole.
const TRIMMED: &str = "DELETE FROM events e USING unnest($1::uuid[], $2::bigint[]) u(run, high) \
    WHERE e.run = u.run AND e.version < \
    (SELECT max(k.version) FROM events k WHERE k.run = u.run AND k.version <= u.high)";
const REMOVE_RUNS: [&str; 6] = [
    "DELETE FROM events WHERE run = ANY($1)",
    "DELETE FROM results WHERE run = ANY($1)",
    "DELETE FROM snapshots WHERE run = ANY($1)",
    "DELETE FROM letters WHERE run = ANY($1)",
    "DELETE FROM queue WHERE run = ANY($1)",
    "DELETE FROM runs WHERE run = ANY($1)",
];
const REMOVE_KEYS: &str = "DELETE FROM submissions WHERE key = ANY($1)";

/// Writes all changes. They depend on nothing that another transaction could change now, and not on
/// each other.
pub(super) async fn write(
    session: &Session,
    now: Timestamp,
    changes: &Changes,
    rows: &ChangedRows,
) -> Result<(), Failed> {
    tokio::try_join!(
        biased;
        remove(session, changes),
        runs(session, changes, now),
        keys(session, changes),
        events(session, changes),
        results(session, changes),
        snapshots(session, changes),
        letters(session, changes),
        guards(session, changes),
        define(session, &changes.definitions),
        rows.write(session),
    )
    .map(drop)
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.events.is_empty()
            && self.letters.is_empty()
            && self.guards.is_empty()
            && self.definitions.is_empty()
            && self.trimmed.is_empty()
            && self.removed_runs.is_empty()
    }
}

async fn runs(session: &Session, changes: &Changes, now: Timestamp) -> Result<(), Failed> {
    for (statement, new) in [(NEW_RUNS, true), (RUNS, false)] {
        let chosen = changes.records.iter();
        let chosen = chosen.filter(|(run, _)| changes.new_runs.contains(run) == new);
        let (mut ids, mut records, mut sums) = (Vec::new(), Vec::new(), Vec::new());
        let (mut names, mut phases, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        let mut fields = Vec::new();
        let (mut created, mut letters, mut folded) = (Vec::new(), Vec::new(), Vec::new());
        for (run, record) in chosen {
            let bytes = record.to_bytes();
            sums.push(sum("runs", &[&run.to_bytes()], &[&bytes]));
            ids.push(uuid(run.to_bytes()));
            records.push(bytes);
            names.push(text(&record.workflow));
            folded.push(text(&record.workflow).to_ascii_lowercase());
            phases.push(phase_text(record.phase));
            created.push(nanos(record.created));
            letters.push(count(record.waiting));
            codes.push(record.code.as_deref().map(text));
            fields.push((!record.fields.is_empty()).then(|| fields_text(&record.fields)));
        }
        let now = nanos(now);
        let values: [Value<'_>; _] = [
            &ids, &records, &sums, &now, &names, &phases, &created, &letters, &folded, &codes,
            &fields,
        ];
        let written = session.write(ids.len(), statement, values);
        if written.await? != ids.len() as u64 {
            return Err(Failed::Before("a run's record was gone while it was locked".into()));
        }
    }
    Ok(())
}

async fn keys(session: &Session, changes: &Changes) -> Result<(), Failed> {
    let (mut keys, mut runs, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for (key, run) in &changes.keys {
        let key = key.to_string();
        sums.push(sum("submissions", &[key.as_bytes()], &[&run.to_bytes()]));
        keys.push(key);
        runs.push(uuid(run.to_bytes()));
    }
    session.write(keys.len(), KEYS, [&keys, &runs, &sums]).await.map(drop)
}

async fn events(session: &Session, changes: &Changes) -> Result<(), Failed> {
    let (mut runs, mut versions) = (Vec::new(), Vec::new());
    let (mut packs, mut sums) = (Vec::new(), Vec::new());
    for ((run, version), events) in &changes.events {
        let key = [&run.to_bytes()[..], &version.0.to_be_bytes()];
        let too_long = || Failed::Before("an event is too long to be stored".into());
        let pack = pack(events).ok_or_else(too_long)?;
        sums.push(sum("events", &key, &[&pack]));
        runs.push(uuid(run.to_bytes()));
        versions.push(count(version.0));
        packs.push(pack);
    }
    let packs: Vec<&[u8]> = packs.iter().map(|pack| &pack[..]).collect();
    session.write(runs.len(), EVENTS, [&runs, &versions, &packs, &sums]).await.map(drop)
}

async fn results(session: &Session, changes: &Changes) -> Result<(), Failed> {
    let (mut places, mut at, mut attempts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut tasks, mut results, mut sums) =
        (TaskColumns::default(), Vec::<&[u8]>::new(), Vec::new());
    for ((run, place), (version, row)) in &changes.results {
        sums.push(result_sum(*run, *place, *version, row));
        tasks.push((*run, row.task));
        places.push(count(*place));
        at.push(count(version.0));
        attempts.push(i64::from(row.attempt));
        results.push(&row.result);
    }
    let TaskColumns { runs, steps, items } = &tasks;
    let values: [Value<'_>; _] = [runs, &places, &at, steps, items, &attempts, &results, &sums];
    session.write(places.len(), RESULTS, values).await.map(drop)
}

async fn snapshots(session: &Session, changes: &Changes) -> Result<(), Failed> {
    let (mut runs, mut versions) = (Vec::new(), Vec::new());
    let (mut states, mut sums) = (Vec::<&[u8]>::new(), Vec::new());
    for (run, snapshot) in &changes.snapshots {
        sums.push(snapshot_sum(*run, snapshot));
        runs.push(uuid(run.to_bytes()));
        versions.push(count(snapshot.version.0));
        states.push(&snapshot.state);
    }
    session.write(runs.len(), SNAPSHOTS, [&runs, &versions, &states, &sums]).await.map(drop)
}

async fn letters(session: &Session, changes: &Changes) -> Result<(), Failed> {
    let (mut names, mut heads, mut head_sums) = (TaskColumns::default(), Vec::new(), Vec::new());
    let (mut bodies, mut body_sums) = (Vec::<&[u8]>::new(), Vec::new());
    let (mut workflows, mut actions) = (Vec::new(), Vec::new());
    let (mut codes, mut waiting, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (&id, letter) in &changes.letters {
        let LetterId { run, task } = id;
        let head = encode(&letter.head)?;
        names.push((run, task));
        head_sums.push(head_sum(id, &head));
        heads.push(head);
        body_sums.push(body_sum(id, &letter.body));
        bodies.push(&letter.body);
        workflows.push(text(&letter.head.workflow));
        actions.push(text(&letter.head.action));
        codes.push(text(&letter.head.code));
        waiting.push(letter.head.status == LetterStatus::Waiting);
        failed.push(nanos(letter.head.at));
    }
    let TaskColumns { runs, steps, items } = &names;
    let values: [Value<'_>; _] = [
        runs, steps, items, &heads, &head_sums, &bodies, &body_sums, &workflows, &actions, &codes,
        &waiting, &failed,
    ];
    session.write(heads.len(), LETTERS, values).await.map(drop)
}

async fn guards(session: &Session, changes: &Changes) -> Result<(), Failed> {
    let (mut actions, mut states, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for (action, state) in &changes.guards {
        let state = encode(state)?;
        sums.push(sum("guards", &[action.as_bytes()], &[&state]));
        actions.push(text(action));
        states.push(state);
    }
    let written = session.write(actions.len(), GUARDS, [&actions, &states, &sums]).await?;
    match written == actions.len() as u64 {
        true => Ok(()),
        false => Err(Failed::Before("an action's guards were gone while they were locked".into())),
    }
}

async fn remove(session: &Session, changes: &Changes) -> Result<(), Failed> {
    let (mut runs, mut high) = (Vec::new(), Vec::new());
    for (run, to) in &changes.trimmed {
        runs.push(uuid(run.to_bytes()));
        high.push(count(to.0));
    }
    session.write(runs.len(), TRIMMED, [&runs, &high]).await?;
    let runs: Vec<Uuid> = changes.removed_runs.iter().map(|run| uuid(run.to_bytes())).collect();
    for text in REMOVE_RUNS {
        session.write(runs.len(), text, [&runs]).await?;
    }
    let keys: Vec<String> = changes.removed_keys.iter().map(ToString::to_string).collect();
    session.write(keys.len(), REMOVE_KEYS, [&keys]).await.map(drop)
}
