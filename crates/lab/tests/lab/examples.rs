//! The examples print the verdict that their text says, and what is said to mend them does.

use std::path::Path;

use retrial_lab::change;
use retrial_lab::judge::{Verdict, judge};
use retrial_lab::model::Scenario;
use retrial_lab::read::{self, Files};

/// The scenario of an example, the verdict that its first line gives, and its text.
fn example(name: &str) -> (Scenario, String, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lab");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let first = text.lines().next().unwrap();
    let verdict = first.trim_end_matches('.').rsplit(": ").next().unwrap().to_owned();
    let scenario = read::scenario(name, &text, &Files::in_folder(&folder)).unwrap();
    (scenario, verdict, text)
}

fn check(name: &str, change: &str, mend: impl Fn(&str) -> String) {
    let (scenario, said, text) = example(name);
    assert_eq!(judge(&scenario, 2, 2).verdict.word(), said, "{name}");
    let mended = mend(&text);
    assert_ne!(mended, text, "{name}");
    let mended = read::scenario(name, &mended, &Files::in_folder(Path::new("."))).unwrap();
    assert_eq!(judge(&mended, 2, 2).verdict, Verdict::Recovers, "{name}, mended");
    // The same is among what is tried.
    let changes = change::changes(&scenario);
    let found = changes.iter().find(|c| c.words.contains(change)).unwrap();
    assert_eq!(judge(&found.scenario, 1, 1).verdict, Verdict::Recovers, "{}", found.words);
}

#[test]
fn the_metastable_queue_is_mended_by_a_budget() {
    check("queue.toml", "retry_budget = 0.1", |text| {
        text.replace("latency = \"1ms\"\n", "latency = \"1ms\"\nretry_budget = 0.1\n")
    });
}

#[test]
fn the_thundering_herd_is_mended_by_jitter() {
    check("herd.toml", "full jitter", |text| {
        text.replace("\njitter = \"none\"", "\njitter = \"full\"")
    });
}
