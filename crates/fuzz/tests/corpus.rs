//! Each target takes the inputs that are kept for it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use retrial_fuzz::TARGETS;

/// The most bytes of all inputs together.
const MOST: usize = 300_000;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The entries of a folder in the order of their names.
fn entries(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_target_holds_for_its_inputs() {
    let mut size = 0;
    for (name, target) in TARGETS {
        let inputs = entries(&corpus().join(name));
        assert!(!inputs.is_empty(), "{name} has no inputs");
        for input in inputs {
            // Shown where the target fails.
            println!("{}", input.display());
            let bytes = fs::read(input).unwrap();
            size += bytes.len();
            target(&bytes);
        }
    }
    assert!(size <= MOST, "{size} bytes of inputs; keep {MOST} at most");
}

#[test]
fn every_folder_is_a_target() {
    let named: BTreeSet<_> = TARGETS.iter().map(|(name, _)| corpus().join(name)).collect();
    assert_eq!(entries(&corpus()), named);
}
