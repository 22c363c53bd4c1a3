//! Where phones are, from `location`.

use super::{open, open_with, options};
use crate::Database;
use crate::kamailio_tables::WHOLE_NUMBERS;
use std::collections::BTreeMap;
use tandem_store::{BindingRow, KamailioOptions, Loaded, Store, StoreError};

/// 2030-03-17 17:46:40 UTC.
const NOW: u32 = 1_900_000_000;

/// As `usrloc` writes them: with and without a domain, behind NAT, expired, permanent, and over a WebSocket.
const ROWS: &str = "INSERT INTO location (ruid, username, domain, contact, received, path, expires, q, callid, cseq, user_agent, socket, \
    instance, reg_id) VALUES \
    ('1', 'alice', 'example.org', 'sip:alice@10.0.0.7:5070', 'sip:192.0.2.7:40000', NULL, '2030-03-17 17:46:41', 0.5, 'c1', 7, 'Phone/1', \
     'udp:192.0.2.1:5060', '<urn:uuid:1>', 1), \
    ('2', 'bob', NULL, 'sip:bob@192.0.2.8;transport=tcp', NULL, NULL, '2030-03-17 18:46:40', -1, 'c2', 1, '', 'tcp:192.0.2.1:5060', NULL, 0), \
    ('3', 'carol', 'example.org', 'sip:carol@192.0.2.9', NULL, NULL, '2030-03-17 17:46:40', 1, 'c3', 1, '', NULL, NULL, 0), \
    ('4', 'gateway', 'example.org', 'sip:gateway@phone.example.org', NULL, '<sip:192.0.2.3;lr>', '1970-01-01 00:00:00', 1, 'c4', 1, '', \
     NULL, NULL, 0), \
    ('5', 'web', 'example.org', 'sip:web@x.invalid;transport=ws', 'sip:192.0.2.9:4;transport=ws', NULL, '2030-03-17 18:46:40', 1, 'c5', 1, \
     '', 'tcp:192.0.2.1:80', NULL, 0), \
    ('6', 'odd', 'example.org', 'nonsense', NULL, NULL, '2030-03-17 18:46:40', 1, 'c6', 1, '', NULL, NULL, 0)";

async fn loaded(store: &Store) -> (Loaded, BTreeMap<String, BindingRow<'static>>) {
    let mut all = BTreeMap::new();
    let locations = store.locations();
    let read = locations.load_all(NOW, |address, row| {
        let own = BindingRow {
            contact: row.contact.to_vec().into(),
            call_id: row.call_id.to_vec().into(),
            path: row.path.to_vec().into(),
            instance: row.instance.to_vec().into(),
            user_agent: row.user_agent.to_vec().into(),
            listener: row.listener.to_string().into(),
            ..*row
        };
        all.insert(String::from_utf8_lossy(address).into_owned(), own);
    });
    (read.await.expect("reads"), all)
}

#[tokio::test]
async fn bindings_that_have_not_expired_are_loaded() {
    let database = Database::of_kamailio();
    database.execute(ROWS);
    let (counts, all) = loaded(&open(&database).await).await;
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "alice@example.org",
            "bob@example.org",
            "gateway@example.org"
        ]
    );
    assert_eq!((counts.bindings, counts.unreadable), (3, 1));
    let expected = BindingRow {
        contact: b"sip:alice@10.0.0.7:5070".into(),
        q: 500,
        expires_at: NOW + 1,
        call_id: b"c1".into(),
        cseq: 7,
        path: b"".into(),
        instance: b"\"<urn:uuid:1>\";reg-id=1".into(),
        user_agent: b"Phone/1".into(),
        source: "192.0.2.7:40000".parse().expect("an address"),
        listener: "udp:192.0.2.1:5060".into(),
    };
    assert_eq!(all["alice@example.org"], expected);
    let bob = &all["bob@example.org"];
    assert_eq!((bob.q, bob.expires_at), (1_000, NOW + 3_600));
    assert_eq!(bob.source, "192.0.2.8:5060".parse().expect("an address"));
    assert_eq!(
        all["gateway@example.org"].expires_at,
        u32::MAX,
        "it is permanent"
    );
}

#[tokio::test]
async fn times_are_those_of_the_time_zone_of_kamailio() {
    let database = Database::of_kamailio();
    database.execute(ROWS);
    for (time_zone, difference) in [("+02:00", -7_200_i64), ("-03:30", 12_600)] {
        let options = KamailioOptions {
            time_zone: time_zone.to_owned(),
            ..options()
        };
        let (_, all) = loaded(&open_with(&database, options).await.expect("opens")).await;
        let expected = i64::from(NOW) + 1 + difference;
        let alice = all
            .get("alice@example.org")
            .map(|row| i64::from(row.expires_at));
        assert_eq!(alice, (difference > 0).then_some(expected), "{time_zone}");
    }
    let options = KamailioOptions {
        time_zone: "Mars/Olympus".to_owned(),
        ..options()
    };
    let error = open_with(&database, options)
        .await
        .expect_err("is no time zone");
    assert!(matches!(error, StoreError::Schema { .. }), "{error:?}");
    assert!(error.to_string().contains("database.time_zone"), "{error}");
}

/// With `expires_type = 1`, `usrloc` writes seconds, and its column is a number.
#[tokio::test]
async fn times_may_be_seconds() {
    for kind in WHOLE_NUMBERS {
        let database = Database::of_kamailio();
        database.execute("ALTER TABLE location DROP COLUMN expires, DROP COLUMN last_modified");
        database.execute(&format!(
            "ALTER TABLE location ADD expires {kind}, ADD last_modified {kind}"
        ));
        database.execute(
            "INSERT INTO location (ruid, username, contact, expires, last_modified) VALUES \
             ('1', 'alice', 'sip:alice@192.0.2.7', 1900000001, 1900000000), ('2', 'bob', 'sip:bob@192.0.2.8', 1900000000, 1)",
        );
        let (_, all) = loaded(&open(&database).await).await;
        assert_eq!(all.len(), 1, "{kind}");
        assert_eq!(all["alice@example.org"].expires_at, NOW + 1, "{kind}");
    }
}

#[tokio::test]
async fn a_group_of_addresses_gives_its_networks() {
    let database = Database::of_kamailio();
    database.execute(
        "INSERT INTO address (grp, ip_addr, mask, port) VALUES (1, '192.0.2.7', 32, 0), (2, '192.0.2.8', 32, 0), \
         (1, '2001:db8::', 64, 0), (1, '192.0.2.9', 32, 5060), (1, 'trunk.example.net', 32, 0)",
    );
    let store = open(&database).await;
    let found = store.trusted_networks(1).await.expect("reads");
    let shown: Vec<String> = found
        .networks
        .iter()
        .map(|(ip, length)| format!("{ip}/{length}"))
        .collect();
    assert_eq!(shown, ["192.0.2.7/32", "2001:db8::/64"]);
    assert_eq!(found.skipped.len(), 2, "{:?}", found.skipped);
    assert!(
        store
            .trusted_networks(3)
            .await
            .expect("reads")
            .networks
            .is_empty()
    );
}
