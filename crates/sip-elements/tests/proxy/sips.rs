//! sips (RFC 5630): requests leave over secure transports only.

use crate::wire::{
    ALICE, BOB, CAROL, US, Wire, ack_of_refusal, invite, listener, request, settings, target_uri,
    udp, with_next_hop, with_path,
};
use sip_elements::routing::Target;
use sip_transport::{ConnectionId, Flow, ListenerId, Protocol};

/// Our TLS listener, next to UDP at [`US`].
const US_SECURELY: &str = "192.0.2.1:5061";

fn wire(targets: Vec<Target>) -> Wire {
    let listeners = vec![udp(US, 24), listener(Protocol::Tls, US_SECURELY, 24)];
    Wire::with(settings(listeners), targets)
}

fn sips(address: &str) -> Target {
    target_uri(&format!("sips:bob@{address}"), 1000)
}

fn over(listener: u16, target: Target) -> Target {
    let connection = if listener == 0 {
        ConnectionId::NONE
    } else {
        ConnectionId::new(0, 7)
    };
    Target {
        flow: Some(Flow {
            listener: ListenerId(listener),
            connection,
            remote: BOB.parse().expect("an address"),
        }),
        ..target
    }
}

#[test]
fn sips_leaves_over_a_secure_transport_or_not_at_all() {
    let rows = [
        ("its URI", sips(BOB), Some(BOB)),
        ("a secure flow", over(1, sips(BOB)), Some(BOB)),
        ("a flow that is not secure", over(0, sips(BOB)), None),
        (
            "a next hop over UDP",
            with_next_hop(sips(BOB), CAROL, 0),
            None,
        ),
        (
            "a next hop over TLS",
            with_next_hop(sips(BOB), CAROL, 1),
            Some(CAROL),
        ),
        (
            "a Path that is not",
            with_path(sips(BOB), &format!("<sip:{CAROL};lr>")),
            None,
        ),
        (
            "a secure Path",
            with_path(sips(BOB), &format!("<sips:{CAROL};lr>")),
            Some(CAROL),
        ),
        ("UDP asked for", sips(&format!("{BOB};transport=udp")), None),
    ];
    for (what, target, expected) in rows {
        let mut wire = wire(vec![target]);
        wire.receive(ALICE, &invite());
        wire.expect(ALICE, "SIP/2.0 100");
        if let Some(to) = expected {
            let sent = wire.expect(to, "INVITE sips:bob@");
            assert_eq!(sent.listener, 1, "{what}");
            assert!(sent.header("Via")[0].starts_with("SIP/2.0/TLS "), "{what}");
            let ours = sent.header("Record-Route")[0];
            assert!(
                ours.starts_with("<sips:192.0.2.1:5061;lr;"),
                "{what}: {ours}"
            );
        } else {
            let refused = wire.expect(ALICE, "SIP/2.0 480 No secure way");
            wire.receive(ALICE, &ack_of_refusal(&refused));
            wire.finish();
        }
    }
}

#[test]
fn a_route_asks_for_a_secure_way_too() {
    let mut wire = wire(vec![target_uri("sip:bob@192.0.2.99", 1000)]);
    let routes = format!("Route: <sip:{US};lr>, <sips:{CAROL};lr>\r\n");
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@192.0.2.99", &routes));
    assert_eq!(wire.expect(CAROL, "MESSAGE").listener, 1);
}
