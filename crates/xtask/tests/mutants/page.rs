//! What the page says.

use std::collections::BTreeSet;

use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::report::Verdict;
use xtask::mutants::{Ablation, Cache, Found, Keys, Results, Swept, Tested, page};

use crate::fake::set;

fn by_seed(seed: u64, needed: &[FaultKind], replays: bool) -> Option<Found> {
    let needed: BTreeSet<_> = needed.iter().copied().collect();
    let mut drawn = needed.clone();
    drawn.insert(FaultKind::Skew);
    let ablation = Ablation { replays, drawn, needed };
    let (oracle, reason) = ("sequence".to_owned(), "arrived_early".to_owned());
    Some(Found { seed, verdict: Verdict::Wrong, oracle, reason, ablation })
}

#[test]
fn the_page_has_the_outcome_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys { seeds: 100, code: String::new(), tests: String::new() };
    let cache = Cache::new(folder.path(), keys);
    let mut set = set(&["guard_c", "run_a", "run_b", "run_d", "run_e"]);
    let found = [
        None,
        by_seed(3, &[FaultKind::Crash, FaultKind::Delay], true),
        None,
        None,
        by_seed(40, &[], false),
    ];
    for (patch, found) in set.mutants.iter().zip(found) {
        let held = found.is_none();
        // One that is found changes a history in three; `run_b` one in ten.
        let every = if held { 10 } else { 3 };
        let ran = found.as_ref().map_or(100, |found: &Found| found.seed + 1);
        let is_changed = |seed| seed % every == 0 && !["guard_c", "run_d"].contains(&&*patch.name);
        let history = |seed| format!("{seed} {}", is_changed(seed));
        let histories = (0..ran).map(history).collect();
        cache.keep_swept(patch, Swept { seeds: 100, found, histories }).unwrap();
        if held {
            let failed = (patch.name == "run_b").then(|| "properties: w8".to_owned());
            cache.keep_tested(patch, Tested { failed }).unwrap();
        }
    }
    cache.keep_clean((0..100).map(|seed| format!("{seed} false")).collect()).unwrap();
    set.mutants[3].survives = Some("Nobody asks.".to_owned());
    let results = Results::of(&set, &cache).unwrap();
    let text = page("Of forty, 11.", &results);
    assert!(text.starts_with("# Mutants\n\nOf forty, 11. [blind"));
    let never = |line: &&str| !line.ends_with(" | 0 | 0 |");
    let shown: Vec<&str> = text.lines().skip_while(|l| !l.starts_with('|')).filter(never).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    | | |
    | --- | --- |
    | mutants | 5 |
    | killed | 3 (60.0 %) |
    | by a seed | 2 |
    | by a test, after all seeds held | 1 |
    | survivors | 2 |
    | half of those found by a seed, within | 4 seeds |
    | killed within 1, 10, 100 seeds | 0, 1, 2 |

    | oracle | mutants that it was the first to find |
    | --- | --- |
    | sequence | 2 |

    ## By room

    "Seeds" counts those that were run, the failing one included. So many of them have another history than without the mutant: "differ". In how many seeds its place comes to something else and the history stays the same is not counted: for that both bodies would have to run, and most have effects.

    ### guard: 0 of 1

    | mutant | breaks | seen | killed by | seeds | differ |
    | --- | --- | --- | --- | --- | --- |
    | `guard_c` | W8: guard_c. | [a/b#1](https://github.com/a/b/issues/1) it went on. | **survives** | 100 | 0 |

    ### run: 3 of 4

    | mutant | breaks | seen | killed by | seeds | differ |
    | --- | --- | --- | --- | --- | --- |
    | `run_a` | W8: run_a. | [a/b#2](https://github.com/a/b/issues/2) it went on. | sequence `arrived_early` | 4 | 2 |
    | `run_b` | W8: run_b. | [a/b#3](https://github.com/a/b/issues/3) it went on. | test `properties: w8` | 100 | 10 |
    | `run_d` | W8: run_d. | [a/b#4](https://github.com/a/b/issues/4) it went on. | **survives** | 100 | 0 |
    | `run_e` | W8: run_e. | [a/b#5](https://github.com/a/b/issues/5) it went on. | sequence `arrived_early` | 41 | 14 |

    ## Survivors

    - `guard_c`: W8: guard_c. not explained
    - `run_d`: W8: run_d. Nobody asks.

    ## Blind spots

    Mutants that change the history of a seed and to which no oracle objects. All others that no seed finds change no history: nothing that is drawn leads to their place.

    | mutant | breaks | histories that differ, of 100 | why no oracle objects |
    | --- | --- | --- | --- |
    | `run_b` | W8: run_b. | 10 | not explained |

    ## Which faults it takes

    The first failing world of each mutant runs again once for each kind of fault that it drew, without that kind. A kind is needed if no promise is broken without it. A world that needs none fails without faults, or has two ways to fail.

    | kind | drawn in | needed by |
    | --- | --- | --- |
    | crash | 1 | 1 |
    | delay | 1 | 1 |
    | skew | 1 | 0 |
    | none alone | 1 | 0 |

    | mutant | seed | needs | drawn beside it |
    | --- | --- | --- | --- |
    | `run_a` | 3 | crash, delay | skew |
    | `run_e` | 40 | not known: it changes what is drawn | skew |
    "#);
    insta::assert_snapshot!(results.faults().join("\n"), @r"
    3 of 5 killed: fewer than 95 in 100
    guard_c survives: say why in `Survives:`
    run_b is a blind spot: say why in `Unseen:`
    ");
    let wrong = || Some("It does not.".to_owned());
    (set.mutants[1].survives, set.mutants[1].unseen) = (wrong(), wrong());
    set.mutants[2].unseen = Some("No oracle | none.".to_owned());
    let results = Results::of(&set, &cache).unwrap();
    insta::assert_snapshot!(results.faults()[2..].join("\n"), @r"
    run_a is killed: take `Survives:` out
    run_a is no blind spot: take `Unseen:` out
    ");
    assert!(page("", &results).contains("| 10 | No oracle \\| none. |"));
}
