use retrial::run::{Outcome, RunId, Version};
use retrial::time::{Mono, Nanos};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::evidence::{Evidence, Followed, Told};
use retrial_sim::unstable::oracle::Report;
use retrial_sim::unstable::oracle::following::{
    NEVER_TOLD, TOLD_A_TALE, TOLD_BEFORE_OBSERVERS, TOLD_LATE, TOLD_OUT_OF_LINE, TOLD_TOO_LITTLE,
};
use retrial_sim::unstable::oracle::interventions::judge;

use crate::kit::{at, found, healthy, ms, recovered};

/// A run that recovers, and what a reader of its events hears from the first on, each `later` after
/// its observers.
fn read(later: Nanos, change: impl Fn(&mut Evidence, &mut Followed)) -> Report {
    let mut world = recovered().world;
    let seen = world.observed.iter();
    let told =
        seen.map(|seen| (seen.at.after(later), Told::Event(seen.number, seen.recorded.clone())));
    let mut told: Vec<(Mono, Told)> = told.collect();
    let last = told.last().map(|(at, _)| *at).unwrap();
    told.push((last, Told::Over));
    let (run, node) = (world.runs[0].id, world.observed[0].node.clone());
    let (from, rest) = (Some(Version::START), Nanos::ZERO);
    let mut followed = Followed { run, node, asked: at(0), from, rest, told };
    world.phases.ended_at = last.after(Nanos::from_secs(60));
    change(&mut world, &mut followed);
    world.interventions.followed.push(followed);
    judge(&world)
}

/// The same of somebody who waits for its outcome.
fn wait(change: impl Fn(&mut Evidence, &mut Followed)) -> Report {
    read(Nanos::ZERO, |world, followed| {
        let end = world.observed.last().unwrap().at;
        (followed.from, followed.told) = (None, vec![(end, Told::Outcome(Outcome::Completed))]);
        change(world, followed);
    })
}

#[test]
fn x11_who_is_told_everything_at_once_is_told_well() {
    healthy(&read(Nanos::ZERO, |_, _| {}));
    healthy(&wait(|_, _| {}));
    // From the middle, and from the end on.
    healthy(&read(Nanos::ZERO, |_, followed| {
        followed.told.drain(..3);
        followed.from = Some(Version(3));
    }));
    healthy(&read(Nanos::ZERO, |world, followed| {
        let told = followed.told.split_off(followed.told.len() - 1);
        (followed.told, followed.from) = (told, Some(world.runs[0].version));
    }));
}

#[test]
fn x11_events_with_a_gap_or_a_repeat_are_found() {
    found(&read(Nanos::ZERO, |_, f| drop(f.told.remove(2))), TOLD_OUT_OF_LINE);
    found(&read(Nanos::ZERO, |_, f| f.told.insert(2, f.told[1].clone())), TOLD_OUT_OF_LINE);
    found(&read(Nanos::ZERO, |_, f| f.told.swap(1, 2)), TOLD_OUT_OF_LINE);
    found(&read(Nanos::ZERO, |_, f| f.from = Some(Version(1))), TOLD_OUT_OF_LINE);
}

#[test]
fn x11_what_is_not_in_the_history_is_found() {
    found(
        &read(Nanos::ZERO, |_, f| {
            let (_, Told::Event(_, recorded)) = &mut f.told[1] else { panic!() };
            recorded.at = recorded.at.after(ms(1));
        }),
        TOLD_A_TALE,
    );
    let cancelled = || Told::Outcome(Outcome::Cancelled { reason: "no".to_owned() });
    found(&wait(|_, f| f.told[0].1 = cancelled()), TOLD_A_TALE);
    // One that no history has.
    found(&wait(|world, _| drop(world.runs[0].events.pop())), TOLD_A_TALE);
    let other = RunId::from_bytes([9; 16]);
    healthy(&wait(|_, f| (f.run, f.told[0].1) = (other, cancelled())));
}

#[test]
fn x11_a_stream_that_ends_before_its_run_is_found() {
    found(
        &read(Nanos::ZERO, |_, f| {
            let last = f.told.len() - 2;
            f.told.remove(last);
        }),
        TOLD_TOO_LITTLE,
    );
    found(&read(Nanos::ZERO, |_, f| drop(f.told.drain(..f.told.len() - 1))), TOLD_TOO_LITTLE);
}

#[test]
fn x11_observers_are_told_first() {
    let early = |_: &mut Evidence, f: &mut Followed| {
        f.told[0].0 = Mono::from_nanos(f.told[0].0.as_nanos() - 1);
    };
    found(&wait(early), TOLD_BEFORE_OBSERVERS);
}

#[test]
fn x11_what_a_node_did_itself_is_told_soon() {
    found(&read(Nanos::from_secs(1), |_, _| {}), TOLD_LATE);
    healthy(&read(Nanos::from_secs(1), |_, f| f.rest = ms(1)));
    healthy(&read(Nanos::from_secs(1), |world, _| {
        world.strikes.insert(FaultKind::SlowNode, 1);
        world.phases.healed_at = world.phases.ended_at;
    }));
    // What others did shows in the store, which a node looks at once a second.
    let elsewhere = |world: &mut Evidence, f: &mut Followed| {
        f.node = "other".to_owned();
        world.lifespans.push(world.lifespans[0].clone());
        world.lifespans[1].node.clone_from(&f.node);
    };
    healthy(&read(Nanos::from_secs(1), elsewhere));
    found(&read(Nanos::from_secs(2), elsewhere), TOLD_LATE);
    // It was asked late.
    healthy(&read(Nanos::from_secs(100), |world, f| {
        f.asked = at(0).after(Nanos::from_secs(100));
        world.phases.ended_at = world.phases.ended_at.after(Nanos::from_secs(200));
    }));
}

#[test]
fn x11_who_waits_for_a_run_that_has_ended_is_told() {
    found(&wait(|_, f| f.told.clear()), NEVER_TOLD);
    found(&read(Nanos::ZERO, |_, f| f.told.truncate(f.told.len() - 1)), NEVER_TOLD);
    healthy(&wait(|_, f| f.told = vec![(at(0), Told::Refused("it shuts down".to_owned()))]));
    healthy(&wait(|world, f| {
        f.told.clear();
        world.lifespans[0].died = Some(at(1));
    }));
    healthy(&wait(|world, f| {
        f.told.clear();
        world.phases.ended_at = world.observed.last().unwrap().at.after(Nanos::from_secs(1));
    }));
}
