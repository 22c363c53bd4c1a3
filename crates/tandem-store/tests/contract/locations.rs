//! Saved bindings: written address by address or all at once, restored after a restart.

use super::rows::{binding, bound};
use crate::Database;
use std::collections::BTreeMap;
use tandem_store::{AddressBindings, BindingRow, Loaded, Store};

type AtRest = BTreeMap<String, Vec<BindingRow<'static>>>;

async fn at_rest(store: &Store) -> AtRest {
    let mut found = AtRest::new();
    store
        .locations()
        .load_all(0, |address, binding| {
            let address = String::from_utf8_lossy(address).into_owned();
            found.entry(address).or_default().push(owned(binding));
        })
        .await
        .expect("loads");
    for bindings in found.values_mut() {
        bindings.sort_by_key(|binding| binding.cseq);
    }
    found
}

fn owned(binding: &BindingRow<'_>) -> BindingRow<'static> {
    BindingRow {
        contact: binding.contact.to_vec().into(),
        call_id: binding.call_id.to_vec().into(),
        path: binding.path.to_vec().into(),
        instance: binding.instance.to_vec().into(),
        user_agent: binding.user_agent.to_vec().into(),
        listener: binding.listener.to_string().into(),
        ..*binding
    }
}

fn expected(entries: &[(&str, &[u32])]) -> AtRest {
    entries
        .iter()
        .map(|(address, contacts)| {
            (
                (*address).to_owned(),
                contacts.iter().map(|&number| binding(number)).collect(),
            )
        })
        .collect()
}

#[tokio::test]
async fn a_restart_restores_what_was_saved() {
    let database = Database::new();
    let store = database.store().await;
    store
        .locations()
        .save(&[
            bound("alice@example.org", &[1, 2]),
            bound("bob@example.org", &[3]),
        ])
        .await
        .expect("saves");
    store.close().await;
    let store = database.store().await;
    assert_eq!(
        at_rest(&store).await,
        expected(&[("alice@example.org", &[1, 2]), ("bob@example.org", &[3])])
    );
}

/// A killed server closes nothing: another pool must read what the first one committed.
#[tokio::test]
async fn a_kill_loses_nothing_that_was_saved() {
    let database = Database::new();
    let killed = database.store().await;
    killed
        .locations()
        .save(&[bound("alice@example.org", &[1])])
        .await
        .expect("saves");
    let store = database.store().await;
    assert_eq!(
        at_rest(&store).await,
        expected(&[("alice@example.org", &[1])])
    );
}

#[tokio::test]
async fn a_save_states_what_an_address_is_bound_to_now() {
    let database = Database::new();
    let store = database.store().await;
    store
        .locations()
        .save(&[
            bound("alice@example.org", &[1, 2]),
            bound("bob@example.org", &[3]),
        ])
        .await
        .expect("saves");
    store
        .locations()
        .save(&[bound("alice@example.org", &[2, 4])])
        .await
        .expect("saves");
    assert_eq!(
        at_rest(&store).await,
        expected(&[("alice@example.org", &[2, 4]), ("bob@example.org", &[3])])
    );
    store
        .locations()
        .save(&[bound("bob@example.org", &[])])
        .await
        .expect("saves");
    assert_eq!(
        at_rest(&store).await,
        expected(&[("alice@example.org", &[2, 4])])
    );
}

#[tokio::test]
async fn a_refreshed_binding_has_its_new_values() {
    let database = Database::new();
    let store = database.store().await;
    store
        .locations()
        .save(&[bound("alice@example.org", &[1])])
        .await
        .expect("saves");
    let refreshed = BindingRow {
        expires_at: 4_000_000_000,
        cseq: u32::MAX,
        q: 0,
        path: b"".into(),
        ..binding(1)
    };
    let entry = AddressBindings {
        address: b"alice@example.org".into(),
        bindings: vec![refreshed.clone()],
    };
    store.locations().save(&[entry]).await.expect("saves");
    assert_eq!(
        at_rest(&store).await,
        BTreeMap::from([("alice@example.org".to_owned(), vec![refreshed])])
    );
}

#[tokio::test]
async fn of_two_entries_for_one_address_the_later_counts() {
    let database = Database::new();
    let store = database.store().await;
    let batch = [
        bound("alice@example.org", &[1]),
        bound("bob@example.org", &[2]),
        bound("alice@example.org", &[3]),
    ];
    store.locations().save(&batch).await.expect("saves");
    assert_eq!(
        at_rest(&store).await,
        expected(&[("alice@example.org", &[3]), ("bob@example.org", &[2])])
    );
}

#[tokio::test]
async fn one_contact_twice_does_not_cost_the_others_their_save() {
    let database = Database::new();
    let store = database.store().await;
    store
        .locations()
        .save(&[
            bound("alice@example.org", &[1, 1]),
            bound("bob@example.org", &[2]),
        ])
        .await
        .expect("saves");
    assert_eq!(
        at_rest(&store).await,
        expected(&[("alice@example.org", &[1]), ("bob@example.org", &[2])])
    );
}

#[tokio::test]
async fn bytes_that_are_no_text_come_back_as_they_were() {
    let database = Database::new();
    let store = database.store().await;
    let odd = BindingRow {
        contact: b"sip:\xff\xfe\0@192.0.2.1".into(),
        user_agent: (0..=255).collect::<Vec<u8>>().into(),
        ..binding(1)
    };
    let entry = AddressBindings {
        address: b"al\xe9ce@example.org".into(),
        bindings: vec![odd.clone()],
    };
    store.locations().save(&[entry]).await.expect("saves");
    let mut found = Vec::new();
    store
        .locations()
        .load_all(0, |address, binding| {
            found.push((address.to_vec(), owned(binding)));
        })
        .await
        .expect("loads");
    assert_eq!(found, [(b"al\xe9ce@example.org".to_vec(), odd)]);
}

/// The longest that the registrar accepts; keys of a database are shorter.
#[tokio::test]
async fn long_addresses_and_contacts_are_told_apart_by_their_ends() {
    let database = Database::new();
    let store = database.store().await;
    let long = |end: &str| format!("{}{end}", "x".repeat(8_000));
    let entries = ["a", "b"].map(|address| AddressBindings {
        address: long(address).into_bytes().into(),
        bindings: [1, 2]
            .map(|number| BindingRow {
                contact: long(&number.to_string()).into_bytes().into(),
                ..binding(number)
            })
            .to_vec(),
    });
    store.locations().save(&entries).await.expect("saves");
    assert_eq!(store.locations().count().await.expect("counts"), 4);
    let ended = AddressBindings {
        bindings: Vec::new(),
        ..entries[0].clone()
    };
    store.locations().save(&[ended]).await.expect("saves");
    let left: Vec<_> = at_rest(&store).await.into_keys().collect();
    assert_eq!(left, [long("b")]);
}

#[tokio::test]
async fn expired_bindings_are_not_restored_and_can_be_deleted() {
    let database = Database::new();
    let store = database.store().await;
    store
        .locations()
        .save(&[bound("alice@example.org", &[1, 2, 3])])
        .await
        .expect("saves");
    let mut restored = Vec::new();
    let loaded = store
        .locations()
        .load_all(1_000_002, |_, binding| restored.push(binding.cseq))
        .await
        .expect("loads");
    assert_eq!(
        (loaded, restored),
        (
            Loaded {
                bindings: 1,
                unreadable: 0
            },
            vec![3]
        )
    );
    assert_eq!(
        store
            .locations()
            .delete_expired(1_000_002)
            .await
            .expect("deletes"),
        2
    );
    assert_eq!(store.locations().count().await.expect("counts"), 1);
}

#[tokio::test]
async fn an_invalid_row_is_skipped_and_counted() {
    let database = Database::new();
    let store = database.store().await;
    store
        .locations()
        .save(&[bound("alice@example.org", &[1, 2])])
        .await
        .expect("saves");
    database.damage_sources(1).await;
    let loaded = store
        .locations()
        .load_all(0, |_, _| ())
        .await
        .expect("loads");
    assert_eq!(
        loaded,
        Loaded {
            bindings: 1,
            unreadable: 1
        }
    );
}

#[tokio::test]
async fn a_full_save_replaces_everything() {
    let database = Database::new();
    let store = database.store().await;
    store
        .locations()
        .save(&[
            bound("alice@example.org", &[1]),
            bound("bob@example.org", &[2]),
        ])
        .await
        .expect("saves");
    for round in [3, 4] {
        let mut save = store.locations().begin_full_save().await.expect("begins");
        save.add(&[bound("bob@example.org", &[round])])
            .await
            .expect("saves");
        save.add(&[bound("carol@example.org", &[5, 6])])
            .await
            .expect("saves");
        save.finish().await.expect("finishes");
        assert_eq!(
            at_rest(&store).await,
            expected(&[
                ("bob@example.org", &[round]),
                ("carol@example.org", &[5, 6])
            ])
        );
        // The next full save must also remove rows of a plain save in between.
        store
            .locations()
            .save(&[bound("dave@example.org", &[7])])
            .await
            .expect("saves");
    }
}

#[tokio::test]
async fn an_abandoned_full_save_deletes_nothing() {
    let database = Database::new();
    let store = database.store().await;
    store
        .locations()
        .save(&[
            bound("alice@example.org", &[1]),
            bound("bob@example.org", &[2]),
        ])
        .await
        .expect("saves");
    {
        let mut save = store.locations().begin_full_save().await.expect("begins");
        save.add(&[bound("bob@example.org", &[3])])
            .await
            .expect("saves");
    }
    assert_eq!(
        at_rest(&store).await,
        expected(&[("alice@example.org", &[1]), ("bob@example.org", &[3])])
    );
    let mut save = store.locations().begin_full_save().await.expect("begins");
    save.add(&[bound("carol@example.org", &[4])])
        .await
        .expect("saves");
    assert_eq!(save.finish().await.expect("finishes"), 2);
    assert_eq!(
        at_rest(&store).await,
        expected(&[("carol@example.org", &[4])])
    );
}

#[tokio::test]
async fn a_hundred_thousand_bindings_come_back_each_once() {
    const COUNT: u32 = 100_000;
    let database = Database::new();
    let store = database.store().await;
    let mut save = store.locations().begin_full_save().await.expect("begins");
    for start in (0..COUNT).step_by(1_000) {
        let batch: Vec<_> = (start..start + 1_000)
            .map(|number| bound(&format!("u{number}@example.org"), &[number]))
            .collect();
        save.add(&batch).await.expect("saves");
    }
    assert_eq!(save.finish().await.expect("finishes"), 0);
    let mut seen = vec![0_u8; COUNT as usize];
    let loaded = store
        .locations()
        .load_all(0, |address, binding| {
            assert_eq!(address, format!("u{}@example.org", binding.cseq).as_bytes());
            if let Some(count) = seen.get_mut(binding.cseq as usize) {
                *count += 1;
            }
        })
        .await
        .expect("loads");
    assert_eq!(
        loaded,
        Loaded {
            bindings: u64::from(COUNT),
            unreadable: 0
        }
    );
    assert!(seen.iter().all(|&count| count == 1));
}
