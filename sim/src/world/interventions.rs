//! Users that pause, resume, fail by hand, redrive, discard, archive and prune.

use retrial::engine::{CommandError, Retention, SubmitError};
use retrial::run::{LetterId, RunId};
use retrial::store::{Heads, LetterStatus, Prune, Store as _};
use retrial::time::Nanos;

use super::order::Order;
use super::users::{ALL, Users};
use crate::clock::{true_now, until};
use crate::evidence::{ByHand, Pruning, RedriveAnswer};
use crate::scenario::{Cleanup, LetterAct, LetterRound, ManualFailure, Pause, ReleaseRound};
use crate::sync::lock;

impl Users {
    /// Has a run's retries paused for a while.
    pub(super) async fn pause(&self, pause: Pause) {
        until(pause.from).await;
        let run = self.id_of(pause.submission);
        self.note(&format!("run {run} is paused"));
        self.ask(pause.node, |reply| Order::Pause(run, reply)).await;
        let answered = true_now();
        until(pause.until).await;
        self.note(&format!("run {run} is resumed"));
        self.with_run(run, |found| found.pauses.push((answered, true_now())));
        self.ask(pause.node, |reply| Order::Resume(run, reply)).await;
        self.done();
    }

    /// Fails what waits of one step, or one item of it.
    pub(super) async fn fail_by_hand(&self, by_hand: ManualFailure) {
        until(by_hand.at).await;
        let run = self.id_of(by_hand.submission);
        let step = self.step_of(by_hand.submission, by_hand.step);
        self.note(&format!("what waits of {step} of run {run} is failed by hand"));
        let item = by_hand.item;
        let asked = ByHand { run, step: step.clone(), item, is_done: false };
        let place = {
            let mut all = lock(&self.interventions);
            all.by_hand.push(asked);
            all.by_hand.len() - 1
        };
        let order = |reply| Order::Fail(run, step.clone(), item, reply);
        let is_done = self.ask(by_hand.node, order).await.is_ok();
        if let Some(asked) = lock(&self.interventions).by_hand.get_mut(place) {
            asked.is_done = is_done;
        }
        self.done();
    }

    /// Releases what is held in quarantine of every run.
    pub(super) async fn release_round(&self, round: ReleaseRound) {
        until(round.at).await;
        let runs: Vec<RunId> = lock(&self.runs).iter().map(|run| run.id).collect();
        for run in runs {
            self.release(round.node, run).await;
        }
        self.done();
    }

    pub(super) async fn release(&self, node: u32, run: RunId) {
        self.with_run(run, |found| found.release_asked = true);
        if self.ask(node, |reply| Order::Release(run, reply)).await.is_ok() {
            self.note(&format!("run {run} is released from quarantine"));
        }
    }

    /// Goes through the letters that wait.
    pub(super) async fn letter_round(&self, letter_round: LetterRound) {
        until(letter_round.at).await;
        let letters = self.ask(letter_round.node, Order::Letters).await;
        let waiting = letters.map(|page| page.letters).unwrap_or_default();
        for head in waiting.iter().filter(|head| head.status == LetterStatus::Waiting).take(20) {
            let (id, one, other) = (head.id, letter_round.node, letter_round.node + 1);
            match letter_round.act {
                LetterAct::Redrive => self.redrive(one, id).await,
                LetterAct::RedriveTwice => {
                    tokio::join!(self.redrive(one, id), self.redrive(other, id));
                }
                LetterAct::Discard => self.discard(one, id).await,
                LetterAct::Both => {
                    tokio::join!(self.redrive(one, id), self.discard(other, id));
                }
            }
        }
        self.done();
    }

    async fn redrive(&self, node: u32, id: LetterId) {
        self.note(&format!("letter {id} is redriven"));
        let answer = match self.ask(node, |reply| Order::Redrive(id, reply)).await {
            Ok(run) => RedriveAnswer::By(run),
            Err(SubmitError::AlreadyRedriven { run, .. }) => RedriveAnswer::Before(run),
            Err(SubmitError::LetterDiscarded(_)) => RedriveAnswer::Discarded,
            Err(error) => {
                self.note(&format!("letter {id} is not redriven: {error}"));
                RedriveAnswer::Refused
            }
        };
        self.note(&format!("letter {id}: {answer:?}"));
        lock(&self.interventions).redriven.push((id, answer));
    }

    async fn discard(&self, node: u32, id: LetterId) {
        self.note(&format!("letter {id} is discarded"));
        match self.ask(node, |reply| Order::Discard(id, reply)).await {
            Ok(()) => lock(&self.interventions).discarded.push(id),
            Err(error @ CommandError::AlreadyRedriven { .. }) => self.note(&error.to_string()),
            Err(error) => self.note(&format!("letter {id} is not discarded: {error}")),
        }
    }

    /// When all has ended and was read back: archives some runs and prunes.
    pub(super) async fn keep(&self, cleanup: Cleanup) -> Option<Pruning> {
        let ended = self.all_heads().await?;
        if !ended.runs.iter().all(|head| head.phase.is_terminal()) {
            return None;
        }
        let picked = ended.runs.iter().enumerate();
        let picked =
            picked.filter(|(n, _)| cleanup.archive_every > 0 && n % cleanup.archive_every == 0);
        for (_, head) in picked {
            let _ = self.ask(0, |reply| Order::Archive(head.run, reply)).await;
        }
        let before = self.all_heads().await?;
        let Cleanup { archived_only, with_letters, .. } = cleanup;
        // Of about half the runs the end is longer ago than that.
        let mut ages: Vec<Nanos> =
            before.runs.iter().map(|h| before.at.since(h.ended.unwrap_or(before.at))).collect();
        ages.sort_unstable();
        let older_than = ages.get(ages.len() / 2).copied().unwrap_or_default();
        let retention = Retention { older_than, archived_only, with_letters };
        self.note(&format!("what ended {older_than} ago is pruned"));
        let gone = self.ask(0, |reply| Order::Prune(retention, reply)).await.ok()?;
        let after = self.all_heads().await?;
        let until = after.at;
        let letters = self.ask(0, Order::Letters).await.ok()?.letters;
        let mut readable = Vec::new();
        for run in &gone {
            readable.extend(self.load(*run, None).await.ok()?.map(|_| *run));
        }
        let asked = Prune { after: None, limit: 0, older_than, archived_only, with_letters };
        Some(Pruning {
            asked,
            at: before.at,
            until,
            before: before.runs,
            gone,
            after: after.runs,
            letters: letters.iter().map(|head| head.id).collect(),
            readable,
        })
    }

    pub(super) async fn all_heads(&self) -> Option<Heads> {
        self.heads(None, ALL).await.ok()
    }
}
