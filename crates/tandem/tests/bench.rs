//! `tandem bench stack` as a process.

use std::process::{Command, Output};

/// Runs the command with this limit of open descriptors.
fn bench(descriptors: u32, arguments: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_tandem");
    let script = format!("ulimit -n {descriptors}; exec '{program}' bench stack {arguments}");
    let output = Command::new("sh").args(["-c", &script]).output();
    output.expect("sh runs")
}

fn check(descriptors: u32, transport: &str, processes: u64) {
    let arguments = format!(
        "--json --transport {transport} --event-loop epoll,poll --ports 200 --transactions 1000 --runs 1"
    );
    let output = bench(descriptors, &arguments);
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = rows.as_array().expect("an array of cells");
    assert_eq!(rows.len(), 2);
    for row in rows {
        let run = &row["runs"][0];
        assert_eq!(run["failed"], 0, "{row}");
        assert_eq!(run["processes"], processes, "{row}");
        assert!(run["rate"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
    }
}

#[test]
fn one_process_does_while_the_descriptors_last() {
    check(1_000, "udp", 1);
    check(1_000, "tcp", 1);
}

#[test]
fn more_processes_do_where_one_may_not_open_that_many_descriptors() {
    check(400, "udp", 2);
    check(400, "tcp", 3);
}

#[test]
fn the_table_has_the_figures_of_the_source_beside_ours() {
    let output = bench(
        1_000,
        "--event-loop epoll --ports 1,100 --transactions 500 --runs 2",
    );
    let table = String::from_utf8_lossy(&output.stdout);
    let line = |name: &str| {
        let found = table.lines().find(|line| line.starts_with(name));
        found
            .unwrap_or_else(|| panic!("no {name} in\n{table}"))
            .to_owned()
    };
    assert_eq!(line("Tandem, epoll").matches('±').count(), 4);
    assert_eq!(
        line("EventStackThread/epoll")
            .split_whitespace()
            .skip(2)
            .collect::<Vec<_>>(),
        ["5135", "4620", "4291", "9444"]
    );
}

#[test]
fn more_ports_than_descriptors_are_refused_with_what_is_possible() {
    let output = bench(
        200,
        "--event-loop epoll --ports 300 --transactions 500 --runs 1",
    );
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(problem.contains("allows 136 per process"), "{problem}");
}
