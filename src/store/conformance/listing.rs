//! Lists of runs, newest first, and their counts.

use std::collections::BTreeMap;

use super::kit::{Bench, SOON, Wrong, create, due, matched, run, same, task};
use super::letters::row;
use crate::run::LetterId;
use crate::store::{
    AskRuns, Created, Listed, Prune, RunCursor, RunFilter, RunHead, RunPhase, Store,
};
use crate::time::{Nanos, Timestamp};

type Held = Result<(), Wrong>;

fn ids(heads: &[RunHead]) -> Vec<crate::run::RunId> {
    heads.iter().map(|head| head.run).collect()
}

fn runs(numbers: &[u64]) -> Vec<crate::run::RunId> {
    numbers.iter().map(|n| run(*n)).collect()
}

impl Bench<'_> {
    /// Adds a run of this workflow.
    async fn add_of(&self, n: u64, workflow: &str) -> Result<Timestamp, Wrong> {
        let new = crate::store::Create { workflow: workflow.into(), ..create(n, vec![]) };
        Ok(matched!(self.store().create(new).await?, Created::New { at } => at))
    }

    async fn page(&self, before: Option<RunCursor>, limit: usize) -> Result<Listed, Wrong> {
        let filter = RunFilter::default();
        Ok(self.store().list(AskRuns { before, limit, filter }).await?)
    }

    async fn found(&self, filter: RunFilter) -> Result<Vec<crate::run::RunId>, Wrong> {
        let listed = self.store().list(AskRuns { before: None, limit: 9, filter }).await?;
        same!((listed.next, listed.damaged), (None, vec![]));
        Ok(ids(&listed.runs))
    }

    async fn text(&self, text: &str) -> Result<Vec<crate::run::RunId>, Wrong> {
        self.found(RunFilter { text: Some(text.into()), ..RunFilter::default() }).await
    }

    /// Moves run `n`, at version `at`, to this phase, with so many letters.
    async fn turn(&mut self, n: u64, at: u64, phase: RunPhase, letters: u32) -> Held {
        let mut commit = self.next_commit(n, at);
        commit.phase = phase;
        commit.letters = (0..letters).map(|item| row(item, "503")).collect();
        self.land(&commit).await?;
        Ok(())
    }

    async fn counts(&self) -> Result<(Vec<(RunPhase, u64)>, u64), Wrong> {
        let tally = self.store().tally().await?;
        Ok((tally.phases.into_iter().collect(), tally.letters))
    }
}

pub(super) async fn lists_are_newest_first(mut b: Bench<'_>) -> Held {
    same!((b.page(None, 9).await?.runs, b.page(None, 9).await?.next), (vec![], None));
    // Their ids say nothing about their age.
    for n in [5, 2, 9, 4] {
        b.add(n, vec![due(0, Nanos::ZERO)]).await?;
        b.sleep(SOON).await;
    }
    let all = b.page(None, 9).await?;
    same!((ids(&all.runs), all.next, all.damaged), (runs(&[4, 9, 2, 5]), None, vec![]));
    let mut heads = b.store().heads(None, 9).await?.runs;
    heads.sort_by_key(|head| std::cmp::Reverse((head.created, head.run)));
    same!(all.runs, heads);
    // A change to a run does not move it in the list.
    b.turn(2, 2, RunPhase::Paused, 0).await?;
    b.harness.reopen().await;
    same!(ids(&b.page(None, 9).await?.runs), runs(&[4, 9, 2, 5]));
    Ok(())
}

pub(super) async fn of_runs_created_at_once_the_greatest_id_comes_first(mut b: Bench<'_>) -> Held {
    b.add(1, vec![]).await?;
    b.sleep(SOON).await;
    let mut all = b.next_commit(1, 2);
    all.creates = [7, 3, 5].map(|n| create(n, vec![])).into();
    b.land(&all).await?;
    same!(ids(&b.page(None, 9).await?.runs), runs(&[7, 5, 3, 1]));
    let first = b.page(None, 2).await?;
    same!(ids(&first.runs), runs(&[7, 5]));
    same!(ids(&b.page(first.next, 2).await?.runs), runs(&[3, 1]));
    Ok(())
}

pub(super) async fn lists_go_on_where_they_stopped(mut b: Bench<'_>) -> Held {
    for n in 1..=5 {
        b.add(n, vec![]).await?;
        b.sleep(SOON).await;
    }
    let first = b.page(None, 2).await?;
    same!(ids(&first.runs), runs(&[5, 4]));
    let at = first.runs.last().map(|head| RunCursor { created: head.created, run: head.run });
    same!(first.next, at);
    // Neither one that is added nor one that is pruned moves what follows.
    b.add(6, vec![]).await?;
    b.turn(4, 2, RunPhase::Completed, 0).await?;
    b.sleep(SOON).await;
    let (older_than, with_letters) = (Nanos::ZERO, true);
    let prune = Prune { after: None, limit: 9, older_than, archived_only: false, with_letters };
    same!(b.store().prune(prune).await?.runs, runs(&[4]));
    b.harness.reopen().await;
    let second = b.page(first.next, 2).await?;
    same!(ids(&second.runs), runs(&[3, 2]));
    let last = b.page(second.next, 2).await?;
    same!((ids(&last.runs), last.next), (runs(&[1]), None));
    // A page that ends with the last run says that there are no more.
    same!(b.page(first.next, 3).await?.next, None);
    same!(ids(&b.page(None, 0).await?.runs), runs(&[6]));
    Ok(())
}

pub(super) async fn lists_hold_only_what_is_wanted(mut b: Bench<'_>) -> Held {
    for (n, workflow) in [(1, "Pay_order"), (2, "ship%order"), (3, "Pay_order"), (4, "pay")] {
        b.add_of(n, workflow).await?;
        b.sleep(SOON).await;
    }
    b.turn(1, 2, RunPhase::Failed, 2).await?;
    b.turn(2, 2, RunPhase::Failed, 0).await?;
    b.harness.reopen().await;
    let all = RunFilter::default();
    same!(b.found(all.clone()).await?, runs(&[4, 3, 2, 1]));
    let failed = RunFilter { phase: Some(RunPhase::Failed), ..all.clone() };
    same!(b.found(failed.clone()).await?, runs(&[2, 1]));
    let paid = RunFilter { workflow: Some("Pay_order".into()), ..all.clone() };
    same!(b.found(paid).await?, runs(&[3, 1]));
    let part = RunFilter { workflow: Some("Pay".into()), ..all.clone() };
    same!(b.found(part).await?, vec![]);
    same!(b.found(RunFilter { letters: true, ..all.clone() }).await?, runs(&[1]));
    let both = RunFilter { text: Some("ORDER".into()), ..failed.clone() };
    same!(b.found(both).await?, runs(&[2, 1]));
    // Pages count what is wanted, not what was looked at.
    let ask = |before| AskRuns { before, limit: 1, filter: failed.clone() };
    let first = b.store().list(ask(None)).await?;
    same!(ids(&first.runs), runs(&[2]));
    let second = b.store().list(ask(first.next)).await?;
    same!((ids(&second.runs), second.next), (runs(&[1]), None));
    // A letter that nobody waits for any more.
    for item in 0..2 {
        same!(b.found(RunFilter { letters: true, ..all.clone() }).await?, runs(&[1]));
        b.store().discard(LetterId { run: run(1), task: task(item) }, "no use".into()).await?;
    }
    same!(b.found(RunFilter { letters: true, ..all }).await?, vec![]);
    Ok(())
}

pub(super) async fn runs_are_found_by_key_code_and_time(mut b: Bench<'_>) -> Held {
    for n in 1..=4 {
        let key = (n != 3).then(|| format!("key {n}"));
        let new = crate::store::Create { key, ..create(n, vec![]) };
        matched!(b.store().create(new).await?, Created::New { .. } => ());
        b.sleep(SOON).await;
    }
    let born: Vec<_> = b.page(None, 9).await?.runs.iter().rev().map(|head| head.created).collect();
    b.turn(1, 2, RunPhase::Running, 1).await?;
    b.turn(2, 2, RunPhase::Failed, 2).await?;
    let mut other = b.next_commit(4, 2);
    other.letters = vec![row(0, "TIMEOUT")];
    b.land(&other).await?;
    // What became of a letter does not change what was wrong.
    b.store().discard(LetterId { run: run(4), task: task(0) }, "no use".into()).await?;
    b.harness.reopen().await;
    let all = RunFilter::default();
    let key = |key: &str| RunFilter { key: Some(key.into()), ..RunFilter::default() };
    same!(b.found(key("key 2")).await?, runs(&[2]));
    same!(b.found(key("key")).await?, vec![]);
    let failed = RunFilter { phase: Some(RunPhase::Failed), ..key("key 1") };
    same!(b.found(failed).await?, vec![]);
    let code = |code: &str| RunFilter { code: Some(code.into()), ..RunFilter::default() };
    same!(b.found(code("503")).await?, runs(&[2, 1]));
    same!(b.found(code("TIMEOUT")).await?, runs(&[4]));
    same!(b.found(code("50")).await?, vec![]);
    let since = RunFilter { since: Some(born[2]), ..all.clone() };
    same!(b.found(since.clone()).await?, runs(&[4, 3]));
    same!(b.found(RunFilter { until: Some(born[2]), ..all.clone() }).await?, runs(&[2, 1]));
    same!(b.found(RunFilter { until: Some(born[3]), ..since.clone() }).await?, runs(&[3]));
    same!(b.found(RunFilter { until: Some(born[1]), ..since }).await?, vec![]);
    let shown: Vec<_> = b.page(None, 9).await?.runs.into_iter().map(|h| (h.key, h.code)).collect();
    let text = |text: &str| Some(text.to_owned());
    let wanted = [
        (text("key 4"), text("TIMEOUT")),
        (None, None),
        (text("key 2"), text("503")),
        (text("key 1"), text("503")),
    ];
    same!(shown, wanted.to_vec());
    // A page goes on where one of them stopped.
    let ask = |before| AskRuns { before, limit: 1, filter: code("503") };
    let first = b.store().list(ask(None)).await?;
    same!(ids(&first.runs), runs(&[2]));
    same!(ids(&b.store().list(ask(first.next)).await?.runs), runs(&[1]));
    let ask = AskRuns { before: first.next, limit: 1, filter: key("key 2") };
    same!(ids(&b.store().list(ask).await?.runs), vec![]);
    Ok(())
}

pub(super) async fn x20_runs_are_found_by_fields(mut b: Bench<'_>) -> Held {
    let fields = |pairs: &[(&str, &str)]| {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(pair).collect::<BTreeMap<_, _>>()
    };
    let odd = "\0 \u{1} \"=\" %";
    let runs_fields = [
        fields(&[("customer", "ada"), ("order.id", "7")]),
        fields(&[("customer", "ada"), ("order.id", "8")]),
        fields(&[]),
        fields(&[("customer", odd), ("order.id", "")]),
    ];
    for (n, fields) in (1..).zip(&runs_fields) {
        let new = crate::store::Create { fields: fields.clone(), ..create(n, vec![]) };
        matched!(b.store().create(new).await?, Created::New { .. } => ());
        b.sleep(SOON).await;
    }
    // What happens to a run leaves its fields as they were.
    b.turn(1, 2, RunPhase::Failed, 0).await?;
    b.harness.reopen().await;
    let with = |pairs: &[(&str, &str)]| RunFilter { fields: fields(pairs), ..RunFilter::default() };
    same!(b.found(with(&[("customer", "ada")])).await?, runs(&[2, 1]));
    same!(b.found(with(&[("customer", "ada"), ("order.id", "7")])).await?, runs(&[1]));
    same!(b.found(with(&[("customer", "ad")])).await?, vec![]);
    same!(b.found(with(&[("customer", odd)])).await?, runs(&[4]));
    same!(b.found(with(&[("order.id", "")])).await?, runs(&[4]));
    same!(b.found(with(&[("order", "7")])).await?, vec![]);
    let failed = RunFilter { phase: Some(RunPhase::Failed), ..with(&[("customer", "ada")]) };
    same!(b.found(failed).await?, runs(&[1]));
    let shown = b.page(None, 9).await?.runs.into_iter().rev().map(|head| head.fields);
    same!(shown.collect::<Vec<_>>(), runs_fields.to_vec());
    Ok(())
}

pub(super) async fn text_finds_ids_and_workflows(b: Bench<'_>) -> Held {
    for (n, workflow) in [(0x1a2b, "Pay_order"), (2, "ship%order"), (3, "00000000-0000 pay")] {
        b.add_of(n, workflow).await?;
        b.sleep(SOON).await;
    }
    same!(b.text("").await?, runs(&[3, 2, 0x1a2b]));
    same!(b.text("pAY").await?, runs(&[3, 0x1a2b]));
    same!(b.text("order").await?, runs(&[2, 0x1a2b]));
    // Nothing in a text stands for anything but itself.
    same!(b.text("y_o").await?, runs(&[0x1a2b]));
    same!(b.text("p_").await?, vec![]);
    same!(b.text("p%o").await?, runs(&[2]));
    same!(b.text("%").await?, runs(&[2]));
    same!(b.text("y\\_o").await?, vec![]);
    // Every id begins so; only one workflow's name holds it.
    same!(b.text("00000000-0000-").await?, runs(&[3, 2, 0x1a2b]));
    same!(b.text("000000000000").await?, runs(&[3, 2, 0x1a2b]));
    same!(b.text("00000000-0000-0000-0000-000000001A2").await?, runs(&[0x1a2b]));
    same!(b.text("00000000-0000-0000-0000-000000000002").await?, runs(&[2]));
    same!(b.text("00000000-0000-0000-0000-0000000000020").await?, vec![]);
    same!(b.text("1a2b").await?, vec![]);
    Ok(())
}

pub(super) async fn a_tally_follows_the_runs(mut b: Bench<'_>) -> Held {
    use RunPhase::{Completed, Deactivated, Failed, Paused, Running};
    same!(b.counts().await?, (vec![], 0));
    for n in 1..=4 {
        b.add(n, vec![]).await?;
    }
    same!(b.counts().await?, (vec![(Running, 4)], 0));
    // A creation that is sent again counts once.
    b.add(4, vec![]).await?;
    b.turn(1, 2, Failed, 2).await?;
    b.turn(2, 2, Paused, 0).await?;
    b.turn(3, 2, Deactivated, 0).await?;
    same!(b.counts().await?, (vec![(Running, 1), (Paused, 1), (Failed, 1), (Deactivated, 1)], 2));
    b.turn(2, 3, Running, 1).await?;
    b.turn(4, 2, Completed, 0).await?;
    b.harness.reopen().await;
    let all = vec![(Running, 1), (Completed, 1), (Failed, 1), (Deactivated, 1)];
    same!(b.counts().await?, (all.clone(), 3));
    b.store().discard(LetterId { run: run(1), task: task(0) }, "no use".into()).await?;
    same!(b.counts().await?, (all, 2));
    let mut again = create(5, vec![]);
    again.redrives = Some(LetterId { run: run(1), task: task(1) });
    matched!(b.store().create(again).await?, Created::New { .. } => ());
    let all = vec![(Running, 2), (Completed, 1), (Failed, 1), (Deactivated, 1)];
    same!(b.counts().await?, (all, 1));
    b.sleep(SOON).await;
    let (older_than, with_letters) = (Nanos::ZERO, true);
    let prune = Prune { after: None, limit: 9, older_than, archived_only: false, with_letters };
    same!(b.store().prune(prune).await?.runs, runs(&[1, 4]));
    same!(b.counts().await?, (vec![(Running, 2), (Deactivated, 1)], 1));
    b.harness.reopen().await;
    same!(b.counts().await?, (vec![(Running, 2), (Deactivated, 1)], 1));
    Ok(())
}
