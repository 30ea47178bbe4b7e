//! The file: how it is created, and what is refused before redb touches it.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::path::Path;

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::error::OpenError;

/// How a redb file begins.
const MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";
/// The part of a file that redb writes before it writes the magic.
const HEADER: u64 = 4096;
const WHOLE: (Bound<u64>, Bound<u64>) = (Bound::Unbounded, Bound::Unbounded);

/// The file at `path`. A missing file is created for its owner alone, and its folder synced.
pub(super) fn open(path: &Path) -> Result<FileBackend, OpenError> {
    let place = path.display().to_string();
    let opened = || -> io::Result<File> {
        let is_new = !path.exists();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        private(&mut options);
        let file = options.open(path)?;
        warn_if_shared(&place, &file)?;
        let folder = path.parent().filter(|_| is_new && cfg!(unix));
        if let Some(folder) = folder {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            File::open(folder)?.sync_all()?;
        }
        Ok(file)
    };
    let file = opened().map_err(|source| OpenError::Io { place: place.clone(), source })?;
    FileBackend::new(file).map_err(|error| OpenError::from_redb(&place, error))
}

/// Refuses a file that redb did not write, before redb touches it. A file that a crash left half
/// created was never a store, and is emptied.
pub(super) fn check_header(place: &str, backend: &impl StorageBackend) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { place: place.to_owned(), source };
    let len = backend.len().map_err(io)?;
    let mut start = vec![0; len.min(HEADER) as usize];
    backend.read(0, &mut start).map_err(io)?;
    if len == 0 || start.starts_with(&MAGIC) {
        return Ok(());
    }
    if !is_unfinished(&start) || !is_blank(backend, start.len() as u64, len).map_err(io)? {
        let why = "it does not begin as one does".to_owned();
        return Err(OpenError::Foreign { place: place.to_owned(), why });
    }
    match backend.try_lock_range(WHOLE.0, WHOLE.1) {
        Ok(false) => Err(OpenError::Locked { place: place.to_owned() }),
        Ok(true) => {
            let emptied = backend.set_len(0);
            // If this fails, closing the file frees the lock.
            let _ = backend.unlock_range(WHOLE.0, WHOLE.1);
            emptied.map_err(io)
        }
        // A backend without locks has a single user.
        Err(_) => backend.set_len(0).map_err(io),
    }
}

/// Whether the magic is missing, or half written after a whole header.
fn is_unfinished(start: &[u8]) -> bool {
    let is_missing = start.iter().take(MAGIC.len()).all(|byte| *byte == 0);
    let is_torn = start.iter().zip(MAGIC).all(|(byte, magic)| *byte == 0 || *byte == magic);
    is_missing || is_torn && start.len() as u64 == HEADER
}

fn is_blank(backend: &impl StorageBackend, from: u64, len: u64) -> io::Result<bool> {
    let mut chunk = vec![0; 1 << 16];
    let mut at = from;
    while at < len {
        let part = &mut chunk[..(len - at).min(1 << 16) as usize];
        backend.read(at, part)?;
        if part.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += part.len() as u64;
    }
    Ok(true)
}

/// A store holds the inputs and results of runs, secrets among them.
#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
fn private(_: &mut OpenOptions) {}

/// Warns if others than its owner may read or write the file. Its mode stays: it may be meant.
#[cfg(unix)]
fn warn_if_shared(place: &str, file: &File) -> io::Result<()> {
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o777;
    if mode & 0o077 != 0 {
        tracing::warn!(
            store = place,
            "the store holds secrets, and others than its owner may use the file (mode {mode:o}); \
             run `chmod 600` on it"
        );
    }
    Ok(())
}

#[cfg(not(unix))]
fn warn_if_shared(_: &str, _: &File) -> io::Result<()> {
    Ok(())
}
