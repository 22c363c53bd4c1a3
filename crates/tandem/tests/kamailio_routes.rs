//! Gateways from Kamailio's `dispatcher`, and prefixes from its `mtree` and `pdt`: read in place, reloaded, checked, and used by calls.
mod common;
#[path = "../../tandem-store/tests/servers/mariadb.rs"]
mod mariadb;
#[path = "../../tandem-store/tests/servers/postgres.rs"]
mod postgres;
#[path = "../../tandem-store/tests/servers/process.rs"]
mod process;

use common::{PATIENCE, Place, call, none, run, text};
use serde_json::{Value, json};
use sip_stack::Agent;
use sqlx::Connection as _;
use std::net::SocketAddr;
use std::process::Command;

const ROUTES: &str = r#"
[dispatcher]
source = "database"
algorithm = 4
sets = [{ set = 2, algorithm = 8 }]
probing = "never"

[prefixes]
source = "kamailio"
table = "mtree"
values = "sets"

[[rule]]
name = "test"
user = ["9990"]
action = "group"
group = "dispatcher-2"

[[rule]]
name = "numbers"
user = ["+*"]
action = "prefixes"
"#;

/// Tables as those of Kamailio, in a dialect that all databases have.
const TABLES: &str = "CREATE TABLE dispatcher (id INTEGER PRIMARY KEY, setid INTEGER, destination VARCHAR(192), flags INTEGER, \
     priority INTEGER, attrs VARCHAR(128)); \
     CREATE TABLE mtree (id INTEGER PRIMARY KEY, tprefix VARCHAR(32), tvalue VARCHAR(128));";

const ROWS: &str = "INSERT INTO dispatcher VALUES (1, 1, 'sip:192.0.2.1:5080', 0, 0, 'duid=berlin'), \
     (2, 1, 'sip:192.0.2.2', 0, 0, ''), (3, 2, 'sip:192.0.2.2', 0, 0, ''), (4, 2, 'sip:192.0.2.3', 4, 0, ''); \
     INSERT INTO mtree VALUES (1, '49', '1'), (2, '4930', '2;1');";

/// What all databases must do; `execute` runs SQL as Kamailio's administrator.
async fn read_in_place(place: &Place, mut execute: impl AsyncFnMut(&'static str)) {
    let server = place.start().await;
    let listed = call(&server, "groups.list", none()).await.expect("listed");
    let members = |group: usize| {
        let members = listed["groups"][group]["members"].as_array();
        let names = members
            .into_iter()
            .flatten()
            .map(|it| it["gateway"].clone());
        Value::Array(names.collect())
    };
    assert_eq!(listed["groups"][0]["name"], "dispatcher-1");
    assert_eq!(listed["groups"][0]["algorithm"], "round_robin");
    assert_eq!(members(0), json!(["berlin", "192.0.2.2"]));
    assert_eq!(members(1), json!(["192.0.2.2"]));
    let found = async |number: &str| {
        let found = call(&server, "prefixes.lookup", json!({ "number": number })).await;
        found.expect("a number")["candidates"][0]["groups"].clone()
    };
    assert_eq!(
        found("+493012").await,
        json!(["dispatcher-2", "dispatcher-1"])
    );

    // A reload keeps the state of a gateway, as its name stays.
    let disable = json!({ "name": "berlin" });
    call(&server, "gateways.disable", disable)
        .await
        .expect("known");
    execute("INSERT INTO dispatcher VALUES (5, 3, 'sip:192.0.2.9', 0, 0, '')").await;
    execute("INSERT INTO mtree VALUES (3, '31', '3')").await;
    let reloaded = call(&server, "gateways.reload", none()).await;
    let reloaded = reloaded.expect("right");
    assert_eq!(reloaded["gateways"], 3);
    assert_eq!(reloaded["groups"], 3);
    let note = "table dispatcher, row 4 (set 2, sip:192.0.2.3): left out: flag 4 disables it";
    assert_eq!(reloaded["notes"], json!([note]));
    assert_eq!(found("+3155").await, json!(["dispatcher-3"]));
    let berlin = call(&server, "gateways.get", json!({ "name": "berlin" })).await;
    assert_eq!(berlin.expect("known")["state"], "disabled");

    // A prefix that names a set without gateways changes nothing.
    execute("INSERT INTO mtree VALUES (4, '32', '4')").await;
    let refused = call(&server, "gateways.reload", none()).await;
    let problem = refused.expect_err("wrong");
    assert!(
        problem.contains("nothing changed: the gateways or prefixes have errors")
            && problem.contains("table mtree, row 4: the gateway group \"dispatcher-4\""),
        "{problem}"
    );
    assert_eq!(found("+3155").await, json!(["dispatcher-3"]));
    assert!(server.stop(false).await);
}

fn configure(place: &Place, url: &str, schema: &str) {
    place.configure_exactly(&format!(
        "domains = [\"tandem.localhost\"]\n[[listen]]\naddress = \"127.0.0.1:0\"\n[workers]\ncount = 2\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[database]\nurl = \"{url}\"\n{schema}{ROUTES}"
    ));
}

#[test]
fn the_tables_are_read_and_reloaded_from_sqlite() {
    run(async {
        let place = Place::new("");
        place.start().await.stop(true).await;
        configure(&place, &place.database_url(), "");
        let url = place.database_url();
        let execute = async |sql: &'static str| {
            let database = sqlx::SqliteConnection::connect(&url).await;
            let mut database = database.expect("opens");
            let done = sqlx::raw_sql(sql).execute(&mut database).await;
            done.expect("executed");
        };
        execute(TABLES).await;
        execute(ROWS).await;
        read_in_place(&place, execute).await;
    });
}

#[test]
fn the_tables_are_read_and_reloaded_from_mariadb_and_stay_in_use_while_it_is_away() {
    run(async {
        let mut server = mariadb::Server::new();
        for sql in ["CREATE DATABASE routes", TABLES, ROWS] {
            let database = if sql.starts_with("CREATE DATABASE") {
                "mysql"
            } else {
                "routes"
            };
            server.execute(database, sql);
        }
        let place = Place::new("");
        configure(&place, &server.url("tandem:secret", "routes"), "");
        read_in_place(&place, async |sql| server.execute("routes", sql)).await;

        server.execute("routes", "DELETE FROM mtree WHERE id = 4");
        let tandem = place.start().await;
        let routes = async || {
            let groups = call(&tandem, "groups.list", none()).await;
            let prefixes = tandem.running().policy.load().prefixes.len();
            (groups.expect("listed"), prefixes)
        };
        let before = routes().await;
        server.stop();
        let away = call(&tandem, "gateways.reload", none()).await;
        assert!(away.is_err_and(|problem| problem.contains("cannot reach the database")));
        let text = std::fs::read_to_string(place.file()).expect("readable");
        let changed = format!("{text}[timers]\nt1 = \"200ms\"\n");
        place.configure_exactly(&changed);
        let reloaded = call(&tandem, "config.reload", none()).await;
        assert_eq!(reloaded, Ok(json!({ "changed": ["timers.t1"] })));
        assert_eq!(routes().await, before);
        // Another table has not been read yet.
        place.configure_exactly(&changed.replace("algorithm = 4", "algorithm = 0"));
        let refused = call(&tandem, "config.reload", none()).await;
        let problem = refused.expect_err("it cannot be read");
        assert!(problem.contains("nothing changed"), "{problem}");
        assert_eq!(routes().await, before);
    });
}

/// A PostgreSQL server with the tables of a Kamailio, and a user who may only read them.
fn kamailio() -> postgres::Server {
    let database = postgres::Server::new();
    for module in ["standard", "auth_db", "usrloc", "dispatcher", "mtree"] {
        let file = format!("/usr/share/kamailio/postgres/{module}-create.sql");
        let sql = std::fs::read_to_string(&file);
        let sql = sql.unwrap_or_else(|error| panic!("{file}: {error}; run scripts/setup test"));
        database.execute("postgres", &sql);
    }
    database.execute(
        "postgres",
        "CREATE ROLE reader LOGIN; GRANT SELECT ON subscriber, location, dispatcher, mtree TO reader; \
         INSERT INTO subscriber (username, domain, password) VALUES ('alice', 'tandem.localhost', 'secret')",
    );
    database
}

#[test]
fn the_tables_are_read_and_reloaded_in_the_database_of_a_kamailio_on_postgresql() {
    run(async {
        let database = kamailio();
        let rows = ROWS.replace(
            "dispatcher VALUES",
            "dispatcher (id, setid, destination, flags, priority, attrs) VALUES",
        );
        let columns = "mtree (id, tprefix, tvalue) VALUES";
        database.execute("postgres", &rows.replace("mtree VALUES", columns));
        let place = Place::new("");
        let url = database.url("reader", "postgres");
        configure(&place, &url, "schema = \"kamailio\"\n");
        let execute = async |sql: &'static str| {
            let sql = sql.replace(
                "dispatcher VALUES",
                "dispatcher (id, setid, destination, flags, priority, attrs) VALUES",
            );
            database.execute("postgres", &sql.replace("mtree VALUES", columns));
        };
        read_in_place(&place, execute).await;
    });
}

fn gateway() -> (Agent, SocketAddr) {
    let agent = Agent::builder("sip:gateway@gateway.example").bind("udp:127.0.0.1:0");
    let agent = agent.start().expect("a gateway");
    let address = agent.listeners()[0].address;
    (agent, address)
}

/// A call that this gateway must get.
fn calls(caller: &Agent, number: &str, gateway: &Agent) {
    let uri = format!("sip:{number}@tandem.localhost");
    let dialled = caller.invite(&uri).session("v=0\r\n").send().expect("sent");
    let incoming = gateway.incoming(PATIENCE).expect("a call comes");
    let invite = incoming.invite().clone();
    let invite = text(invite.message().request_uri());
    assert!(invite.starts_with(&format!("sip:{number}@")), "{invite}");
    let _answered = incoming.accept("v=0\r\n").expect("the caller is there");
    dialled.answered().expect("an answer");
}

#[test]
fn calls_of_kamailios_subscribers_go_to_the_gateways_of_its_tables() {
    run(async {
        let database = kamailio();
        let ((berlin, at_berlin), (world, at_world)) = (gateway(), gateway());
        database.execute(
            "postgres",
            &format!(
                "INSERT INTO dispatcher (setid, destination) VALUES (1, 'sip:{at_world}'), (2, 'sip:{at_berlin}'); \
                 INSERT INTO mtree (tprefix, tvalue) VALUES ('49', '1'), ('4930', '2;1')"
            ),
        );
        let place = Place::new("");
        let url = database.url("reader", "postgres");
        configure(&place, &url, "schema = \"kamailio\"\n");
        let server = place.start().await;
        let proxy = server.running().listeners[0].address;
        let alice = Agent::builder("sip:alice@tandem.localhost").credentials("alice", "secret");
        let alice = alice.proxy(&format!("sip:{proxy};transport=udp"));
        let alice = alice.bind("udp:127.0.0.1:0").start().expect("a phone");
        calls(&alice, "+4930123", &berlin);
        calls(&alice, "+4940123", &world);
        calls(&alice, "9990", &berlin);

        // The set gets another gateway. The set of the other one is the second choice of the prefix.
        let (moved, at_moved) = gateway();
        let update =
            format!("UPDATE dispatcher SET destination = 'sip:{at_moved}' WHERE setid = 2");
        database.execute("postgres", &update);
        call(&server, "gateways.reload", none())
            .await
            .expect("right");
        calls(&alice, "+4930123", &moved);
        drop(moved);
        calls(&alice, "+4930123", &world);
    });
}

/// `tandem check` of the configuration in this place: its output, or its complaint.
fn check(place: &Place) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    let command = command.arg("check").arg("--config").arg(place.file());
    let output = command.output().expect("the program runs");
    match output.status.code() {
        Some(0) => Ok(text(&output.stdout)),
        _ => Err(text(&output.stderr)),
    }
}

#[test]
fn check_reads_the_tables_and_says_what_cannot_be_carried_over() {
    run(async {
        let mut database = postgres::Server::new();
        database.execute("postgres", TABLES);
        database.execute("postgres", ROWS);
        database.execute(
            "postgres",
            "CREATE ROLE reader LOGIN; GRANT SELECT ON dispatcher, mtree TO reader",
        );
        let place = Place::new("");
        configure(&place, &database.url("reader", "postgres"), "");
        let checked = check(&place).expect("right, with a warning");
        assert!(
            checked.contains("WARNING       table dispatcher, row 4 (set 2, sip:192.0.2.3): left out: flag 4 disables it"),
            "{checked}"
        );
        assert!(
            checked.contains("gateways from table dispatcher"),
            "{checked}"
        );
        database.execute(
            "postgres",
            "INSERT INTO mtree VALUES (3, '5x', '1'), (4, '51', '7')",
        );
        let problem = check(&place).expect_err("wrong rows");
        for expected in [
            "table mtree, row 3: the prefix \"5x\" contains 'x'",
            "table mtree, row 4: the gateway group \"dispatcher-7\" is not configured",
        ] {
            assert!(problem.contains(expected), "{expected}: {problem}");
        }
        database.execute(
            "postgres",
            "DELETE FROM mtree WHERE id > 2; DROP TABLE dispatcher",
        );
        let problem = check(&place).expect_err("no table");
        assert!(problem.contains("dispatcher"), "{problem}");
        database.stop();
        let checked = check(&place).expect("not checked");
        assert!(
            checked.contains("WARNING       the tables dispatcher and mtree were not checked, with the rules: cannot reach the database"),
            "{checked}"
        );
    });
}

#[test]
fn check_does_not_create_a_database() {
    let place = Place::new("");
    configure(&place, &place.database_url(), "");
    let checked = check(&place).expect("not checked");
    let expected = "the tables dispatcher and mtree were not checked, with the rules: ";
    assert!(checked.contains(expected), "{checked}");
    let database = place.file().with_file_name("t.db");
    assert!(!database.exists());
}

#[test]
fn an_algorithm_without_counterpart_and_a_group_that_is_no_set_are_refused() {
    let place = Place::new("");
    for (was, becomes, problem) in [
        (
            "algorithm = 4",
            "algorithm = 13",
            "algorithm 13 of dispatcher (the lowest latency) is not supported; use 10",
        ),
        (
            "{ set = 2, algorithm = 8 }",
            "{ set = 2, algorithm = 64 }",
            "algorithm 64 of dispatcher (overload control) is not supported",
        ),
        (
            "group = \"dispatcher-2\"",
            "group = \"dispatcher-two\"",
            "group: \"dispatcher-two\" is unknown",
        ),
        ("probing = \"never\"", "probe_timeout = \"40s\"", "probe"),
    ] {
        let changed = ROUTES.replace(was, becomes);
        assert_ne!(changed, ROUTES);
        place.configure(&changed);
        let complaint = check(&place).expect_err("wrong");
        assert!(complaint.contains(problem), "{complaint}");
        assert!(complaint.contains("tandem.toml:"), "{complaint}");
    }
}
