//! Session timers (RFC 4028) between phones of which one or none supports them.

use interop::{Linphone, Moment, Phone, Scenario, Server, ServerOptions, Sipp, eventually, header};
use std::time::Duration;

/// Bob's sipp, registered.
fn bob(server: &Server, scenario: &str) -> Sipp {
    let phone = Scenario::new(scenario).start(server);
    server.register("bob", phone.address, "");
    phone
}

#[test]
fn a_caller_with_session_timers_is_corrected_and_refreshes_alone() {
    let server = Server::start(&ServerOptions::default());
    let bob = bob(&server, "answer_refreshed");
    Scenario::new("call_refreshed").run(&server);
    let bob = bob.finish();
    let received: Vec<&str> = ["INVITE", "UPDATE"]
        .into_iter()
        .flat_map(|method| bob.messages.received(method))
        .collect();
    assert_eq!(
        received.len(),
        3,
        "the one with the small interval did not pass"
    );
    for message in received {
        let mut interval = header(message, "Session-Expires");
        interval.extend(header(message, "x"));
        assert!(
            matches!(interval[..], ["90" | "90;refresher=uac"]),
            "{message}"
        );
    }
}

#[test]
fn a_callee_with_session_timers_refreshes_a_call_whose_caller_has_none() {
    let server = Server::start(&ServerOptions::default());
    let bob = bob(&server, "answer_refreshing");
    let alice = Scenario::new("call_kept").run(&server);
    bob.finish();
    let answers = alice.messages.received("SIP/2.0 200");
    assert_eq!(
        header(answers[0], "Session-Expires"),
        ["1800;refresher=uas"]
    );
}

#[test]
fn a_call_without_session_timers_has_none() {
    let server = Server::start(&ServerOptions::default());
    let bob = bob(&server, "answer");
    let alice = Scenario::new("call").run(&server);
    let bob = bob.finish();
    let invite = bob.messages.received("INVITE")[0].to_owned();
    assert_eq!(header(&invite, "Session-Expires"), ["1800"]);
    for answer in alice.messages.received("SIP/2.0 200") {
        assert_eq!(header(answer, "Session-Expires"), [""; 0]);
        assert_eq!(header(answer, "Require"), [""; 0]);
    }
}

#[test]
fn linphone_refreshes_its_call_to_a_phone_without_session_timers() {
    let server = Server::start(&ServerOptions::default());
    let bob = bob(&server, "answer_refreshed_once");
    let mut alice = Linphone::with_session_timers(&server, "alice", 90);
    alice.dial("sip:bob@example.org");
    alice.wait_until(Moment::Established);
    // After half of its 90 seconds.
    let is_refreshed = eventually(Duration::from_secs(60), || {
        bob.messages().received("ACK").len() == 2
    });
    assert!(is_refreshed, "{}", alice.log());
    alice.hang_up();
    let bob = bob.finish();
    let invites = bob.messages.received("INVITE");
    let intervals: Vec<&str> = invites
        .iter()
        .flat_map(|invite| header(invite, "Session-Expires"))
        .collect();
    assert_eq!(intervals, ["90", "90;refresher=uac"]);
}
