//! Records and events of real calls.

use interop::{Server, ServerOptions, lab_run, lab_users, wait_until};
use serde_json::Value;
use sip_transport::Protocol;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::process::{Child, Command};

/// Phones of the load generator.
const PHONES: u32 = 10;

/// A server that records all calls in `calls.jsonl` and in its database.
fn server(folder: &tempfile::TempDir) -> Server {
    let file = folder.path().join("calls.jsonl");
    let sections = format!(
        "[records]\nfile = \"{}\"\nfailed = \"all\"\ndatabase = true\n",
        file.display()
    );
    Server::start(&ServerOptions {
        sections,
        users: lab_users(PHONES),
        ..ServerOptions::default()
    })
}

/// Makes calls; returns their number. All of them succeed.
fn call(server: &Server) -> usize {
    let phones = PHONES.to_string();
    let arguments = [
        "call",
        "--rate",
        "40",
        "--duration",
        "5s",
        "--quiet",
        "--phones",
        &phones,
    ];
    let (_, report, output) = lab_run(server, Protocol::Udp, &arguments);
    let calls = &report["units"]["calls"];
    assert_eq!(calls["attempted"], calls["succeeded"], "{output}");
    let attempted = calls["attempted"].as_u64().expect("a number");
    usize::try_from(attempted).expect("few")
}

/// The objects of a file with one on each line.
fn objects(file: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("a file");
    let object =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(object).collect()
}

/// Starts `tandem ctl events --json`, which writes to this file.
fn follow(server: &Server, file: &std::path::Path) -> Child {
    let output = File::create(file).expect("created");
    Command::new(Server::binary())
        .args([
            "ctl",
            "events",
            "--json",
            "--admin",
            &server.admin_address().to_string(),
        ])
        .stdout(output)
        .spawn()
        .expect("runs")
}

#[test]
fn every_call_has_one_record_and_its_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = server(&folder);
    let events = folder.path().join("events.jsonl");
    let mut follower = follow(&server, &events);
    wait_until("the events are followed", || {
        server.count("tandem_event_readers", "") == 1
    });
    let calls = call(&server);
    server.process().signal("TERM");
    assert!(server.process().wait().success(), "{}", server.log());
    follower.wait().expect("it ends with the server");

    let records = objects(&folder.path().join("calls.jsonl"));
    let ids: BTreeSet<&str> = records
        .iter()
        .filter_map(|record| record["id"].as_str())
        .collect();
    assert_eq!((records.len(), ids.len()), (calls, calls));
    for record in &records {
        assert_eq!(record["status"], 200, "{record}");
        assert!(
            ["caller", "callee"].contains(&record["ended_by"].as_str().unwrap_or_default()),
            "{record}"
        );
        assert!(
            record["identity"]
                .as_str()
                .is_some_and(|user| user.starts_with("user")),
            "{record}"
        );
        let times =
            ["started", "answered", "ended"].map(|time| record[time].as_str().unwrap_or("null"));
        assert!(times.is_sorted() && times[0].starts_with("20"), "{record}");
    }
    let events = objects(&events);
    for kind in ["started", "answered", "ended"] {
        let of_kind = events.iter().filter(|event| event["event"] == kind);
        assert_eq!(of_kind.count(), calls, "{kind}");
    }
}

fn written(server: &Server) -> u64 {
    server.count("tandem_call_records_written_total", "to=\"file\"")
}

#[test]
fn after_kill_the_file_has_whole_records_of_all_calls_but_the_last_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = server(&folder);
    let calls = call(&server);
    wait_until("the records are written", || {
        written(&server) == calls as u64
    });
    server.process().signal("KILL");
    server.process().wait();
    assert_eq!(objects(&folder.path().join("calls.jsonl")).len(), calls);
}

/// The lines of the log about calls, by Call-ID.
fn call_lines(server: &Server) -> BTreeMap<String, Vec<Value>> {
    let mut lines = BTreeMap::<String, Vec<Value>>::new();
    for line in server.log().lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let message = line["message"].as_str().unwrap_or_default();
        if message.starts_with("call ") {
            let call_id = line["call_id"].as_str().expect("a Call-ID").to_owned();
            lines.entry(call_id).or_default().push(line);
        }
    }
    lines
}

#[test]
fn each_call_has_its_lines_in_the_log_as_far_as_they_are_wanted() {
    let wanted = |calls: &str| ServerOptions {
        sections: format!("[log]\nformat = \"json\"\ncalls = \"{calls}\"\n"),
        users: lab_users(PHONES),
        ..ServerOptions::default()
    };
    let mut server = Server::start(&wanted("all"));
    let calls = call(&server);
    let ended = |server: &Server| server.log().matches("call ended").count();
    wait_until("all lines are written", || ended(&server) == calls);
    let lines = call_lines(&server);
    assert_eq!(lines.len(), calls);
    for lines in lines.values() {
        let messages: Vec<&str> = lines
            .iter()
            .filter_map(|line| line["message"].as_str())
            .collect();
        assert_eq!(messages, ["call started", "call answered", "call ended"]);
        let [started, answered, ended] = &lines[..] else {
            panic!("{lines:?}");
        };
        assert_eq!(started["id"], ended["id"]);
        assert!(started["ended_by"].is_null() && started["talk_ms"].is_null());
        assert_eq!(
            (&answered["status"], &ended["status"]),
            (&200.into(), &200.into())
        );
        assert!(ended["talk_ms"].is_number() && ended["destination"].is_string());
        let by = ended["ended_by"].as_str().unwrap_or_default();
        assert!(["caller", "callee"].contains(&by), "{ended}");
    }
    // A reload changes what is wanted.
    server.configure(&wanted("none"));
    server.process().signal("HUP");
    wait_until("the configuration is reloaded", || {
        server.log().contains("reloaded: log.calls")
    });
    call(&server);
    server.process().signal("TERM");
    assert!(server.process().wait().success(), "{}", server.log());
    assert_eq!(ended(&server), calls);
}
