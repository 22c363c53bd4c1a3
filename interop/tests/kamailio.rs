//! Tandem beside a Kamailio, on the database of that Kamailio.

#[expect(dead_code, reason = "shared with the tests of the store")]
#[path = "../../crates/tandem-store/tests/servers/postgres.rs"]
mod postgres;
#[path = "../../crates/tandem-store/tests/servers/process.rs"]
mod process;

use interop::{Kamailio, Scenario, Server, ServerOptions, wait_until};
use postgres::Server as Postgres;

/// Not that of the machine.
const TIME_ZONE: &str = "Asia/Tokyo";

/// A database with the tables of Kamailio, and the subscribers that `kamctl add` would have added.
fn database() -> Postgres {
    let database = Postgres::new();
    database.execute("postgres", "CREATE DATABASE kamailio");
    for module in ["standard", "auth_db", "usrloc", "permissions"] {
        let file = format!("/usr/share/kamailio/postgres/{module}-create.sql");
        let sql = std::fs::read_to_string(&file);
        let sql = sql.unwrap_or_else(|error| panic!("{file}: {error}; run scripts/setup test"));
        database.execute("kamailio", &sql);
    }
    for user in ["alice", "bob"] {
        let password = Server::password(user);
        database.execute(
            "kamailio",
            &format!(
                "INSERT INTO subscriber (username, domain, password, ha1) \
                 VALUES ('{user}', 'example.org', '{password}', md5('{user}:example.org:{password}'))"
            ),
        );
    }
    database.execute(
        "kamailio",
        "CREATE ROLE tandem LOGIN; GRANT SELECT ON subscriber, location, address TO tandem",
    );
    database
}

/// A server that only reads the database.
fn tandem(database: &Postgres, interval: &str) -> Server {
    Server::start(&ServerOptions {
        database: Some(format!(
            "url = \"{}\"\nschema = \"kamailio\"\ntime_zone = \"{TIME_ZONE}\"\nlocation_interval = \"{interval}\"",
            database.url("tandem", "kamailio")
        )),
        ..ServerOptions::default()
    })
}

fn kamailio(database: &Postgres) -> Kamailio {
    let url = database.url("postgres:any", "kamailio");
    Kamailio::registrar("example.org", &url, TIME_ZONE)
}

#[test]
fn a_phone_registered_at_kamailio_is_called_through_tandem() {
    let database = database();
    let kamailio = kamailio(&database);
    let mut server = tandem(&database, "1d");
    let bob = Scenario::new("answer").start(&server);
    let contact = format!("<sip:bob@{}>", bob.address);
    Scenario::new("register")
        .from("bob")
        .key("contact", &contact)
        .at(kamailio.address())
        .run(&server);
    assert!(server.bindings("bob").is_empty(), "{}", server.log());
    server.restart();
    let bindings = server.bindings("bob");
    assert_eq!(bindings.len(), 1, "{bindings:?} {}", server.log());
    assert!(!server.log().contains("time_zone"), "{}", server.log());
    // Alice is challenged, and her password is that of Kamailio.
    Scenario::new("call").run(&server);
    bob.finish();
    Scenario::new("register")
        .from("alice")
        .key("contact", "<sip:alice@127.0.0.1:9>")
        .run(&server);
    assert_eq!(server.bindings("alice").len(), 1);
}

#[test]
fn a_phone_that_registers_at_kamailio_later_is_found() {
    let database = database();
    let kamailio = kamailio(&database);
    let server = tandem(&database, "1s");
    assert!(server.bindings("bob").is_empty());
    Scenario::new("register")
        .from("bob")
        .key("contact", "<sip:bob@127.0.0.1:9>")
        .at(kamailio.address())
        .run(&server);
    wait_until("Tandem has read it", || server.bindings("bob").len() == 1);
}
