//! Phones that are reached over one flow only, also inside dialogs (RFC 5626 section 5.3): the Record-Route names the
//! flow.

use crate::bench::{Bench, accept_at, recorded, register, settings, status};
use sip_transport::{ConnectionId, Flow, Listener, ListenerId, Protocol};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Makes the branch of each request unique.
static BRANCH: AtomicUsize = AtomicUsize::new(0);

const ON_UDP: &str = "203.0.113.9:40001";
const ON_TCP: &str = "203.0.113.9:50001";

/// The flow of a phone behind a NAT, over UDP.
fn udp() -> Flow {
    Flow::to(ListenerId(0), ON_UDP.parse().expect("an address"))
}

/// The flow of another phone behind the same NAT, which has opened a connection.
fn tcp() -> Flow {
    Flow {
        listener: ListenerId(1),
        connection: ConnectionId::new(3, 77),
        remote: ON_TCP.parse().expect("an address"),
    }
}

/// The flow of a phone that is not behind a NAT.
fn open() -> Flow {
    Flow::to(
        ListenerId(0),
        "192.0.2.30:5060".parse().expect("an address"),
    )
}

/// A node at which bob is registered over UDP, and alice over TCP.
fn bench() -> Bench {
    let mut settings = settings();
    let mut listeners = settings.listeners.clone();
    listeners.push(Listener {
        protocol: Protocol::Tcp,
        ..listeners[0].clone()
    });
    settings.listeners = listeners;
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    for (user, flow, contact) in [("bob", udp(), "10.0.0.2"), ("alice", tcp(), "10.0.0.3")] {
        let sent = bench.receive_on(flow, &register(user, contact, 1, ""));
        assert_eq!(status(&sent[0].1), 200, "{sent:?}");
    }
    bench
}

/// A request of a dialog, with the sender's tag first.
fn request(method: &str, uri: &str, call_id: &str, tags: [&str; 2], routes: &[String]) -> String {
    let mut text = format!(
        "{method} {uri} SIP/2.0\nVia: SIP/2.0/UDP 10.0.0.9;branch=z9hG4bK{};rport\nMax-Forwards: 70\n\
         From: <sip:x@y.example>;tag={}\nTo: <sip:bob@example.org>{}\nCall-ID: {call_id}\nCSeq: 1 {method}\n\
         Contact: <sip:x@10.0.0.3>\n",
        BRANCH.fetch_add(1, Ordering::Relaxed),
        tags[0],
        tags[1],
    );
    for route in routes {
        text.extend(["Route: ", route, "\n"]);
    }
    text + "Content-Length: 0\n\n"
}

/// Places a call. Returns the INVITE as the callee gets it, and the flow that it arrives on.
fn call(bench: &mut Bench, from: Flow, to: &str, call_id: &str) -> (Flow, String) {
    let uri = format!("sip:{to}@example.org");
    let sent = bench.receive_on(from, &request("INVITE", &uri, call_id, ["a", ""], &[]));
    let invite = sent
        .into_iter()
        .find(|(_, text)| text.starts_with("INVITE"));
    invite.expect("it is forwarded")
}

/// Answers a call. Returns the caller's route set.
fn answer(bench: &mut Bench, callee: Flow, invite: &str, contact: &str) -> Vec<String> {
    let sent = bench.receive_on(callee, &accept_at(invite, contact));
    let [(_, answered)] = &sent[..] else {
        panic!("{sent:#?}")
    };
    let mut routes = recorded(answered);
    routes.reverse();
    routes
}

/// The sender of a request inside a dialog: its own tag, and the tag of the other party.
const CALLER: [&str; 2] = ["a", ";tag=b1"];
const CALLEE: [&str; 2] = ["b1", ";tag=a"];

/// Returns the flow that a request of the dialog is forwarded over; `None` if it is not forwarded.
fn relayed(
    bench: &mut Bench,
    from: Flow,
    uri: &str,
    (call_id, tags): (&str, [&str; 2]),
    routes: &[String],
) -> Option<Flow> {
    let bye = request("BYE", uri, call_id, tags, routes);
    let mut sent = bench.receive_on(from, &bye).into_iter();
    let (flow, bye) = sent.find(|(_, text)| text.starts_with("BYE"))?;
    assert!(bye.starts_with(&format!("BYE {uri} ")), "{bye}");
    assert!(!bye.contains("Route"), "{bye}");
    Some(flow)
}

#[test]
fn requests_inside_a_dialog_find_both_phones_behind_a_translator() {
    let mut bench = bench();
    let (flow, invite) = call(&mut bench, tcp(), "bob", "c1");
    assert_eq!(flow, udp());
    let from_callee = recorded(&invite);
    assert_eq!(from_callee.len(), 2, "{invite}");
    let to_caller = "sip:x@10.0.0.3";
    assert_eq!(
        relayed(&mut bench, udp(), to_caller, ("c1", CALLEE), &from_callee),
        Some(tcp())
    );
    let to_callee = "sip:bob@10.0.0.2";
    let from_caller = answer(&mut bench, udp(), &invite, to_callee);
    assert_eq!(
        relayed(&mut bench, tcp(), to_callee, ("c1", CALLER), &from_caller),
        Some(udp())
    );
}

#[test]
fn the_callee_that_connected_is_reached_over_its_connection() {
    let mut bench = bench();
    let (flow, invite) = call(&mut bench, open(), "alice", "c2");
    assert_eq!(flow, tcp());
    let to_callee = "sip:alice@10.0.0.3";
    let routes = answer(&mut bench, tcp(), &invite, to_callee);
    assert_eq!(
        relayed(&mut bench, open(), to_callee, ("c2", CALLER), &routes),
        Some(tcp())
    );
}

#[test]
fn phones_in_the_open_need_no_flow_and_get_one_record_route() {
    let mut bench = bench();
    let at = "192.0.2.20:5060";
    let flow = Flow::to(ListenerId(0), at.parse().expect("an address"));
    let other = register("bob", at, 2, "").replace("reg-bob", "reg-open");
    bench.receive_on(udp(), &register("bob", "10.0.0.2", 3, "Expires: 0\n"));
    bench.receive_on(flow, &other);
    let invite = request("INVITE", "sip:bob@example.org", "c3", ["a", ""], &[]);
    let invite = invite.replace("10.0.0.3", "192.0.2.30");
    let sent = bench.receive_on(open(), &invite);
    let (_, invite) = sent
        .iter()
        .find(|(_, text)| text.starts_with("INVITE"))
        .expect("it is forwarded");
    let routes = recorded(invite);
    assert_eq!(routes.len(), 1, "{invite}");
    assert!(!routes[0].contains(";fl="), "{invite}");
}

#[test]
fn a_flow_is_for_its_dialog_only() {
    let mut bench = bench();
    let (_, invite) = call(&mut bench, tcp(), "bob", "c4");
    let routes = recorded(&invite);
    let uri = "sip:x@10.0.0.3";
    let stranger = open();
    assert_eq!(
        relayed(&mut bench, stranger, uri, ("other", CALLEE), &routes),
        None
    );
    // A forged flow token does not work either.
    for place in [0, 4, 12, 20] {
        let forged: Vec<String> = routes
            .iter()
            .map(|route| {
                let Some(start) = route.find(";fl=") else {
                    return route.clone();
                };
                let mut octets = route.clone().into_bytes();
                let digit = &mut octets[start + 4 + place];
                *digit = if *digit == b'0' { b'1' } else { b'0' };
                String::from_utf8(octets).expect("ascii")
            })
            .collect();
        assert_eq!(
            relayed(&mut bench, stranger, uri, ("c4", CALLEE), &forged),
            None
        );
    }
    // A proof without its flow token is invalid too.
    let without: Vec<String> = routes
        .iter()
        .map(|route| {
            let (before, token) = route.split_once(";fl=").expect("both have one");
            let (_, after) = token.split_once(';').expect("a proof behind");
            format!("{before};{after}")
        })
        .collect();
    assert_eq!(
        relayed(&mut bench, stranger, uri, ("c4", CALLEE), &without),
        None
    );
    assert_eq!(
        relayed(&mut bench, stranger, uri, ("c4", CALLEE), &routes),
        Some(tcp())
    );
}

#[test]
fn a_request_over_a_flow_that_is_gone_is_refused_and_no_other_way_is_tried() {
    let mut bench = bench();
    let (_, invite) = call(&mut bench, tcp(), "bob", "c5");
    let bye = request("BYE", "sip:x@10.0.0.3", "c5", CALLEE, &recorded(&invite));
    let sent = bench.receive_on(udp(), &bye);
    let (flow, bye) = sent.first().expect("it is forwarded");
    assert_eq!(*flow, tcp());
    bench.undeliverable(*flow, bye.as_bytes());
    let sent = bench.sent_on();
    let [(flow, response)] = sent.as_slice() else {
        panic!("{sent:#?}")
    };
    assert_eq!(*flow, udp());
    assert!(matches!(status(response), 430 | 480..=599), "{response}");
}
