//! Alerts of error budgets: stored once, by the commit that raises them, together with the runs
//! that it adds.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::kit::{Bench, LONG, Wrong, create, due, events, held, lease, matched, run, same, task};
use crate::guard::{Ended, ErrorBudget, GuardInput, GuardRules};
use crate::policy::Share;
use crate::run::Token;
use crate::store::{Commit, CommitId, Committed, Created, Guarding, Holder, Raised, Store};
use crate::time::Nanos;

type Done = Result<(), Wrong>;

/// A quarter may fail; an alert when half of that is burnt, and when all is.
fn rules() -> Arc<GuardRules> {
    let target = Share::from_millionths(750_000).unwrap_or(Share::QUARTER);
    let budget = ErrorBudget::new(target, LONG, NonZeroU32::MIN, [500_000, 1_000_000]);
    Arc::new(GuardRules { error_budget: budget.ok(), ..GuardRules::default() })
}

fn guarding(inputs: Vec<GuardInput<Holder>>) -> Vec<Guarding> {
    vec![Guarding { action: "act".into(), rules: rules(), inputs }]
}

fn ended(item: u32, token: Token, how: Ended) -> GuardInput<Holder> {
    let attempt = Holder { run: run(1), task: task(item), token };
    GuardInput::Ended { attempt, how, refill: 0 }
}

/// Starts items 0 to 2 of run 1, which goes to version 3.
async fn started(b: &mut Bench<'_>) -> Result<Vec<Token>, Wrong> {
    b.add(1, (0..3).map(|item| due(item, Nanos::ZERO)).collect()).await?;
    let mut claimed = b.claim(9).await?.tasks;
    claimed.sort_by_key(|t| t.task.item);
    let mut commit = b.next_commit(1, 2);
    commit.fences = claimed.iter().map(|t| held(t.task.item, t.token)).collect();
    commit.queue = claimed.iter().map(|t| lease(t.task.item, t.token, LONG, None)).collect();
    let admit = |t: &crate::store::ClaimedTask| {
        let attempt = Holder { run: run(1), task: t.task, token: t.token };
        GuardInput::Admit { attempt, first: true, tokens: 0 }
    };
    commit.guards = guarding(claimed.iter().map(admit).collect());
    b.land(&commit).await?;
    Ok(claimed.iter().map(|t| t.token).collect())
}

fn failing(b: &mut Bench<'_>, version: u64, item: u32, token: Token) -> Commit {
    let mut commit = b.next_commit(1, version);
    commit.guards = guarding(vec![ended(item, token, Ended::Badly)]);
    commit
}

async fn untold(b: &Bench<'_>, commit: &Commit) -> Result<Vec<Raised>, Wrong> {
    let answer = b.store().commit(commit.clone()).await?;
    Ok(matched!(answer, Committed::Untold { raised, .. } => raised))
}

fn thresholds(raised: &[Raised]) -> Vec<u64> {
    raised.iter().map(|raised| raised.alert.threshold).collect()
}

pub(super) async fn c18_an_alert_is_raised_exactly_where_it_is_told(mut b: Bench<'_>) -> Done {
    let tokens = started(&mut b).await?;
    let before = (b.load(1, None).await?, b.rows(1).await?);
    let silent = failing(&mut b, 3, 0, tokens[0]);
    let raised = untold(&b, &silent).await?;
    same!(thresholds(&raised), vec![500_000, 1_000_000]);
    same!(
        raised[0].alert,
        crate::guard::Alert { threshold: 500_000, burnt: 4_000_000, failures: 1, calls: 1 }
    );
    // Nothing has changed, and asking again changes nothing.
    same!(untold(&b, &silent).await?, raised);
    let after = (b.load(1, None).await?, b.rows(1).await?);
    same!((after.0.version, after.0.tail, after.1), (before.0.version, before.0.tail, before.1));
    // Half of it is not enough.
    let mut half = failing(&mut b, 3, 0, tokens[0]);
    half.raised = raised[..1].to_vec();
    same!(untold(&b, &half).await?, raised);
    let mut told = failing(&mut b, 3, 0, tokens[0]);
    told.raised.clone_from(&raised);
    b.land(&told).await?;
    matched!(b.store().commit(told).await?, Committed::Already { .. } => ());
    // Raised it is, so the next failure raises nothing, and must not tell it either.
    let mut again = failing(&mut b, 4, 1, tokens[1]);
    again.raised = raised;
    same!(untold(&b, &again).await?, vec![]);
    let quiet = failing(&mut b, 4, 1, tokens[1]);
    b.land(&quiet).await?;
    Ok(())
}

/// A duplicate that comes late must not land: its writer has drafted it again.
pub(super) async fn c18_a_commit_that_left_an_alert_untold_never_lands(mut b: Bench<'_>) -> Done {
    let tokens = started(&mut b).await?;
    b.add(2, vec![]).await?;
    let silent = failing(&mut b, 3, 0, tokens[0]);
    let raised = untold(&b, &silent).await?;
    // Another run's commit stores it first.
    let mut other = b.next_commit(2, 2);
    other.guards = guarding(vec![ended(1, tokens[1], Ended::Badly)]);
    other.raised = untold(&b, &other).await?;
    other.id = CommitId { writer: 2, counter: 1 };
    b.land(&other).await?;
    same!(untold(&b, &silent).await?, raised);
    let again = failing(&mut b, 3, 0, tokens[0]);
    b.land(&again).await?;
    Ok(())
}

pub(super) async fn c18_alerts_are_shared_by_all_writers_and_survive_reopening(
    mut b: Bench<'_>,
) -> Done {
    let tokens = started(&mut b).await?;
    let first = failing(&mut b, 3, 0, tokens[0]);
    let raised = untold(&b, &first).await?;
    let mut told = failing(&mut b, 3, 0, tokens[0]);
    told.raised = raised;
    b.land(&told).await?;
    // A store that forgets has it in memory all the same.
    b.harness.reopen().await;
    let mut other = failing(&mut b, 4, 1, tokens[1]);
    other.id = CommitId { writer: 2, counter: 1 };
    b.land(&other).await?;
    Ok(())
}

pub(super) async fn c18_a_commit_adds_its_runs_once_and_only_where_it_lands(
    mut b: Bench<'_>,
) -> Done {
    let tokens = started(&mut b).await?;
    let added = || vec![create(9, vec![due(0, Nanos::ZERO)])];
    let mut silent = failing(&mut b, 3, 0, tokens[0]);
    silent.creates = added();
    let raised = untold(&b, &silent).await?;
    same!(b.store().load(run(9), None).await?, None);
    let mut told = failing(&mut b, 3, 0, tokens[0]);
    (told.raised, told.creates) = (raised, added());
    b.land(&told).await?;
    let loaded = b.load(9, None).await?;
    same!((loaded.version.0, loaded.tail.events), (2, events(0, 2)));
    matched!(b.store().commit(told).await?, Committed::Already { .. } => ());
    let claimed = b.claim(9).await?.tasks;
    same!(claimed.iter().map(|t| t.run).collect::<Vec<_>>(), vec![run(9)]);
    let heads = b.store().heads(None, 9).await?.runs;
    same!(heads.iter().map(|h| h.run).collect::<Vec<_>>(), vec![run(1), run(9)]);
    // It is there, as if it had been submitted, and stays as it is.
    let again = create(9, vec![due(0, Nanos::ZERO)]);
    matched!(b.store().create(again).await?, Created::New { .. } => ());
    let mut known = b.next_commit(1, 4);
    known.creates = vec![create(9, vec![due(3, Nanos::ZERO)])];
    b.land(&known).await?;
    same!(b.rows(9).await?.len(), 1);
    if b.harness.reopen().await {
        same!(b.load(9, None).await?.version.0, 2);
    }
    Ok(())
}
