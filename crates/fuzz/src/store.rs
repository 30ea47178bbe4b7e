//! The rows of a redb store. One row of a small store gets another value under a right checksum, as
//! another program might write it, and everything is asked for. The first byte picks the table, the
//! second the row.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU32;
use std::panic::{set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};

use bytes::Bytes;
use redb::{
    Database, ReadableTable as _, StorageBackend, TableDefinition, TableHandle as _,
    WriteTransaction,
};
use retrial::guard::{GuardInput, GuardRules};
use retrial::run::{Digest, LetterId, RunId, TaskId, Token, Version};
use retrial::runtime::TokioRuntime;
use retrial::store::{
    Answer, AskLetters, AskRuns, Claim, ClaimId, Commit, CommitId, Create, Definition, Expired,
    Guarding, Holder, LetterRow, Loaded, Prune, QueueChange, RedbStore, Request, ResultRow,
    RunPhase, Store, StoreError,
};
use retrial::time::Nanos;
use retrial::workflow::{Able, Need, StepIx, Via};

use super::block_on;

const RUNS: u64 = 3;
const TASK: TaskId = TaskId { step: StepIx(0), item: 0 };

/// A disk of one file in memory. Clones share it.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<Vec<u8>>>);

impl Disk {
    fn holding(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(bytes)))
    }

    async fn open(&self) -> Result<RedbStore, retrial::store::OpenError> {
        let disk = self.clone();
        let backend = move || Ok(disk.clone());
        RedbStore::open_with_backend(TokioRuntime::current(), "fuzz", backend).await
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock().unwrap();
        let from = bytes.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap();
        let to = bytes.get_mut(offset as usize..offset as usize + data.len());
        to.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        Ok(())
    }
}

fn run(n: u64) -> RunId {
    RunId::from_random(n, n)
}

fn create(n: u64) -> Create {
    let need = Need { action: "act".into(), via: Via::Function };
    let due = |item, after| QueueChange::Due {
        task: TaskId { item, ..TASK },
        attempt: 1,
        after,
        need: need.clone(),
        progress: None,
    };
    Create {
        run: run(n),
        key: Some(format!("key {n}")),
        digest: Digest::of(b"work"),
        id: Default::default(),
        workflow: "work".to_owned(),
        events: vec![Bytes::from_static(b"first"), Bytes::from_static(b"second")],
        queue: vec![due(0, Nanos::MAX), due(1, Nanos::from_secs(1))],
        phase: RunPhase::Running,
        redrives: None,
        fields: Default::default(),
    }
}

fn commit(n: u64) -> Commit {
    let result = Bytes::from_static(b"result");
    let body = Bytes::from_static(b"letter");
    Commit {
        id: CommitId { writer: n, counter: 1 },
        run: run(n),
        expect: Version(2),
        fences: vec![],
        events: vec![Bytes::from_static(b"third")],
        queue: vec![QueueChange::Lease {
            task: TASK,
            attempt: 1,
            token: Token::from_random(n, n),
            lasts: Nanos::from_secs(1),
            timeout: None,
            heartbeat: None,
        }],
        results: vec![ResultRow { task: TASK, attempt: 1, result }],
        letters: vec![LetterRow {
            task: TASK,
            action: "act".into(),
            code: "503".into(),
            message: "no".into(),
            body,
        }],
        phase: RunPhase::Running,
        snapshot: (n == 1).then(|| Bytes::from_static(b"state")),
        guards: vec![starts(n)],
        raised: vec![],
        creates: vec![],
    }
}

/// The one action's guards count the attempt that this run starts.
fn starts(n: u64) -> Guarding {
    let attempt = Holder { run: run(n), task: TASK, token: Token::from_random(n, n) };
    let rules = GuardRules { concurrency: NonZeroU32::new(10), ..GuardRules::default() };
    let inputs = vec![GuardInput::Admit { attempt, first: true, tokens: 0 }];
    Guarding { action: "act".into(), rules: Arc::new(rules), inputs }
}

/// A store with a few of everything, as its file's bytes.
fn template() -> &'static [u8] {
    static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let disk = Disk::default();
        block_on(async {
            let store = disk.open().await.unwrap();
            for n in 0..RUNS {
                store.create(create(n)).await.unwrap();
                store.commit(commit(n)).await.unwrap();
            }
            let text = Bytes::from_static(b"text");
            let definition = Definition { name: "work".into(), format: "toml".into(), text };
            store.define(definition).await.unwrap();
            store.close().await;
        });
        disk.0.lock().unwrap().clone()
    })
}

type Table<'n> = TableDefinition<'n, &'static [u8], &'static [u8]>;

/// The names of the store's tables, in the order in which an input picks one.
fn tables(transaction: &WriteTransaction) -> Vec<String> {
    let mut names: Vec<String> =
        transaction.list_tables().unwrap().map(|table| table.name().to_owned()).collect();
    names.sort();
    names
}

/// Puts `value` under the picked key of the picked table. Returns the key, unless there is none.
fn put(disk: &Disk, table: u8, row: u8, value: &[u8]) -> Option<Vec<u8>> {
    let database = Database::builder().create_with_backend(disk.clone()).unwrap();
    let transaction = database.begin_write().unwrap();
    let names = tables(&transaction);
    let name = names.get(usize::from(table) % names.len())?;
    let mut table = transaction.open_table(Table::new(name)).unwrap();
    let keys: Vec<Vec<u8>> =
        table.iter().unwrap().map(|row| row.unwrap().0.value().to_vec()).collect();
    let key = keys.get(usize::from(row).checked_rem(keys.len())?)?.clone();
    // As the store sums it: table, key and value.
    let sum = crc32c::crc32c_append(crc32c::crc32c(name.as_bytes()), &key);
    let sum = crc32c::crc32c_append(sum, value).to_le_bytes();
    table.insert(key.as_slice(), [&sum[..], value].concat().as_slice()).unwrap();
    drop(table);
    transaction.commit().unwrap();
    Some(key)
}

/// Every kind of reading, and of what a node asks again and again.
fn requests() -> Vec<Request> {
    let able = Arc::new(Able::Anything);
    let id = ClaimId { writer: 9, counter: 1 };
    let claim = Claim {
        id,
        limit: 10,
        lasts: Nanos::from_secs(1),
        chance: 1,
        able,
        full: Default::default(),
    };
    let mut all = vec![
        Request::Claim(claim),
        Request::Expired { limit: 10 },
        Request::Leases { after: None, limit: 10 },
        Request::Heads { after: None, limit: 10 },
        Request::Stranded { after: None, limit: 10 },
        Request::Letters(AskLetters { after: None, limit: 10, filter: Default::default() }),
        Request::List(AskRuns { before: None, limit: 10, filter: Default::default() }),
        Request::Tally,
        Request::Guards,
        Request::Definition("work".to_owned()),
        Request::Definitions { after: None, limit: 10 },
        Request::Reports,
    ];
    for n in 0..RUNS {
        all.push(Request::Load { run: run(n), after: None });
        all.push(Request::Queue(run(n)));
        all.push(Request::Letter(LetterId { run: run(n), task: TASK }));
        all.push(Request::Create(create(n)));
        all.push(Request::Commit(commit(n)));
    }
    all.push(Request::Prune(Prune {
        after: None,
        limit: 10,
        older_than: Nanos::new(0),
        archived_only: false,
        with_letters: true,
    }));
    all
}

/// What is loaded of each run, without the time of loading.
async fn loaded(store: &RedbStore) -> BTreeMap<RunId, Result<Option<Loaded>, StoreError>> {
    let mut all = BTreeMap::new();
    for n in 0..RUNS {
        let loaded = store.load(run(n), None).await;
        let timeless = |loaded: Loaded| Loaded { at: Default::default(), ..loaded };
        all.insert(run(n), loaded.map(|loaded| loaded.map(timeless)));
    }
    all
}

/// Whether code other than redb's has panicked: the store catches panics, and takes them for redb's.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Sees every panic, caught or not. The store has put its own hook in place before.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            let is_redb = panic.location().is_some_and(|at| at.file().contains("/redb-"));
            PANICKED.fetch_or(!is_redb, Ordering::Relaxed);
            others(panic);
        }));
    });
}

pub(crate) fn store(bytes: &[u8]) {
    static WHOLE: OnceLock<BTreeMap<RunId, Result<Option<Loaded>, StoreError>>> = OnceLock::new();
    let whole = WHOLE.get_or_init(|| {
        let disk = Disk::holding(template().to_vec());
        block_on(async { loaded(&disk.open().await.unwrap()).await })
    });
    watch_panics();
    let [table, row, value @ ..] = bytes else { return };
    let disk = Disk::holding(template().to_vec());
    let Some(key) = put(&disk, *table, *row, value) else { return };
    block_on(async {
        let Ok(store) = disk.open().await else { return };
        for (run, loaded) in loaded(&store).await {
            // A wrong row costs at most its own run.
            let is_own = key.starts_with(&run.to_bytes());
            assert!(is_own || loaded.is_err() || loaded == whole[&run], "{run}: {loaded:?}");
        }
        for request in requests() {
            match store.ask(request.clone()).await {
                Ok(Answer::Expired(Expired { tasks, .. })) => assert!(tasks.len() <= 10),
                Ok(_) | Err(StoreError::Broken(_)) => {}
                Err(error) => panic!("{request:?}: {error}"),
            }
        }
        store.close().await;
    });
    assert!(!PANICKED.load(Ordering::Relaxed), "the store panicked");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// An input's name says which table it changes.
    #[test]
    fn every_table_has_an_input_named_for_it() {
        let disk = Disk::holding(template().to_vec());
        let database = Database::builder().create_with_backend(disk).unwrap();
        let tables = tables(&database.begin_write().unwrap());
        let mut changed = BTreeSet::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/store");
        for input in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = input.file_name().unwrap().to_string_lossy().into_owned();
            let picked = &tables[usize::from(fs::read(&input).unwrap()[0]) % tables.len()];
            assert_eq!(name.rsplit_once('_').unwrap().0, picked, "{name}");
            changed.insert(picked.clone());
        }
        assert_eq!(Vec::from_iter(changed), tables);
    }
}
