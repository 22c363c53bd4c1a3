//! What an operator does with real calls: lists them, looks at one, and ends it.

use interop::{Outcome, Scenario, Server, ServerOptions, header, wait_until};
use serde_json::Value;
use std::fs;

const ENDED: &str = "SIP;cause=487;text=\"Ended by operator: fraud\"";

/// A server that records all calls in `calls.jsonl`.
fn server(folder: &tempfile::TempDir) -> Server {
    let file = folder.path().join("calls.jsonl");
    let sections = format!(
        "[records]\nfile = \"{}\"\nfailed = \"all\"\n",
        file.display()
    );
    Server::start(&ServerOptions::with(&sections))
}

/// The output of `tandem ctl dialogs <words>`.
fn dialogs(server: &Server, words: &[&str]) -> String {
    let (code, output) = server.tandem(&[&["ctl", "dialogs"], words].concat());
    println!("$ tandem ctl dialogs {}\n{output}", words.join(" "));
    assert_eq!(code, 0, "{output}");
    output
}

/// The id of the only call that a list shows.
fn only_id(list: &str) -> String {
    let rows: Vec<&str> = list.lines().skip(1).collect();
    assert_eq!(rows.len(), 1, "{list}");
    rows[0].split(' ').next().expect("an id").to_owned()
}

/// The only record, once it is written.
fn record(folder: &tempfile::TempDir) -> Value {
    let file = folder.path().join("calls.jsonl");
    let text = || fs::read_to_string(&file).unwrap_or_default();
    wait_until("the record is written", || text().ends_with('\n'));
    serde_json::from_str(&text()).expect("one record")
}

/// The Reason of the only message that began like this.
fn reason(phone: &Outcome, beginning: &str) -> String {
    let messages = phone.messages.received(beginning);
    assert_eq!(messages.len(), 1, "{messages:?}");
    header(messages[0], "Reason").join(", ")
}

#[test]
fn both_phones_of_a_call_that_the_operator_ends_get_a_bye_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(&folder);
    let bob = Scenario::new("answer").start(&server);
    server.register("bob", bob.address, "");
    assert_eq!(dialogs(&server, &["list"]), "no dialogs\n");
    let alice = Scenario::new("call_ended").start(&server);
    bob.wait_for("ACK");

    let id = only_id(&dialogs(&server, &["list"]));
    let facts = dialogs(&server, &["get", &id]);
    let [to_alice, to_bob] = [&alice, &bob].map(|phone| format!("udp {}", phone.address));
    for row in [
        &format!("caller         {to_alice}"),
        &format!("callee         {to_bob}"),
    ] {
        assert!(facts.contains(&**row), "{facts}");
    }
    let call_id = facts.lines().find_map(|line| line.strip_prefix("Call-ID"));
    let call_id = call_id.expect("a Call-ID").trim().to_owned();
    assert_eq!(
        only_id(&dialogs(&server, &["list", "--call-id", &call_id])),
        id
    );
    let ended = dialogs(&server, &["end", &call_id, "--reason", "fraud"]);
    let expected = format!("ended {id}; sent to the caller: BYE; to the callee: BYE\n");
    assert_eq!(ended, expected);

    for phone in [alice.finish(), bob.finish()] {
        assert_eq!(reason(&phone, "BYE "), ENDED);
    }
    let record = record(&folder);
    assert_eq!(
        (&record["id"], &record["call_id"]),
        (&id.into(), &call_id.clone().into())
    );
    assert_eq!(record["ended_by"], "operator");
    assert_eq!(record["reason"], ENDED);
    assert!(
        server.log().contains("an operator ends a call"),
        "{}",
        server.log()
    );
    let stats = dialogs(&server, &["stats"]);
    let total = stats.lines().last().unwrap_or_default();
    assert!(
        total.starts_with("total ") && total.ends_with(" 1"),
        "{stats}"
    );
    let (code, output) = server.tandem(&["ctl", "dialogs", "get", &call_id]);
    println!("{output}");
    assert_eq!(code, 1);
}

#[test]
fn a_phone_that_rings_is_cancelled_and_its_caller_gets_487() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(&folder);
    let bob = Scenario::new("ring").start(&server);
    server.register("bob", bob.address, "");
    let alice = Scenario::new("call_refused").start(&server);
    alice.wait_for("SIP/2.0 180");

    let id = only_id(&dialogs(
        &server,
        &["list", "--state", "early", "--user", "alice"],
    ));
    let facts = dialogs(&server, &["get", &id]);
    assert!(facts.contains("\nstate          early\n"), "{facts}");
    let ended = dialogs(&server, &["end", &id, "--reason", "fraud"]);
    let expected = format!("cancelled {id}; sent to the caller: 487; to the callee: CANCEL\n");
    assert_eq!(ended, expected);

    let alice = alice.finish();
    assert_eq!(alice.messages.received("SIP/2.0 487").len(), 1);
    assert_eq!(reason(&bob.finish(), "CANCEL "), ENDED);
    let record = record(&folder);
    assert_eq!(record["ended_by"], "operator");
    assert_eq!(
        (&record["status"], &record["reason"]),
        (&487.into(), &ENDED.into())
    );
}
