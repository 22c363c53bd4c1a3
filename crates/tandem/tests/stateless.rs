//! Calls that a rule forwards without a transaction, over sockets: retransmissions, CANCEL, ACK, and responses after a restart.
mod common;

use common::{Phone, Place, blocking, metric, response, run};
use tandem::serve::Server;

/// Calls from this machine go to this server without a transaction.
fn configuration(next: &Phone) -> String {
    format!(
        "[proxy]\ntrusted_peers = [\"127.0.0.1\"]\n\
         [[rule]]\nname = \"on\"\nuser = [\"bob\"]\naction = \"stateless\"\nstateless = \"sip:{}\"\n",
        next.address()
    )
}

/// A phone behind the server; the server does not need to know it.
fn callee() -> Phone {
    Phone::at(([127, 0, 0, 1], 9).into(), "bob")
}

fn at(server: &Server) -> std::net::SocketAddr {
    server.running().listeners[0].address
}

const URI: &str = "sip:bob@tandem.localhost";

fn send(caller: &Phone, method: &str, call_id: &str) {
    // CANCEL and ACK have the branch of their INVITE.
    let here = caller.address();
    caller.send_raw(&format!(
        "{method} {URI} SIP/2.0\r\nVia: SIP/2.0/UDP {here};branch=z9hG4bK-{call_id};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:carol@elsewhere.example>;tag=c\r\nTo: <{URI}>{}\r\nCall-ID: {call_id}\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:carol@{here}>\r\nContent-Length: 0\r\n\r\n",
        if method == "ACK" { ";tag=bob" } else { "" }
    ));
}

fn branch(message: &str) -> &str {
    let via = common::header(message, "Via").expect("a Via");
    via.split(';')
        .find_map(|it| it.strip_prefix("branch="))
        .expect("a branch")
}

#[test]
fn retransmissions_cancel_and_ack_take_the_way_of_their_invite_through_any_worker() {
    run(async {
        let bob = callee();
        let (_place, server) = Place::new(&configuration(&bob)).start_alone().await;
        let address = at(&server);
        blocking(move || {
            let bob = bob.to(address);
            let carol = Phone::at(address, "carol");
            for call in 0..20 {
                let call_id = format!("call-{call}");
                let copies = ["INVITE", "INVITE", "CANCEL", "ACK"].map(|method| {
                    send(&carol, method, &call_id);
                    let copy = bob.receive();
                    assert!(
                        copy.starts_with(&format!("{method} {URI} SIP/2.0\r\n")),
                        "{copy}"
                    );
                    copy
                });
                assert_eq!(copies[0], copies[1], "the retransmission");
                for copy in &copies {
                    assert_eq!(branch(copy), branch(&copies[0]));
                }
                for status in ["100 Trying", "180 Ringing", "487 Request Terminated"] {
                    bob.send_raw(&response(&copies[0], status));
                    let relayed = carol.receive();
                    assert!(
                        relayed.starts_with(&format!("SIP/2.0 {status}\r\n")),
                        "{relayed}"
                    );
                    assert_eq!(branch(&relayed), format!("z9hG4bK-{call_id}"));
                }
            }
        })
        .await;
        assert_eq!(
            metric(&server, "tandem_forwarded_statelessly_total").await,
            80
        );
        assert_eq!(
            metric(&server, "tandem_response_contexts_created_total").await,
            0
        );
        let count = "tandem_transactions{kind=\"server\"}";
        assert_eq!(metric(&server, count).await, 0);
    });
}

#[test]
fn a_response_that_comes_after_a_restart_reaches_the_caller() {
    run(async {
        let bob = callee();
        let place = Place::new(&configuration(&bob));
        let server = place.start().await;
        let carol = Phone::at(at(&server), "carol");
        send(&carol, "INVITE", "before");
        let invite = bob.receive();
        server.stop(false).await;
        let server = place.start().await;
        let bob = bob.to(at(&server));
        bob.send_raw(&response(&invite, "200 OK"));
        let answer = carol.receive();
        assert!(answer.starts_with("SIP/2.0 200 OK\r\n"), "{answer}");
        assert_eq!(branch(&answer), "z9hG4bK-before");
    });
}
