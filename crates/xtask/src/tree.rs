//! The source that is copied: the files that git tracks or would add, as they are at the start.
//! Edits during a run do not change it.

use std::collections::{BTreeMap, BTreeSet};
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

    /// Makes the files in `folder` these, and no others, each with the text that `instead` has for it if
    /// it has one. A file that is equal already is not written, so that it is not built again.
    pub(crate) fn copy<'a>(
        &self,
        folder: &Path,
        instead: impl Fn(&str) -> Option<&'a str>,
    ) -> io::Result<()> {
        let mut wanted = BTreeSet::new();
        for (file, bytes) in &self.files {
            let to = folder.join(file);
            let bytes = instead(file).map_or(bytes.as_slice(), str::as_bytes);
            if std::fs::read(&to).ok().as_deref() != Some(bytes) {
                to.parent().map(std::fs::create_dir_all).transpose()?;
                std::fs::write(&to, bytes)?;
            }
            wanted.insert(to);
        }
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if !wanted.contains(&path) {
                    std::fs::remove_file(path)?;
                }
            }
        }
        Ok(())
    }

    /// Over the names and contents of some of its files.
    #[must_use]
    pub fn digest(&self, takes: impl Fn(&str) -> bool) -> String {
        let taken = self.files.iter().filter(|(file, _)| takes(file));
        digest(taken.flat_map(|(file, bytes)| [file.as_bytes(), bytes.as_slice()]))
    }
}

/// Over these parts, each apart from the next.
pub(crate) fn digest(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> String {
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
