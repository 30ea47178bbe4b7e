//! `GET /v1/runs`, `/v1/runs/watch` and `/v1/tally`: lists of runs, newest first, and their counts.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::extract::QueryParameters;
use super::json::{PHASES, ok, phase_name, run_head};
use super::problem::Problem;
use super::service::{ServiceState, SharedState};
use super::sse::{self, Cut, Message};
use retrial::engine::World;
use retrial::run::{Digest, RunId};
use retrial::runtime::Runtime;
use retrial::store::{AskRuns, RunCursor, RunFilter, Store};
use retrial::time::{Nanos, Timestamp};

/// How often a watched page is read again when nothing happens on this node.
const IDLE_REFRESH: Nanos = Nanos::from_secs(1);
/// How soon it is read again when something does.
const REFRESH: Nanos = Nanos::from_millis(100);

/// The most bytes of runs in a watched page, so that its message stays whole.
const WATCHED: usize = sse::LARGEST / 8 * 5;

/// The query of a page.
fn wanted(mut asked: QueryParameters, most: usize) -> Result<AskRuns, Problem> {
    let phase = asked.take("phase").map(|text| {
        let found = PHASES.iter().find(|(name, _)| *name == text);
        let names = PHASES.map(|(name, _)| name).join(", ");
        let wrong = || Problem::bad_request(format!("the `phase` is unknown; use one of {names}"));
        found.map(|(_, phase)| *phase).ok_or_else(wrong)
    });
    let wrong = || Problem::bad_request("`before` is invalid; use the `next` value of a page");
    let before = asked.take("before").map(|text| cursor(&text).ok_or_else(wrong));
    let wanted = AskRuns {
        before: before.transpose()?,
        limit: asked.limit(most)?,
        filter: RunFilter {
            phase: phase.transpose()?,
            workflow: asked.take("workflow"),
            text: asked.take("q"),
            letters: asked.read("letters")?.unwrap_or(false),
            key: asked.take("key"),
            code: asked.take("code"),
            fields: asked.fields()?,
            since: asked.read("since")?,
            until: asked.read("until")?,
        },
    };
    asked.end()?;
    Ok(wanted)
}

/// A place in the list, written `NANOS-RUN`.
fn cursor(text: &str) -> Option<RunCursor> {
    let (nanos, run) = text.split_once('-')?;
    let created = Timestamp::from_nanos(nanos.parse().ok()?);
    Some(RunCursor { created, run: run.parse().ok()? })
}

impl<W: World> ServiceState<W> {
    /// A page of at most so many bytes of runs, and at least one run if there is one.
    async fn page(&self, wanted: &AskRuns, most: usize) -> Result<Value, Problem> {
        let page = self.engine.store().list(wanted.clone()).await?;
        let (mut runs, mut next, mut used) = (Vec::new(), page.next, 0);
        for head in &page.runs {
            let shown = run_head(head);
            used += shown.to_string().len();
            if used > most && !runs.is_empty() {
                break;
            }
            runs.push(shown);
        }
        if let Some(last) = page.runs.get(..runs.len()).and_then(<[_]>::last)
            && runs.len() < page.runs.len()
        {
            next = Some(RunCursor { created: last.created, run: last.run });
        }
        let next = next.map(|next| format!("{}-{}", next.created.as_nanos(), next.run));
        Ok(json!({
            "at": page.at.to_string(),
            "runs": runs,
            "next": next,
            "damaged": page.damaged.iter().map(RunId::to_string).collect::<Vec<_>>(),
        }))
    }
}

pub(super) async fn list<W: World>(
    State(service): State<SharedState<W>>,
    asked: QueryParameters,
) -> Result<Response, Problem> {
    let wanted = wanted(asked, service.settings.limits.page)?;
    Ok(ok(&service.page(&wanted, usize::MAX).await?))
}

/// The number of runs in each phase, and of waiting dead letters.
pub(super) async fn tally<W: World>(
    State(service): State<SharedState<W>>,
) -> Result<Response, Problem> {
    let tally = service.engine.store().tally().await?;
    let count = |phase| tally.phases.get(&phase).copied().unwrap_or(0);
    let phases: Map<String, Value> =
        PHASES.iter().map(|(_, phase)| (phase_name(*phase).into(), count(*phase).into())).collect();
    Ok(ok(&json!({ "at": tally.at.to_string(), "phases": phases, "letters": tally.letters })))
}

pub(super) async fn watch<W: World>(
    State(service): State<SharedState<W>>,
    cut: Cut,
    asked: QueryParameters,
) -> Result<Response, Problem> {
    let wanted = wanted(asked, service.settings.limits.page)?;
    let page = service.page(&wanted, WATCHED).await?;
    let of = SharedState::clone(&service);
    let (mut shown, mut message) = (fingerprint(&page), Message::new("page", &page));
    sse::open(&service, cut, |feed| async move {
        loop {
            feed.send(message).await?;
            let page = of.next_page(&wanted, shown).await;
            (shown, message) = (fingerprint(&page), Message::new("page", &page));
        }
    })
}

/// What differs where two pages differ. A new `at` alone is not a change.
fn fingerprint(page: &Value) -> Digest {
    let fields = ["runs", "next", "damaged"].map(|field| page[field].to_string());
    Digest::of(fields.concat().as_bytes())
}

impl<W: World> ServiceState<W> {
    /// The page once it differs from `shown`.
    async fn next_page(&self, wanted: &AskRuns, shown: Digest) -> Value {
        let runtime = self.engine.runtime();
        loop {
            let began = runtime.now();
            tokio::select! {
                biased;
                () = self.monitor.news.notified() => runtime.sleep_until(began.after(REFRESH)).await,
                () = runtime.sleep_until(began.after(IDLE_REFRESH)) => {}
            }
            // After a store error the page is read again.
            let Ok(page) = self.page(wanted, WATCHED).await else { continue };
            if fingerprint(&page) != shown {
                return page;
            }
        }
    }
}
