//! Commands of people for runs and failed work. Each is rare, so most seeds have none.

use retrial::time::{Mono, Nanos};

use super::{Draw, Swarm};
use crate::scenario::{
    Cleanup, Follower, Interventions, LetterAct, LetterRound, ManualFailure, Pause, ReleaseRound,
    Submission,
};

/// With fewer kinds of faults a world is often calm.
const FEW: usize = 6;

pub(super) fn draw(seed: u64, swarm: &Swarm, submissions: &[Submission]) -> Interventions {
    let mut draw = Draw::new(seed, "people");
    Interventions {
        pauses: pauses(&mut draw, swarm, submissions),
        by_hand: by_hand(seed, &mut draw, swarm, submissions),
        letter_rounds: letter_rounds(&mut draw, swarm),
        releases: releases(seed, swarm),
        followers: followers(seed, swarm, submissions),
        cleanup: draw.chance(25).then(|| Cleanup {
            archive_every: draw.pick([0, 1, 2, 3]),
            archived_only: draw.chance(50),
            with_letters: draw.chance(50),
        }),
    }
}

fn node(draw: &mut Draw, swarm: &Swarm) -> u32 {
    draw.small(0, swarm.topology.nodes() - 1)
}

/// One of the runs, and when it was asked for.
fn run(draw: &mut Draw, submissions: &[Submission]) -> (usize, Mono) {
    let submission = draw.index(submissions.len());
    (submission, submissions.get(submission).map_or(Mono::from_nanos(0), |s| s.at))
}

/// Resumed by the time that everything heals, so the bound holds for them as well.
fn pauses(draw: &mut Draw, swarm: &Swarm, submissions: &[Submission]) -> Vec<Pause> {
    if !draw.chance(20) {
        return Vec::new();
    }
    let (submission, asked) = run(draw, submissions);
    let from = asked.after(draw.millis(0, 3_000)).min(swarm.heal_at);
    let until = from.after(draw.millis(50, 8_000)).min(swarm.heal_at);
    vec![Pause { from, until, node: node(draw, swarm), submission }]
}

fn by_hand(
    seed: u64,
    draw: &mut Draw,
    swarm: &Swarm,
    submissions: &[Submission],
) -> Vec<ManualFailure> {
    if !draw.chance(15) {
        return Vec::new();
    }
    let (submission, asked) = run(draw, submissions);
    let at = asked.after(draw.millis(50, 5_000));
    let (node, step) = (node(draw, swarm), draw.index(4));
    // It comes from elsewhere, so that all else is drawn as without it.
    let mut draw = Draw::new(seed, "item");
    let more = draw.pick([0, 1, 3]);
    let mut failure = |n: u64| ManualFailure {
        at: at.after(Nanos::from_millis(n * draw.between(1, 900))),
        node,
        submission,
        step: if n == 0 { step } else { draw.index(3) },
        item: draw.chance(50).then(|| draw.small(0, 2)),
    };
    (0..=more).map(&mut failure).collect()
}

/// Where something may be held in quarantine, somebody looks now and then.
fn releases(seed: u64, swarm: &Swarm) -> Vec<ReleaseRound> {
    if swarm.quarantine_after.is_none() {
        return Vec::new();
    }
    let mut draw = Draw::new(seed, "releases");
    let count = draw.pick([0, 1, 2, 4]);
    let round = |_| ReleaseRound { at: draw.instant(swarm.heal_at), node: node(&mut draw, swarm) };
    (0..count).map(round).collect()
}

/// In half the seeds users wait for runs or read their events, from their start or from the middle;
/// in more of them where little is in the way, as what comes late can be told there. Now and then
/// several ask the same node of the same run.
fn followers(seed: u64, swarm: &Swarm, submissions: &[Submission]) -> Vec<Follower> {
    let mut draw = Draw::new(seed, "followers");
    if !draw.chance(if swarm.kinds.len() < FEW { 90 } else { 45 }) {
        return Vec::new();
    }
    let count = draw.pick([1, 2, 3, 4]);
    let mut followers: Vec<Follower> = Vec::new();
    for _ in 0..count {
        let (submission, asked) = run(&mut draw, submissions);
        let at = asked.after(draw.millis(0, 4_000));
        let node = node(&mut draw, swarm);
        let later = 1 + draw.below(8);
        let from = draw.pick([None, None, Some(0), Some(later)]);
        let rest = if draw.chance(25) { draw.millis(5, 200) } else { Nanos::ZERO };
        let like = followers.last().filter(|_| draw.chance(40)).copied();
        let follower = Follower { at, node, submission, from, rest };
        followers.push(like.map_or(follower, |like| Follower { from, rest, ..like }));
    }
    followers
}

/// Some seeds handle dead letters, during the faults and after healing.
fn letter_rounds(draw: &mut Draw, swarm: &Swarm) -> Vec<LetterRound> {
    if !draw.chance(30) {
        return Vec::new();
    }
    let count = draw.pick([1, 1, 2]);
    let last = swarm.heal_at.after(Nanos::from_secs(3));
    (0..count)
        .map(|_| LetterRound {
            at: draw.instant(last),
            node: node(draw, swarm),
            act: draw.pick([
                LetterAct::Redrive,
                LetterAct::Redrive,
                LetterAct::RedriveTwice,
                LetterAct::Discard,
                LetterAct::Both,
            ]),
        })
        .collect()
}
