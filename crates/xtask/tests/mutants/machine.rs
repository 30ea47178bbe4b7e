//! Controls, cache, interruption, shards, samples.

use std::path::Path;
use std::time::Duration;

use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::workload::draw;
use xtask::mutants::{
    self, Cache, CampaignError, Keys, Outcome, Patch, Results, Set, control, run, shard,
};

use crate::fake::{Fake, Killer, patch, set};

fn keys() -> Keys {
    Keys { seeds: 100, code: "code".to_owned(), tests: "tests".to_owned() }
}

fn cache(folder: &Path) -> Cache {
    Cache::new(folder, keys())
}

const KILLERS: [(&str, Killer); 3] = [
    ("run_a", Killer::Seed(7, None)),
    ("run_b", Killer::Test("properties: w8")),
    ("guard_c", Killer::Nothing),
];

fn three() -> Set {
    set(&["run_a", "run_b", "guard_c"])
}

/// Tries all, and says what was done. The controls were tried before.
fn tried(set: &Set, cache: &Cache) -> Vec<String> {
    let mut workspace = Fake::new(&KILLERS);
    control(set, &mut workspace, cache, |_, _| {}).unwrap();
    workspace.log.clear();
    run(set, &set.mutants, &mut workspace, cache, |_, _| {}).unwrap();
    workspace.log
}

#[test]
fn seeds_come_first_and_tests_where_all_held() {
    let folder = tempfile::tempdir().unwrap();
    let (set, cache) = (three(), cache(folder.path()));
    assert_eq!(
        tried(&set, &cache),
        [
            "plant run_a",
            "build",
            "sweep 100",
            "plant run_b",
            "build",
            "sweep 100",
            "plant guard_c",
            "build",
            "sweep 100",
            "plant run_b",
            "test",
            "plant guard_c",
            "test"
        ]
    );
    let results = Results::of(&set, &cache).unwrap();
    let words: Vec<String> = results.mutants.iter().map(|(_, o)| o.words()).collect();
    assert_eq!(
        words,
        ["seed 7: sequence (wrong)", "test properties: w8", "survived 100 seeds and all tests"]
    );
    assert_eq!(results.killed(), 2);
}

#[test]
fn what_is_known_is_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut set = three();
    tried(&set, &cache(folder.path()));
    assert_eq!(tried(&set, &cache(folder.path())), [""; 0]);

    // Another patch under the same name is another mutant.
    set.mutants[0] = patch("run_a", 50);
    assert_eq!(tried(&set, &cache(folder.path())), ["plant run_a", "build", "sweep 100"]);

    // Other tests: the results of the seeds still hold.
    let other = Keys { tests: "more tests".to_owned(), ..keys() };
    let again = tried(&set, &Cache::new(folder.path(), other.clone()));
    let wanted = ["plant run_b", "test, properties: w8 first", "plant guard_c", "test"];
    assert_eq!(again, wanted);

    for other in [Keys { code: "other".to_owned(), ..keys() }, Keys { seeds: 200, ..keys() }] {
        let again = tried(&set, &Cache::new(folder.path(), other));
        assert_eq!(again.iter().filter(|l| l.starts_with("sweep")).count(), 3, "{again:?}");
    }
}

#[test]
fn a_result_that_is_half_written_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let set = three();
    tried(&set, &cache(folder.path()));
    let file = folder.path().join("guard_c.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    assert_eq!(Results::of(&set, &cache(folder.path())).unwrap_err(), ["guard_c"]);
    assert_eq!(tried(&set, &cache(folder.path())).len(), 5);
}

/// Killed after each step in turn, it goes on to the same result.
#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let set = three();
    let whole = tempfile::tempdir().unwrap();
    let steps = tried(&set, &cache(whole.path())).len();
    let expected = Results::of(&set, &cache(whole.path())).unwrap().mutants;
    for dies_after in 0..steps {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path());
        let mut workspace = Fake { dies_after: Some(dies_after), ..Fake::new(&KILLERS) };
        let ended = run(&set, &set.mutants, &mut workspace, &cache, |_, _| {}).unwrap_err();
        assert!(matches!(ended, CampaignError::Workspace { .. }), "{ended}");
        assert!(Results::of(&set, &cache).is_err());
        let rest = tried(&set, &cache);
        assert!(dies_after < 9 || rest.len() < steps, "after {dies_after}: {rest:?}");
        assert_eq!(Results::of(&set, &cache).unwrap().mutants, expected);
    }
}

#[test]
fn all_shards_together_are_all_mutants() {
    let names: Vec<String> = (0..23).map(|n| format!("run_{n:02}")).collect();
    let set = set(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for of in 1..30 {
        let mut all: Vec<&Patch> = (1..=of)
            .flat_map(|part| shard(&set, format!("{part}/{of}").parse().unwrap()))
            .collect();
        assert_eq!(all.len(), 23, "{of} parts share none");
        all.sort_by_key(|patch| &patch.name);
        assert_eq!(all, set.mutants.iter().collect::<Vec<_>>());
    }
}

#[test]
fn judges_that_are_not_to_be_trusted_make_a_run_void() {
    let controls = |harmless, glaring| {
        let folder = tempfile::tempdir().unwrap();
        let mut workspace = Fake::new(&[("harmless", harmless), ("glaring", glaring)]);
        control(&three(), &mut workspace, &cache(folder.path()), |_, _| {})
            .map_err(|e| e.to_string())
    };
    let seed = || Killer::Seed(3, None);
    assert_eq!(controls(Killer::Nothing, seed()), Ok(()));
    assert_eq!(controls(Killer::Nothing, Killer::Test("properties: w1")), Ok(()));
    let said = controls(seed(), seed()).unwrap_err();
    assert!(said.starts_with("void: the harmless mutant: seed 3: sequence"), "{said}");
    let said = controls(Killer::Test("guard: x"), seed()).unwrap_err();
    assert!(said.starts_with("void: the harmless mutant: test guard: x"), "{said}");
    let said = controls(Killer::Nothing, Killer::Nothing).unwrap_err();
    assert!(said.starts_with("void: the glaring mutant: survived 100 seeds"), "{said}");

    let folder = tempfile::tempdir().unwrap();
    let mut workspace = Fake::new(&[("clean", Killer::Seed(5, None))]);
    let ended = run(&three(), [], &mut workspace, &cache(folder.path()), |_, _| {});
    let said = ended.unwrap_err().to_string();
    assert!(said.starts_with("void: seed 5 fails without a mutant."), "{said}");
}

#[test]
fn controls_come_before_what_they_judge() {
    let log = |harmless| {
        let folder = tempfile::tempdir().unwrap();
        let mut workspace = Fake::new(&KILLERS);
        workspace.killers.insert("harmless".to_owned(), harmless);
        let set = set(&["guard_c"]);
        let ended = run(&set, &set.mutants, &mut workspace, &cache(folder.path()), |_, _| {});
        let steps =
            workspace.log.into_iter().filter(|line| line.starts_with("plant") || line == "test");
        (ended.is_ok(), steps.collect::<Vec<_>>().join(", "))
    };
    let whole = "plant harmless, plant guard_c, plant harmless, test, plant glaring, plant guard_c, \
                 test";
    assert_eq!(log(Killer::Nothing), (true, whole.to_owned()));
    assert_eq!(log(Killer::Seed(1, None)), (false, "plant harmless".to_owned()));
    let (ok, steps) = log(Killer::Test("guard: x"));
    assert!(!ok && steps == "plant harmless, plant guard_c, plant harmless, test", "{steps}");
}

#[test]
fn a_mutant_that_is_no_program_is_named_and_counts_as_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut workspace = Fake::new(&KILLERS);
    workspace.killers.insert("run_a".to_owned(), Killer::Compiler);
    let set = three();
    let ended =
        run(&set, &set.mutants, &mut workspace, &cache(folder.path()), |_, _| {}).unwrap_err();
    assert_eq!(ended.to_string(), "run_a: it does not build: error: expected `;`");
    assert_eq!(Results::of(&set, &cache(folder.path())).unwrap_err(), ["run_a"]);
}

#[test]
fn the_kinds_that_a_failure_takes_are_found() {
    let seed = (0..).find(|s| draw(*s).kinds().contains(&FaultKind::Crash)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let set = set(&["run_a", "run_b"]);
    let crash = Killer::Seed(seed, Some(FaultKind::Crash));
    let mut workspace = Fake::new(&[("run_a", crash), ("run_b", Killer::Seed(seed, None))]);
    run(&set, &set.mutants, &mut workspace, &cache(folder.path()), |_, _| {}).unwrap();
    let outcomes = Results::of(&set, &cache(folder.path())).unwrap().mutants;
    let ablation = |at: usize| match &outcomes[at].1 {
        Outcome::Seed(found) => found.ablation.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(ablation(0).needed.into_iter().collect::<Vec<_>>(), [FaultKind::Crash]);
    assert_eq!(ablation(0).drawn, draw(seed).kinds());
    assert!(ablation(1).needed.is_empty() && ablation(1).replays);
}

#[test]
fn a_sample_goes_from_red_to_capsules() {
    let folder = tempfile::tempdir().unwrap();
    let (set, cache) = (three(), cache(folder.path()));
    let mut workspace = Fake::new(&KILLERS);
    let clock = || Duration::from_secs(5);
    let all =
        mutants::sample(&set.mutants, (1, 4), folder.path(), &mut workspace, &cache, clock, |_| {})
            .unwrap();
    assert_eq!(workspace.log.last().unwrap(), "shrink 7 into run_a");
    let packed: Vec<_> = all.iter().filter(|red| red.shrinking.is_some()).collect();
    assert_eq!(packed.len(), 1);
    let told = mutants::table(&all);
    assert!(
        told.contains("faults 9 to 1, operations 3 to 3, steps 2 to 2; 40 tried, 0 s"),
        "{told}"
    );
    // The order is a matter of what draws it alone.
    let order = |chance| {
        let mut workspace = Fake::new(&KILLERS);
        let many = (9, chance);
        let all = mutants::sample(
            &set.mutants,
            many,
            folder.path(),
            &mut workspace,
            &cache,
            clock,
            |_| {},
        );
        all.unwrap().into_iter().map(|red| red.name).collect::<Vec<_>>()
    };
    assert_eq!(order(4), order(4));
    assert!((0..20).any(|chance| order(chance) != order(4)), "chance has a say");
}
