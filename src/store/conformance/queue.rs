//! Claims, leases, renewals, expiry.

use super::kit::{
    Bench, LONG, SOON, Wrong, due, due_again, held, lapsed, lease, matched, run, same, task,
};
use crate::run::{Lapse, Token};
use crate::store::{
    ClaimId, Committed, ExpiredTask, Fence, Holding, LeasedTask, QueueChange, QueueRow, QueueState,
    Renewal, RunPhase, Store,
};
use crate::time::Nanos;

type Held = Result<(), Wrong>;

/// A token that no store issued.
fn stale() -> Token {
    Token::from_random(3, 4)
}

pub(super) async fn claims_come_earliest_first(mut b: Bench<'_>) -> Held {
    let ms = Nanos::from_millis;
    let at = b.add(1, vec![due(0, ms(6)), due(1, ms(2)), due(2, LONG)]).await?;
    let later = b.add(2, vec![due(0, ms(4)), due(1, ms(1))]).await?;
    same!(later >= at, true);
    b.sleep(ms(10)).await;
    let mut order = Vec::new();
    for _ in 0..2 {
        let claimed = b.claim(2).await?;
        order.extend(claimed.tasks.iter().map(|t| (t.run, t.task.item)));
        same!(claimed.tasks.iter().all(|t| t.attempt == 1), true);
    }
    // The two runs' times are apart by however long adding took, so only each run's order is sure.
    let of = |n| order.iter().filter(|(r, _)| *r == run(n)).map(|(_, i)| *i).collect::<Vec<_>>();
    same!((of(1), of(2)), (vec![1, 0], vec![1, 0]));
    let rest = b.claim(9).await?;
    same!((rest.tasks, rest.next_due), (vec![], Some(at.after(LONG))));
    Ok(())
}

pub(super) async fn a_repeated_claim_gets_the_same_answer(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO), due(1, Nanos::ZERO), due(2, Nanos::ZERO)]).await?;
    let older = b.next_claim(1, LONG);
    let claim = b.next_claim(1, LONG);
    let first = b.store().claim(claim.clone()).await?;
    same!(first.tasks.len(), 1);
    same!(b.store().claim(claim).await?, first);
    // A late duplicate reserves nothing for a caller that is gone.
    same!(b.store().claim(older).await?.tasks, vec![]);
    let mut other = b.next_claim(9, LONG);
    other.id = ClaimId { writer: 2, counter: 1 };
    let tokens = b.store().claim(other).await?.tasks;
    same!(tokens.len(), 2);
    same!(tokens.iter().any(|t| t.token == first.tasks[0].token), false);
    Ok(())
}

pub(super) async fn a_reservation_lapses_and_uses_up_nothing(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let before = b.rows(1).await?;
    let first = b.claim_one(SOON).await?;
    same!(b.rows(1).await?, before);
    b.sleep(SOON).await;
    let mut late = b.next_commit(1, 2);
    late.fences = vec![held(0, first.token)];
    matched!(b.store().commit(late).await?, Committed::Fenced { .. } => ());
    let second = b.claim_one(LONG).await?;
    same!((second.attempt, second.token != first.token), (1, true));
    same!(b.rows(1).await?, before);
    same!(b.load(1, None).await?.version.0, 2);
    same!(b.expired().await?.tasks, vec![]);
    Ok(())
}

pub(super) async fn the_commit_of_the_start_is_the_lease(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let lasts = Nanos::from_secs(90_000);
    let (token, at) = b.start(lasts, Some(LONG)).await?;
    let deadline = Some(at.after(LONG));
    let state = QueueState::Leased { token, until: at.after(lasts), deadline, beat_by: None };
    same!(b.rows(1).await?, vec![QueueRow { task: task(0), attempt: 1, state, progress: None }]);
    let claimed = b.claim(9).await?;
    same!((claimed.tasks, claimed.next_due), (vec![], None));
    same!(b.expired().await?.next, Some(at.after(lasts)));
    Ok(())
}

pub(super) async fn r7_a_stale_token_changes_nothing(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let (token, _) = b.start(LONG, None).await?;
    let before = (b.load(1, None).await?.tail, b.rows(1).await?);
    let fences: [Fence; 4] =
        [held(0, stale()), held(1, token), lapsed(0, stale()), lapsed(0, token)];
    for fence in fences {
        let mut commit = b.next_commit(1, 3);
        commit.fences = vec![fence];
        commit.queue = vec![QueueChange::Remove { task: task(0) }];
        let answer = b.store().commit(commit.clone()).await?;
        same!(matched!(answer, Committed::Fenced { task, .. } => task), fence.task());
        // A refused claim stays refused.
        matched!(b.store().commit(commit).await?, Committed::Fenced { .. } => ());
        same!((b.load(1, None).await?.tail, b.rows(1).await?), before);
    }
    let mut commit = b.next_commit(1, 3);
    commit.fences = vec![held(0, token)];
    b.land(&commit).await?;
    Ok(())
}

pub(super) async fn r6_a_lease_ends_at_the_earlier_of_lease_and_deadline(b: Bench<'_>) -> Held {
    let table = [
        (SOON, None, Some(Lapse::Lease)),
        (SOON, Some(LONG), Some(Lapse::Lease)),
        (LONG, Some(SOON), Some(Lapse::Deadline)),
        (SOON, Some(SOON), Some(Lapse::Deadline)),
        (LONG, Some(LONG), None),
    ];
    let queue = (0..).zip(table).map(|(n, (lasts, timeout, _))| lease(n, stale(), lasts, timeout));
    let at = b.add(1, queue.collect()).await?;
    b.sleep(SOON).await;
    let expected = (0..).zip(table).filter_map(|(n, (.., lapse))| {
        let lapse = lapse?;
        Some(ExpiredTask { run: run(1), task: task(n), attempt: 1, token: stale(), lapse })
    });
    let expected: Vec<_> = expected.collect();
    let mut expired = b.expired().await?;
    expired.tasks.sort_by_key(|t| t.task);
    same!(expired.tasks, expected);
    same!(expired.next, Some(at.after(LONG)));
    same!(b.store().expired(2).await?.tasks.len(), 2);
    same!(b.expired().await?.tasks.len(), 4);
    Ok(())
}

pub(super) async fn leases_of_active_runs_are_told_by_run_and_task(mut b: Bench<'_>) -> Held {
    let leased = |n| lease(n, stale(), LONG, None);
    b.add(2, vec![leased(0), leased(1)]).await?;
    b.add(1, vec![due(0, Nanos::ZERO), leased(3), leased(2)]).await?;
    b.add(3, vec![leased(0)]).await?;
    let mut rest = b.next_commit(3, 2);
    rest.phase = RunPhase::Deactivated;
    b.land(&rest).await?;
    let told = |n, item| LeasedTask { run: run(n), task: task(item), token: stale() };
    let all = vec![told(1, 2), told(1, 3), told(2, 0), told(2, 1)];
    same!(b.store().leases(None, 9).await?, all);
    same!(b.store().leases(None, 3).await?, all[..3].to_vec());
    same!(b.store().leases(Some((run(1), task(3))), 1).await?, all[2..3].to_vec());
    same!(b.store().leases(Some((run(2), task(1))), 9).await?, vec![]);
    Ok(())
}

pub(super) async fn a_lapsed_fence_wants_a_lapsed_lease(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let (token, _) = b.start(SOON, None).await?;
    b.sleep(SOON).await;
    // Until a sweeper's commit lands the holder may still be first.
    let mut sweep = b.next_commit(1, 3);
    sweep.fences = vec![lapsed(0, token)];
    sweep.queue = vec![due_again(0, 2, Nanos::ZERO)];
    let mut outcome = b.next_commit(1, 3);
    outcome.fences = vec![held(0, token)];
    b.land(&outcome).await?;
    matched!(b.store().commit(sweep.clone()).await?, Committed::Conflict { .. } => ());
    sweep.id.counter += 10;
    sweep.expect.0 += 1;
    b.land(&sweep).await?;
    same!(b.claim_one(LONG).await?.attempt, 2);
    same!(b.renew(token, LONG).await?, Renewal::Lost);
    Ok(())
}

pub(super) async fn renewing_extends_but_never_past_the_deadline(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let (token, at) = b.start(SOON, Some(LONG)).await?;
    b.sleep(SOON).await;
    same!(b.expired().await?.tasks.len(), 1);
    // Nobody took the lease away, so its holder may have it back.
    same!(b.renew(token, Nanos::new(2 * LONG.get())).await?, Renewal::Held);
    let deadline = at.after(LONG);
    let until = |rows: &[QueueRow]| match rows[0].state {
        QueueState::Leased { until, .. } => Some(until),
        QueueState::Due { .. } => None,
    };
    same!(until(&b.rows(1).await?), Some(deadline));
    // A short renewal takes nothing away.
    same!(b.renew(token, Nanos::ZERO).await?, Renewal::Held);
    same!(until(&b.rows(1).await?), Some(deadline));
    let expired = b.expired().await?;
    same!((expired.tasks, expired.next), (vec![], Some(deadline)));
    Ok(())
}

pub(super) async fn renewing_past_the_deadline_is_lost(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let (token, _) = b.start(LONG, Some(SOON)).await?;
    b.sleep(SOON).await;
    same!(b.renew(token, LONG).await?, Renewal::Lost);
    let lapses: Vec<_> = b.expired().await?.tasks.iter().map(|t| t.lapse).collect();
    same!(lapses, vec![Lapse::Deadline]);
    Ok(())
}

pub(super) async fn renewing_with_a_stale_token_is_lost(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let (token, _) = b.start(LONG, None).await?;
    let before = b.rows(1).await?;
    let holding = |item, token| Holding {
        run: run(1),
        task: task(item),
        token,
        lasts: LONG,
        heartbeat: None,
    };
    let asked = vec![holding(0, stale()), holding(0, token), holding(1, token)];
    let answers = b.store().renew(asked).await?.answers;
    same!(answers, vec![Renewal::Lost, Renewal::Held, Renewal::Lost]);
    same!(b.rows(1).await?.len(), before.len());
    Ok(())
}

pub(super) async fn nothing_is_claimed_before_it_is_due(mut b: Bench<'_>) -> Held {
    let at = b.add(1, vec![due(0, SOON)]).await?;
    loop {
        let claimed = b.claim(9).await?;
        if let [first] = &claimed.tasks[..] {
            same!(claimed.at >= at.after(SOON), true);
            same!(first.task, task(0));
            return Ok(());
        }
        same!(claimed.next_due, Some(at.after(SOON)));
        same!(claimed.at < at.after(SOON), true);
        b.sleep(Nanos::from_millis(3)).await;
    }
}

pub(super) async fn a_removed_task_is_gone(mut b: Bench<'_>) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO), due(1, Nanos::ZERO), lease(2, stale(), SOON, None)]).await?;
    let mut commit = b.next_commit(1, 2);
    commit.queue = vec![
        QueueChange::Remove { task: task(0) },
        QueueChange::Remove { task: task(2) },
        QueueChange::Remove { task: task(9) },
    ];
    b.land(&commit).await?;
    b.sleep(SOON).await;
    same!(b.expired().await?.tasks, vec![]);
    same!(b.claim(9).await?.tasks.iter().map(|t| t.task).collect::<Vec<_>>(), vec![task(1)]);
    Ok(())
}

pub(super) async fn a12_a_run_at_rest_is_not_claimed(mut b: Bench<'_>) -> Held {
    let phases = [
        (1, RunPhase::Deactivated),
        (2, RunPhase::Cancelled),
        (3, RunPhase::Completed),
        (4, RunPhase::Failed),
    ];
    for (n, phase) in phases {
        b.add(n, vec![due(0, Nanos::ZERO), lease(1, stale(), SOON, None)]).await?;
        let mut rest = b.next_commit(n, 2);
        rest.phase = phase;
        // Nor a row that comes with or after the change.
        rest.queue = vec![due(2, Nanos::ZERO)];
        b.land(&rest).await?;
    }
    b.harness.reopen().await;
    b.sleep(SOON).await;
    let claimed = b.claim(9).await?;
    same!((claimed.tasks, claimed.next_due), (vec![], None));
    let expired = b.expired().await?;
    same!((expired.tasks, expired.next), (vec![], None));
    let awake = b.next_commit(1, 3);
    b.land(&awake).await?;
    let mut claimed: Vec<_> = b.claim(9).await?.tasks.iter().map(|t| (t.run, t.task)).collect();
    claimed.sort();
    same!(claimed, vec![(run(1), task(0)), (run(1), task(2))]);
    same!(b.expired().await?.tasks.len(), 1);
    Ok(())
}

pub(super) async fn reopening_keeps_leases_and_reservations_of_a_shared_store_alone(
    mut b: Bench<'_>,
) -> Held {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let (token, _) = b.start(SOON, None).await?;
    same!(b.renew(token, LONG).await?, Renewal::Held);
    b.add(2, vec![due(0, Nanos::ZERO)]).await?;
    let reserved = b.claim_one(LONG).await?;
    let rows = (b.rows(1).await?, b.rows(2).await?);
    if !b.harness.reopen().await {
        return Ok(());
    }
    same!((b.rows(1).await?, b.rows(2).await?), rows);
    same!(b.expired().await?.tasks, vec![]);
    same!(b.renew(token, LONG).await?, Renewal::Held);
    if b.harness.keeps_reservations() {
        same!(b.claim(9).await?.tasks, vec![]);
        let mut start = b.next_commit(2, 2);
        start.fences = vec![held(0, reserved.token)];
        b.land(&start).await?;
        return Ok(());
    }
    let again = b.claim_one(LONG).await?;
    same!((again.run, again.attempt), (run(2), 1));
    same!(again.token != reserved.token, true);
    Ok(())
}
