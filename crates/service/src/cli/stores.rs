//! Opens stores, and finds the default one.

use std::path::{Path, PathBuf};

use retrial::runtime::TokioRuntime;
use retrial::store::{PostgresOptions, PostgresStore, RedbStore};

use super::error::CliError;

/// Whether `text` is the URL of a PostgreSQL store.
pub(super) fn is_database(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// The store in the database at `url`.
pub(super) async fn database(url: &str) -> Result<PostgresStore, CliError> {
    let options = PostgresOptions::from_url(url).map_err(|e| CliError::input(e.to_string()))?;
    let store = PostgresStore::connect(TokioRuntime::current(), options).await;
    store.map_err(|e| CliError::store(e.to_string()))
}

/// The store in the file at `path`.
pub(super) async fn in_file(path: &Path) -> Result<RedbStore, CliError> {
    let store = RedbStore::open(TokioRuntime::current(), path).await;
    store.map_err(|e| CliError::store(e.to_string()))
}

/// The store's file, which must exist: a command that reads a store never creates one.
pub(super) fn file(given: Option<&Path>) -> Result<PathBuf, CliError> {
    if let Some(path) = given {
        return match path.is_file() {
            true => Ok(path.to_owned()),
            false => Err(CliError::store(format!("there is no store at `{}`", path.display()))),
        };
    }
    let files = std::fs::read_dir(".retrial").into_iter().flatten().flatten();
    let mut stores: Vec<PathBuf> = files.map(|file| file.path()).collect();
    stores.retain(|path| path.extension().is_some_and(|e| e == "redb"));
    stores.sort();
    match stores.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(CliError::store("there is no store in .retrial/")
            .help("name the store with --store STORE")),
        many => {
            let names: Vec<_> = many.iter().map(|path| path.display().to_string()).collect();
            Err(CliError::input(format!("there are several stores: {}", names.join(", ")))
                .help("choose one with --store STORE"))
        }
    }
}
