//! All mutants, and the checks of them before anything is built.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::patch::{Line, Patch};

/// Every mutant, and the two by which a run is judged.
#[derive(Clone, Debug)]
pub struct Set {
    /// By name.
    pub mutants: Vec<Patch>,
    /// A change that changes nothing that is promised: it must survive.
    pub harmless: Patch,
    /// A change that breaks nearly everything: it must be killed.
    pub glaring: Patch,
}

/// Why a folder is no set of mutants.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// A file can't be read.
    #[error("{path}: the file can't be read: {error}")]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The faults, one line each.
    #[error("{}", .0.join("\n"))]
    Wrong(Vec<String>),
}

impl Set {
    /// The patches in `folder`, and its `controls`.
    ///
    /// # Errors
    /// When a file can't be read, or there is something wrong with a patch or two patches touch one
    /// line: all of it, with the names.
    pub fn read(folder: &Path) -> Result<Self, SetError> {
        let mut wrong = Vec::new();
        let mut patches = Vec::new();
        for path in patches_in(folder)? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            match Patch::parse(&name, &read(&path)?) {
                Ok(patch) => patches.push(patch),
                Err(error) => wrong.push(format!("{}: {error}", path.display())),
            }
        }
        let mut control = |name: &str| -> Result<Option<Patch>, SetError> {
            let path = folder.join("controls").join(format!("{name}.patch"));
            let patch = Patch::control(name, &read(&path)?);
            Ok(patch.map_err(|error| wrong.push(format!("{}: {error}", path.display()))).ok())
        };
        let controls = (control("harmless")?, control("glaring")?);
        wrong.extend(shared_lines(&patches));
        match controls {
            (Some(harmless), Some(glaring)) if wrong.is_empty() => {
                Ok(Self { mutants: patches, harmless, glaring })
            }
            _ => Err(SetError::Wrong(wrong)),
        }
    }

    /// How many mutants each room has.
    #[must_use]
    pub fn rooms(&self) -> BTreeMap<&str, usize> {
        let mut rooms = BTreeMap::new();
        for patch in &self.mutants {
            *rooms.entry(patch.room.as_str()).or_default() += 1;
        }
        rooms
    }

    /// Every patch, the controls first.
    pub fn all(&self) -> impl Iterator<Item = &Patch> {
        [&self.harmless, &self.glaring].into_iter().chain(&self.mutants)
    }
}

fn patches_in(folder: &Path) -> Result<Vec<PathBuf>, SetError> {
    let unreadable = |error| SetError::Unreadable { path: folder.to_owned(), error };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|ending| ending == "patch") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String, SetError> {
    std::fs::read_to_string(path)
        .map_err(|error| SetError::Unreadable { path: path.to_owned(), error })
}

/// Two patches on one line could be two words for one bug.
fn shared_lines(patches: &[Patch]) -> Vec<String> {
    let mut owners: BTreeMap<(&str, Line), &str> = BTreeMap::new();
    let mut shared = Vec::new();
    for patch in patches {
        for place in &patch.places {
            if let Some(other) = owners.insert((&patch.file, *place), &patch.name) {
                shared.push(format!("{} and {other} touch one line of {}", patch.name, patch.file));
            }
        }
    }
    shared.dedup();
    shared
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test panics")]

    use super::*;

    fn text(file: &str, line: u64) -> String {
        format!(
            "Breaks: it.\nSeen: https://x.test/1\n\ndiff --git a/{file} b/{file}\n--- a/{file}\n\
             +++ b/{file}\n@@ -{line},1 +{line},1 @@\n-a\n+b\n"
        )
    }

    fn folder(files: &[(&str, String)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("controls")).unwrap();
        let controls =
            ["harmless", "glaring"].map(|c| (format!("controls/{c}"), text("src/time.rs", 1)));
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.clone()));
        for (name, text) in files.chain(controls) {
            std::fs::write(folder.path().join(format!("{name}.patch")), text).unwrap();
        }
        folder
    }

    #[test]
    fn patches_are_read_in_the_order_of_their_names() {
        let folder = folder(&[
            ("run_b", text("src/run/x.rs", 1)),
            ("run_a", text("src/run/x.rs", 2)),
            ("guard_c", text("src/guard/x.rs", 1)),
        ]);
        let set = Set::read(folder.path()).unwrap();
        let names: Vec<_> = set.all().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["harmless", "glaring", "guard_c", "run_a", "run_b"]);
        assert_eq!(set.rooms(), BTreeMap::from([("guard", 1), ("run", 2)]));
    }

    #[test]
    fn all_that_is_wrong_is_named() {
        let folder = folder(&[
            ("run_a", text("src/run/x.rs", 7)),
            ("run_b", text("src/run/x.rs", 7)),
            ("run_c", text("src/guard/x.rs", 1)),
            ("run_d", "nothing".to_owned()),
        ]);
        let said = Set::read(folder.path()).unwrap_err().to_string();
        let lines: Vec<_> = said.lines().collect();
        assert!(lines[0].contains("run_c.patch: it changes src/guard/x.rs"), "{said}");
        assert!(lines[1].contains("run_d.patch: after the heads comes"), "{said}");
        assert_eq!(lines[2..], ["run_b and run_a touch one line of src/run/x.rs"]);
        std::fs::remove_file(folder.path().join("controls/glaring.patch")).unwrap();
        let said = Set::read(folder.path()).unwrap_err().to_string();
        assert!(said.contains("glaring.patch: the file can't be read"), "{said}");
    }
}
