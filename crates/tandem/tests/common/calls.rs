//! Calls between two phones of one server.

use super::{Phone, header};
use std::net::SocketAddr;
use tandem::serve::Server;

/// A ringing call from alice to bob; returns the phones.
pub fn ringing_call(server: &Server, call_id: &str) -> (Phone, Phone, String) {
    let (alice, bob) = (Phone::new(server, "alice"), Phone::new(server, "bob"));
    let invite = ring(&alice, &bob, call_id);
    (alice, bob, invite)
}

/// Registers the callee and lets it ring; returns the INVITE that it has received.
pub fn ring(caller: &Phone, callee: &Phone, call_id: &str) -> String {
    assert_eq!(callee.register(&format!("{call_id}-register"), 1).0, 200);
    let uri = format!("sip:{}@tandem.localhost", callee.name);
    caller.send((1, "INVITE"), &uri, &uri, call_id, "");
    let invite = callee.receive();
    let contact = format!("INVITE sip:{}@127.0.0.1", callee.name);
    assert!(invite.starts_with(&contact), "{invite}");
    callee.send_raw(&response(&invite, "180 Ringing"));
    invite
}

/// A call that was answered and acknowledged.
pub struct Call {
    caller: Phone,
    callee: Phone,
    answer: String,
}

impl Call {
    pub fn new(caller: Phone, callee: Phone, call_id: &str) -> Self {
        let call = Self::answered(caller, callee, call_id);
        call.acknowledge();
        call
    }

    /// A call whose caller has not sent ACK yet.
    pub fn answered(caller: Phone, callee: Phone, call_id: &str) -> Self {
        let invite = ring(&caller, &callee, call_id);
        callee.send_raw(&response(&invite, "200 OK"));
        let (status, answer) = caller.final_response("INVITE");
        assert_eq!(status, 200);
        Self {
            caller,
            callee,
            answer,
        }
    }

    /// The caller sends ACK.
    pub fn acknowledge(&self) {
        let ack = in_dialog(&self.caller, &self.answer, (1, "ACK"));
        self.caller.send_raw(&ack);
        assert!(self.callee.receive().starts_with("ACK "));
    }

    /// The same call, whose phones send their next messages to another server.
    pub fn through(self, server: SocketAddr) -> Self {
        Self {
            caller: self.caller.to(server),
            callee: self.callee.to(server),
            ..self
        }
    }

    /// The caller refreshes the session.
    pub fn refresh(&self, cseq: u32) {
        let update = in_dialog(&self.caller, &self.answer, (cseq, "UPDATE"));
        self.caller.send_raw(&update);
        let update = self.callee.receive();
        assert!(update.starts_with("UPDATE "), "{update}");
        self.callee.send_raw(&response(&update, "200 OK"));
        assert_eq!(self.caller.final_response("UPDATE").0, 200);
    }

    /// The caller hangs up; returns the phones.
    pub fn hang_up(self) -> (Phone, Phone) {
        let bye = in_dialog(&self.caller, &self.answer, (9, "BYE"));
        self.caller.send_raw(&bye);
        let bye = self.callee.receive();
        assert!(bye.starts_with("BYE "), "{bye}");
        self.callee.send_raw(&response(&bye, "200 OK"));
        assert_eq!(self.caller.final_response("BYE").0, 200);
        (self.caller, self.callee)
    }
}

pub fn response(request: &str, status: &str) -> String {
    let kept = ["Via", "From", "Call-ID", "CSeq", "Record-Route"];
    let lines = request.lines().filter(|line| {
        kept.iter()
            .any(|name| line.starts_with(&format!("{name}:")))
    });
    let mut to = header(request, "To").unwrap_or_default().to_owned();
    if !to.contains(";tag=") {
        to += ";tag=bob";
    }
    let kept: String = lines.fold(String::new(), |kept, line| kept + line + "\r\n");
    // The request forwarded to the phone has the phone's Contact as its Request-URI.
    let contact = request.split(' ').nth(1).unwrap_or_default();
    format!(
        "SIP/2.0 {status}\r\n{kept}To: {to}\r\nContact: <{contact}>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// A request of the caller in the dialog of this answer.
pub fn in_dialog(caller: &Phone, answer: &str, (cseq, method): (u32, &str)) -> String {
    let of = |name| header(answer, name).unwrap_or_else(|| panic!("no {name} in {answer}"));
    let (here, target) = (caller.address(), of("Contact").trim_matches(['<', '>']));
    let (route, from, to, call_id) = (of("Record-Route"), of("From"), of("To"), of("Call-ID"));
    format!(
        "{method} {target} SIP/2.0\r\n\
         Via: SIP/2.0/UDP {here};branch=z9hG4bK-{call_id}-{method};rport\r\n\
         Max-Forwards: 70\r\n\
         Route: {route}\r\n\
         From: {from}\r\n\
         To: {to}\r\n\
         Call-ID: {call_id}\r\n\
         CSeq: {cseq} {method}\r\n\
         Content-Length: 0\r\n\r\n"
    )
}
