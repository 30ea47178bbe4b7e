//! Requests that change nothing. Each sees the store at one instant and takes no lock.

use super::super::guards::Guards;
use super::super::queue::Queue;
use super::super::records::Records as _;
use super::super::requests::Requests;
use super::super::seam::{Answer, Request, StoreError};
use super::error::Failed;
use super::layout::{nanos, time};
use super::lists;
use super::records::PgRecords;
use super::reports;
use super::server::{NOW, Server};
use super::session::Session;
use super::working_set::{Missing, WorkingSet};
use crate::run::RunId;
use crate::time::Timestamp;

/// A read-only transaction in progress.
pub(super) struct ReadTransaction<'s> {
    server: &'s Server,
    pub(super) session: Session,
    floor: Timestamp,
    pub(super) now: Timestamp,
}

impl<'s> ReadTransaction<'s> {
    pub(super) async fn begin(server: &'s Server) -> Result<Self, Failed> {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let floor = server.last_time();
        let session = server.session().await?;
        let [clock] = session.prepare([NOW]).await?;
        let at = nanos(floor);
        let ((), now) = tokio::try_join!(biased; session.run(BEGIN), session.query(&clock, [&at]))?;
        let now = now.first().map_or(floor, |row| time(row.get(0)));
        Ok(Self { server, session, floor, now })
    }

    pub(super) async fn end(self) -> Result<(), Failed> {
        let Self { server, session, floor, now } = self;
        session.run("COMMIT").await?;
        session.done();
        server.advance_time(now, floor).await;
        Ok(())
    }
}

/// Answers a request that changes nothing. SQL lists and counts runs; [`Requests`] answers the rest
/// from what is loaded for it.
pub(super) async fn read(
    server: &Server,
    request: &Request,
) -> Result<Result<Answer, StoreError>, Failed> {
    let reading = ReadTransaction::begin(server).await?;
    let (session, now) = (&reading.session, reading.now);
    let answer = match request {
        Request::List(ask) => Ok(Answer::List(lists::list(session, now, ask).await?)),
        Request::Stranded { after, limit } => {
            Ok(Answer::Stranded(lists::stranded(session, *after, *limit).await?))
        }
        Request::Tally => Ok(Answer::Tally(lists::tally(session, now).await?)),
        Request::Reports => Ok(Answer::Reports(reports::all(session).await?)),
        Request::Guards => Ok(Answer::Guards(lists::guards(session, now).await?)),
        _ => load_and_answer(session, now, request).await?,
    };
    reading.end().await?;
    Ok(answer)
}

/// Loads what the request is known to read, and then what it missed, until it can be answered.
pub(super) async fn load_and_answer(
    session: &Session,
    now: Timestamp,
    request: &Request,
) -> Result<Result<Answer, StoreError>, Failed> {
    let mut loaded = WorkingSet { now, ..WorkingSet::default() };
    let mut asked = match request {
        Request::Load { run, .. } | Request::Queue(run) => vec![Missing::Record(*run)],
        Request::Letter(id) => vec![Missing::Letter(*id)],
        _ => vec![],
    };
    loop {
        loaded.load_more(session, &asked).await?;
        if let Request::Queue(run) = request
            && !loaded.whole.contains(run)
        {
            loaded.load_whole(session, *run).await?;
        }
        let (answer, missing) = try_request(&loaded, &mut loaded.queue(), request);
        if missing.is_empty() {
            return Ok(answer);
        }
        if missing == asked {
            return Err(Failed::Before("a request never had enough to be answered".into()));
        }
        asked = missing;
    }
}

/// The answer from what was loaded, and what was missing for it.
pub(super) fn try_request(
    loaded: &WorkingSet,
    queue: &mut Queue,
    request: &Request,
) -> (Result<Answer, StoreError>, Vec<Missing>) {
    let mut records = PgRecords::new(loaded);
    let sound = match request {
        Request::Queue(run) => all_rows(&records, *run),
        _ => Ok(()),
    };
    let guards = &mut Guards::default();
    let mut requests =
        Requests { records: &mut records, queue, guards, run_index: None, now: loaded.now };
    let answer = sound.and_then(|()| requests.answer(request));
    let missing = records.missing();
    (answer, missing)
}

/// # Errors
/// When it is unknown whether all rows of `run` were found: its record is damaged.
fn all_rows(records: &PgRecords<'_>, run: RunId) -> Result<(), StoreError> {
    records.record(run).map(drop)
}
