//! Claims and leases: SQL over queue rows only, which waits for no lock.
//!
//! The index keeps the rows of each need together, so that a claim does not look at rows that the
//! node can't run. The earliest rows of each need that it can run make up a window. Within the window
//! the runs take turns, from the run after the one that was claimed last. If the window is full and a
//! run has several rows in it, a walk over the other runs adds the earliest row of each. Rows are locked
//! in the order of their turns, and no more of them than are taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{from_slice, to_vec};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::seam::{
    Claim, Claimed, ClaimedTask, Expired, ExpiredTask, LeasedTask, QueueState, StoreError,
};
use super::error::Failed;
use super::layout::{
    Place, ROW, bits, length, nanos, need_text, read_need, read_row, run_at, task_at, time, uuid,
};
use super::server::{NOW, Server};
use super::session::{Session, Value};
use crate::run::{Lapse, RunId, TaskId, Token};
use crate::time::{Nanos, Timestamp};
use crate::workflow::{Able, Need, Via};

/// How many rows of one need a claim looks at, at least.
const WINDOW: usize = 256;
/// How many runs a walk passes.
const WALK: i64 = 64;

/// When to claim again if other transactions lock due rows.
const MOMENT: Nanos = Nanos::from_millis(10);

/// A claim does not wait for the disk. A crash of the server that loses it loses nothing: what was
/// reserved is due again, and a start with a lost token is refused. A start that is on disk has its
/// claim there too, since the log is written in order.
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit TO off";
const GIVEN: &str = "SELECT counter, answer, until FROM claims WHERE writer = $1 FOR UPDATE";
const GIVE: &str = "INSERT INTO claims (writer, counter, until, answer) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (writer) DO UPDATE SET counter = excluded.counter, until = excluded.until, \
    answer = excluded.answer";

/// Every need that waits, with when its first row is due.
const NEEDS: &str = "needs AS ( \
    (SELECT need, due FROM queue WHERE due IS NOT NULL ORDER BY need, due, turn LIMIT 1) \
    UNION ALL SELECT n.need, n.due FROM needs p CROSS JOIN LATERAL \
    (SELECT q.need, q.due FROM queue q WHERE q.due IS NOT NULL AND q.need > p.need \
    ORDER BY q.need, q.due, q.turn LIMIT 1) n)";

/// The needs, each with its first due time and its first due time after `$1`.
fn needs() -> String {
    format!(
        "WITH RECURSIVE {NEEDS} SELECT n.need, n.due, \
         (SELECT q.due FROM queue q WHERE q.need = n.need AND q.due > $1 \
         ORDER BY q.due, q.turn LIMIT 1) FROM needs n"
    )
}

/// `$1` now, `$2` whether anything, `$3` which needs, `$4` whether HTTP, `$5` window, `$6` the run
/// claimed last, `$7` limit, `$8` tokens, `$9` until, `$10` where the walk begins, `$11`
/// which needs are passed over.
fn take() -> String {
    const ABLE: &str = "($2 OR need = ANY($3) OR $4 AND left(need, 1) = 'h') AND need <> ALL($11)";
    format!(
        "WITH RECURSIVE {NEEDS}, \
         near AS MATERIALIZED (SELECT q.*, \
           row_number() OVER (PARTITION BY q.run ORDER BY q.due, q.turn) AS lap \
           FROM needs n CROSS JOIN LATERAL \
           (SELECT run, step, item, due, turn FROM queue q \
            WHERE q.need = n.need AND q.due <= $1 ORDER BY q.due, q.turn LIMIT $5) q \
           WHERE n.due <= $1 AND {ABLE}), \
         walk AS ( \
           (SELECT run, 1 AS steps FROM queue WHERE run > $10 AND \
            (SELECT count(*) >= $5 AND max(lap) > 1 FROM near) ORDER BY run LIMIT 1) \
           UNION ALL SELECT n.run, w.steps + 1 FROM walk w CROSS JOIN LATERAL \
           (SELECT q.run FROM queue q WHERE q.run > w.run ORDER BY q.run LIMIT 1) n \
           WHERE w.steps < {WALK}), \
         strays AS MATERIALIZED (SELECT q.* FROM walk w CROSS JOIN LATERAL \
           (SELECT run, step, item, due, turn, 1::bigint AS lap FROM queue q \
            WHERE q.run = w.run AND q.due <= $1 AND {ABLE} ORDER BY q.due, q.turn LIMIT 1) q \
           WHERE w.run NOT IN (SELECT run FROM near)), \
         laps AS MATERIALIZED (SELECT * FROM near UNION ALL SELECT * FROM strays), \
         taken AS MATERIALIZED (SELECT q.*, l.lap \
           FROM (SELECT * FROM laps ORDER BY lap, run <= $6, run) l CROSS JOIN LATERAL \
           (SELECT run, step, item FROM queue q WHERE q.run = l.run AND q.step = l.step \
             AND q.item = l.item AND q.due = l.due AND q.turn = l.turn FOR UPDATE SKIP LOCKED) q \
           LIMIT $7), \
         placed AS MATERIALIZED (SELECT run, step, item, \
           row_number() OVER (ORDER BY lap, run <= $6, run) AS place FROM taken), \
         turned AS MATERIALIZED (SELECT *, nextval('turns') AS turn \
           FROM (SELECT * FROM placed ORDER BY place) p) \
         UPDATE queue q SET due = $9, turn = t.turn, reserved = ($8::uuid[])[t.place], \
           reserved_until = $9, held = NULL \
         FROM turned t WHERE q.run = t.run AND q.step = t.step AND q.item = t.item \
         RETURNING {ROW}, t.place, (SELECT max(run::text) FROM walk WHERE steps = {WALK})"
    )
}

/// What a store remembers of claims: whose turn it is, and the last answers.
#[derive(Debug, Default)]
pub(super) struct Claims {
    last: Option<RunId>,
    walked: Option<Uuid>,
    answered: BTreeMap<u64, AnsweredClaim>,
    minted: u32,
}

#[derive(Clone, Debug)]
struct AnsweredClaim {
    counter: u64,
    until: Timestamp,
    answer: Claimed,
}

impl Claims {
    /// Reserves what is due.
    pub(super) async fn claim(
        &mut self,
        server: &Server,
        claim: &Claim,
    ) -> Result<Claimed, StoreError> {
        Ok(self.try_claim(server, claim).await?)
    }

    async fn try_claim(&mut self, server: &Server, claim: &Claim) -> Result<Claimed, Failed> {
        let (floor, writer) = (server.last_time(), claim.id.writer);
        let session = server.session().await?;
        let [given, clock] = session.prepare([GIVEN, NOW]).await?;
        let (name, at) = (bits(writer), nanos(floor));
        let ((), given, clock) = tokio::try_join!(
            biased;
            session.run(BEGIN),
            session.query(&given, [&name]),
            session.query(&clock, [&at]),
        )?;
        let now = clock.first().map_or(floor, |row| time(row.get(0)));
        // Only the database knows a claim whose answer was lost.
        let known = self.answered.get(&writer).map(|known| known.counter);
        let is_news = |row: &&Row| known.is_none_or(|known| known < counter(row));
        let given = given.first().filter(is_news).and_then(read_answered);
        if let Some(given) = given.filter(|given| given.until > now) {
            self.answered.insert(writer, given);
        }
        let known = self.answered.get(&writer).map(|given| (given.counter, given.answer.clone()));
        let (answer, cut) = match known {
            Some((counter, answer)) if counter == claim.id.counter => (answer, true),
            Some((counter, _)) if counter > claim.id.counter => {
                (answer_without_taking(&session, claim, now, vec![]).await?, true)
            }
            _ => (self.take(&session, claim, now).await?, false),
        };
        if !cut && !answer.tasks.is_empty() {
            session.commit().await?;
        } else {
            session.run("ROLLBACK").await?;
            session.done();
        }
        if !cut {
            let until = now.after(claim.lasts);
            self.answered.retain(|_, given| given.until > now);
            let given = AnsweredClaim { counter: claim.id.counter, until, answer: answer.clone() };
            self.answered.insert(writer, given);
        }
        server.advance_time(now, floor).await;
        Ok(answer)
    }

    async fn take(
        &mut self,
        session: &Session,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Claimed, Failed> {
        let (anything, needs, http) = able_values(&claim.able);
        let full = full_values(claim);
        let tokens: Vec<Uuid> = (0..claim.limit).map(|_| self.mint(claim, now)).collect();
        let until = time(nanos(now) + length(claim.lasts));
        let (limit, window) = (rows(claim.limit), rows(claim.limit.saturating_mul(3).max(WINDOW)));
        let last = self.last.map(|run| uuid(run.to_bytes()));
        let walked = self.walked.unwrap_or_default();
        let (now_, until_) = (nanos(now), nanos(until));
        let (take_text, needs_text) = (take(), self::needs());
        let [taking, looking] = session.prepare([&*take_text, &*needs_text]).await?;
        let values: [Value<'_>; _] = [
            &now_, &anything, &needs, &http, &window, &last, &limit, &tokens, &until_, &walked,
            &full,
        ];
        let (mut taken, needs) = tokio::try_join!(
            biased;
            session.query(&taking, values),
            session.query(&looking, [&now_]),
        )?;
        taken.sort_by_key(|row| row.get::<_, i64>(18));
        if let Some(row) = taken.last() {
            self.last = Some(run_at(row, 0));
            let walked = row.get::<_, Option<&str>>(19);
            self.walked = walked.and_then(|run| run.parse().ok());
        }
        let tasks = taken.iter().filter_map(read_claimed).collect();
        let mut answer = answer_from(&needs, claim, now, tasks);
        if taken.len() < claim.limit {
            // Other transactions lock the due rows that were not claimed: it is of no use to claim
            // again at once.
            let moment = |due| if due <= now { now.after(MOMENT) } else { due };
            answer.next_due = answer.next_due.map(moment);
        }
        if !answer.tasks.is_empty() {
            let bytes = to_vec(&answer).map_err(|e| Failed::Before(e.to_string()))?;
            let (writer, counter) = (bits(claim.id.writer), bits(claim.id.counter));
            session.ask(GIVE, [&writer, &counter, &until_, &bytes]).await?;
        }
        Ok(answer)
    }

    /// A token. The count starts again when the store is reopened, so the token also depends on the
    /// claim's id and on the time.
    fn mint(&mut self, claim: &Claim, now: Timestamp) -> Uuid {
        self.minted = self.minted.wrapping_add(1);
        let task = TaskId::FIRST;
        let high = task.chance(claim.chance ^ claim.id.counter, self.minted);
        let low = task.chance(!claim.chance ^ claim.id.writer, self.minted);
        let token = Token::from_random(task.chance(high, 0) ^ now.as_nanos(), low);
        uuid(token.to_bytes())
    }
}

fn counter(answered: &Row) -> u64 {
    u64::from_ne_bytes(answered.get::<_, i64>(0).to_ne_bytes())
}

fn read_answered(row: &Row) -> Option<AnsweredClaim> {
    let counter = counter(row);
    Some(AnsweredClaim { counter, until: time(row.get(2)), answer: from_slice(row.get(1)).ok()? })
}

/// A damaged row stays reserved and is left out of the answer.
fn read_claimed(row: &Row) -> Option<ClaimedTask> {
    let ((run, task), full) = read_row(row);
    let full = full?;
    let (token, _) = full.reserved?;
    let row = full.row;
    let QueueState::Due { need, .. } = row.state else { return None };
    Some(ClaimedTask { run, task, attempt: row.attempt, need, token, progress: row.progress })
}

fn able_values(able: &Able) -> (bool, Vec<String>, bool) {
    match able {
        Able::Anything => (true, vec![], true),
        Able::Only { http, functions } => {
            let need = |action: &std::sync::Arc<str>| {
                need_text(&Need { action: action.clone(), via: Via::Function })
            };
            (false, functions.iter().map(need).collect(), *http)
        }
    }
}

fn full_values(claim: &Claim) -> Vec<String> {
    let needs = |action: &Arc<str>| {
        [Via::Function, Via::Http].map(|via| need_text(&Need { action: Arc::clone(action), via }))
    };
    claim.full.iter().flat_map(needs).collect()
}

async fn answer_without_taking(
    session: &Session,
    claim: &Claim,
    now: Timestamp,
    tasks: Vec<ClaimedTask>,
) -> Result<Claimed, Failed> {
    let rows = session.ask(&needs(), [&nanos(now)]).await?;
    Ok(answer_from(&rows, claim, now, tasks))
}

/// The answer, from the needs that wait after the claim.
fn answer_from(rows: &[Row], claim: &Claim, now: Timestamp, tasks: Vec<ClaimedTask>) -> Claimed {
    let needs = rows.iter().filter_map(|row| {
        let later = row.get::<_, Option<i64>>(2).map(time);
        Some((read_need(row.get(0))?, time(row.get(1)), later))
    });
    let mut needs: Vec<_> = needs.collect();
    needs.sort();
    let is_due = |due: &Timestamp| *due <= now;
    let mine = needs.iter().filter(|(need, due, _)| is_due(due) && claim.takes(need));
    let next = mine.map(|(_, due, _)| *due).min();
    let later = needs.iter().filter_map(|(_, _, later)| *later).min();
    let others = needs.iter().filter(|(need, due, _)| is_due(due) && !claim.able.can(need));
    let unable = others.map(|(need, due, _)| (need.clone(), *due));
    let unable = unable.take(Claimed::MOST_UNABLE).collect();
    Claimed { at: now, tasks, next_due: next.or(later), unable }
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Leases that have ended. Rows that other transactions lock are skipped.
pub(super) async fn expired(server: &Server, limit: usize) -> Result<Expired, StoreError> {
    Ok(try_expired(server, limit).await?)
}

async fn try_expired(server: &Server, limit: usize) -> Result<Expired, Failed> {
    const NEXT: &str = "SELECT ends FROM queue WHERE ends > $1 ORDER BY ends LIMIT 1";
    let over = format!(
        "SELECT {ROW} FROM queue q WHERE q.ends <= $1 \
         ORDER BY q.ends, q.run, q.step, q.item LIMIT $2 FOR UPDATE SKIP LOCKED"
    );
    let floor = server.last_time();
    let session = server.session().await?;
    let clock = session.ask(NOW, [&nanos(floor)]).await?;
    let now = clock.first().map_or(floor, |row| time(row.get(0)));
    let at = nanos(now);
    let limit = rows(limit);
    let [over, next] = session.prepare([&*over, NEXT]).await?;

    let (over, next) = tokio::try_join!(
        biased;
        session.query(&over, [&at, &limit]),
        session.query(&next, [&at]),
    )?;
    session.done();
    server.advance_time(now, floor).await;
    let tasks = over.iter().filter_map(read_expired).collect();
    let next = next.first().map(|row| time(row.get(0)));
    Ok(Expired { at: now, tasks, next })
}

fn read_expired(row: &Row) -> Option<ExpiredTask> {
    let ((run, task), full) = read_row(row);
    let row = full?.row;
    let QueueState::Leased { token, until, deadline, beat_by } = row.state else { return None };
    let lapse = if deadline == Some(until) {
        Lapse::Deadline
    } else if beat_by == Some(until) {
        Lapse::Heartbeat
    } else {
        Lapse::Lease
    };
    Some(ExpiredTask { run, task, attempt: row.attempt, token, lapse })
}

/// The leased tasks of active runs, by run and task.
pub(super) async fn leases(
    server: &Server,
    after: Option<Place>,
    limit: usize,
) -> Result<Vec<LeasedTask>, StoreError> {
    const TEXT: &str = "SELECT run, step, item, token FROM queue \
        WHERE ends IS NOT NULL AND (run, step, item) > ($1, $2, $3) ORDER BY run, step, item LIMIT $4";
    let (run, task) = after.unwrap_or((RunId::from_bytes([0; 16]), TaskId::FIRST));
    // Before the first task of all where there is none to begin after.
    let step = after.map_or(-1, |_| i32::from(task.step.0));
    let values: [Value<'_>; _] =
        [&uuid(run.to_bytes()), &step, &i64::from(task.item), &rows(limit)];
    let session = server.session().await?;
    let found = session.ask(TEXT, values).await?;
    session.done();
    let leased = |row: &Row| {
        let token = Token::from_bytes(row.get::<_, Uuid>(3).into_bytes());
        LeasedTask { run: run_at(row, 0), task: task_at(row, 1), token }
    };
    Ok(found.iter().map(leased).collect())
}
