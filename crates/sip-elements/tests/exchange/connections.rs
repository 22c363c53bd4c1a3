//! Phones that registered over connections, and what happens to their bindings when the connections end.

use crate::bench::{Bench, register, request, settings, status};
use sip_elements::metrics::DropReason;
use sip_transport::{ConnectionId, Flow, Input, Listener, ListenerId, Node, Protocol};

const TCP: u16 = 1;
const WS: u16 = 2;
const AT: &str = "192.0.2.20:40000";

fn bench() -> Bench {
    let mut settings = settings();
    let udp = settings.listeners[0].clone();
    let speaking = |protocol| Listener {
        protocol,
        ..udp.clone()
    };
    let streams = [Protocol::Tcp, Protocol::Ws].map(speaking);
    settings.listeners.extend(streams);
    settings.challenge.clear();
    Bench::new(settings).with_subscribers()
}

fn flow(listener: u16, connection: u32, remote: &str) -> Flow {
    Flow {
        listener: ListenerId(listener),
        connection: ConnectionId::new(0, connection),
        remote: remote.parse().expect("an address"),
    }
}

/// Registers bob with a contact over a flow. Returns the status.
fn bind(bench: &mut Bench, flow: Flow, contact: &str, call: u32) -> u16 {
    let text = register("bob", AT, 1, "")
        .replace(&format!("<sip:bob@{AT}>"), contact)
        .replace("reg-bob", &format!("reg-bob-{call}"));
    let sent = bench.receive_on(flow, &text);
    status(&sent[0].1)
}

fn end(bench: &mut Bench, flow: Flow) {
    let (now, output) = (bench.now, &mut bench.output);
    bench
        .exchange
        .handle(now, Input::ConnectionEnded(flow), output);
    assert_eq!(bench.sent_on(), []);
}

/// The contacts of bob.
fn contacts(bench: &Bench) -> Vec<String> {
    let mut contacts = Vec::new();
    let locations = &bench.shared.locations;
    locations.visit(b"bob@example.org", bench.now, |binding| {
        contacts.push(String::from_utf8_lossy(binding.contact).into_owned());
    });
    contacts
}

/// Alice calls bob. Returns where the INVITEs go, or the status of the error response.
fn call(bench: &mut Bench, name: &str) -> Result<Vec<(Flow, String)>, u16> {
    let invite = request("INVITE", "sip:bob@example.org", "sip:x@y.example", name, "");
    let alice = Flow::to(ListenerId(0), "192.0.2.10:5060".parse().expect("one"));
    let sent = bench.receive_on(alice, &invite.replace("call-1", name));
    let invites: Vec<_> = sent
        .iter()
        .filter(|(_, text)| text.starts_with("INVITE"))
        .cloned()
        .collect();
    match invites.as_slice() {
        [] => Err(status(&sent.last().expect("an answer").1)),
        _ => Ok(invites),
    }
}

#[test]
fn a_browser_can_reload_its_page_as_often_as_it_likes() {
    let mut bench = bench();
    for load in 1..=30 {
        let connection = flow(WS, load, &format!("192.0.2.20:{}", 40_000 + load));
        let contact = format!("<sip:{load}@{load}.invalid;transport=ws>");
        assert_eq!(bind(&mut bench, connection, &contact, load), 200, "{load}");
        assert_eq!(contacts(&bench).len(), 1);
        end(&mut bench, connection);
        assert_eq!(contacts(&bench), [""; 0]);
    }
    assert_eq!(bench.metrics.bindings_disconnected.value(), 30);
    let stats = bench.shared.locations.stats();
    assert_eq!((stats.created, stats.ended, stats.live), (30, 30, 0));
    assert_eq!(call(&mut bench, "c1"), Err(480));
}

#[test]
fn a_phone_in_the_open_is_called_at_its_contact_when_its_connection_has_ended() {
    let mut bench = bench();
    let connection = flow(TCP, 1, AT);
    let contact = "<sip:bob@192.0.2.20:5062;transport=tcp>";
    assert_eq!(bind(&mut bench, connection, contact, 1), 200);
    let invites = call(&mut bench, "c1").expect("it rings");
    assert_eq!(invites[0].0, connection);
    end(&mut bench, connection);
    let invites = call(&mut bench, "c2").expect("it rings");
    let at_contact = flow(TCP, 0, "192.0.2.20:5062");
    assert_eq!(invites[0].0, at_contact);
    // After a REGISTER over a new connection, the phone is reached over that one.
    let again = flow(TCP, 2, "192.0.2.20:40002");
    assert_eq!(bind(&mut bench, again, contact, 2), 200);
    end(&mut bench, connection);
    let invites = call(&mut bench, "c3").expect("it rings");
    assert_eq!(invites[0].0, again);
}

#[test]
fn a_call_that_meets_the_end_of_a_connection_goes_on_to_the_contact() {
    let mut bench = bench();
    let connection = flow(TCP, 1, AT);
    let contact = "<sip:bob@192.0.2.20:5062;transport=tcp>";
    bind(&mut bench, connection, contact, 1);
    let invites = call(&mut bench, "c1").expect("it rings");
    let bytes = invites[0].1.as_bytes();
    bench.undeliverable(connection, bytes);
    let sent = bench.sent_on();
    let at_contact = flow(TCP, 0, "192.0.2.20:5062");
    assert_eq!(sent.len(), 1, "{sent:#?}");
    assert_eq!(sent[0].0, at_contact);
    assert!(
        sent[0]
            .1
            .starts_with("INVITE sip:bob@192.0.2.20:5062;transport=tcp ")
    );
    // If the contact accepts no connection either, the call fails.
    let bytes = sent[0].1.as_bytes();
    bench.undeliverable(at_contact, bytes);
    let sent = bench.sent_on();
    assert_eq!(sent.len(), 1, "{sent:#?}");
    assert_eq!(status(&sent[0].1), 480);
}

#[test]
fn a_phone_that_only_its_connection_leads_to_goes_with_it() {
    let rows = [
        (TCP, "<sip:bob@10.0.0.7:5062;transport=tcp>"),
        (WS, "<sip:bob@192.0.2.20:5062;transport=ws>"),
        (
            TCP,
            "<sip:bob@192.0.2.20:5062;transport=tcp;ob>;+sip.instance=\"<urn:uuid:1>\";reg-id=1",
        ),
    ];
    for (listener, contact) in rows {
        let mut bench = bench();
        let connection = flow(listener, 1, AT);
        assert_eq!(bind(&mut bench, connection, contact, 1), 200);
        assert_eq!(call(&mut bench, "c1").map(|invites| invites.len()), Ok(1));
        end(&mut bench, connection);
        assert_eq!(contacts(&bench), [""; 0], "{contact}");
        assert_eq!(call(&mut bench, "c2"), Err(480), "{contact}");
    }
}

#[test]
fn only_what_came_over_a_connection_goes_with_it() {
    let mut bench = bench();
    let udp = Flow::to(ListenerId(0), "192.0.2.21:5060".parse().expect("one"));
    bind(&mut bench, udp, "<sip:udp@192.0.2.21>", 1);
    let old = flow(WS, 1, "192.0.2.20:40001");
    bind(&mut bench, old, "<sip:ws@ws.invalid>", 2);
    let other = flow(WS, 2, "192.0.2.20:40002");
    bind(&mut bench, other, "<sip:other@ws.invalid>", 3);
    // The same connection ID is used again, by another peer.
    end(&mut bench, flow(WS, 1, "192.0.2.99:40001"));
    assert_eq!(contacts(&bench).len(), 3);
    // The same contact registers over a new connection. The end of the old connection does not affect it.
    let new = flow(WS, 3, "192.0.2.20:40003");
    bind(&mut bench, new, "<sip:ws@ws.invalid>", 4);
    end(&mut bench, old);
    assert_eq!(contacts(&bench).len(), 3);
    end(&mut bench, new);
    end(&mut bench, other);
    assert_eq!(contacts(&bench), ["sip:udp@192.0.2.21"]);
    assert_eq!(bench.metrics.drops[DropReason::NotSip as usize].value(), 0);
}

#[test]
fn of_two_flows_of_a_phone_the_latest_is_called() {
    let mut bench = bench();
    let instance = "+sip.instance=\"<urn:uuid:1>\"";
    for flow_number in 1..=2 {
        let connection = flow(
            WS,
            flow_number,
            &format!("192.0.2.20:{}", 40_000 + flow_number),
        );
        let contact = format!("<sip:{flow_number}@x.invalid>;{instance};reg-id={flow_number}");
        assert_eq!(bind(&mut bench, connection, &contact, flow_number), 200);
    }
    assert_eq!(contacts(&bench).len(), 2);
    let invites = call(&mut bench, "c1").expect("it rings");
    assert_eq!(invites.len(), 1, "{invites:#?}");
    assert_eq!(invites[0].0, flow(WS, 2, "192.0.2.20:40002"));
}
