//! The source that is copied: the files that git tracks or would add, as they are at the start.
//! Edits during a run do not change it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

/// A source tree.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
    files: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    /// The tree that holds `folder`.
    ///
    /// # Errors
    /// When git can't list it, or a file can't be read.
    pub fn around(folder: &Path) -> io::Result<Self> {
        let root = git(folder, &["rev-parse", "--show-toplevel"])?;
        let root = PathBuf::from(root.trim_end_matches('\n'));
        let listed = git(&root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut files = BTreeMap::new();
        for file in listed.split('\0').filter(|file| !file.is_empty()) {
            match std::fs::read(root.join(file)) {
                Ok(bytes) => drop(files.insert(file.to_owned(), bytes)),
                // One that was removed is listed until that is committed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { root, files })
    }

    /// Its root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its files, by their paths from the root.
    #[must_use]
    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// Over the names and contents of some of its files.
    #[must_use]
    pub fn digest(&self, takes: impl Fn(&str) -> bool) -> String {
        let taken = self.files.iter().filter(|(file, _)| takes(file));
        digest(taken.flat_map(|(file, bytes)| [file.as_bytes(), bytes.as_slice()]))
    }
}

/// Over these parts, each apart from the next.
pub(super) fn digest(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn git(folder: &Path, arguments: &[&str]) -> io::Result<String> {
    let ran = Command::new("git").current_dir(folder).args(arguments).output()?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        return Err(io::Error::other(format!("git {}: {}", arguments.join(" "), said.trim())));
    }
    String::from_utf8(ran.stdout).map_err(io::Error::other)
}
