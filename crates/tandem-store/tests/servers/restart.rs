//! A server that is stopped and started while a store is open.

use crate::contract::rows::{bound, subscriber};
use crate::database::{ADMINISTRATOR, FIRST_DATABASE};
use crate::server::Server;
use tandem_store::{Store, StoreError};

#[tokio::test]
async fn an_open_store_works_again_when_its_server_is_back() {
    let mut server = Server::new();
    server.execute(FIRST_DATABASE, "CREATE DATABASE restarted");
    let store = Store::open(&server.url(ADMINISTRATOR, "restarted")).await;
    let store = store.expect("opens");
    let added = store.subscribers().add(&subscriber("alice", 1)).await;
    added.expect("adds");
    server.stop();
    let batch = [bound("alice@example.org", &[1])];
    let error = store.locations().save(&batch).await.expect_err("away");
    assert!(matches!(error, StoreError::Away { .. }), "{error:?}");
    assert!(error.is_temporary());
    server.start();
    store.locations().save(&batch).await.expect("saves");
    assert_eq!(store.subscribers().count(None).await.expect("counts"), 1);
}
