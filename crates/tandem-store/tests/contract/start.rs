//! What the first start creates and later starts find.

use super::rows::subscriber;
use crate::Database;
use tandem_store::Store;

#[tokio::test]
async fn a_first_start_makes_the_database_and_a_later_one_finds_it() {
    let database = Database::new();
    let store = Store::open(&database.url()).await.expect("opens");
    assert!(store.created());
    store
        .subscribers()
        .add(&subscriber("alice", 1))
        .await
        .expect("adds");
    store.close().await;
    let store = Store::open(&database.url()).await.expect("opens again");
    assert!(!store.created());
    assert_eq!(store.subscribers().count(None).await.expect("counts"), 1);
}

#[tokio::test]
async fn the_secret_is_drawn_once() {
    let database = Database::new();
    let store = Store::open(&database.url()).await.expect("opens");
    let secret = store.secret().await.expect("draws");
    assert_eq!(store.secret().await.expect("reads"), secret);
    store.close().await;
    let store = Store::open(&database.url()).await.expect("opens again");
    assert_eq!(store.secret().await.expect("reads"), secret);
    let other = Database::new();
    let store = Store::open(&other.url()).await.expect("opens");
    assert_ne!(store.secret().await.expect("draws"), secret);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_first_starts_at_once_make_one_database_with_one_secret() {
    for _ in 0..10 {
        let database = Database::new();
        let starts: Vec<_> = (0..6)
            .map(|_| {
                let url = database.url();
                tokio::spawn(async move { Store::open(&url).await?.secret().await })
            })
            .collect();
        let mut secrets = Vec::new();
        for start in starts {
            secrets.push(start.await.expect("does not panic").expect("starts"));
        }
        secrets.dedup();
        assert_eq!(secrets.len(), 1);
    }
}
