//! Breeding: children are scenarios, what is new is kept, and it finds what drawing alone does not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use retrial::time::Mono;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::explore::{Explorer, child, shown};
use retrial_sim::unstable::history::History;
use retrial_sim::unstable::report::{SeedReport, Verdict};
use retrial_sim::unstable::scenario::{Place, Scenario, Topology, When};
use retrial_sim::unstable::source::Source;
use retrial_sim::unstable::trace::{Kind, Line};
use retrial_sim::unstable::workload::{self, Draw};

/// Whether all that it names is there, and all faults stop in time.
fn makes_sense(scenario: &Scenario) {
    let (nodes, runs, end) =
        (scenario.topology.nodes(), scenario.submissions.len(), scenario.heal_at);
    for fault in &scenario.faults {
        for place in [Some(fault.target), fault.peer].into_iter().flatten() {
            match place {
                Place::Node(number) => assert!(number < nodes, "{fault:?}"),
                Place::Store => assert_ne!(scenario.topology, Topology::Embedded, "{fault:?}"),
                Place::Endpoints => {}
            }
        }
        match fault.when {
            When::At(at) => assert!(at <= end, "{fault:?}"),
            When::During { from, until } => assert!(from <= until && until <= end, "{fault:?}"),
            When::Poll(n) | When::Call(n) => assert!(n > 0, "{fault:?}"),
            When::Byte { connection, .. } => assert!(connection > 0, "{fault:?}"),
        }
    }
    let interventions = &scenario.interventions;
    let spans = scenario.deactivations.iter().map(|d| (d.from, d.until, d.node, d.submission));
    let pauses = interventions.pauses.iter().map(|p| (p.from, p.until, p.node, p.submission));
    for (from, until, node, submission) in spans.chain(pauses) {
        assert!(from <= until && until <= end && node < nodes && submission < runs);
    }
    let cancels = scenario.cancels.iter().map(|c| (c.node, c.submission));
    let by_hand = interventions.by_hand.iter().map(|f| (f.node, f.submission));
    assert!(cancels.chain(by_hand).all(|(node, run)| node < nodes && run < runs));
    assert!(interventions.letter_rounds.iter().all(|round| round.node < nodes));
    assert!(interventions.releases.iter().all(|round| round.node < nodes));
    assert_eq!(scenario.clocks.len(), scenario.topology.clocks() as usize);
}

#[test]
fn children_are_scenarios_and_differ_from_their_mothers() {
    let mut draw = Draw::new(3, "children");
    let mut scenario = workload::draw(0);
    let mut alike = 0;
    for seed in 0..600 {
        let father = workload::draw(seed);
        let mother = if seed % 20 == 0 { father.clone() } else { scenario };
        scenario = child(&mut draw, &mother, &father);
        makes_sense(&scenario);
        alike += u64::from(scenario == mother);
    }
    assert!(alike < 200, "{alike} of 600 children are their mothers");
}

#[test]
fn what_is_new_is_kept_and_few_show_it_all() {
    let source = Source::Drawn;
    let mut explorer = Explorer::new(&source, 1, 75);
    let mut saw =
        |seed, shown: &[u64]| explorer.saw(workload::draw(seed), shown.iter().copied().collect());
    assert!(saw(0, &[1, 2]));
    assert!(!saw(1, &[2, 1]));
    assert!(saw(2, &[2, 3]));
    assert!(saw(3, &[9]));
    assert!(saw(4, &[1, 2, 3, 4]));
    assert_eq!((explorer.things(), explorer.kept()), (5, 4));
    let cover: Vec<u64> = explorer.cover().iter().map(|scenario| scenario.seed).collect();
    assert_eq!(cover, [3, 4]);
}

fn crashes(scenario: &Scenario) -> u64 {
    scenario.faults.iter().filter(|fault| fault.kind == FaultKind::Crash).count() as u64
}

/// The most crashes of a world, where each shows how many it has.
fn most_crashes(bred: u64, chance: u64) -> u64 {
    let source = Source::Drawn;
    let mut explorer = Explorer::new(&source, chance, bred);
    let mut most = 0;
    for _ in 0..1_500 {
        let scenario = explorer.try_next();
        let crashes = crashes(&scenario);
        most = most.max(crashes);
        explorer.saw(scenario, [crashes].into());
    }
    most
}

#[test]
fn breeding_climbs_where_drawing_does_not() {
    // At most three are drawn.
    assert_eq!(most_crashes(0, 5), 3);
    let bred = most_crashes(75, 5);
    assert!(bred >= 12, "{bred} crashes");
    assert_eq!(bred, most_crashes(75, 5));
}

fn line(millis: u64, kind: Kind, text: &str) -> Line {
    let at = Mono::from_nanos(millis * 1_000_000);
    Line { at, lane: "node-0".to_owned(), kind, text: text.to_owned(), mark: 0 }
}

fn shown_of(lines: &[Line]) -> BTreeSet<u64> {
    let report = SeedReport::broken_off(0, Verdict::Held, "", String::new());
    shown(&History::new(&workload::draw(0), lines.to_vec()), &report)
}

#[test]
fn ids_and_numbers_show_nothing_and_order_and_faults_do() {
    let event = |at, run: &str, name: &str| {
        let text = format!(r#"{{"event":"{name}","run":"{run}","step":"a","number":7}}"#);
        line(at, Kind::Event, &text)
    };
    let [first, then] = [event(1, "r", "attempt_started"), event(2, "r", "task_succeeded")];
    let plain = shown_of(&[first.clone(), then.clone()]);
    let others = [event(5, "q", "attempt_started"), event(9, "q", "task_succeeded")];
    assert_eq!(plain, shown_of(&others));
    assert_ne!(plain, shown_of(&[then.clone(), first.clone()]));
    let crash = |at, number: u64| line(at, Kind::Fault, &format!("incarnation {number} crashed"));
    let after = shown_of(&[crash(1, 0), first.clone(), then.clone()]);
    assert!(!after.is_subset(&plain));
    assert_eq!(after, shown_of(&[crash(1, 4), first.clone(), then.clone()]));
    // Two seconds later it is past.
    let [late_first, late_then] =
        [event(2_100, "r", "attempt_started"), event(2_200, "r", "task_succeeded")];
    let late = shown_of(&[crash(1, 0), late_first, late_then]);
    assert!(plain.is_subset(&late) && late != after);
    // Messages and disk calls are not looked at.
    let sent = line(2, Kind::Message, "node-0>endpoints#1 sends");
    assert_eq!(plain, shown_of(&[sent, first, then]));
}

fn explore(corpus: &Path, more: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_retrial-sim"));
    program.args(["explore", "--for", "10m", "--chance", "7", "--corpus"]).arg(corpus);
    program.args(more).output().unwrap()
}

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect()
}

/// The number in the line that begins with `name`.
fn number(printed: &str, name: &str) -> u64 {
    let line = printed.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_corpus_is_written_and_shows_as_much_again() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("corpus");
    let first = explore(&corpus, &["--worlds", "24"]);
    let printed = String::from_utf8(first.stdout).unwrap();
    assert!(first.status.success(), "{printed}");
    assert_eq!(number(&printed, "worlds"), 24);
    let kept = files(&corpus);
    assert_eq!(kept.len() as u64, number(&printed, "corpus"));
    assert!((2..24).contains(&kept.len()), "{printed}");
    let again = explore(&corpus, &["--worlds", "0", "--jobs", "1"]);
    let again = String::from_utf8(again.stdout).unwrap();
    assert_eq!(number(&again, "worlds"), kept.len() as u64);
    assert_eq!(number(&again, "showed"), number(&printed, "showed"));
    assert_eq!(files(&corpus), kept);
    // How many workers there are changes nothing.
    let other = folder.path().join("other");
    let one = explore(&other, &["--worlds", "24", "--jobs", "1"]);
    let one = String::from_utf8(one.stdout).unwrap();
    assert_eq!(number(&one, "showed"), number(&printed, "showed"));
    let names = |files: BTreeSet<PathBuf>| -> BTreeSet<_> {
        files.iter().map(|file| file.file_name().unwrap().to_owned()).collect()
    };
    assert_eq!(names(files(&other)), names(kept));
}

/// Fails: what every output shows is called a secret.
fn telling() -> Scenario {
    Scenario { secrets: vec!["attempt_started".to_owned()], ..workload::draw(1) }
}

fn write(folder: &Path, name: &str, scenario: &Scenario) -> PathBuf {
    let file = folder.join(name);
    fs::write(&file, serde_json::to_string(scenario).unwrap()).unwrap();
    file
}

#[test]
fn looking_ends_with_the_first_failure_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, capsules) = (folder.path().join("corpus"), folder.path().join("capsules"));
    fs::create_dir(&corpus).unwrap();
    write(&corpus, "a.json", &workload::draw(1));
    write(&corpus, "b.json", &telling());
    let into = capsules.to_str().unwrap();
    let ran = explore(&corpus, &["--worlds", "9", "--until-failure", "--capsules", into]);
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{printed}");
    assert_eq!((number(&printed, "worlds"), number(&printed, "first to fail")), (2, 2));
    assert!(!capsules.exists());
}

#[test]
fn what_fails_is_packed_up_and_stays_in_the_corpus() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, capsules) = (folder.path().join("corpus"), folder.path().join("capsules"));
    fs::create_dir(&corpus).unwrap();
    let write = |name, scenario: &Scenario| write(&corpus, name, scenario);
    let failing = write("a.json", &telling());
    let held = write("b.json", &workload::draw(1));
    let same = write("c.json", &workload::draw(1));
    let into = capsules.to_str().unwrap();
    let ran = explore(&corpus, &["--worlds", "0", "--capsules", into]);
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{printed}");
    assert!(printed.contains("silence ("), "{printed}");
    assert_eq!((number(&printed, "kept"), number(&printed, "corpus")), (1, 1));
    // The one that shows all has its own name now.
    assert!(failing.exists() && !held.exists() && !same.exists());
    assert_eq!(files(&corpus).len(), 2);
    let endings = |ending: &str| {
        files(&capsules).iter().filter(|file| file.extension().unwrap() == ending).count()
    };
    assert_eq!((endings("json"), endings("html"), endings("rs")), (1, 1, 1));
}

#[test]
fn a_file_that_is_no_scenario_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("wrong.json"), "{}").unwrap();
    let ran = explore(folder.path(), &["--worlds", "1"]);
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("wrong.json"), "{said}");
    assert_eq!(files(folder.path()).len(), 1);
}
