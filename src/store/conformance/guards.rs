//! Guards: which attempts they hold back, and that each attempt counts once.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::kit::{Bench, LONG, SOON, Wrong, due, held, lease, matched, run, same, task};
use crate::guard::{
    Breaker, BreakerStanding, Ended, ErrorBudget, GuardInput, GuardRules, HeldBy, Outcomes, Pace,
    Standing,
};
use crate::policy::{Budget, Share};
use crate::run::Token;
use crate::store::{
    ClaimId, ClaimedTask, Commit, CommitId, Committed, Guarding, Hold, Holder, RunPhase, Store,
};
use crate::time::Nanos;

type Done = Result<(), Wrong>;

fn many(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN)
}

fn limit(n: u32) -> GuardRules {
    GuardRules { concurrency: Some(many(n)), ..GuardRules::default() }
}

/// A breaker that opens after two failures in a row, for this time, with so many probes.
fn breaker(open: Nanos, probes: u32) -> GuardRules {
    let breaker = Breaker::new(Some(many(2)), None, open, many(probes)).ok();
    GuardRules { breaker, ..GuardRules::default() }
}

fn guarding(rules: &GuardRules, inputs: Vec<GuardInput<Holder>>) -> Vec<Guarding> {
    vec![Guarding { action: "act".into(), rules: Arc::new(rules.clone()), inputs }]
}

fn holder(item: u32, token: Token) -> Holder {
    Holder { run: run(1), task: task(item), token }
}

fn admit(item: u32, token: Token) -> GuardInput<Holder> {
    GuardInput::Admit { attempt: holder(item, token), first: true, tokens: 0 }
}

fn ended(item: u32, token: Token, how: Ended) -> GuardInput<Holder> {
    GuardInput::Ended { attempt: holder(item, token), how, refill: 0 }
}

/// A commit that starts the claimed tasks under `rules`.
fn starting(
    b: &mut Bench<'_>,
    version: u64,
    rules: &GuardRules,
    claimed: &[ClaimedTask],
) -> Commit {
    let mut commit = b.next_commit(1, version);
    commit.fences = claimed.iter().map(|t| held(t.task.item, t.token)).collect();
    commit.queue = claimed.iter().map(|t| lease(t.task.item, t.token, LONG, None)).collect();
    let inputs = claimed.iter().map(|t| admit(t.task.item, t.token)).collect();
    commit.guards = guarding(rules, inputs);
    commit
}

/// A commit with the outcomes of attempts.
fn ending(
    b: &mut Bench<'_>,
    version: u64,
    rules: &GuardRules,
    ends: &[(u32, Token, Ended)],
) -> Commit {
    let mut commit = b.next_commit(1, version);
    commit.guards = guarding(rules, ends.iter().map(|(i, t, how)| ended(*i, *t, *how)).collect());
    commit
}

async fn holds(b: &Bench<'_>, commit: Commit) -> Result<Vec<Hold>, Wrong> {
    Ok(matched!(b.store().commit(commit).await?, Committed::Held { holds, .. } => holds))
}

pub(super) async fn a_held_start_leaves_everything_as_it_was(mut b: Bench<'_>) -> Done {
    b.add(1, vec![due(0, Nanos::ZERO), due(1, Nanos::ZERO)]).await?;
    let rules = limit(1);
    let claimed = b.claim(2).await?.tasks;
    let (before, rows) = (b.load(1, None).await?, b.rows(1).await?);
    let both = starting(&mut b, 2, &rules, &claimed);
    let found = holds(&b, both.clone()).await?;
    same!(
        found.iter().map(|h| (h.attempt.task.item, h.by)).collect::<Vec<_>>(),
        vec![(claimed[1].task.item, HeldBy::Concurrency)]
    );
    let after = b.load(1, None).await?;
    same!((after.version, after.tail), (before.version, before.tail));
    same!(b.rows(1).await?, rows);
    same!(holds(&b, both).await?, found);
    // The other may start without it; the one that was held has lost its reservation.
    let one = starting(&mut b, 2, &rules, &claimed[..1]);
    b.land(&one).await?;
    let other = starting(&mut b, 3, &rules, &claimed[1..]);
    matched!(b.store().commit(other).await?, Committed::Fenced { .. } => ());
    let claimed = b.claim(9).await?;
    same!((claimed.tasks, claimed.next_due), (vec![], Some(found[0].until)));
    Ok(())
}

/// Afterwards it is judged again.
pub(super) async fn a_hold_is_told_again_until_its_time(mut b: Bench<'_>) -> Done {
    b.add(1, vec![due(0, Nanos::ZERO), due(1, Nanos::ZERO)]).await?;
    let rate = Pace::new(many(1), Nanos::from_secs(2)).ok();
    let rules = GuardRules { rate, ..GuardRules::default() };
    let claimed = b.claim(2).await?.tasks;
    let one = starting(&mut b, 2, &rules, &claimed[..1]);
    b.land(&one).await?;
    let other = starting(&mut b, 3, &rules, &claimed[1..]);
    same!(holds(&b, other.clone()).await?[0].by, HeldBy::Rate);
    b.sleep(Nanos::from_millis(2_100)).await;
    // It has lost its reservation.
    matched!(b.store().commit(other).await?, Committed::Fenced { .. } => ());
    Ok(())
}

pub(super) async fn x6_an_end_lets_the_first_that_waits_through(mut b: Bench<'_>) -> Done {
    b.add(1, (0..3).map(|item| due(item, Nanos::ZERO)).collect()).await?;
    let rules = limit(1);
    let claimed = b.claim(3).await?.tasks;
    let one = starting(&mut b, 2, &rules, &claimed[..1]);
    b.land(&one).await?;
    let others = starting(&mut b, 3, &rules, &claimed[1..]);
    same!(holds(&b, others).await?.len(), 2);
    same!(b.claim(9).await?.tasks, vec![]);
    let end = ending(&mut b, 3, &rules, &[(claimed[0].task.item, claimed[0].token, Ended::Well)]);
    b.land(&end).await?;
    let next = b.claim(9).await?.tasks;
    same!(next.iter().map(|t| t.task).collect::<Vec<_>>(), vec![claimed[1].task]);
    let second = starting(&mut b, 4, &rules, &next);
    b.land(&second).await?;
    Ok(())
}

pub(super) async fn what_a_commit_means_counts_once_however_often_it_is_sent(
    mut b: Bench<'_>,
) -> Done {
    b.add(1, (0..3).map(|item| due(item, Nanos::ZERO)).collect()).await?;
    let rules = breaker(LONG, 1);
    let claimed = b.claim(3).await?.tasks;
    let both = starting(&mut b, 2, &rules, &claimed[..2]);
    b.land(&both).await?;
    let failed = [(claimed[0].task.item, claimed[0].token, Ended::Badly)];
    let failure = ending(&mut b, 3, &rules, &failed);
    b.land(&failure).await?;
    matched!(b.store().commit(failure).await?, Committed::Already { .. } => ());
    // One failure is not two: the breaker is closed.
    let third = starting(&mut b, 4, &rules, &claimed[2..]);
    b.land(&third).await?;
    Ok(())
}

pub(super) async fn guards_are_shared_by_all_writers_and_survive_reopening(
    mut b: Bench<'_>,
) -> Done {
    b.add(1, (0..4).map(|item| due(item, Nanos::ZERO)).collect()).await?;
    let rules = breaker(LONG, 1);
    let claimed = b.claim(3).await?.tasks;
    let all = starting(&mut b, 2, &rules, &claimed);
    b.land(&all).await?;
    let ends: Vec<_> = claimed[..2].iter().map(|t| (t.task.item, t.token, Ended::Badly)).collect();
    let failures = ending(&mut b, 3, &rules, &ends);
    let opened = b.land(&failures).await?;
    if !b.harness.reopen().await {
        // What is only in memory is shared all the same.
        same!(b.rows(1).await?.len(), 4);
    }
    let mut claim = b.next_claim(9, LONG);
    claim.id = ClaimId { writer: 2, counter: 1 };
    let other = b.store().claim(claim).await?.tasks;
    same!(other.len(), 1);
    let mut start = starting(&mut b, 4, &rules, &other);
    start.id = CommitId { writer: 2, counter: 1 };
    let found = holds(&b, start).await?;
    same!((found[0].by, found[0].until <= opened.after(LONG)), (HeldBy::Breaker, true));
    Ok(())
}

pub(super) async fn c18_probes_are_bounded_across_writers(mut b: Bench<'_>) -> Done {
    b.add(1, (0..6).map(|item| due(item, Nanos::ZERO)).collect()).await?;
    let rules = breaker(SOON, 2);
    let first = b.claim(2).await?.tasks;
    let all = starting(&mut b, 2, &rules, &first);
    b.land(&all).await?;
    let ends: Vec<_> = first.iter().map(|t| (t.task.item, t.token, Ended::Badly)).collect();
    let failures = ending(&mut b, 3, &rules, &ends);
    b.land(&failures).await?;
    let claimed = b.claim(9).await?.tasks;
    same!(claimed.len(), 4);
    b.sleep(SOON).await;
    let probe = starting(&mut b, 4, &rules, &claimed[..1]);
    b.land(&probe).await?;
    // Two more at once are one too many, whoever asks.
    let mut two = starting(&mut b, 5, &rules, &claimed[1..3]);
    two.id = CommitId { writer: 2, counter: 1 };
    same!(holds(&b, two).await?.len(), 1);
    let mut second = starting(&mut b, 5, &rules, &claimed[1..2]);
    second.id = CommitId { writer: 2, counter: 2 };
    b.land(&second).await?;
    let third = starting(&mut b, 6, &rules, &claimed[3..]);
    same!(holds(&b, third).await?[0].by, HeldBy::Breaker);
    // Both probes well: closed, and everybody who waits is let through.
    let well: Vec<_> = claimed[..2].iter().map(|t| (t.task.item, t.token, Ended::Well)).collect();
    let closing = ending(&mut b, 6, &rules, &well);
    b.land(&closing).await?;
    let rest = b.claim(9).await?.tasks;
    same!(rest.len(), 2);
    let both = starting(&mut b, 7, &rules, &rest);
    b.land(&both).await?;
    Ok(())
}

pub(super) async fn x6_a_rate_lets_its_calls_through_one_interval_apart(mut b: Bench<'_>) -> Done {
    b.add(1, (0..5).map(|item| due(item, Nanos::ZERO)).collect()).await?;
    let rate = Pace::new(many(2), LONG).ok();
    let rules = GuardRules { rate, ..GuardRules::default() };
    let claimed = b.claim(9).await?.tasks;
    let two = starting(&mut b, 2, &rules, &claimed[..2]);
    let at = b.land(&two).await?;
    let interval = Nanos::new(LONG.get() / 2);
    let rest = starting(&mut b, 3, &rules, &claimed[2..]);
    let found = holds(&b, rest).await?;
    same!(found.iter().all(|h| h.by == HeldBy::Rate), true);
    let first = found[0].until;
    same!(first <= at.after(interval), true);
    let turns: Vec<_> = found.iter().map(|h| h.until.since(first)).collect();
    same!(turns, vec![Nanos::ZERO, interval, interval.saturating_mul(2)]);
    Ok(())
}

pub(super) async fn h17_a_budget_holds_a_withdrawal_and_not_the_lease(mut b: Bench<'_>) -> Done {
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let budget = Budget { initial: 1, ..Budget::of_first_attempts(Share::QUARTER) };
    let rules = GuardRules { retry_budget: Some(budget), ..GuardRules::default() };
    let claimed = b.claim(9).await?.tasks;
    let start = starting(&mut b, 2, &rules, &claimed);
    b.land(&start).await?;
    let token = claimed[0].token;
    let withdraw = |commit: &mut Commit| {
        let attempt = holder(0, token);
        commit.fences = vec![held(0, token)];
        commit.guards = guarding(&rules, vec![GuardInput::Withdraw { attempt, tokens: 1 }]);
    };
    let mut first = b.next_commit(1, 3);
    withdraw(&mut first);
    b.land(&first).await?;
    let rows = b.rows(1).await?;
    let mut second = b.next_commit(1, 4);
    withdraw(&mut second);
    let found = holds(&b, second).await?;
    same!((found[0].by, found[0].attempt), (HeldBy::RetryBudget, holder(0, token)));
    same!(b.rows(1).await?, rows);
    let mut third = b.next_commit(1, 4);
    third.fences = vec![held(0, token)];
    b.land(&third).await?;
    Ok(())
}

pub(super) async fn a_place_is_free_again_when_a_run_at_rest_has_lost_its_lease(
    mut b: Bench<'_>,
) -> Done {
    let rules = limit(1);
    b.add(1, vec![due(0, Nanos::ZERO)]).await?;
    let claimed = b.claim(9).await?.tasks;
    let mut start = starting(&mut b, 2, &rules, &claimed);
    // The attempt may take longer than its lease lasts, which a run at rest does not renew for it.
    start.queue = vec![lease(0, claimed[0].token, SOON, Some(LONG))];
    b.land(&start).await?;
    let mut rest = b.next_commit(1, 3);
    rest.phase = RunPhase::Deactivated;
    b.land(&rest).await?;
    b.add(2, vec![due(0, Nanos::ZERO)]).await?;
    let next = b.claim(9).await?.tasks;
    b.sleep(SOON).await;
    let mut other = b.next_commit(2, 2);
    other.fences = vec![held(0, next[0].token)];
    other.queue = vec![lease(0, next[0].token, LONG, None)];
    let attempt = Holder { run: run(2), task: task(0), token: next[0].token };
    let admit = GuardInput::Admit { attempt, first: true, tokens: 0 };
    other.guards = guarding(&rules, vec![admit]);
    b.land(&other).await?;
    Ok(())
}

pub(super) async fn x6_runs_take_turns(mut b: Bench<'_>) -> Done {
    b.add(1, (0..40).map(|item| due(item, Nanos::ZERO)).collect()).await?;
    b.sleep(SOON).await;
    b.add(2, vec![due(0, Nanos::ZERO), due(1, Nanos::ZERO)]).await?;
    b.add(3, vec![due(0, Nanos::ZERO)]).await?;
    let mut order = Vec::new();
    for _ in 0..3 {
        let claimed = b.claim(2).await?;
        order.extend(claimed.tasks.iter().map(|t| (t.run, t.task.item)));
    }
    same!(
        order,
        vec![(run(1), 0), (run(2), 0), (run(3), 0), (run(1), 1), (run(2), 1), (run(1), 2)]
    );
    Ok(())
}

/// All guards of an action.
fn all_rules() -> GuardRules {
    let target = Share::from_millionths(500_000).unwrap_or(Share::QUARTER);
    let budget = Budget { initial: 1, ..Budget::of_first_attempts(Share::QUARTER) };
    GuardRules {
        rate: Pace::new(many(100), Nanos::from_secs(100)).ok(),
        retry_budget: Some(budget),
        error_budget: ErrorBudget::new(target, LONG, many(1), [2_000_000]).ok(),
        ..breaker(LONG, 1)
    }
}

async fn standing(b: &Bench<'_>) -> Result<Standing, Wrong> {
    let rows = b.store().guards().await?;
    let row = matched!(rows.as_slice(), [row] => row.clone());
    same!(row.action, "act");
    Ok(matched!(row.standing, Some(standing) => standing))
}

pub(super) async fn guards_are_shown_as_they_stand(mut b: Bench<'_>) -> Done {
    same!(b.store().guards().await?, vec![]);
    b.add(1, vec![due(0, Nanos::ZERO), due(1, Nanos::ZERO)]).await?;
    let (rules, claimed) = (all_rules(), b.claim(9).await?.tasks);
    let start = starting(&mut b, 2, &rules, &claimed);
    let at = b.land(&start).await?;
    b.harness.reopen().await;
    let nothing = Outcomes::default();
    let first = Standing {
        breaker: BreakerStanding::Closed { in_a_row: 0, recent: nothing },
        running: 2,
        // A second apart, and two have started.
        unpaced_at: at.after(Nanos::from_secs(2)),
        // A quarter for each of two first attempts.
        tokens_millionths: Some(1_500_000),
        errors: nothing,
        alerts_millionths: vec![],
    };
    same!(standing(&b).await?, first);
    let [one, two] = [0, 1].map(|n: usize| (claimed[n].task.item, claimed[n].token, Ended::Badly));
    let end = ending(&mut b, 3, &rules, &[one]);
    let raised = matched!(
        b.store().commit(end.clone()).await?, Committed::Untold { raised, .. } => raised
    );
    // Nothing has landed.
    same!(standing(&b).await?, first);
    let mut end = ending(&mut b, 3, &rules, &[one]);
    end.raised = raised;
    b.land(&end).await?;
    let second = Standing {
        breaker: BreakerStanding::Closed { in_a_row: 1, recent: nothing },
        running: 1,
        errors: Outcomes { calls: 1, failures: 1 },
        alerts_millionths: vec![2_000_000],
        ..first
    };
    same!(standing(&b).await?, second);
    let end = ending(&mut b, 4, &rules, &[two]);
    let opened = b.land(&end).await?;
    b.harness.reopen().await;
    let third = Standing {
        breaker: BreakerStanding::Open { until: opened.after(LONG) },
        running: 0,
        errors: Outcomes { calls: 2, failures: 2 },
        ..second
    };
    same!(standing(&b).await?, third);
    Ok(())
}
