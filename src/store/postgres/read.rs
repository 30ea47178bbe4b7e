//! Requests that change nothing: each sees the store as it was at one instant, and locks nothing.

use super::super::guards::Guards;
use super::super::requests::Requests;
use super::super::run_index::RunIndex;
use super::super::seam::StoreError;
use super::base::{Ask, Base};
use super::error::Failed;
use super::layout::{nanos, time};
use super::records::PgRecords;
use super::session::Session;
use super::shared::Shared;
use crate::run::RunId;
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

/// Reads by the ledger: `asks` says what is known to be needed, `whole` whose rows.
pub(super) async fn read<T>(
    shared: &Shared,
    asks: Vec<Ask>,
    whole: Option<RunId>,
    act: impl Fn(&mut Requests<'_, PgRecords<'_>>) -> Result<T, StoreError>,
) -> Result<Result<T, StoreError>, Failed> {
    let reading = Reading::begin(shared).await?;
    let mut base = Base { now: reading.now, ..Base::default() };
    let mut asked = asks;
    let answer = loop {
        base.load_more(&reading.session, &asked).await?;
        if let Some(run) = whole.filter(|run| !base.whole.contains(run)) {
            base.load_whole(&reading.session, run).await?;
        }
        let (answer, missing) = tried(&base, &act);
        if missing.is_empty() {
            break answer;
        }
        if missing == asked {
            return Err(Failed::Before("a request never had enough to be answered".into()));
        }
        asked = missing;
    };
    reading.end().await?;
    Ok(answer)
}

/// What a request comes to on what was loaded, and what it misses.
fn tried<T>(
    base: &Base,
    act: impl Fn(&mut Requests<'_, PgRecords<'_>>) -> Result<T, StoreError>,
) -> (Result<T, StoreError>, Vec<Ask>) {
    let (mut queue, mut guards) = (base.queue(), Guards::default());
    let mut shelf = PgRecords::new(base);
    let (queue, guards, catalogue) = (&mut queue, &mut guards, &mut RunIndex::default());
    let answer = act(&mut Requests { shelf: &mut shelf, queue, guards, catalogue, now: base.now });
    let missing = shelf.asked();
    (answer, missing)
}
