//! What a store keeps, to be compared with what its twin keeps: all but the times.

use retrial::run::{LetterId, RunId, Version};
use retrial::store::{AskLetters, LetterFilter, LetterStatus, Loaded, QueueState, RunPhase, Store};

use crate::postgres_faults::patience::patient;

/// All that is kept of one run, without times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    /// Every event and result; then snapshot and tail.
    whole: Option<Loaded>,
    newest: Option<Loaded>,
    rows: Vec<String>,
    letters: Vec<(LetterId, String, LetterStatus, Vec<u8>)>,
    head: Option<(RunPhase, Version, u64, bool)>,
}

/// What `store` keeps of `run`.
pub(crate) async fn kept(store: &impl Store, run: RunId) -> Kept {
    let untimed = |loaded: Option<Loaded>| loaded.map(|l| Loaded { at: Default::default(), ..l });
    let rows = patient(|| store.queue(run)).await;
    let rows = rows.into_iter().map(|row| {
        let (task, attempt, progress) = (row.task, row.attempt, row.progress);
        match row.state {
            QueueState::Due { need, .. } => format!("{task} {attempt} due {need:?} {progress:?}"),
            QueueState::Leased { token, deadline, .. } => {
                format!("{task} {attempt} leased {token} {} {progress:?}", deadline.is_some())
            }
        }
    });
    let heads = patient(|| store.heads(before(run), 1)).await;
    let head = heads.runs.into_iter().find(|head| head.run == run);
    Kept {
        whole: untimed(patient(|| store.load(run, Some(Version::START))).await),
        newest: untimed(patient(|| store.load(run, None)).await),
        rows: rows.collect(),
        letters: letters(store, run).await,
        head: head.map(|h| (h.phase, h.version, h.letters, h.active)),
    }
}

async fn letters(store: &impl Store, run: RunId) -> Vec<(LetterId, String, LetterStatus, Vec<u8>)> {
    let first = before(run).map(|run| LetterId { run, task: retrial::run::TaskId::LAST });
    let ask = || AskLetters { after: first, limit: 5, filter: LetterFilter::default() };
    let page = patient(|| store.letters(ask())).await;
    let mut letters = Vec::new();
    for head in page.letters.into_iter().filter(|head| head.id.run == run) {
        let letter = patient(|| store.letter(head.id)).await.unwrap();
        letters.push((head.id, head.code, head.status, letter.body.to_vec()));
    }
    letters
}

/// The largest id below `run`.
fn before(run: RunId) -> Option<RunId> {
    let bits = u128::from_be_bytes(run.to_bytes()).checked_sub(1)?;
    Some(RunId::from_bytes(bits.to_be_bytes()))
}
