//! Runs scenarios with user code, one after another, and judges them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::gap::{Gap, Met};
use super::history_lines;
use super::invariant::{Invariant, Seen};
use super::replay::{Selection, Test, page_file};
use super::summary::{Failed, Passed, write};
use crate::capsule::{Capsule, Cause, NothingFails};
use crate::evidence::Evidence;
use crate::history::History;
use crate::oracle::features_of;
use crate::page::Page;
use crate::records::Records;
use crate::report::{Breach, SeedReport, SweepReport, Verdict};
use crate::runtime::{PanicReport, quietly};
use crate::scenario::Scenario;
use crate::user::UserCode;
use crate::watchdog::Watchdog;
use crate::workload::CheckPlan;
use crate::world::{OWN_POLLS, ScenarioRun, run_with_code};

/// The reason of a world that was given up.
const NEVER_YIELDS: &str = "never_yields";
/// The oracle of what no promise covers.
const HARNESS: &str = "harness";
/// The oracle of a user's invariants.
const INVARIANT: &str = "invariant";

/// A check, ready to be run.
pub(super) struct CheckRunner {
    pub(super) name: String,
    pub(super) plan: CheckPlan,
    pub(super) own: Arc<UserCode>,
    pub(super) invariants: Vec<Arc<dyn Invariant>>,
    pub(super) panics_are_failures: bool,
    pub(super) allowed: BTreeSet<Gap>,
    pub(super) watchdog: Duration,
}

/// The result of one world.
struct WorldRun {
    report: SeedReport,
    history: Option<History>,
    met: Met,
    /// For a browser, where it was asked for.
    page: Option<String>,
}

impl CheckRunner {
    /// Runs what is asked for, and shrinks the first failure by at most `tries`.
    pub(super) fn run(&self, asked: Selection, tries: u64) -> Result<Passed, Failed> {
        match asked {
            Selection::Seeds(seeds) => self.sweep(seeds, tries),
            Selection::Seed(seed) => self.again(self.plan.scenario(seed), None),
            Selection::Capsule(capsule) => self.again(capsule.scenario.clone(), Some(&capsule)),
        }
    }

    fn sweep(&self, seeds: Vec<u64>, tries: u64) -> Result<Passed, Failed> {
        let mut reports = Vec::new();
        let (mut drawn, mut met) = (BTreeMap::new(), Met::default());
        for seed in seeds {
            let scenario = self.plan.scenario(seed);
            for strike in scenario.own.iter().flat_map(|own| &own.faults) {
                *drawn.entry(strike.name.clone()).or_insert(0) += 1;
            }
            let world = self.run_world(scenario.clone(), false);
            if world.report.verdict.is_failure() {
                return Err(self.shrunk(scenario, world, tries));
            }
            met.add(world.met);
            reports.push(world.report);
        }
        let gaps = met.gaps(self.own.services.keys(), self.plan.user.drawn());
        let passed = Passed::new(&self.name, SweepReport::of(reports), drawn, met.struck);
        let mut untested = passed.untested();
        // Without an attempt nothing else says anything.
        if untested.is_empty() {
            let gaps = gaps.into_iter().filter(|(gap, _)| !self.allowed.contains(gap));
            untested.extend(gaps.map(|(gap, text)| format!("{text} (or: .allow([Gap::{gap:?}]))")));
        }
        let may_meet = self.plan.workflow().map(|w| features_of(&w)).unwrap_or_default();
        let passed = passed.beside(&may_meet);
        if untested.is_empty() { Ok(passed) } else { Err(Failed::untested(&self.name, &untested)) }
    }

    /// Runs one scenario and shows its history, whether or not it fails.
    fn again(&self, scenario: Scenario, capsule: Option<&Capsule>) -> Result<Passed, Failed> {
        let world = self.run_world(scenario, true);
        if let (Some(file), Some(page)) = (page_file(), &world.page) {
            match write(&file, page) {
                Ok(()) => println!("in a browser: {}", file.display()),
                Err(error) => println!("{}: can't be written: {error}", file.display()),
            }
        }
        let lines =
            world.history.as_ref().map(|h| history_lines::lines(h.lines())).unwrap_or_default();
        if world.report.verdict.is_failure() {
            return Err(Failed::again(&self.name, &world.report, capsule, &lines));
        }
        println!("{}", lines.join("\n"));
        let report = SweepReport::of(vec![world.report]);
        Ok(Passed::new(&self.name, report, BTreeMap::new(), BTreeMap::new()))
    }

    fn shrunk(&self, scenario: Scenario, world: WorldRun, tries: u64) -> Failed {
        let seed = scenario.seed;
        if Cause::of(&world.report).is_none_or(|cause| cause.reason == NEVER_YIELDS) {
            return Failed::unshrunk(&self.name, &world.report, &Test::here());
        }
        let run = |candidate: &Scenario| -> Result<SeedReport, PackError> {
            Ok(self.run_world(candidate.clone(), false).report)
        };
        let Ok(mut capsule) = Capsule::pack(scenario, tries, run) else {
            return Failed::unsteady(&self.name, &world.report, &Test::here());
        };
        let smallest = self.run_world(capsule.scenario.clone(), true);
        capsule.history = smallest
            .history
            .map(|history| history_lines::lines(history.lines()))
            .unwrap_or_default();
        Failed::shrunk(&self.name, seed, &capsule, smallest.page, &Test::here())
    }

    /// Runs a scenario on its own thread, and judges it.
    fn run_world(&self, scenario: Scenario, keep: bool) -> WorldRun {
        let (seed, own) = (scenario.seed, Arc::clone(&self.own));
        let shown = keep.then(|| scenario.clone());
        let (send, received) = channel();
        let records = Records::new(keep, OWN_POLLS);
        let watchdog = records.watchdog.clone();
        let thread = std::thread::Builder::new().name(format!("world of seed {seed}"));
        let started = thread.spawn(move || {
            // The receiver is gone if the world was given up.
            let _ = send.send(quietly(|| run_with_code(scenario, Some(own), &records)));
        });
        let report = match started.ok().and_then(|_| wait(self.watchdog, &received, &watchdog)) {
            Some(Ok(ran)) => return self.judged(ran, shown.as_ref()),
            // Outside of the world: a custom backoff is asked how long a run may take.
            Some(Err(panic)) => {
                SeedReport::broken_off(seed, Verdict::Panicked, HARNESS, at_its_place(&panic))
            }
            None => given_up(seed, self.watchdog),
        };
        WorldRun { report, history: None, met: Met::default(), page: None }
    }

    /// Of what is `shown` there is a page.
    fn judged(&self, ran: ScenarioRun, shown: Option<&Scenario>) -> WorldRun {
        let ScenarioRun { mut report, history, evidence } = ran;
        let mut found = Vec::new();
        let met = evidence.as_ref().map(Met::of).unwrap_or_default();
        // A livelock explains everything else that did not end.
        report.breaches.sort_by_key(|breach| breach.oracle != HARNESS);
        match &evidence {
            Some(evidence) => found = self.findings(evidence),
            None => report.breaches.iter_mut().for_each(name_misuse),
        }
        if !found.is_empty() {
            report.verdict = report.verdict.max(Verdict::Wrong);
            report.breaches.splice(0..0, found);
        }
        let ran = ScenarioRun { report, history, evidence };
        let page = shown.map(|scenario| Page::of(scenario, &ran).html());
        WorldRun { report: ran.report, history: Some(ran.history), met, page }
    }

    /// The faults of the user's code, the root cause first.
    fn findings(&self, evidence: &Evidence) -> Vec<Breach> {
        let mut found = Vec::new();
        for panic in &evidence.panics {
            let at = format!("function `{}`, {}", panic.function, panic.place);
            if is_misuse(&panic.message) || is_a_thread(&panic.place) {
                found.push(breach(HARNESS, "tokio", format!("{at}: {REPLACEMENTS}")));
            } else if !self.panics_are_failures {
                found.push(breach(HARNESS, "panic", format!("{at}: {}", panic.message)));
            }
        }
        found.dedup();
        let refused = evidence.runs.iter().find_map(|run| run.refused.clone());
        found.extend(
            refused.map(|why| breach(HARNESS, "refused", format!("a run is refused: {why}"))),
        );
        for invariant in &self.invariants {
            let judged = quietly(|| invariant.check(&Seen::of(evidence)));
            let wrong = match judged {
                Ok(Ok(())) => continue,
                Ok(Err(text)) => text,
                Err(panic) => at_its_place(&panic),
            };
            found.push(breach(INVARIANT, invariant.name(), wrong));
        }
        found
    }
}

/// Waits for a world's end; gives up when nothing in it was polled for `patience`. A large world
/// may take longer to run and to judge.
fn wait<T>(patience: Duration, end: &Receiver<T>, watchdog: &Watchdog) -> Option<T> {
    let mut polls = watchdog.polls();
    loop {
        match end.recv_timeout(patience) {
            Ok(ran) => return Some(ran),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if watchdog.has_ended() => {}
            Err(RecvTimeoutError::Timeout) if watchdog.polls() == polls => return None,
            Err(RecvTimeoutError::Timeout) => polls = watchdog.polls(),
        }
    }
}

fn at_its_place(panic: &PanicReport) -> String {
    format!("{}: {}", panic.place, panic.message)
}

fn breach(oracle: &str, reason: &str, text: String) -> Breach {
    Breach { oracle: oracle.to_owned(), reason: reason.to_owned(), text, proof: Vec::new() }
}

/// The replacements for tokio.
const REPLACEMENTS: &str = "it uses tokio's own time, tasks or network, or a thread, which do not \
exist in the simulated world. Use the action's context instead: `sleep` and `sleep_until` for \
tokio::time::sleep and interval, `within` for timeout, `now` and `wall` for Instant and SystemTime, \
`connect` and `http` for tokio::net and HTTP clients over it; await what you would spawn";

/// Whether a panic says that tokio's runtime was missed.
fn is_misuse(message: &str) -> bool {
    message.contains("Tokio 1.x runtime")
}

/// Whether a panic comes from where the standard library starts threads, which the simulated world
/// does not let it.
fn is_a_thread(place: &str) -> bool {
    place.contains("library/std/src/") && place.contains("thread")
}

/// A world that broke off because a service misused tokio says so.
fn name_misuse(breach: &mut Breach) {
    if is_misuse(&breach.text) {
        breach.reason = "tokio".to_owned();
        breach.text = format!("{}: {REPLACEMENTS}", breach.text);
    }
}

fn given_up(seed: u64, after: Duration) -> SeedReport {
    let text = format!(
        "nothing gave control back for {after:?} of real time: a function or a service loops without \
         awaiting anything, or blocks its thread"
    );
    let mut report = SeedReport::broken_off(seed, Verdict::Stuck, HARNESS, text);
    report.breaches.iter_mut().for_each(|breach| breach.reason = NEVER_YIELDS.to_owned());
    report
}

/// A failure that did not fail again.
#[derive(Debug)]
struct PackError;

impl From<NothingFails> for PackError {
    fn from(_: NothingFails) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The world is not polled, and reports later than the watchdog waits.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the watchdog is about real time")]
    fn a_world_that_has_ended_is_judged_for_as_long_as_it_takes() {
        let patience = Duration::from_millis(20);
        let (send, received) = channel();
        let watchdog = Watchdog::new(1);
        assert_eq!(wait(patience, &received, &watchdog), None);
        watchdog.end();
        let judge = std::thread::spawn(move || {
            std::thread::sleep(10 * patience);
            send.send("judged")
        });
        assert_eq!(wait(patience, &received, &watchdog), Some("judged"));
        assert!(judge.join().is_ok_and(|sent| sent.is_ok()));
    }
}
