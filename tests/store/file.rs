//! What other people of the machine see of a store's file, and what a damaged one prints.
#![cfg(all(feature = "redb", unix))]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use retrial::runtime::TokioRuntime;
use retrial::store::RedbStore;

#[tokio::test]
async fn a_new_file_is_its_owners_alone_and_another_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.redb");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    RedbStore::open(TokioRuntime::current(), &path).await.unwrap().close().await;
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    RedbStore::open(TokioRuntime::current(), &path).await.unwrap().close().await;
    assert_eq!(mode(), 0o640);
}

const PANICS: &str = "RETRIAL_TEST_PANICS";

/// redb panics on some of the damaged files of that test.
#[test]
fn a_panic_of_redb_prints_nothing_and_another_does() {
    let run = |test: &str| {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["--exact", test, "--nocapture"]);
        let done = command.env(PANICS, "1").output().unwrap();
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let said = run("file::damaged_files_and_a_panic_of_our_own");
    assert_eq!(said.matches("panicked at").count(), 1, "{said}");
    assert!(said.contains("a panic of our own"), "{said}");
}

/// In a process of its own, because the panic hook is the process's.
#[tokio::test]
async fn damaged_files_and_a_panic_of_our_own() {
    if std::env::var_os(PANICS).is_none() {
        return;
    }
    super::damage::rot_is_detected().await;
    panic!("a panic of our own");
}
