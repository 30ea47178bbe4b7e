//! Capsules: packing failures up, and the worlds of `sim/capsules`, in which something once went
//! wrong and nothing may again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::path::{Path, PathBuf};
use std::process::Command;

use retrial_sim::unstable::blame::Blame;
use retrial_sim::unstable::capsule::{Capsule, NothingFails};
use retrial_sim::unstable::report::SeedReport;
use retrial_sim::unstable::scenario::Scenario;
use retrial_sim::unstable::shrink::Size;
use retrial_sim::unstable::workload::draw;
use retrial_sim::unstable::world::run_scenario;

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("capsules");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn what_once_failed_holds() {
    let files = corpus();
    assert!(!files.is_empty());
    let broken = files.iter().filter_map(|file| {
        let capsule = Capsule::read(file).unwrap();
        assert_eq!(file.file_stem().unwrap().to_str().unwrap(), capsule.name());
        capsule.holds().err()
    });
    let broken: Vec<String> = broken.collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A world that fails with a right engine: what every output shows is called a secret.
fn failing() -> Scenario {
    let seed = (0..).find(|seed| Size::of(&draw(*seed)).faults > 3).unwrap();
    Scenario { secrets: vec!["attempt_started".to_owned()], ..draw(seed) }
}

fn packed() -> Capsule {
    let run = |s: &Scenario| Ok::<SeedReport, NothingFails>(run_scenario(s.clone(), false).0);
    Capsule::pack(failing(), 500, run).unwrap()
}

#[test]
fn a_failure_is_packed_up_small_and_fails_for_the_same_cause() {
    let capsule = packed();
    assert_eq!(capsule.cause.oracle, "silence");
    let left = capsule.shrinking.to;
    assert_eq!((left.faults, left.operations, left.steps), (0, 1, 1), "{:#?}", capsule.scenario);
    assert!(capsule.shrinking.is_smallest && capsule.shrinking.from.faults > 3);
    let again = Capsule::parse(&serde_json::to_string(&capsule).unwrap()).unwrap();
    assert_eq!(again, capsule);
    let said = again.holds().unwrap_err();
    assert!(said.contains("silence"), "{said}");
}

#[test]
fn what_holds_is_not_packed_up() {
    let run = |s: &Scenario| Ok::<SeedReport, NothingFails>(run_scenario(s.clone(), false).0);
    assert_eq!(Capsule::pack(draw(0), 500, run), Err(NothingFails));
}

/// The text of a path that leads to a type.
macro_rules! compiled {
    ($path:ty) => {{
        let _: Option<$path> = None;
        stringify!($path)
    }};
}

/// The exit code and the output of `retrial-sim` in this folder.
fn said_in(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retrial-sim"));
    let ran = command.current_dir(folder).args(arguments).output().unwrap();
    (ran.status.code().unwrap(), String::from_utf8(ran.stdout).unwrap())
}

/// From red to a capsule that is seen again, by the command line alone.
#[test]
fn a_failure_is_shrunk_written_and_seen_again() {
    let folder = tempfile::tempdir().unwrap();
    let large = Capsule { scenario: failing(), ..packed() };
    std::fs::write(folder.path().join("large.json"), serde_json::to_string(&large).unwrap())
        .unwrap();
    let run = |arguments: &[&str]| said_in(folder.path(), arguments);
    let (code, said) = run(&["shrink", "large.json", "--into", "out"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(": 0 faults, 1 operations and 1 steps of "), "{said}");
    let file = format!("out/{}.json", large.name());
    let (code, said) = run(&["repro", &file]);
    assert!(code == 1 && said.ends_with("same fingerprint as in the capsule\n"), "{said}");
    let small = Capsule::read(&folder.path().join(&file)).unwrap();
    assert!(said.contains(&small.history[0]), "the history is in it: {:?}", small.history);
    let test = std::fs::read_to_string(folder.path().join(format!("out/{}.rs", large.name())));
    let test = test.unwrap();
    let wanted = format!("fn {}() -> Result<(), String> {{", large.name());
    assert!(test.contains(&wanted), "{test}");
    let wanted = format!("use {};", compiled!(retrial_sim::unstable::capsule::Capsule));
    assert!(test.contains(&wanted), "{test}");
    let page = std::fs::read_to_string(folder.path().join(format!("out/{}.html", large.name())));
    assert!(page.unwrap().contains(&format!("<title>Seed {}: wrong</title>", small.scenario.seed)));
    assert_eq!(run(&["shrink", "3", "--into", "out"]).0, 2, "nothing fails");
}

/// A page alone, of a capsule as of a seed, also of one that holds.
#[test]
fn a_report_is_written_of_a_seed_and_of_a_capsule() {
    let folder = tempfile::tempdir().unwrap();
    let capsule = packed();
    std::fs::write(folder.path().join("c.json"), serde_json::to_string(&capsule).unwrap()).unwrap();
    let report = |what: &str| said_in(folder.path(), &["report", what, "--into", "out"]);
    assert_eq!(report("c.json"), (0, format!("out/{}.html: wrong\n", capsule.name())));
    assert_eq!(report("3"), (0, "out/seed_3.html: all promises held\n".to_owned()));
    assert_eq!(report("none.json"), (2, String::new()));
    for name in [capsule.name(), "seed_3".to_owned()] {
        let page = std::fs::read_to_string(folder.path().join(format!("out/{name}.html"))).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{name}");
    }
}

/// What made it certain, by the command line alone.
#[test]
fn a_failure_is_blamed_on_an_entry_of_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let run = |s: &Scenario| Ok::<SeedReport, NothingFails>(run_scenario(s.clone(), false).0);
    // A secret that only a retry shows.
    let retries = |seed| Scenario { secrets: vec!["retry_scheduled".to_owned()], ..draw(seed) };
    let capsule = (0..).find_map(|seed| Capsule::pack(retries(seed), 200, run).ok()).unwrap();
    std::fs::write(folder.path().join("c.json"), serde_json::to_string(&capsule).unwrap()).unwrap();
    let blame = |what: &str| {
        let asked = ["blame", what, "--samples", "8", "--json", "b.json", "--into", "out"];
        said_in(folder.path(), &asked)
    };
    let (code, said) = blame("c.json");
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("silence (secret_shown)\n"), "{said}");
    let blamed = said.lines().find(|line| line.starts_with('>')).unwrap_or_default();
    let causes = ["FAULT", "cost_reported", "attempt_failed", "retry_scheduled"];
    assert!(causes.iter().any(|cause| blamed.contains(cause)), "{said}");
    let found: Blame =
        serde_json::from_slice(&std::fs::read(folder.path().join("b.json")).unwrap()).unwrap();
    let certain = format!("certain after entry {}\n", found.entry.unwrap());
    assert!(said.contains(&certain) && found.curve[0].rate() < 0.95, "{said}");
    let page = folder.path().join(format!("out/{}_blame.html", capsule.name()));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(r#""blame":{"points":[{"after":0,"#));
    assert!(!page.contains("retry_scheduled"), "the page shows no secret");
    assert_eq!(blame("3").0, 2, "nothing fails");
}

#[test]
fn a_file_that_is_no_capsule_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.json");
    std::fs::write(&file, "{}").unwrap();
    let said = Capsule::read(&file).unwrap_err();
    assert!(said.contains("x.json: it is no capsule: missing field"), "{said}");
    let newer = serde_json::to_string(&Capsule { capsule: 2, ..packed() }).unwrap();
    let said = Capsule::parse(&newer).unwrap_err();
    assert!(said.contains("format 2"), "{said}");
}
