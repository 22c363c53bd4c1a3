//! Calls that the agent takes.

use crate::peer::{PATIENCE, Peer, Received, T1, alice};
use sip_stack::{Agent, CallEnd, CallError, IncomingCall};
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Instant;

struct World {
    agent: Agent,
    own: SocketAddr,
    peer: Peer,
}

impl World {
    fn new() -> Self {
        let agent = alice().start().expect("an agent");
        let own = agent.listeners()[0].address;
        Self {
            agent,
            own,
            peer: Peer::new(),
        }
    }

    /// Sends an INVITE in a call of its own.
    fn invite(&self, branch: &str, more: &str) {
        let head = format!(
            "To: <sip:alice@example.org>\r\nCall-ID: {branch}\r\nCSeq: 1 INVITE\r\n\
             Record-Route: <sip:{};lr>\r\n{more}",
            self.peer.address
        );
        self.send("INVITE", branch, &head, "offer");
    }

    fn send(&self, method: &str, branch: &str, head: &str, body: &str) {
        let line = format!("{method} sip:alice@{}", self.own);
        let request = self.peer.request(&line, branch, head, body);
        self.peer.send(self.own, &request);
    }

    /// Sends a request inside the dialog of a response.
    fn within(&self, response: &Received, cseq: &str, body: &str) {
        let (_, method) = cseq.split_once(' ').expect("number and method");
        let head = format!(
            "To: {}\r\nCall-ID: {}\r\nCSeq: {cseq}\r\n",
            response.value("To"),
            response.value("Call-ID")
        );
        self.send(method, &cseq.replace(' ', ""), &head, body);
    }

    fn take(&mut self, branch: &str) -> IncomingCall {
        self.invite(branch, "");
        self.peer.expect("SIP/2.0 100 ");
        self.agent.incoming(PATIENCE).expect("a call")
    }

    /// A call that is accepted and acknowledged.
    fn established(&mut self) -> (JoinHandle<CallEnd>, Received) {
        let incoming = self.take("1");
        let ended = std::thread::spawn(move || incoming.accept("answer").expect("up").ended());
        let answer = self.peer.expect("SIP/2.0 200 ");
        self.within(&answer, "1 ACK", "");
        (ended, answer)
    }
}

#[test]
fn a_call_rings_is_accepted_and_ended_by_the_caller() {
    let mut world = World::new();
    let incoming = world.take("1");
    assert_eq!(incoming.invite().body(), b"offer");
    incoming.ring();
    let ringing = world.peer.expect("SIP/2.0 180 ");
    let ended = std::thread::spawn(move || incoming.accept("answer").expect("up").ended());
    let answer = world.peer.expect("SIP/2.0 200 ");
    assert_eq!(answer.body(), "answer");
    assert_eq!(answer.value("To"), ringing.value("To"));
    let route = format!("<sip:{};lr>", world.peer.address);
    assert_eq!(answer.value("Record-Route"), route);
    assert_eq!(answer.contact(), format!("sip:alice@{}", world.own));
    assert_eq!(world.peer.next().text, answer.text, "until the ACK");
    world.within(&answer, "1 ACK", "");
    assert!(world.peer.is_left_alone());
    world.within(&answer, "2 BYE", "");
    world.peer.expect("SIP/2.0 200 ");
    assert!(matches!(ended.join().expect("no panic"), CallEnd::ByPeer));
    // The dialog is over.
    world.within(&answer, "3 INFO", "");
    world.peer.expect("SIP/2.0 481 ");
}

#[test]
fn requests_of_strangers_get_481() {
    let mut world = World::new();
    let (_call, answer) = world.established();
    let to = answer.value("To").to_owned();
    for (number, (from, to)) in [
        ("<sip:bob@example.org>;tag=other", &*to),
        (
            "<sip:bob@example.org>;tag=peer",
            "<sip:alice@example.org>;tag=other",
        ),
        ("<sip:bob@example.org>;tag=peer", "<sip:alice@example.org>"),
    ]
    .into_iter()
    .enumerate()
    {
        let head = format!("From: {from}\r\nTo: {to}\r\nCall-ID: 1\r\nCSeq: 9 BYE\r\n");
        world.send("BYE", &format!("stranger{number}"), &head, "");
        world.peer.expect("SIP/2.0 481 ");
    }
    world.within(&answer, "2 BYE", "");
    world.peer.expect("SIP/2.0 200 ");
}

#[test]
fn without_an_ack_the_2xx_is_repeated_and_then_the_call_ends() {
    let mut world = World::new();
    let incoming = world.take("1");
    let began = Instant::now();
    let accepted = std::thread::spawn(move || incoming.accept("answer").map(drop));
    let answer = world.peer.expect("SIP/2.0 200 ");
    let mut repeated = 0;
    let bye = loop {
        let message = world.peer.next();
        if message.text != answer.text {
            break message;
        }
        repeated += 1;
    };
    assert!(bye.start().starts_with("BYE "), "{}", bye.text);
    assert!(
        bye.value("From")
            .ends_with(answer.value("To").split(";tag=").nth(1).expect("a tag"))
    );
    assert_eq!(bye.value("To"), "<sip:bob@example.org>;tag=peer");
    assert!(began.elapsed() >= T1 * 64);
    // After 1, 2 and 4 times T1, then every 8: ten times, or fewer on a busy machine.
    assert!((4..=10).contains(&repeated), "{repeated}");
    world.peer.ok(&bye);
    let error = accepted.join().expect("no panic").expect_err("no ACK");
    assert!(
        matches!(error, CallError::Ended(CallEnd::NoAck)),
        "{error:?}"
    );
}

#[test]
fn a_cancelled_call_can_no_longer_be_accepted() {
    let mut world = World::new();
    let incoming = world.take("1");
    let head = "To: <sip:alice@example.org>\r\nCall-ID: 1\r\nCSeq: 1 CANCEL\r\n";
    world.send("CANCEL", "1", head, "");
    assert!(
        world
            .peer
            .expect("SIP/2.0 200 ")
            .value("CSeq")
            .ends_with("CANCEL")
    );
    let terminated = world.peer.expect("SIP/2.0 487 ");
    world.within(&terminated, "1 ACK", "");
    let error = incoming.accept("answer").expect_err("cancelled");
    assert!(
        matches!(error, CallError::Ended(CallEnd::ByPeer)),
        "{error:?}"
    );
}

#[test]
fn the_program_rejects_or_drops_a_call() {
    let mut world = World::new();
    world.take("1").reject(486);
    let refusal = world.peer.expect("SIP/2.0 486 ");
    assert!(refusal.values("Contact").is_empty(), "no redirection");
    drop(world.take("2"));
    world.peer.expect("SIP/2.0 480 ");
}

#[test]
fn a_session_is_renegotiated_in_order() {
    let mut world = World::new();
    let (ended, answer) = world.established();
    world.within(&answer, "5 INVITE", "another offer");
    let changed = world.peer.expect("SIP/2.0 200 ");
    assert_eq!(changed.body(), "answer");
    assert_eq!(changed.value("To"), answer.value("To"));
    // The ACK of the re-INVITE is missing.
    world.within(&answer, "6 INVITE", "third offer");
    assert_eq!(world.peer.expect("SIP/2.0 500 ").value("Retry-After"), "1");
    world.within(&answer, "5 ACK", "");
    world.within(&answer, "7 UPDATE", "");
    assert_eq!(world.peer.expect("SIP/2.0 200 ").body(), "");
    world.within(&answer, "8 UPDATE", "offer");
    assert_eq!(world.peer.expect("SIP/2.0 200 ").body(), "answer");
    world.within(&answer, "4 INFO", "");
    world.peer.expect("SIP/2.0 500 ");
    world.within(&answer, "9 INFO", "");
    let refused = world.peer.expect("SIP/2.0 405 ");
    assert!(refused.value("Allow").contains("UPDATE"));
    world.within(&answer, "10 BYE", "");
    world.peer.expect("SIP/2.0 200 ");
    assert!(matches!(ended.join().expect("no panic"), CallEnd::ByPeer));
}

#[test]
fn an_invite_that_arrives_on_two_paths_is_one_call() {
    let mut world = World::new();
    let _incoming = world.take("1");
    let head = "To: <sip:alice@example.org>\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n";
    world.send("INVITE", "other-path", head, "");
    world.peer.expect("SIP/2.0 482 ");
}

#[test]
fn required_extensions_are_refused_by_name() {
    let mut world = World::new();
    world.invite("1", "Require: 100rel, timer\r\n");
    let refused = world.peer.expect("SIP/2.0 420 ");
    assert_eq!(refused.value("Unsupported"), "100rel, timer");
}

#[test]
fn outside_calls_options_is_answered_and_the_rest_refused() {
    let mut world = World::new();
    for (method, status) in [("OPTIONS", 200), ("MESSAGE", 405), ("BYE", 481)] {
        let head = format!("To: <sip:alice@example.org>\r\nCall-ID: x\r\nCSeq: 1 {method}\r\n");
        world.send(method, method, &head, "");
        world.peer.expect(&format!("SIP/2.0 {status} "));
    }
}
