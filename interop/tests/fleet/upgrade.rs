//! A fleet is upgraded process by process while calls are made through it. Meanwhile, processes of both versions work side by side.
//!
//! `UPGRADE_FROM` names the program of an older version: `make upgrade-test`. Without it, both versions are this one, and a later one has
//! added to the tables: what an older version finds while it is replaced, or when it crashes and starts again.

use crate::calls::{Calls, TALKING, Tally};
use crate::members::{EDGES, Fleet, Member};
use crate::records::Records;
use interop::{Server, wait_until};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long calls begin. The last process is replaced earlier.
const DURATION: Duration = Duration::from_secs(30);
/// No order is prescribed: a cluster replaces the kinds of processes at the same time.
const ORDER: [Member; 6] = [
    Member::Node(0),
    Member::Edge(0),
    Member::Node(1),
    Member::Controller,
    Member::Edge(1),
    Member::Node(2),
];
/// What a later version may do to the tables while this one runs.
const LATER: [&str; 5] = [
    "ALTER TABLE subscriber ADD COLUMN later TEXT",
    "ALTER TABLE call_record ADD COLUMN later TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX later_callee ON call_record (to_uri)",
    "CREATE TABLE later (id BIGINT PRIMARY KEY)",
    "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'later', TRUE, '', 0)",
];

/// Brings the tables up to date while all servers are of the older version.
fn migrate(fleet: &Fleet, is_newer: bool) {
    if is_newer {
        let mut command = std::process::Command::new(Server::binary());
        command.arg("migrate").arg("--config");
        command.arg(fleet.nodes[0].path("tandem.toml"));
        let output = command.output().expect("runs");
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{text}");
        assert!(output.status.success(), "{output:?}");
    } else {
        for sql in LATER {
            fleet.execute(sql);
        }
    }
}

#[test]
fn no_call_fails_while_a_fleet_is_upgraded_process_by_process() {
    let new = Server::binary();
    let older = std::env::var_os("UPGRADE_FROM").map(PathBuf::from);
    let old = older.as_ref().unwrap_or(&new);
    let mut fleet = Fleet::start_with(old, 3);
    let began = Instant::now();
    let calls: Vec<Calls> = (0..EDGES)
        .map(|edge| Calls::start(&fleet, edge, "udp", 10, DURATION))
        .collect();
    sleep(TALKING);
    migrate(&fleet, older.is_some());
    sleep(TALKING);
    for member in ORDER {
        fleet.upgrade(member, &new);
        println!("{member:?} is replaced after {:?}", began.elapsed());
    }
    assert!(began.elapsed() < DURATION, "the calls ended too early");
    let tally = calls.into_iter().map(Calls::finish);
    let tally = tally.fold(Tally::default(), Tally::and);
    println!("{tally:?}");
    assert_eq!(tally.failed, 0);
    Records::of(&fleet, tally.attempted).are_of_exactly(tally.attempted);
    wait_until("no dialog is left", || {
        (0..fleet.nodes.len()).all(|place| fleet.dialogs(place, "") == 0)
    });
}
