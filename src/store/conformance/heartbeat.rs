//! Heartbeats with progress, and which claims get which tasks.

use std::sync::Arc;

use super::kit::{
    Bench, LONG, SOON, Wrong, due, due_again, held, lease, matched, need, progress, run, same, task,
};
use crate::run::{Lapse, Token};
use crate::store::{Claimed, Heartbeat, QueueChange, QueueState, Renewal, Store};
use crate::time::{Nanos, Timestamp};
use crate::workflow::{Able, Via};

type Held = Result<(), Wrong>;

fn beat(within: Nanos, number: u64) -> Option<Heartbeat> {
    Some(Heartbeat { within, progress: (number > 0).then(|| progress(number)) })
}

/// A lease of item 0 of run 1 that needs a heartbeat within `within`.
fn beating(token: Token, within: Nanos) -> QueueChange {
    match lease(0, token, LONG, None) {
        QueueChange::Lease { task, attempt, token, lasts, timeout, .. } => {
            QueueChange::Lease { task, attempt, token, lasts, timeout, heartbeat: Some(within) }
        }
        other => other,
    }
}

/// When item 0 of run 1 must have given a heartbeat, and when its lease ends.
async fn ends(b: &Bench<'_>) -> Result<(Timestamp, Timestamp), Wrong> {
    let state = b.rows(1).await?.remove(0).state;
    Ok(matched!(state, QueueState::Leased { until, beat_by: Some(by), .. } => (by, until)))
}

pub(super) async fn x1_a_missed_heartbeat_ends_a_lease(mut b: Bench<'_>) -> Held {
    let half = Nanos::new(LONG.get() / 2);
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let token = b.claim_one(LONG).await?.token;
    let mut start = b.next_commit(1, 2);
    start.fences = vec![held(0, token)];
    start.queue = vec![beating(token, half)];
    b.land(&start).await?;
    let (first, until) = ends(&b).await?;
    same!(until, first);
    same!(b.expired().await?.next, Some(first));
    // Renewing alone extends nothing past the missed heartbeat; one with a heartbeat does, and a
    // heartbeat that leaves less time takes nothing away.
    same!(b.renew(token, LONG).await?, Renewal::Held);
    same!(ends(&b).await?, (first, first));
    same!(b.beat(token, LONG, beat(LONG, 0)).await?, Renewal::Held);
    let (second, until) = ends(&b).await?;
    same!((second > first, until <= second), (true, true));
    same!(b.beat(token, LONG, beat(SOON, 0)).await?, Renewal::Held);
    same!(ends(&b).await?.0, second);

    b.add(2, vec![beating(token, SOON)]).await?;
    b.sleep(SOON).await;
    let lapses: Vec<_> = b.expired().await?.tasks.iter().map(|t| (t.run, t.lapse)).collect();
    same!(lapses, vec![(run(2), Lapse::Heartbeat)]);
    Ok(())
}

pub(super) async fn x1_no_heartbeat_revives_a_lease(b: Bench<'_>) -> Held {
    let token = Token::from_random(3, 4);
    b.add(1, vec![beating(token, SOON)]).await?;
    b.sleep(SOON).await;
    same!(b.beat(token, LONG, beat(LONG, 1)).await?, Renewal::Lost);
    same!(b.rows(1).await?[0].progress, None);
    Ok(())
}

pub(super) async fn x1_progress_reaches_the_next_attempt(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let first = b.claim_one(LONG).await?;
    same!(first.progress, None);
    let mut start = b.next_commit(1, 2);
    start.fences = vec![held(0, first.token)];
    start.queue = vec![beating(first.token, LONG)];
    b.land(&start).await?;
    for (number, kept) in [(2, 2), (1, 2), (3, 3), (0, 3)] {
        same!(b.beat(first.token, LONG, beat(SOON, number)).await?, Renewal::Held);
        same!(b.rows(1).await?[0].progress, Some(progress(kept)));
    }
    // A stale holder's progress is not the task's.
    same!(b.beat(Token::from_random(3, 4), LONG, beat(SOON, 9)).await?, Renewal::Lost);
    b.harness.reopen().await;
    let mut fail = b.next_commit(1, 3);
    fail.fences = vec![held(0, first.token)];
    fail.queue = vec![due_again(0, 2, Nanos::ZERO)];
    b.land(&fail).await?;
    b.harness.reopen().await;
    let second = b.claim_one(LONG).await?;
    same!((second.attempt, second.progress), (2, Some(progress(3))));
    // What comes with the failure is kept if it is newer; the row's end is the progress's.
    for (number, expect, kept) in [(2, 4, 3), (7, 5, 7)] {
        let mut fail = b.next_commit(1, expect);
        fail.queue = vec![due_again(0, 3, Nanos::ZERO).with(Some(&progress(number)))];
        b.land(&fail).await?;
        same!(b.rows(1).await?[0].progress, Some(progress(kept)));
    }
    let mut end = b.next_commit(1, 6);
    end.queue = vec![QueueChange::Remove { task: task(0) }, due(0, Nanos::ZERO)];
    b.land(&end).await?;
    same!(b.claim_one(LONG).await?.progress, None);
    Ok(())
}

pub(super) async fn x12_what_the_claimer_cannot_run_is_not_claimed(mut b: Bench<'_>) -> Held {
    let wants = |item, action: &str, via, after| match due(item, after) {
        QueueChange::Due { task, attempt, after, .. } => {
            QueueChange::Due { task, attempt, after, need: need(action, via), progress: None }
        }
        other => other,
    };
    let ms = Nanos::from_millis;
    let queue = vec![
        wants(0, "a", Via::Function, Nanos::ZERO),
        wants(1, "a", Via::Http, ms(1)),
        wants(2, "b", Via::Function, ms(2)),
        wants(3, "a", Via::Function, ms(3)),
        wants(4, "c", Via::Function, LONG),
    ];
    b.add(1, queue).await?;
    let rows = b.rows(1).await?.into_iter().map(|row| match row.state {
        QueueState::Due { at, .. } => Ok(at),
        QueueState::Leased { .. } => Err(Wrong("a row is leased that was never claimed".into())),
    });
    let at: Vec<Timestamp> = rows.collect::<Result<_, _>>()?;
    b.sleep(ms(5)).await;
    let only = |http, functions: &[&str]| {
        let functions = functions.iter().map(|f| Arc::from(*f)).collect();
        Arc::new(Able::Only { http, functions })
    };
    let items = |c: &Claimed| c.tasks.iter().map(|t| t.task.item).collect::<Vec<_>>();
    let mut nobody = b.next_claim(9, LONG);
    nobody.able = only(false, &[]);
    let claimed = b.store().claim(nobody).await?;
    same!((items(&claimed), claimed.next_due), (vec![], Some(at[4])));
    let since = vec![
        (need("a", Via::Function), at[0]),
        (need("a", Via::Http), at[1]),
        (need("b", Via::Function), at[2]),
    ];
    same!(claimed.unable, since);
    let mut first = b.next_claim(1, LONG);
    first.able = only(false, &["a"]);
    let claimed = b.store().claim(first).await?;
    same!((items(&claimed), claimed.next_due), (vec![0], Some(at[3])));
    let mut web = b.next_claim(9, LONG);
    web.able = only(true, &["b"]);
    let claimed = b.store().claim(web).await?;
    same!(items(&claimed), vec![1, 2]);
    same!(claimed.unable, vec![(need("a", Via::Function), at[3])]);
    b.harness.reopen().await;
    // No claim is stored, so the store's time may be that of the submission again.
    b.sleep(ms(5)).await;
    // What a node leaves is there for another, in its turn.
    let rest = b.claim(9).await?;
    same!(items(&rest).contains(&3), true);
    matched!(rest.unable.as_slice(), [] => ());
    Ok(())
}

pub(super) async fn x15_tasks_of_full_actions_are_passed_over(mut b: Bench<'_>) -> Held {
    let wants = |item, action: &str, via, after| match due(item, after) {
        QueueChange::Due { task, attempt, after, .. } => {
            QueueChange::Due { task, attempt, after, need: need(action, via), progress: None }
        }
        other => other,
    };
    let queue = vec![
        wants(0, "a", Via::Function, Nanos::ZERO),
        wants(1, "a", Via::Http, Nanos::ZERO),
        wants(2, "b", Via::Function, Nanos::from_millis(1)),
        wants(3, "a", Via::Function, LONG),
    ];
    b.add(1, queue).await?;
    b.sleep(Nanos::from_millis(5)).await;
    let items = |c: &Claimed| c.tasks.iter().map(|t| t.task.item).collect::<Vec<_>>();
    let full = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
    let mut neither = b.next_claim(9, LONG);
    neither.full = full(&["b", "a"]);
    let claimed = b.store().claim(neither).await?;
    // What is due is not to be asked for again; it can be run here, so nobody is told of it.
    same!(claimed.next_due.is_some_and(|due| due > claimed.at), true);
    same!((items(&claimed), claimed.unable), (vec![], vec![]));
    let mut others = b.next_claim(9, LONG);
    others.full = full(&["a"]);
    let claimed = b.store().claim(others).await?;
    same!(items(&claimed), vec![2]);
    same!(claimed.tasks[0].need.clone(), need("b", Via::Function));
    same!(claimed.next_due.is_some_and(|due| due > claimed.at), true);
    let mut same = b.next_claim(9, LONG);
    same.full = full(&["b", "c"]);
    same!(items(&b.store().claim(same).await?), vec![0, 1]);
    Ok(())
}
