//! Dead letters, archiving and pruning.

use bytes::Bytes;

use super::kit::{Bench, LONG, SOON, Wrong, create, due, matched, result, run, same, task};
use crate::run::LetterId;
use crate::store::{
    Archived, AskLetters, Created, Discarded, LetterFilter, LetterHead, LetterRow, LetterStatus,
    Prune, QueueChange, RunPhase, Store,
};
use crate::time::Nanos;

type Held = Result<(), Wrong>;

fn id(n: u64, item: u32) -> LetterId {
    LetterId { run: run(n), task: task(item) }
}

pub(super) fn row(item: u32, code: &str) -> LetterRow {
    let body = Bytes::from(format!("letter {item}"));
    let (action, message) = (format!("action {item}"), format!("{code} it was"));
    LetterRow { task: task(item), action, code: code.to_owned(), message, body }
}

const PRUNE: Prune = Prune {
    after: None,
    limit: 99,
    older_than: Nanos::ZERO,
    archived_only: false,
    with_letters: true,
};

impl Bench<'_> {
    /// Adds run `n`, which fails with these letters.
    async fn fail(&mut self, n: u64, letters: Vec<LetterRow>) -> Held {
        self.add(n, vec![due(0, Nanos::ZERO)]).await?;
        let mut commit = self.next_commit(n, 2);
        (commit.letters, commit.phase) = (letters, RunPhase::Failed);
        commit.queue = vec![QueueChange::Remove { task: task(0) }];
        self.land(&commit).await?;
        Ok(())
    }

    async fn letters(
        &self,
        after: Option<LetterId>,
        filter: LetterFilter,
    ) -> Result<Vec<LetterHead>, Wrong> {
        let ask = AskLetters { after, limit: 2, filter };
        Ok(self.store().letters(ask).await?.letters)
    }

    async fn status(&self, id: LetterId) -> Result<LetterStatus, Wrong> {
        Ok(matched!(self.store().letter(id).await?, Some(letter) => letter.head.status))
    }

    async fn redrive(&self, n: u64, letter: LetterId) -> Result<Created, Wrong> {
        let mut create = create(n, vec![due(0, LONG)]);
        create.redrives = Some(letter);
        Ok(self.store().create(create).await?)
    }
}

pub(super) async fn c18_letters_land_with_their_commit(mut b: Bench<'_>) -> Held {
    b.fail(1, vec![row(0, "503"), row(1, "404")]).await?;
    b.sleep(SOON).await;
    b.fail(2, vec![row(0, "503")]).await?;
    let mut refused = b.next_commit(2, 2);
    refused.letters = vec![row(9, "503")];
    b.store().commit(refused).await?;
    b.harness.reopen().await;
    let all = LetterFilter::default();
    let ids = |heads: &[LetterHead]| heads.iter().map(|head| head.id).collect::<Vec<_>>();
    let first = b.letters(None, all.clone()).await?;
    same!(ids(&first), vec![id(1, 0), id(1, 1)]);
    same!(ids(&b.letters(Some(id(1, 1)), all.clone()).await?), vec![id(2, 0)]);
    same!(b.letters(Some(id(2, 0)), all.clone()).await?, vec![]);
    let code = LetterFilter { code: Some("503".into()), ..all.clone() };
    same!(ids(&b.letters(None, code).await?), vec![id(1, 0), id(2, 0)]);
    let action = LetterFilter { action: Some("action 1".into()), ..all.clone() };
    same!(ids(&b.letters(None, action).await?), vec![id(1, 1)]);
    let workflow = LetterFilter { workflow: Some("workflow 2".into()), ..all.clone() };
    same!(ids(&b.letters(None, workflow).await?), vec![id(2, 0)]);
    let later = b.letters(Some(id(1, 1)), all.clone()).await?;
    same!((&*first[0].message, &*first[1].message), ("503 it was", "404 it was"));
    same!(later[0].at > first[0].at, true);
    let since = LetterFilter { since: Some(later[0].at), ..all.clone() };
    same!(ids(&b.letters(None, since.clone()).await?), vec![id(2, 0)]);
    let until = LetterFilter { until: Some(later[0].at), ..all };
    same!(ids(&b.letters(None, until.clone()).await?), vec![id(1, 0), id(1, 1)]);
    same!(b.letters(None, LetterFilter { since: since.since, ..until }).await?, vec![]);
    let letter = matched!(b.store().letter(id(1, 1)).await?, Some(letter) => letter);
    same!(letter.body, Bytes::from_static(b"letter 1"));
    same!((letter.head.status, letter.head.redrives), (LetterStatus::Waiting, None));
    same!(b.store().letter(id(2, 9)).await?, None);
    same!(b.store().heads(None, 9).await?.runs[0].letters, 2);
    Ok(())
}

pub(super) async fn c18_a_letter_is_redriven_once(mut b: Bench<'_>) -> Held {
    b.fail(1, vec![row(0, "503")]).await?;
    matched!(b.redrive(2, id(1, 0)).await?, Created::New { .. } => ());
    b.harness.reopen().await;
    // The same request again, as after a lost answer, and another's.
    matched!(b.redrive(2, id(1, 0)).await?, Created::New { .. } => ());
    same!(b.redrive(3, id(1, 0)).await?, Created::AlreadyRedriven { run: run(2) });
    same!(b.store().load(run(3), None).await?, None);
    same!(b.redrive(3, id(1, 1)).await?, Created::UnknownLetter);
    same!(b.status(id(1, 0)).await?, LetterStatus::Redriven { run: run(2) });
    let discarded = b.store().discard(id(1, 0), "late".into()).await?;
    same!(discarded, Discarded::Redriven { run: run(2) });
    let heads = b.store().heads(None, 9).await?.runs;
    same!(heads.iter().map(|h| h.letters).collect::<Vec<_>>(), vec![0, 0]);
    same!(heads[1].redrives, Some(id(1, 0)));
    // A letter of the run that redrives names the one it redrives.
    let mut again = b.next_commit(2, 2);
    again.letters = vec![row(5, "503")];
    b.land(&again).await?;
    let letter = matched!(b.store().letter(id(2, 5)).await?, Some(letter) => letter);
    same!(letter.head.redrives, Some(id(1, 0)));
    Ok(())
}

pub(super) async fn c18_a_discarded_letter_is_not_redriven(mut b: Bench<'_>) -> Held {
    b.fail(1, vec![row(0, "503"), row(1, "503")]).await?;
    same!(b.store().discard(id(1, 0), "no use".into()).await?, Discarded::Done);
    b.harness.reopen().await;
    same!(b.store().discard(id(1, 0), "again".into()).await?, Discarded::Done);
    same!(b.status(id(1, 0)).await?, LetterStatus::Discarded { reason: "no use".into() });
    same!(b.redrive(2, id(1, 0)).await?, Created::LetterDiscarded);
    same!(b.store().discard(id(1, 7), "none".into()).await?, Discarded::Unknown);
    let waiting = LetterFilter { waiting: true, ..LetterFilter::default() };
    same!(b.letters(None, waiting).await?.len(), 1);
    Ok(())
}

pub(super) async fn a12_only_a_run_at_rest_is_archived(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    same!(b.store().archive(run(1)).await?, Archived::Active);
    same!(b.store().archive(run(9)).await?, Archived::Unknown);
    let mut off = b.next_commit(1, 2);
    off.phase = RunPhase::Deactivated;
    b.land(&off).await?;
    let since = matched!(b.store().archive(run(1)).await?, Archived::Done { since } => since);
    b.sleep(SOON).await;
    b.harness.reopen().await;
    same!(b.store().archive(run(1)).await?, Archived::Done { since });
    same!(b.store().heads(None, 9).await?.runs[0].archived, Some(since));
    same!(b.claim(9).await?.tasks, vec![]);
    same!(b.load(1, None).await?.tail.events.len(), 3);
    let mut on = b.next_commit(1, 3);
    on.phase = RunPhase::Running;
    b.land(&on).await?;
    same!(b.store().heads(None, 9).await?.runs[0].archived, None);
    same!(b.claim(9).await?.tasks.len(), 1);
    Ok(())
}

pub(super) async fn h17_a_paused_run_is_claimed(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let mut pause = b.next_commit(1, 2);
    pause.phase = RunPhase::Paused;
    b.land(&pause).await?;
    b.harness.reopen().await;
    let head = b.store().heads(None, 9).await?.runs.remove(0);
    same!((head.phase, head.active), (RunPhase::Paused, true));
    same!(b.claim(9).await?.tasks.len(), 1);
    Ok(())
}

pub(super) async fn x9_pruning_removes_all_of_a_run_and_nothing_else(mut b: Bench<'_>) -> Held {
    let mut keyed = create(1, vec![]);
    keyed.key = Some("order 7".into());
    matched!(b.store().create(keyed.clone()).await?, Created::New { .. } => ());
    let mut ended = b.next_commit(1, 2);
    (ended.results, ended.letters) = (vec![result(0, "1")], vec![row(0, "503")]);
    (ended.phase, ended.snapshot) = (RunPhase::Failed, Some(Bytes::from_static(b"state")));
    b.land(&ended).await?;
    b.fail(2, vec![]).await?;
    b.add(3, vec![due(0, LONG)]).await?;
    b.sleep(SOON).await;
    let young = Prune { older_than: LONG, ..PRUNE };
    same!(b.store().prune(young).await?.runs, vec![]);
    let spared = Prune { with_letters: false, ..PRUNE };
    same!(b.store().prune(Prune { archived_only: true, ..PRUNE }).await?.runs, vec![]);
    same!(b.store().prune(Prune { older_than: SOON, ..spared }).await?.runs, vec![run(2)]);
    b.harness.reopen().await;
    let first = b.store().prune(Prune { limit: 1, ..PRUNE }).await?;
    same!((first.runs, first.next), (vec![run(1)], Some(run(1))));
    let rest = b.store().prune(Prune { after: first.next, ..PRUNE }).await?;
    same!((rest.runs, rest.next), (vec![], Some(run(3))));
    same!(b.store().prune(Prune { after: rest.next, ..PRUNE }).await?.next, None);
    b.harness.reopen().await;
    same!(b.store().heads(None, 9).await?.runs.len(), 1);
    same!(b.rows(3).await?.len(), 1);
    same!(b.store().load(run(1), None).await?, None);
    same!(b.letters(None, LetterFilter::default()).await?, vec![]);
    // The key went with its run.
    keyed.run = run(4);
    matched!(b.store().create(keyed).await?, Created::New { .. } => ());
    Ok(())
}
