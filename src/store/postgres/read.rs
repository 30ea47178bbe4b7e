//! Requests that change nothing: each sees the store as it was at one instant, and locks nothing.

use super::super::guards::Guards;
use super::super::records::Records as _;
use super::super::requests::Requests;
use super::super::run_index::RunIndex;
use super::super::seam::{Answer, Request, StoreError};
use super::base::{Ask, Base};
use super::error::Failed;
use super::layout::{nanos, time};
use super::lists;
use super::records::PgRecords;
use super::session::Session;
use super::shared::Shared;
use crate::time::Timestamp;

/// A reading that is under way.
pub(super) struct Reading<'s> {
    shared: &'s Shared,
    pub(super) session: Session,
    floor: Timestamp,
    pub(super) now: Timestamp,
}

impl<'s> Reading<'s> {
    pub(super) async fn begin(shared: &'s Shared) -> Result<Self, Failed> {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let floor = shared.floor();
        let session = Session::of(&shared.pool).await?;
        let [clock] = session.prepare(["SELECT retrial_now($1)"]).await?;
        let at = nanos(floor);
        let ((), now) = tokio::try_join!(biased; session.run(BEGIN), session.query(&clock, [&at]))?;
        let now = now.first().map_or(floor, |row| time(row.get(0)));
        Ok(Self { shared, session, floor, now })
    }

    pub(super) async fn end(self) -> Result<(), Failed> {
        let Self { shared, session, floor, now } = self;
        session.run("COMMIT").await?;
        session.done();
        shared.saw(now, floor).await;
        Ok(())
    }
}

/// Answers a request that changes nothing. What is counted or sorted over all runs is SQL; the rest
/// is decided by [`Requests`] on what is loaded for it.
pub(super) async fn read(
    shared: &Shared,
    request: &Request,
) -> Result<Result<Answer, StoreError>, Failed> {
    let reading = Reading::begin(shared).await?;
    let (session, now) = (&reading.session, reading.now);
    let answer = match request {
        Request::List(ask) => Ok(Answer::List(lists::list(session, now, ask).await?)),
        Request::Tally => Ok(Answer::Tally(lists::tally(session, now).await?)),
        Request::Guards => Ok(Answer::Guards(lists::guards(session, now).await?)),
        _ => load_and_answer(session, now, request).await?,
    };
    reading.end().await?;
    Ok(answer)
}

/// Loads what the request is known to read and then, round by round, what it was found to miss.
async fn load_and_answer(
    session: &Session,
    now: Timestamp,
    request: &Request,
) -> Result<Result<Answer, StoreError>, Failed> {
    let mut base = Base { now, ..Base::default() };
    let mut asked = match request {
        Request::Load { run, .. } | Request::Queue(run) => vec![Ask::Record(*run)],
        Request::Letter(id) => vec![Ask::Letter(*id)],
        _ => vec![],
    };
    loop {
        base.load_more(session, &asked).await?;
        if let Request::Queue(run) = request
            && !base.whole.contains(run)
        {
            base.load_whole(session, *run).await?;
        }
        let (answer, missing) = tried(&base, request);
        if missing.is_empty() {
            return Ok(answer);
        }
        if missing == asked {
            return Err(Failed::Before("a request never had enough to be answered".into()));
        }
        asked = missing;
    }
}

/// What a request comes to on what was loaded, and what it misses.
fn tried(base: &Base, request: &Request) -> (Result<Answer, StoreError>, Vec<Ask>) {
    let (mut queue, mut guards) = (base.queue(), Guards::default());
    let mut shelf = PgRecords::new(base);
    // The rows of a run with a damaged record can't be told to be all.
    let sound = match request {
        Request::Queue(run) => shelf.record(*run).map(drop),
        _ => Ok(()),
    };
    let (queue, guards, catalogue) = (&mut queue, &mut guards, &mut RunIndex::default());
    let mut ledger = Requests { shelf: &mut shelf, queue, guards, catalogue, now: base.now };
    let answer = sound.and_then(|()| ledger.answer(request));
    let missing = shelf.asked();
    (answer, missing)
}
