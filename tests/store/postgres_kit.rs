//! The servers that tests of the PostgreSQL store start.
#![cfg(feature = "postgres")]
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use retrial_testkit::postgres_server;

use postgres_server::{Server, Stop};

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_server_keeps_what_it_stored_and_leaves_nothing_behind() {
    let mut server = Server::start();
    let (one, other) = (server.database().await, server.database().await);
    assert_ne!(one, other);
    let client = server.client(&one).await;
    client.batch_execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)").await.unwrap();
    for how in [Stop::Fast, Stop::Crash] {
        client.batch_execute("CHECKPOINT").await.ok();
        server.stop(how);
        assert!(tokio_postgres::connect(&server.url(&one), tokio_postgres::NoTls).await.is_err());
        server.start_again();
        let client = server.client(&one).await;
        let row = client.query_one("SELECT n FROM kept", &[]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), 7);
    }
    let folder = server.folder();
    assert!(folder.exists());
    drop(server);
    assert!(!folder.exists());
}
