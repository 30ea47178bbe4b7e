//! The programs that a newcomer writes first.

use retrial::store::OpenError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

#[allow(dead_code, reason = "their command lines are not used here")]
#[path = "../../examples/start/durable_job.rs"]
mod durable_job;
#[allow(dead_code, reason = "their command lines are not used here")]
#[path = "../../examples/start/one_future.rs"]
mod one_future;
#[allow(dead_code, reason = "their command lines are not used here")]
#[path = "../../examples/start/policy_from_file.rs"]
mod policy_from_file;

#[test]
fn they_are_short() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/start");
    let all: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(all.len(), 6, "{all:?}");
    for program in all {
        let lines = std::fs::read_to_string(&program).unwrap().lines().count();
        assert!(lines <= 40, "{} has {lines} lines", program.display());
    }
}

/// A server that gives these answers, one after another. Gives how many it has given.
async fn answering(answers: &'static [&str]) -> (String, tokio::task::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1_024];
            assert!(stream.read(&mut asked).await.unwrap() > 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        answers.len()
    });
    (url, served)
}

const BUSY: &str = "HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const GONE: &str = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const HERE: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello";

#[tokio::test]
async fn one_future_is_tried_again_where_that_can_help() {
    let (url, served) = answering(&[BUSY, BUSY, HERE]).await;
    assert_eq!(one_future::fetch(&url).await.unwrap(), "hello");
    assert_eq!(served.await.unwrap(), 3);
    let (url, served) = answering(&[GONE]).await;
    let failed = one_future::fetch(&url).await.unwrap_err().to_string();
    assert!(failed.contains("404"), "{failed}");
    assert_eq!(served.await.unwrap(), 1);
}

#[tokio::test]
async fn a_durable_job_ends_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.redb");
    let sent = durable_job::job(&file).await.unwrap();
    assert!(sent.starts_with("sent after a charge of 4200 cents, receipt "), "{sent}");
    // The same key gives the same run, with the same receipt. The file is free once tokio has dropped
    // what the engine spawned.
    let mut again = durable_job::job(&file).await;
    for _ in 0..1_000 {
        let is_locked = |error: &OpenError| matches!(error, OpenError::Locked { .. });
        if !again.as_ref().is_err_and(|e| e.downcast_ref().is_some_and(is_locked)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        again = durable_job::job(&file).await;
    }
    assert_eq!(again.unwrap(), sent);
}

#[tokio::test(start_paused = true)]
async fn a_policy_comes_from_a_file() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/start/settings.toml");
    assert_eq!(policy_from_file::price(file).await.unwrap(), "ACME: 12.50");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.toml");
    std::fs::write(&file, "stock = \"ACME\"\nretry = \"[rety: 4]\"").unwrap();
    let wrong = policy_from_file::price(file.to_str().unwrap()).await.unwrap_err().to_string();
    assert!(wrong.starts_with("policy:1:2: unknown key `rety`"), "{wrong}");
}
