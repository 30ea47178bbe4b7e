//! Where a bench takes place: a store of its own, which is removed at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::ProgressBar;
use retrial::runtime::{Runtime as _, TokioRuntime};
use retrial::store::postgres::ServerUse;
use retrial::store::{DynStore, MemoryStore, PostgresOptions, PostgresStore};

use super::machine::{self, Machine};
use super::report::{Report, Round, StoreKind};
use super::round::Bench;
use super::{Plan, Workload};
use crate::cli::error::CliError;
use crate::cli::signals::{Signals, Stop};
use crate::cli::stores;

/// Where the store is.
pub(super) enum Stage {
    Memory,
    /// A new file in this folder.
    Folder(PathBuf),
    /// A file that does not exist yet.
    File(PathBuf),
    /// A new schema in this database.
    Database(Box<PostgresOptions>),
}

impl Stage {
    /// The place that `--store` names.
    pub(super) fn of(store: Option<&str>) -> Result<Self, CliError> {
        match store {
            Some("memory") => Ok(Self::Memory),
            Some(url) if stores::is_database(url) => {
                let options = PostgresOptions::from_url(url);
                let options = options.map_err(|e| CliError::input(e.to_string()))?;
                Ok(Self::Database(Box::new(options)))
            }
            Some(url) if url.contains("://") => {
                Err(CliError::input("a bench needs a store, not a service")
                    .help("use --store PATH, postgres://... or memory"))
            }
            Some(path) => Self::path(Path::new(path)),
            None => Ok(Self::Folder(std::env::temp_dir())),
        }
    }

    fn path(path: &Path) -> Result<Self, CliError> {
        if path.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        match path.try_exists() {
            Ok(false) => Ok(Self::File(path.to_owned())),
            _ => Err(CliError::input(format!(
                "`{}` exists; a bench removes its store at the end",
                path.display()
            ))
            .help("name a folder, or a file that does not exist")),
        }
    }

    pub(super) fn kind(&self) -> StoreKind {
        match self {
            Self::Memory => StoreKind::Memory,
            Self::Folder(_) | Self::File(_) => StoreKind::Redb,
            Self::Database(_) => StoreKind::Postgres,
        }
    }
}

/// A name that no other bench has.
fn own_name() -> String {
    format!("retrial_bench_{:016x}", TokioRuntime::current().random())
}

/// Removes a file, whatever ends the bench.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // It may not be there yet.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs the bench on its stage until it is over, or a signal comes. Leaves nothing there.
pub(super) async fn measure(
    stage: Stage,
    plan: &Plan,
    bar: &ProgressBar,
    signals: &mut Signals,
) -> Result<Result<Report, Stop>, CliError> {
    let kind = stage.kind();
    match stage {
        Stage::Memory => {
            let store = DynStore::new(MemoryStore::new(TokioRuntime::current()));
            until_signal(signals, on_stores(plan, bar, kind, &shared(plan, &store), &[])).await
        }
        Stage::Folder(folder) => {
            let file = folder.join(format!("{}.redb", own_name()));
            Box::pin(measure(Stage::File(file), plan, bar, signals)).await
        }
        Stage::File(path) => {
            let removed = Removed(path);
            let store = DynStore::new(stores::in_file(&removed.0).await?);
            until_signal(signals, on_stores(plan, bar, kind, &shared(plan, &store), &[])).await
        }
        Stage::Database(options) => {
            let name = own_name();
            let options = options.schema(&name).map_err(|e| CliError::input(e.to_string()))?;
            let mut own = Vec::new();
            for _ in 0..plan.nodes {
                let store = PostgresStore::connect(TokioRuntime::current(), options.clone()).await;
                own.push(Arc::new(store.map_err(|e| CliError::store(e.to_string()))?));
            }
            let stores: Vec<_> = own.iter().map(|s| DynStore::new(Arc::clone(s))).collect();
            let measured = until_signal(signals, on_stores(plan, bar, kind, &stores, &own)).await;
            if let Some(store) = own.first() {
                store.drop_schema().await.map_err(|e| {
                    CliError::store(format!("the schema {name} can't be removed: {e}"))
                        .help(format!("remove it: DROP SCHEMA {name} CASCADE"))
                })?;
            }
            measured
        }
    }
}

/// The same store for each node.
fn shared(plan: &Plan, store: &DynStore) -> Vec<DynStore> {
    (0..plan.nodes).map(|_| store.clone()).collect()
}

async fn until_signal(
    signals: &mut Signals,
    measuring: impl Future<Output = Result<Report, CliError>>,
) -> Result<Result<Report, Stop>, CliError> {
    tokio::select! {
        biased;
        stop = signals.next() => Ok(Err(stop)),
        report = measuring => report.map(Ok),
    }
}

/// What these stores have asked of their server: the transactions of all, and the rest from the last
/// one. None where there is no server.
async fn used(on_a_server: &[Arc<PostgresStore>]) -> Result<Option<ServerUse>, CliError> {
    let mut all: Option<ServerUse> = None;
    for store in on_a_server {
        let used = store.used().await.map_err(|e| CliError::store(e.to_string()))?;
        let before = all.map_or(0, |all| all.transactions);
        all = Some(ServerUse { transactions: before + used.transactions, ..used });
    }
    Ok(all)
}

/// Runs all rounds.
async fn on_stores(
    plan: &Plan,
    bar: &ProgressBar,
    store: StoreKind,
    stores: &[DynStore],
    on_a_server: &[Arc<PostgresStore>],
) -> Result<Report, CliError> {
    let runtime = TokioRuntime::current();
    let bench = Bench::new(plan, stores, bar)?;
    if let (Workload::Pending, Some(runs)) = (plan.workload, plan.items) {
        bar.set_message("runs that wait first; ");
        bench.add_pending(runs).await?;
    }
    bar.reset();
    let begun = runtime.now();
    let mut report = Report::new(plan, store, Machine::this(used(on_a_server).await?));
    while let Some(runs) = plan.next_round(report.rounds.len() as u64, runtime.now().since(begun)) {
        bar.set_message(format!("round {}, ", report.rounds.len() + 1));
        let (before, cpu) = (used(on_a_server).await?, machine::processor_time());
        let mut timed = bench.round(runs).await?;
        let cpu = machine::processor_time().saturating_sub(cpu);
        let used = used(on_a_server).await?.zip(before);
        report.add(Round::of(&mut timed, cpu, used), timed.counted);
    }
    report.finish(machine::most_memory());
    Ok(report)
}
