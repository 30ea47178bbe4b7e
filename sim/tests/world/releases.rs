//! Nodes of two releases in one world. Here both are this one, so what is tested is the passage between
//! them; `scripts/two-releases.sh` takes another release.

use retrial_releases::{OLDER, THIS, run, scenario};
use retrial_sim::unstable::report::Verdict;
use retrial_sim::unstable::scenario::Topology;

#[test]
fn nodes_that_change_their_release_keep_every_promise() {
    let (mut older, mut this, mut embedded) = (0, 0, 0);
    for seed in 0..40 {
        let scenario = scenario(seed);
        embedded += u32::from(scenario.topology == Topology::Embedded);
        let (report, _) = run(scenario, false);
        assert_eq!(report.verdict, Verdict::Held, "seed {seed}: {:#?}", report.breaches);
        older += report.features[OLDER];
        this += report.features[THIS];
    }
    assert!(embedded > 5, "{embedded} stores on the disk of a node");
    assert!(older > 60 && this > 60, "{older} and {this} incarnations");
}
