//! Runs, commits, results, snapshots.

use bytes::Bytes;

use super::kit::{
    Bench, LONG, SOON, Wrong, create, due, events, held, lease, matched, result, run, same, task,
};
use crate::run::{Digest, Token, Version};
use crate::store::{
    CommitId, Committed, Create, Created, QueueChange, RunCursor, RunPhase, Snapshot, Store,
    StoreError,
};
use crate::time::Nanos;

type Held = Result<(), Wrong>;

pub(super) async fn create_is_idempotent(b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let loaded = b.load(1, None).await?;
    same!(loaded.tail.events, events(0, 2));
    same!(loaded.version, Version(2));
    same!(b.rows(1).await?.len(), 1);
    same!(b.store().heads(None, 9).await?.runs.len(), 1);
    Ok(())
}

/// Two submissions of one run may begin at the same instant, with the same events: one is first.
pub(super) async fn a_run_is_created_by_one_submission(b: Bench<'_>) -> Held {
    let by = |counter| Create { id: CommitId { writer: 1, counter }, ..create(1, vec![]) };
    matched!(b.store().create(by(1)).await?, Created::New { .. } => ());
    let other = b.store().create(by(2)).await?;
    same!(matched!(other, Created::Existing { run, .. } => run), run(1));
    matched!(b.store().create(by(1)).await?, Created::New { .. } => ());
    Ok(())
}

pub(super) async fn x8_a_key_leads_to_the_first_run(b: Bench<'_>) -> Held {
    let keyed = |n: u64, digest: &[u8]| {
        let mut create = create(n, vec![]);
        (create.key, create.digest) = (Some("order 7".into()), Digest::of(digest));
        create
    };
    matched!(b.store().create(keyed(1, b"a")).await?, Created::New { .. } => ());
    matched!(b.store().create(keyed(1, b"a")).await?, Created::New { .. } => ());
    let again = b.store().create(keyed(2, b"a")).await?;
    same!(matched!(again, Created::Existing { run, .. } => run), run(1));
    let other = b.store().create(keyed(3, b"b")).await?;
    same!(other, Created::KeyConflict { run: run(1) });
    same!(b.store().load(run(2), None).await?, None);
    same!(b.store().load(run(3), None).await?, None);
    Ok(())
}

pub(super) async fn a_commit_lands_once_and_its_receipt_comes_first(mut b: Bench<'_>) -> Held {
    b.add(1, vec![]).await?;
    let mut first = b.next_commit(1, 2);
    first.results = vec![result(0, "1")];
    b.land(&first).await?;
    let mut other = b.next_commit(1, 3);
    other.id.writer = 2;
    b.land(&other).await?;
    let again = b.store().commit(first.clone()).await?;
    same!(matched!(again, Committed::Already { version, .. } => version), Version(3));
    let loaded = b.load(1, None).await?;
    same!((loaded.version, loaded.tail.results.len()), (Version(4), 1));
    Ok(())
}

pub(super) async fn a_receipt_outlives_the_token(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let (token, _) = b.start(LONG, None).await?;
    let mut done = b.next_commit(1, 3);
    done.fences = vec![held(0, token)];
    done.queue = vec![QueueChange::Remove { task: task(0) }];
    done.phase = RunPhase::Completed;
    b.land(&done).await?;
    let again = b.store().commit(done).await?;
    same!(matched!(again, Committed::Already { version, .. } => version), Version(4));
    Ok(())
}

pub(super) async fn a_late_duplicate_of_an_older_commit_never_lands(mut b: Bench<'_>) -> Held {
    b.add(1, vec![]).await?;
    // Two commits without events leave the version as it is, so only the receipt can tell.
    let mut older = b.next_commit(1, 2);
    older.events = vec![];
    older.queue = vec![due(0, Nanos::ZERO)];
    let mut newer = b.next_commit(1, 2);
    newer.events = vec![];
    newer.queue = vec![QueueChange::Remove { task: task(0) }];
    b.land(&older).await?;
    b.land(&newer).await?;
    let late = b.store().commit(older).await?;
    matched!(late, Committed::Conflict { .. } => ());
    same!(b.rows(1).await?, vec![]);
    Ok(())
}

pub(super) async fn the_newest_sixteen_writers_keep_their_receipts(mut b: Bench<'_>) -> Held {
    b.add(1, vec![]).await?;
    let mut commits = Vec::new();
    for writer in 0..16 {
        let mut commit = b.next_commit(1, 2 + writer);
        commit.id = CommitId { writer, counter: 1 };
        b.land(&commit).await?;
        commits.push(commit);
    }
    for (n, commit) in (3..).zip(commits) {
        let again = b.store().commit(commit).await?;
        same!(matched!(again, Committed::Already { version, .. } => version), Version(n));
    }
    Ok(())
}

pub(super) async fn a_conflict_brings_the_exact_tail(mut b: Bench<'_>) -> Held {
    b.add(1, vec![]).await?;
    for n in 2..5 {
        let mut commit = b.next_commit(1, n);
        commit.results = vec![result(n as u32, "1")];
        b.land(&commit).await?;
    }
    let late = b.next_commit(1, 3);
    let answer = b.store().commit(late).await?;
    let tail = matched!(answer, Committed::Conflict { tail, .. } => tail);
    same!(tail.events, events(3, 2));
    same!(tail.results, vec![result(3, "1"), result(4, "1")]);
    let early = b.next_commit(1, 9);
    matched!(b.store().commit(early).await, Err(StoreError::Broken(_)) => ());
    same!(b.load(1, None).await?.version, Version(5));
    Ok(())
}

pub(super) async fn a_commit_lands_whole_or_not_at_all(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO), due(1, Nanos::ZERO)]).await?;
    let claimed = b.claim(2).await?.tasks;
    let tokens: Vec<_> = claimed.iter().map(|t| t.token).collect();
    let mut commit = b.next_commit(1, 2);
    // The second fence has the first task's token.
    commit.fences = vec![held(0, tokens[0]), held(1, tokens[0])];
    commit.queue = vec![QueueChange::Remove { task: task(0) }];
    commit.results = vec![result(0, "1")];
    commit.snapshot = Some(Bytes::from_static(b"state"));
    commit.phase = RunPhase::Failed;
    let before = (b.load(1, None).await?.tail, b.rows(1).await?);
    let answer = b.store().commit(commit).await?;
    same!(matched!(answer, Committed::Fenced { task, .. } => task), task(1));
    let loaded = b.load(1, None).await?;
    same!(loaded.snapshot, None);
    same!((loaded.tail, b.rows(1).await?), before);
    same!(b.store().heads(None, 9).await?.runs[0].phase, RunPhase::Running);
    Ok(())
}

pub(super) async fn w11_results_are_append_only(mut b: Bench<'_>) -> Held {
    b.add(1, vec![]).await?;
    for (n, text) in (2..).zip(["1", "2", "3"]) {
        let mut commit = b.next_commit(1, n);
        commit.results = vec![result(0, text)];
        commit.snapshot = Some(Bytes::from_static(b"state"));
        b.land(&commit).await?;
    }
    // Even where the version does not change.
    for text in ["4", "5"] {
        let mut commit = b.next_commit(1, 5);
        (commit.events, commit.results) = (vec![], vec![result(0, text)]);
        b.land(&commit).await?;
    }
    b.store().trim(run(1), Version(5)).await?;
    b.harness.reopen().await;
    let results = b.load(1, None).await?.tail.results;
    same!(results, ["1", "2", "3", "4", "5"].map(|text| result(0, text)).to_vec());
    Ok(())
}

pub(super) async fn loading_gives_snapshot_and_tail(mut b: Bench<'_>) -> Held {
    b.add(1, vec![]).await?;
    for n in 2..6 {
        let mut commit = b.next_commit(1, n);
        commit.snapshot = (n < 5).then(|| Bytes::from(format!("state {}", n + 1)));
        b.land(&commit).await?;
    }
    let newest = Snapshot { version: Version(5), state: Bytes::from_static(b"state 5") };
    let loaded = b.load(1, None).await?;
    same!((loaded.version, loaded.snapshot), (Version(6), Some(newest)));
    same!(loaded.tail.events, events(5, 1));
    let tail = b.load(1, Some(3)).await?;
    same!((tail.version, tail.snapshot), (Version(6), None));
    same!(tail.tail.events, events(3, 3));
    same!(b.load(1, Some(6)).await?.tail.events, Vec::<Bytes>::new());
    same!(b.load(1, Some(0)).await?.tail.events, events(0, 6));
    Ok(())
}

pub(super) async fn trimming_forgets_only_what_the_snapshot_holds(mut b: Bench<'_>) -> Held {
    b.add(1, vec![]).await?;
    for n in 2..6 {
        let mut commit = b.next_commit(1, n);
        commit.snapshot = (n == 3).then(|| Bytes::from_static(b"state"));
        b.land(&commit).await?;
    }
    matched!(b.store().trim(run(1), Version(5)).await, Err(StoreError::NotDone(_)) => ());
    same!(b.load(1, Some(0)).await?.tail.events, events(0, 6));
    for below in [4, 4, 2] {
        b.store().trim(run(1), Version(below)).await?;
    }
    same!(b.load(1, Some(4)).await?.tail.events, events(4, 2));
    let whole = b.load(1, Some(3)).await?;
    same!(whole.snapshot.map(|s| s.version), Some(Version(4)));
    same!(whole.tail.events, events(4, 2));
    let late = b.next_commit(1, 3);
    matched!(b.store().commit(late).await?, Committed::Behind { .. } => ());
    Ok(())
}

pub(super) async fn heads_come_in_pages(mut b: Bench<'_>) -> Held {
    for n in [5, 1, 4, 2, 3] {
        b.add(n, vec![]).await?;
    }
    let mut ended = b.next_commit(2, 2);
    ended.phase = RunPhase::Completed;
    b.land(&ended).await?;
    let first = b.store().heads(None, 2).await?.runs;
    let rest = b.store().heads(Some(run(2)), 9).await?.runs;
    same!(first.iter().map(|h| h.run).collect::<Vec<_>>(), vec![run(1), run(2)]);
    same!(rest.iter().map(|h| h.run).collect::<Vec<_>>(), vec![run(3), run(4), run(5)]);
    let head = |n: usize| (first[n].phase, first[n].active, first[n].version.0);
    same!(head(0), (RunPhase::Running, true, 2));
    same!(head(1), (RunPhase::Completed, false, 3));
    same!(first[0].workflow, "workflow 1");
    same!(first[0].digest, Digest::of(&1_u64.to_be_bytes()));
    same!(b.store().heads(Some(run(5)), 9).await?.runs, vec![]);
    Ok(())
}

/// However few runs an answer looks at, all come in the end, each once.
pub(super) async fn a12_active_runs_without_rows_are_found(mut b: Bench<'_>) -> Held {
    for n in [5, 1, 4, 3] {
        b.add(n, vec![]).await?;
    }
    b.add(2, vec![due(0, LONG)]).await?;
    let mut ended = b.next_commit(4, 2);
    ended.phase = RunPhase::Completed;
    b.land(&ended).await?;
    let mut paused = b.next_commit(5, 2);
    paused.phase = RunPhase::Paused;
    b.land(&paused).await?;
    for limit in [1, 2, 9] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = b.store().stranded(after, limit).await?;
            found.extend(page.runs.iter().map(|head| (head.run, head.active, head.tasks)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        found.sort();
        same!(found, [1, 3, 5].map(|n| (run(n), true, 0)).to_vec());
    }
    let first = b.store().stranded(None, 9).await?.runs;
    same!(first.is_sorted_by_key(|head| (head.created, head.run)), true);
    let mut mended = b.next_commit(3, 2);
    mended.queue = vec![due(0, LONG)];
    b.land(&mended).await?;
    let after = first.first().map(|head| RunCursor { created: head.created, run: head.run });
    let found = b.store().stranded(after, 9).await?.runs.into_iter().map(|head| head.run);
    let rest = first.iter().skip(1).map(|head| head.run).filter(|found| *found != run(3));
    same!(found.collect::<Vec<_>>(), rest.collect::<Vec<_>>());
    Ok(())
}

pub(super) async fn an_unknown_run_is_not_there(mut b: Bench<'_>) -> Held {
    same!(b.store().load(run(1), None).await?, None);
    same!(b.rows(1).await?, vec![]);
    let commit = b.next_commit(1, 0);
    matched!(b.store().commit(commit).await, Err(StoreError::Broken(_)) => ());
    same!(b.store().load(run(1), None).await?, None);
    Ok(())
}

pub(super) async fn reopening_keeps_what_was_acknowledged(mut b: Bench<'_>) -> Held {
    let mut keyed = create(1, vec![due(0, Nanos::ZERO), due(1, LONG)]);
    keyed.key = Some("order 7".into());
    matched!(b.store().create(keyed.clone()).await?, Created::New { .. } => ());
    let mut commit = b.next_commit(1, 2);
    commit.queue = vec![lease(0, Token::from_random(1, 2), LONG, Some(LONG))];
    commit.results = vec![result(0, "1")];
    commit.snapshot = Some(Bytes::from_static(b"state"));
    b.land(&commit).await?;
    let second = b.next_commit(1, 3);
    b.land(&second).await?;
    let before = (b.load(1, None).await?, b.rows(1).await?, b.store().heads(None, 9).await?);
    if !b.harness.reopen().await {
        return Ok(());
    }
    let after = (b.load(1, None).await?, b.rows(1).await?, b.store().heads(None, 9).await?);
    same!((after.0.version, after.0.snapshot), (before.0.version, before.0.snapshot));
    same!(after.0.tail, before.0.tail);
    same!(after.1, before.1);
    same!(after.2.runs, before.2.runs);
    let again = b.store().commit(second).await?;
    same!(matched!(again, Committed::Already { version, .. } => version), Version(4));
    keyed.run = run(2);
    let again = b.store().create(keyed).await?;
    same!(matched!(again, Created::Existing { run, .. } => run), run(1));
    Ok(())
}

pub(super) async fn time_never_goes_back(b: Bench<'_>) -> Held {
    let mut last = b.store().clock().await?;
    for n in 0..6 {
        let at = b.add(n, vec![]).await?;
        same!(at >= last, true);
        last = at;
        if n == 3 {
            b.harness.reopen().await;
        }
    }
    b.sleep(SOON).await;
    same!(b.store().clock().await? >= last.after(SOON), true);
    Ok(())
}
