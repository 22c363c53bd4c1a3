//! A server and a command use one database at the same time: neither may fail because of the other.

use super::rows::{bound, subscriber};
use crate::Database;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_store::{Changed, Existing, StoreError};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_saves_while_a_command_imports() {
    let database = Database::new();
    let (server, command) = (database.store().await, database.store().await);
    let importing = Arc::new(AtomicBool::new(true));
    let saving = tokio::spawn({
        let importing = Arc::clone(&importing);
        async move {
            let mut saves: u32 = 0;
            while importing.load(Ordering::Relaxed) || saves == 0 {
                server
                    .locations()
                    .save(&[bound("alice@example.org", &[saves])])
                    .await?;
                saves += 1;
            }
            Ok::<_, StoreError>((server, saves))
        }
    });
    for round in 0..10 {
        let batch: Vec<_> = (0..1_000)
            .map(|number| subscriber(&format!("u{}", round * 1_000 + number), 1))
            .collect();
        command
            .subscribers()
            .import(&batch, Existing::Keep)
            .await
            .expect("imports");
    }
    importing.store(false, Ordering::Relaxed);
    let (server, saves) = saving.await.expect("does not panic").expect("saves");
    assert!(saves > 0);
    assert_eq!(
        server.subscribers().count(None).await.expect("counts"),
        10_000
    );
    assert_eq!(server.locations().count().await.expect("counts"), 1);
}

/// A reader sees the state before or after a write, never a part of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_never_sees_half_a_batch() {
    let database = Database::new();
    let (server, command) = (database.store().await, database.store().await);
    let writing = tokio::spawn(async move {
        for round in 0..20 {
            let batch: Vec<_> = (0..500)
                .map(|number| subscriber(&format!("r{round}u{number}"), 1))
                .collect();
            command
                .subscribers()
                .import(&batch, Existing::Keep)
                .await
                .expect("imports");
        }
    });
    loop {
        let count = server.subscribers().count(None).await.expect("counts");
        assert_eq!(count % 500, 0);
        if count == 10_000 {
            break;
        }
    }
    writing.await.expect("does not panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_many_processes_wait_for_each_other() {
    let database = Database::new();
    database.store().await.close().await;
    let writers: Vec<_> = (0..5)
        .map(|writer| {
            let url = database.url();
            tokio::spawn(async move {
                let store = tandem_store::Store::open(&url).await?;
                for number in 0..20 {
                    store
                        .subscribers()
                        .add(&subscriber(&format!("w{writer}n{number}"), 1))
                        .await?;
                }
                Ok::<_, StoreError>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("does not panic").expect("adds");
    }
    let store = database.store().await;
    assert_eq!(store.subscribers().count(None).await.expect("counts"), 100);
    // Each version names one change, so a server that follows them misses none.
    let changes = store.subscribers().changes_since(0).await.expect("reads");
    assert_eq!(changes.version, 100);
    let Changed::Named(names) = changes.changed else {
        panic!("a version without a change");
    };
    let different: BTreeSet<_> = names.into_iter().collect();
    assert_eq!(different.len(), 100);
}
