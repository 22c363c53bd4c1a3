//! The configuration of a carrier's edge, with PostgreSQL, TLS and everything that it has. Only addresses, paths and the database differ.

use super::common::{get, run, text, until};
use super::postgres::Server as Postgres;
use super::setup::{Recipe, call, refused, shown};
use std::path::Path;
use std::process::Command;
use tandem_store::Store;
use tempfile::TempDir;

const EDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/carrier-edge");

const PBX_7: (&str, &str) = ("sip:+49301234100@pbx-7.example", "203.0.113.7");
const PBX_8: (&str, &str) = ("sip:+4940888@pbx-8.example", "203.0.113.9");
const CARRIER: (&str, &str) = ("sip:+44155@carrier.example", "198.51.100.5");

/// A database with the tables of Tandem and the prefixes.
async fn database() -> (Postgres, String) {
    let server = Postgres::new();
    let url = server.url("tandem", "postgres");
    server.execute(
        "postgres",
        "CREATE ROLE tandem LOGIN; GRANT CREATE ON SCHEMA public TO tandem",
    );
    Store::open(&url).await.expect("opens").close().await;
    let prefixes = std::fs::read_to_string(format!("{EDGE}/prefixes.sql")).expect("readable");
    server.execute("postgres", &prefixes);
    (server, url)
}

/// The configuration with a database, ports and directories of this test.
fn configuration(directory: &Path, database: &str) -> String {
    let made = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args([
            "certificate",
            "self-signed",
            "--name",
            "example.org",
            "--folder",
        ])
        .arg(directory)
        .output();
    assert!(made.expect("runs").status.success());
    let edge = std::fs::read_to_string(format!("{EDGE}/tandem.toml")).expect("readable");
    let mut changed = edge;
    for place in ["/etc/tandem/", "/var/log/tandem/", "/run/tandem/"] {
        changed = changed.replace(place, &format!("{}/", directory.display()));
    }
    for (was, is) in [
        ("postgres://tandem@db.example.org/tandem", database),
        ("192.0.2.1:5060", "192.0.2.1:0"),
        ("192.0.2.1:5061", "192.0.2.1:0"),
        ("127.0.0.1:8060", "127.0.0.1:0"),
    ] {
        assert!(changed.contains(was), "{was}");
        changed = changed.replace(was, is);
    }
    changed
}

async fn start() -> (Postgres, Recipe) {
    let (server, url) = database().await;
    let directory = TempDir::new().expect("a directory");
    let configuration = configuration(directory.path(), &url);
    let recipe = Recipe::run(&configuration, (directory, url), "example.org", &[]).await;
    (server, recipe)
}

#[test]
fn the_edge_carries_the_calls_of_customers_subscribers_and_carriers_and_records_them() {
    run(async {
        let (_server, recipe) = start().await;
        let pbx_7 = recipe.peer(PBX_7.0, PBX_7.1);
        let pbx_8 = recipe.peer(PBX_8.0, PBX_8.1);
        let carrier = recipe.peer(CARRIER.0, CARRIER.1);
        let alice = recipe.phone("alice").await;
        let _here = alice.register().expect("registered");
        let south = recipe.gateway("south");
        for (caller, number, gateway) in [
            (&pbx_7, "+33155", south),
            (&pbx_8, "+4940555", south),
            (&alice, "+33155", south),
            (&pbx_8, "+49301234100", recipe.gateway("pbx-7")),
            (&carrier, "+49301234100", recipe.gateway("pbx-7")),
            (&alice, "+49301234100", recipe.gateway("pbx-7")),
            (&carrier, "112", recipe.gateway("control-room-1")),
        ] {
            let uri = format!("sip:{number}@example.org");
            let (call, taken) = call(caller, &uri, gateway);
            assert_eq!(taken.user(), number);
            call.hang_up().expect("the server knows");
        }
        let (_call, _taken) = call(&carrier, "sip:alice@example.org", &alice);
        let calls = recipe.directory.path().join("calls.jsonl");
        until("the calls are recorded", async || {
            let lines = std::fs::read_to_string(&calls).unwrap_or_default();
            lines.lines().count() >= 7
        })
        .await;
        let (status, metrics) = get(&recipe.server, "/metrics").await;
        assert_eq!(status, 200);
        assert!(metrics.contains("tandem_gateway_state{gateway=\"north-1\""));
    });
}

#[test]
fn the_edge_gives_no_transit_and_no_calls_without_proof() {
    run(async {
        let (_server, recipe) = start().await;
        let carrier = recipe.peer(CARRIER.0, CARRIER.1);
        let no_transit = shown(&refused(&carrier, "sip:+33155@example.org"));
        assert!(no_transit.starts_with("404 "), "{no_transit}");
        let pbx_8 = recipe.peer(PBX_8.0, PBX_8.1);
        let no_route = shown(&refused(&pbx_8, "sip:+33155@example.org"));
        assert!(no_route.starts_with("404 "), "{no_route}");
        let stranger = recipe.peer("sip:alice@example.org", "192.0.2.99");
        let unproven = shown(&refused(&stranger, "sip:+33155@example.org"));
        assert!(unproven.starts_with("407 "), "{unproven}");
    });
}

#[test]
fn check_finds_nothing_wrong_with_the_edge() {
    run(async {
        let (_server, recipe) = start().await;
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
        let file = recipe.directory.path().join("tandem.toml");
        let output = command.arg("check").arg("--config").arg(file).output();
        let output = output.expect("the program runs");
        let summary = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(
            summary.contains("prefixes from table prefix_route"),
            "{summary}"
        );
        assert!(!summary.contains("WARNING"), "{summary}");
    });
}
