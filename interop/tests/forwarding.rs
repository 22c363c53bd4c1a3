//! Call forwarding between three real telephones, and what a telephone gets that subscribes to its waiting messages.

use interop::{Baresip, Moment, Phone, Server, ServerOptions};
use serde_json::json;

/// The phones of alice, bob and carol.
fn phones(server: &Server) -> [Baresip; 3] {
    ["alice", "bob", "carol"].map(|user| Baresip::start(server, user))
}

fn diverted(server: &Server, cause: &str) -> u64 {
    server.count("tandem_calls_diverted_total", cause)
}

#[test]
fn a_call_that_bob_does_not_answer_reaches_carol_and_his_phone_stops_ringing() {
    let server = Server::start(&ServerOptions::default());
    let [mut alice, mut bob, mut carol] = phones(&server);
    let params = json!({ "subscriber": "bob@example.org", "no_answer": "carol", "seconds": 2 });
    server.rpc("forwarding.set", &params);
    alice.dial("sip:bob@example.org");
    bob.wait_until(Moment::Called);
    alice.wait_until(Moment::Rings);
    carol.wait_until(Moment::Called);
    bob.wait_until(Moment::Over);
    carol.accept();
    alice.wait_until(Moment::Established);
    carol.wait_until(Moment::Established);
    let log = carol.log();
    let diversion = "Diversion: <sip:bob@example.org>;reason=no-answer;counter=1";
    assert!(log.contains(diversion), "{log}");
    alice.hang_up();
    carol.wait_until(Moment::Over);
    assert_eq!(diverted(&server, "no_answer"), 1);
}

#[test]
fn a_call_that_bob_rejects_as_busy_reaches_carol() {
    let server = Server::start(&ServerOptions::default());
    let [mut alice, mut bob, mut carol] = phones(&server);
    let params = json!({ "subscriber": "bob@example.org", "busy": "carol" });
    server.rpc("forwarding.set", &params);
    alice.dial("sip:bob@example.org");
    bob.wait_until(Moment::Called);
    bob.hang_up();
    carol.wait_until(Moment::Called);
    carol.accept();
    alice.wait_until(Moment::Established);
    carol.hang_up();
    alice.wait_until(Moment::Over);
    assert_eq!(diverted(&server, "busy"), 1);
}
