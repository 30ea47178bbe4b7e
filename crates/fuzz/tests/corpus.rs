//! Each target takes the inputs that are kept for it, and what is drawn from them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
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

/// The inputs of each target.
static INPUTS: LazyLock<Vec<Vec<Vec<u8>>>> = LazyLock::new(|| {
    let read = |name| entries(&corpus().join(name)).into_iter().map(|file| fs::read(file).unwrap());
    TARGETS.iter().map(|(name, _)| read(name).collect()).collect()
});

/// One change of an input.
#[derive(Clone, Debug)]
enum Edit {
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    /// Ends as another input of the target does.
    Splice(Index, Index, Index),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = any::<Index>;
    let edit = prop_oneof![
        (at(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip(at, 1 << bit)),
        (at(), prop::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, new)| Edit::Insert(at, new)),
        (at(), 1..20_usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        (at(), 1..200_usize).prop_map(|(at, length)| Edit::Repeat(at, length)),
        (at(), at(), at()).prop_map(|(at, other, from)| Edit::Splice(at, other, from)),
    ];
    prop::collection::vec(edit, 1..4)
}

impl Edit {
    fn of(self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
        let some = |at: Index, of: &[u8]| at.index(of.len() + 1);
        match self {
            Self::Flip(at, bits) => {
                let at = some(at, bytes);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bits);
            }
            Self::Insert(at, new) => {
                let at = some(at, bytes);
                bytes.splice(at..at, new);
            }
            Self::Remove(at, length) => {
                let at = some(at, bytes);
                bytes.drain(at..bytes.len().min(at + length));
            }
            Self::Repeat(at, length) => {
                let at = some(at, bytes);
                let again = bytes[at..bytes.len().min(at + length)].to_vec();
                bytes.splice(at..at, again);
            }
            Self::Splice(at, other, from) => {
                let other = other.get(others);
                bytes.truncate(some(at, bytes));
                bytes.extend_from_slice(&other[some(from, other)..]);
            }
        }
    }
}

proptest! {
    // No guidance by coverage, as `scripts/fuzz.sh` has it, but others in each run.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn every_target_holds_near_its_inputs(
        (target, input) in (0..TARGETS.len(), any::<Index>()),
        edits in edits(),
    ) {
        let ((name, target), inputs) = (TARGETS[target], &INPUTS[target]);
        let mut bytes = input.get(inputs).clone();
        edits.into_iter().for_each(|edit| edit.of(&mut bytes, inputs));
        // Shown where the target fails.
        println!("{name}: {}", String::from_utf8_lossy(&bytes));
        target(&bytes);
    }
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
