//! Results that still hold: one file a mutant, written whole or not at all.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::patch::Patch;
use super::record::{Differ, History, Outcome, Swept, Tested};
use super::suites::SUITES;
use crate::tree::{Tree, digest};

/// The file of what holds without a mutant.
const CLEAN: &str = "clean.json";

/// Changes with the meaning of what is kept.
const FORMAT: &str = "mutants 2";

/// The tools that build the code.
const BUILT_WITH: [&str; 5] =
    [".cargo/config.toml", "Cargo.toml", "Cargo.lock", "crates/core/Cargo.toml", "sim/Cargo.toml"];

/// The folders of the suites.
const TESTS: [&str; 4] =
    ["crates/core/tests/", "crates/lab/tests/", "crates/service/tests/", "tests/"];

/// The folders of what is built.
const CODE: [&str; 5] =
    ["crates/core/src/", "crates/lab/src/", "crates/service/src/server/", "sim/src/", "src/"];

/// Rooms that no seed and no suite enters.
const NOT_ENTERED: [&str; 2] = ["sim/src/cli/", "src/observe/otlp/"];

/// The inputs of results, besides the mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// How many seeds are run, from 0.
    pub seeds: u64,
    /// The code of engine and simulation, and its tools.
    pub code: String,
    /// The tests.
    pub tests: String,
}

impl Keys {
    /// The keys of a source.
    #[must_use]
    pub fn of(tree: &Tree, seeds: u64) -> Self {
        let is_code = |file: &str| {
            let is_entered = !NOT_ENTERED.iter().any(|room| file.starts_with(room));
            let is_built = CODE.iter().any(|folder| file.starts_with(folder));
            is_built && is_entered || BUILT_WITH.contains(&file)
        };
        let is_test = |file: &str| {
            let of = TESTS.iter().find_map(|folder| file.strip_prefix(folder));
            let of = of.and_then(|file| file.split('/').next());
            of.is_some_and(|of| SUITES.iter().any(|suite| suite.name == of))
        };
        Self { seeds, code: tree.digest(is_code), tests: tree.digest(is_test) }
    }

    /// The inputs of the histories of seeds without a mutant.
    #[must_use]
    pub fn clean(&self) -> String {
        digest([FORMAT, &self.seeds.to_string(), &self.code])
    }

    /// The inputs of the outcome of a mutant's seeds.
    #[must_use]
    pub fn sweep(&self, patch: &Patch) -> String {
        digest([FORMAT, &self.seeds.to_string(), &self.code, &patch.diff])
    }

    /// The inputs of the outcome of its tests.
    #[must_use]
    pub fn test(&self, patch: &Patch) -> String {
        let suites: Vec<String> = SUITES.iter().map(ToString::to_string).collect();
        digest([FORMAT, &self.code, &self.tests, &suites.join(" "), &patch.diff])
    }
}

/// Where results are kept.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    keys: Keys,
}

/// A mutant's file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    swept: Option<Keyed<Swept>>,
    tested: Option<Keyed<Tested>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keyed<T> {
    key: String,
    value: T,
}

impl<T: Clone> Keyed<T> {
    fn under(kept: Option<&Self>, key: &str) -> Option<T> {
        kept.filter(|kept| kept.key == key).map(|kept| kept.value.clone())
    }
}

impl Cache {
    /// Results in `folder` that hold under `keys`.
    #[must_use]
    pub fn new(folder: &Path, keys: Keys) -> Self {
        Self { folder: folder.to_owned(), keys }
    }

    /// How many seeds are run, from 0.
    #[must_use]
    pub fn seeds(&self) -> u64 {
        self.keys.seeds
    }

    /// A hash that identifies the code.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.keys.code
    }

    /// The result of `patch`, if it is known.
    #[must_use]
    pub fn outcome(&self, patch: &Patch) -> Option<Outcome> {
        let swept = self.swept(patch)?;
        let seeds = swept.seeds;
        if let Some(found) = swept.found {
            return Some(Outcome::Seed(found));
        }
        Some(match self.tested(patch)?.failed {
            Some(test) => Outcome::Test { seeds, test },
            None => Outcome::Survived { seeds },
        })
    }

    /// The result of its seeds. No seed meets what is not simulated.
    #[must_use]
    pub fn swept(&self, patch: &Patch) -> Option<Swept> {
        if !patch.is_simulated() {
            return Some(Swept { seeds: 0, found: None, histories: Vec::new() });
        }
        Keyed::under(self.kept(patch).swept.as_ref(), &self.keys.sweep(patch))
    }

    /// The result of its tests.
    #[must_use]
    pub fn tested(&self, patch: &Patch) -> Option<Tested> {
        Keyed::under(self.kept(patch).tested.as_ref(), &self.keys.test(patch))
    }

    /// The test that failed when its tests ran last, perhaps on other code.
    #[must_use]
    pub fn failed_last(&self, patch: &Patch) -> Option<String> {
        self.kept(patch).tested?.value.failed
    }

    /// How many histories it changes of the seeds that were run, if that is known.
    #[must_use]
    pub fn differ(&self, patch: &Patch) -> Option<Differ> {
        Some(Differ::between(&self.swept(patch)?.histories, &self.clean()?))
    }

    /// The histories of all seeds without a mutant, if they are known.
    #[must_use]
    pub fn clean(&self) -> Option<Vec<History>> {
        let text = std::fs::read(self.folder.join(CLEAN)).ok()?;
        let kept: Keyed<Vec<History>> = serde_json::from_slice(&text).ok()?;
        Keyed::under(Some(&kept), &self.keys.clean())
    }

    /// Stores them.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn keep_clean(&self, value: Vec<History>) -> io::Result<()> {
        self.write(&self.folder.join(CLEAN), &Keyed { key: self.keys.clean(), value })
    }

    /// Stores the result of its seeds.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn keep_swept(&self, patch: &Patch, value: Swept) -> io::Result<()> {
        let swept = Some(Keyed { key: self.keys.sweep(patch), value });
        self.keep(patch, &Kept { swept, ..self.kept(patch) })
    }

    /// Stores the result of its tests.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn keep_tested(&self, patch: &Patch, value: Tested) -> io::Result<()> {
        let tested = Some(Keyed { key: self.keys.test(patch), value });
        self.keep(patch, &Kept { tested, ..self.kept(patch) })
    }

    fn file(&self, patch: &Patch) -> PathBuf {
        self.folder.join(format!("{}.json", patch.name))
    }

    /// A file that can't be read counts as missing: its work is done again.
    fn kept(&self, patch: &Patch) -> Kept {
        let text = std::fs::read(self.file(patch)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn keep(&self, patch: &Patch, kept: &Kept) -> io::Result<()> {
        self.write(&self.file(patch), kept)
    }

    fn write(&self, file: &Path, kept: &impl Serialize) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let mut text = serde_json::to_vec_pretty(kept)?;
        text.push(b'\n');
        write_whole(file, &text)
    }
}

/// Writes a file whole or not at all, whenever this process ends.
///
/// # Errors
/// When it can't be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let half = path.with_extension("half");
    std::fs::write(&half, bytes)?;
    std::fs::rename(&half, path)
}
