//! A server on the database of a Kamailio.
mod common;
#[path = "../../tandem-store/tests/servers/process.rs"]
mod process;
#[path = "../../tandem-store/tests/servers/postgres.rs"]
mod server;

use common::{Phone, Place, call, get, http_get, none, run, tandem, text, until};
use process::free_port;
use serde_json::{Value, json};
use server::Server as Postgres;
use std::time::{Duration, Instant};
use tandem::serve::Server;

/// A database with the tables of Kamailio, and the user `reader` who may only read them.
fn database() -> Postgres {
    let database = Postgres::new();
    for module in ["standard", "auth_db", "usrloc", "permissions"] {
        let file = format!("/usr/share/kamailio/postgres/{module}-create.sql");
        let sql = std::fs::read_to_string(&file);
        let sql = sql.unwrap_or_else(|error| panic!("{file}: {error}; run scripts/setup test"));
        execute(&database, &sql);
    }
    execute(
        &database,
        "CREATE ROLE reader LOGIN; GRANT SELECT ON subscriber, location, address TO reader; \
         INSERT INTO subscriber (username, domain, password) VALUES ('alice', 'tandem.localhost', 'secret'), ('bob', '', 'secret')",
    );
    database
}

fn execute(database: &Postgres, sql: &str) {
    database.execute("postgres", sql);
}

/// A configuration for this database, with the admin interface on this port, and more lines for the section of the database.
fn configuration(database: &Postgres, admin: u16, more: &str) -> String {
    format!(
        "domains = [\"tandem.localhost\"]\n[[listen]]\naddress = \"127.0.0.1:0\"\n[workers]\ncount = 2\n\
         [admin]\nlisten = \"127.0.0.1:{admin}\"\n[database]\nurl = \"{}\"\nschema = \"kamailio\"\n{more}",
        database.url("reader", "postgres")
    )
}

/// Writes a configuration for this database, with more lines for its section.
fn place(database: &Postgres, more: &str) -> Place {
    let place = Place::new("");
    place.configure_exactly(&configuration(database, 0, more));
    place
}

async fn trusted(server: &Server) -> Value {
    let shown = call(server, "config.show", none()).await.expect("shown");
    shown["proxy"]["trusted_peers"].clone()
}

async fn bindings(server: &Server, name: &str) -> usize {
    let address = json!({ "address": format!("{name}@tandem.localhost") });
    let found = call(server, "location.get", address).await.expect("shown");
    found["bindings"].as_array().map_or(0, Vec::len)
}

#[test]
fn subscribers_of_kamailio_register_and_changes_take_effect() {
    run(async {
        let database = database();
        let (_place, server) = place(&database, "").start_alone().await;
        for name in ["alice", "bob"] {
            let phone = Phone::new(&server, name);
            assert_eq!(phone.register_with("wrong", "1"), 401);
            assert_eq!(Phone::new(&server, name).register_with("secret", "2"), 200);
            assert_eq!(bindings(&server, name).await, 1);
        }
        execute(
            &database,
            "INSERT INTO subscriber (username, domain, password) VALUES ('carol', 'tandem.localhost', 'secret')",
        );
        assert_eq!(
            Phone::new(&server, "carol").register_with("secret", "3"),
            200
        );
        assert!(server.stop(false).await, "nothing waits to be saved");
        let place = place(&database, "");
        assert_eq!(
            place.start().await.running().restored,
            0,
            "nothing was written"
        );
    });
}

#[test]
fn registrations_at_kamailio_appear_and_those_made_here_stay() {
    run(async {
        let database = database();
        let (_place, server) = place(&database, "location_interval = \"1s\"")
            .start_alone()
            .await;
        let phone = Phone::new(&server, "alice");
        assert_eq!(phone.register_with("secret", "here"), 200);
        let row = |ruid: &str, name: &str, contact: &str| {
            format!(
                "INSERT INTO location (ruid, username, contact, expires, callid) \
                 VALUES ('{ruid}', '{name}', '{contact}', now() AT TIME ZONE 'UTC' + INTERVAL '2 hours', 'at Kamailio')"
            )
        };
        let same = format!("sip:alice@{}", phone.address());
        execute(&database, &row("1", "alice", &same));
        execute(&database, &row("2", "bob", "sip:bob@127.0.0.1:9"));
        until("it is read", async || bindings(&server, "bob").await == 1).await;
        let address = json!({ "address": "alice@tandem.localhost" });
        let alice = call(&server, "location.get", address).await.expect("shown");
        assert_eq!(alice["bindings"][0]["call_id"], "here", "{alice}");
        assert!(server.stop(false).await);
    });
}

#[test]
fn a_registration_at_kamailio_is_followed_until_it_is_removed_here() {
    run(async {
        let database = database();
        let more = "location_interval = \"1s\"";
        let (_place, server) = place(&database, more).start_alone().await;
        let address = || json!({ "address": "alice@tandem.localhost" });
        let call_id = async || {
            let alice = call(&server, "location.get", address()).await;
            let alice = alice.expect("shown");
            alice["bindings"][0]["call_id"].clone()
        };
        let insert = |name: &str| {
            execute(
                &database,
                &format!(
                    "INSERT INTO location (ruid, username, contact, received, expires, callid) VALUES \
                     ('{name}', '{name}', 'sip:phone@10.0.0.7', 'sip:127.0.0.1:40000', now() AT TIME ZONE 'UTC' + INTERVAL '2 hours', 'first')"
                ),
            );
        };
        insert("alice");
        until("it is read", async || call_id().await == "first").await;
        let restarted = "UPDATE location SET callid = 'second', received = 'sip:127.0.0.1:40001', \
             expires = now() AT TIME ZONE 'UTC' + INTERVAL '1 hour' WHERE username = 'alice'";
        execute(&database, restarted);
        until("it is followed", async || call_id().await == "second").await;
        let removed = call(&server, "location.remove", address()).await;
        assert_eq!(removed, Ok(json!({ "removed": 1 })));
        // Each is read later than the one before.
        for name in ["bob", "carol"] {
            insert(name);
            until("it is read", async || bindings(&server, name).await == 1).await;
        }
        assert_eq!(call_id().await, Value::Null);
        execute(
            &database,
            "UPDATE location SET callid = 'third' WHERE username = 'alice'",
        );
        until("it is followed", async || call_id().await == "third").await;
        assert!(server.stop(false).await);
    });
}

#[test]
fn a_group_of_addresses_is_trusted_and_read_again_at_a_reload() {
    run(async {
        let database = database();
        execute(
            &database,
            "INSERT INTO address (grp, ip_addr) VALUES (1, '192.0.2.7'), (2, '192.0.2.8')",
        );
        let (place, server) = place(&database, "trusted_group = 1").start_alone().await;
        assert_eq!(trusted(&server).await, json!(["192.0.2.7/32"]));
        let unchanged = call(&server, "config.reload", none())
            .await
            .expect("reloads");
        assert_eq!(unchanged["changed"], json!([]));
        execute(
            &database,
            "INSERT INTO address (grp, ip_addr, mask) VALUES (1, '198.51.100.0', 24)",
        );
        let changed = call(&server, "config.reload", none())
            .await
            .expect("reloads");
        assert_eq!(changed["changed"], json!(["proxy.trusted_peers"]));
        assert_eq!(
            trusted(&server).await,
            json!(["192.0.2.7/32", "198.51.100.0/24"])
        );
        execute(&database, "REVOKE SELECT ON address FROM reader");
        let refused = call(&server, "config.reload", none())
            .await
            .expect_err("cannot read");
        assert!(refused.contains("nothing changed"), "{refused}");
        assert_eq!(get(&server, "/health/ready").await.0, 200);
        assert!(server.stop(false).await);
        drop(place);
    });
}

#[test]
fn a_reload_needs_no_database_for_a_group_in_use_and_holds_up_nothing() {
    run(async {
        let mut database = database();
        execute(
            &database,
            "INSERT INTO address (grp, ip_addr) VALUES (1, '192.0.2.7')",
        );
        let (place, server) = place(&database, "trusted_group = 1").start_alone().await;
        database.stop();
        let other = |group: u8| {
            let more = format!("trusted_group = {group}");
            let text = configuration(&database, 0, &more);
            place.configure_exactly(&format!("server_header = \"Other\"\n{text}"));
        };
        other(1);
        let reload = call(&server, "config.reload", none());
        let drain = async {
            let begun = Instant::now();
            let drained = call(&server, "node.drain", json!({ "on": false })).await;
            drained.expect("goes on");
            begun.elapsed()
        };
        let (reloaded, drained) = tokio::join!(reload, drain);
        assert_eq!(reloaded, Ok(json!({ "changed": ["server_header"] })));
        assert_eq!(trusted(&server).await, json!(["192.0.2.7/32"]));
        assert!(drained < Duration::from_secs(3), "{drained:?}");
        other(2);
        let reloaded = call(&server, "config.reload", none()).await;
        let refused = reloaded.expect_err("this group was never read");
        assert!(refused.contains("nothing changed"), "{refused}");
        assert_eq!(trusted(&server).await, json!(["192.0.2.7/32"]));
        assert!(server.stop(false).await);
    });
}

/// Reading the subscribers fails as if they were locked.
const LOCKED: &str = "CREATE FUNCTION locked() RETURNS text LANGUAGE plpgsql AS \
    $$ BEGIN RAISE EXCEPTION 'locked' USING ERRCODE = 'lock_not_available'; END $$; \
    ALTER TABLE subscriber RENAME TO subscribers; \
    CREATE VIEW subscriber AS SELECT 1 AS id, locked() AS username, '' AS domain, '' AS password, '' AS ha1; \
    GRANT SELECT ON subscriber TO reader";

#[test]
fn a_peer_that_is_removed_while_the_server_waits_for_its_database_is_not_trusted() {
    run(async {
        let database = database();
        execute(
            &database,
            "INSERT INTO address (grp, ip_addr) VALUES (1, '192.0.2.7'), (1, '192.0.2.8')",
        );
        execute(&database, LOCKED);
        let admin = free_port();
        let place = Place::new("");
        place.configure_exactly(&configuration(&database, admin, "trusted_group = 1"));
        let wait = async {
            until("it waits", async || {
                let connected = tokio::net::TcpStream::connect(("127.0.0.1", admin)).await;
                let ready = format!("http://127.0.0.1:{admin}/health/ready");
                connected.is_ok() && http_get(ready).await.1.contains("busy")
            })
            .await;
            execute(
                &database,
                "DELETE FROM address WHERE ip_addr = '192.0.2.8'; DROP VIEW subscriber; \
                 ALTER TABLE subscribers RENAME TO subscriber",
            );
        };
        let (server, ()) = tokio::join!(place.start(), wait);
        assert_eq!(trusted(&server).await, json!(["192.0.2.7/32"]));
        assert!(server.stop(false).await);
    });
}

#[test]
fn without_a_group_nobody_is_trusted() {
    run(async {
        let database = database();
        execute(
            &database,
            "INSERT INTO address (grp, ip_addr) VALUES (1, '192.0.2.7')",
        );
        let (_place, server) = place(&database, "").start_alone().await;
        assert_eq!(trusted(&server).await, json!([]));
        assert!(server.stop(false).await);
    });
}

#[test]
fn subscribers_are_managed_with_the_tools_of_kamailio() {
    let database = database();
    let place = place(&database, "");
    let file = place.file().display().to_string();
    let output = tandem(&["user", "add", "dave@tandem.localhost", "--config", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("kamctl"),
        "{}",
        text(&output.stderr)
    );
}
