//! One test for each rule of RFC 3261 section 10.3, RFC 3327 and the supported part of RFC 5626.

use crate::server::{ALICE, Register, Server, at};
use sip_message::HeaderName;
use sip_transport::{Listener, Protocol};

/// The header lines of a REGISTER, the status of its response, and the bindings afterwards.
type Row = (&'static [&'static str], u16, &'static [&'static str]);

const ROWS: &[Row] = &[
    (&[], 200, &[]),
    (
        &["Contact: <sip:a@192.0.2.1>"],
        200,
        &["sip:a@192.0.2.1 1000 600"],
    ),
    (
        &["m: sip:a@192.0.2.1;expires=90"],
        200,
        &["sip:a@192.0.2.1 1000 90"],
    ),
    (
        &["Contact: \"A, B\" <sip:a@192.0.2.1;x=1>;q=0.35"],
        200,
        &["sip:a@192.0.2.1;x=1 350 600"],
    ),
    (
        &["Contact: <sip:a@192.0.2.1>", "Expires: 120"],
        200,
        &["sip:a@192.0.2.1 1000 120"],
    ),
    (
        &["Contact: <sip:a@192.0.2.1>;expires=90", "Expires: 120"],
        200,
        &["sip:a@192.0.2.1 1000 90"],
    ),
    (
        &["Contact: <sip:a@192.0.2.1>;expires=0", "Expires: 120"],
        200,
        &[],
    ),
    (&["Contact: <sip:a@192.0.2.1>", "Expires: 0"], 200, &[]),
    (
        &["Contact: <sip:a@192.0.2.1>;expires=7201"],
        200,
        &["sip:a@192.0.2.1 1000 7200"],
    ),
    (
        &["Contact: <sip:a@192.0.2.1>;expires=4294967295"],
        200,
        &["sip:a@192.0.2.1 1000 7200"],
    ),
    // A malformed lifetime counts as one hour.
    (
        &["Contact: <sip:a@192.0.2.1>;expires=soon"],
        200,
        &["sip:a@192.0.2.1 1000 3600"],
    ),
    (
        &["Contact: <sip:a@192.0.2.1>;expires=280297596632815"],
        200,
        &["sip:a@192.0.2.1 1000 3600"],
    ),
    (
        &["Contact: <sip:a@192.0.2.1>", "Expires: 0xff"],
        200,
        &["sip:a@192.0.2.1 1000 3600"],
    ),
    (&["Contact: <sip:a@192.0.2.1>;expires=59"], 423, &[]),
    (&["Contact: <sip:a@192.0.2.1>", "Expires: 1"], 423, &[]),
    // One contact is too brief: none is bound.
    (
        &["Contact: <sip:a@192.0.2.1>, <sip:b@192.0.2.1>;expires=2"],
        423,
        &[],
    ),
    (
        &[
            "Contact: <sip:a@192.0.2.1>;q=0.1, <sip:b@192.0.2.1>",
            "Contact: <sip:c@192.0.2.1>;q=0.5",
        ],
        200,
        &[
            "sip:b@192.0.2.1 1000 600",
            "sip:c@192.0.2.1 500 600",
            "sip:a@192.0.2.1 100 600",
        ],
    ),
    // The same contact twice: the last one counts.
    (
        &["Contact: <sip:a@192.0.2.1>;q=0.1, <sip:a@192.0.2.1>;q=0.2"],
        200,
        &["sip:a@192.0.2.1 200 600"],
    ),
    (
        &["Contact: <sip:a@192.0.2.1>, <sip:a@192.0.2.1>;expires=0"],
        200,
        &[],
    ),
    (&["Contact: <sip:a@192.0.2.1>;q=1.1"], 400, &[]),
    (&["Contact: <sip:a@192.0.2.1>;q=high"], 400, &[]),
    (&["Contact: <sip:a@192.0.2.1:99999>"], 400, &[]),
    (&["Contact: <sip:>"], 400, &[]),
    (&["Contact: *", "Expires: 0"], 200, &[]),
    (&["Contact: *"], 400, &[]),
    (&["Contact: *", "Expires: 60"], 400, &[]),
    (&["Contact: *", "Expires: never"], 400, &[]),
    (&["Contact: *, <sip:a@192.0.2.1>", "Expires: 0"], 400, &[]),
    (
        &["Contact: <sip:a@192.0.2.1>", "Contact: *", "Expires: 0"],
        400,
        &[],
    ),
    (&["Contact: *;expires=0"], 400, &[]),
    // Any scheme may be registered. Header fields and unusual escapes are kept as they are.
    (
        &["Contact: <tel:+358-555-1234567>"],
        200,
        &["tel:+358-555-1234567 1000 600"],
    ),
    (
        &["Contact: <mailto:alice@example.org>"],
        200,
        &["mailto:alice@example.org 1000 600"],
    ),
    (
        &["Contact: <sip:a@192.0.2.1?Route=%3Csip:sip.example.com%3E>"],
        200,
        &["sip:a@192.0.2.1?Route=%3Csip:sip.example.com%3E 1000 600"],
    ),
    (
        &[
            "Contact: sip:%00@192.0.2.1",
            "Contact: sip:%00%00@192.0.2.1",
        ],
        200,
        &[
            "sip:%00%00@192.0.2.1 1000 600",
            "sip:%00@192.0.2.1 1000 600",
        ],
    ),
    (
        &["Contact: <sip:+19725552222@gw1.example.net>;unknownparam"],
        200,
        &["sip:+19725552222@gw1.example.net 1000 600"],
    ),
    (
        &["Require: path", "Contact: <sip:a@192.0.2.1>"],
        200,
        &["sip:a@192.0.2.1 1000 600"],
    ),
    (
        &["Require: gruu, path", "Contact: <sip:a@192.0.2.1>"],
        420,
        &[],
    ),
    (&["Path: <sip:>", "Contact: <sip:a@192.0.2.1>"], 400, &[]),
    (
        &[
            "Path: sip:edge.example.org;lr",
            "Contact: <sip:a@192.0.2.1>",
        ],
        400,
        &[],
    ),
];

#[test]
fn contacts_and_lifetimes() {
    for (lines, status, bindings) in ROWS {
        let server = Server::new(10, 100);
        let response = server.register(at(0), &Register::new(1, lines));
        assert_eq!(
            response.status(),
            *status,
            "{lines:?}: {}",
            response.reason()
        );
        assert_eq!(server.bindings(at(0)), *bindings, "{lines:?}");
        if *status == 200 {
            assert_eq!(response.contacts().len(), bindings.len(), "{lines:?}");
        }
    }
}

#[test]
fn the_200_lists_all_bindings_with_what_is_left_of_them() {
    let server = Server::new(10, 100);
    server.register(
        at(0),
        &Register::new(1, &["Contact: <sip:a@192.0.2.1>;q=0.7;expires=300"]),
    );
    let instance = "\"<urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6>\"";
    let with_instance =
        format!("Contact: <sip:b@192.0.2.1;transport=udp>;+sip.instance={instance}");
    let response = server.register(at(10), &Register::new(2, &[&with_instance]));
    let expected = [
        format!("<sip:b@192.0.2.1;transport=udp>;expires=600;+sip.instance={instance}"),
        "<sip:a@192.0.2.1>;expires=290;q=0.7".to_owned(),
    ];
    assert_eq!(response.contacts(), expected);
    assert_eq!(
        response.values(HeaderName::Date),
        ["Fri, 15 Jan 2027 08:00:10 GMT"]
    );
    assert_eq!(response.values(HeaderName::Server), ["Tandem"]);
    let fetched = server.register(at(20), &Register::new(3, &[]));
    assert_eq!(fetched.contacts()[1], "<sip:a@192.0.2.1>;expires=280;q=0.7");
    assert_eq!(
        server
            .register(at(300), &Register::new(4, &[]))
            .contacts()
            .len(),
        1,
        "one has expired"
    );
}

#[test]
fn a_refusal_says_what_would_be_taken() {
    let server = Server::new(2, 3);
    let brief = server.register(
        at(0),
        &Register::new(1, &["Contact: <sip:a@192.0.2.1>;expires=5"]),
    );
    assert_eq!(
        (brief.status(), brief.values(HeaderName::MinExpires)),
        (423, vec!["60".to_owned()])
    );
    let extension = server.register(
        at(0),
        &Register::new(1, &["Require: gruu", "Require: outbound,path"]),
    );
    assert_eq!(extension.status(), 420);
    assert_eq!(extension.values(HeaderName::Unsupported), ["gruu"]);
    let many = Register::new(1, &["Contact: <sip:a@h>, <sip:b@h>, <sip:c@h>"]);
    let refused = server.register(at(0), &many);
    assert_eq!(
        (refused.status(), refused.reason().as_str()),
        (403, "Too many contacts")
    );
    assert_eq!(server.bindings(at(0)), [""; 0], "all or nothing");
}

/// Section 10.3 step 7: only lifetimes below one hour may be rejected as too brief.
#[test]
fn an_hour_is_never_too_brief() {
    let mut server = Server::new(2, 100);
    server.settings.registrar.min_expires = std::time::Duration::from_secs(5_400);
    for (expires, status) in [(3_599, 423), (3_600, 200), (5_400, 200)] {
        let contact = format!("Contact: <sip:{expires}@h>;expires={expires}");
        assert_eq!(
            server
                .register(at(0), &Register::new(1, &[&contact]))
                .status(),
            status,
            "{expires}"
        );
    }
    assert_eq!(
        server.bindings(at(0)),
        ["sip:5400@h 1000 5400", "sip:3600@h 1000 3600"]
    );
    let unasked = Register::new(2, &["Contact: <sip:3600@h>"]);
    assert_eq!(
        server.register(at(0), &unasked).contacts()[0],
        "<sip:3600@h>;expires=5400"
    );
}

#[test]
fn a_full_location_service_says_when_to_come_again() {
    let server = Server::new(10, 2);
    server.register(at(0), &Register::new(1, &["Contact: <sip:a@h>, <sip:b@h>"]));
    let refused = server.register(at(0), &Register::new(2, &["Contact: <sip:c@h>"]));
    assert_eq!(
        (refused.status(), refused.values(HeaderName::RetryAfter)),
        (503, vec!["17".to_owned()])
    );
    let refreshed = server.register(at(1), &Register::new(3, &["Contact: <sip:b@h>"]));
    assert_eq!(refreshed.status(), 200);
}

#[test]
fn an_address_has_no_more_contacts_than_allowed() {
    let server = Server::new(2, 100);
    assert_eq!(
        server
            .register(at(0), &Register::new(1, &["Contact: <sip:a@h>, <sip:b@h>"]))
            .status(),
        200
    );
    assert_eq!(
        server
            .register(at(0), &Register::new(2, &["Contact: <sip:c@h>"]))
            .status(),
        403
    );
    let exchange = Register::new(3, &["Contact: <sip:c@h>, <sip:a@h>;expires=0"]);
    assert_eq!(
        server.register(at(0), &exchange).status(),
        200,
        "one goes, one comes"
    );
    assert_eq!(
        server.bindings(at(0)),
        ["sip:c@h 1000 600", "sip:b@h 1000 600"]
    );
    let lines: Vec<String> = (0..500)
        .map(|n| format!("Contact: <sip:{n}@h>;expires=0"))
        .collect();
    let flood = Register {
        lines,
        ..Register::new(4, &[])
    };
    assert_eq!(server.register(at(0), &flood).status(), 403);
}

#[test]
fn a_phone_that_comes_back_takes_the_place_of_its_oldest_contact_when_there_is_no_other() {
    let server = Server::new(2, 100);
    let contact = |name: &str, instance: &str| {
        format!("Contact: <sip:{name}@h>;+sip.instance=\"<urn:uuid:{instance}>\"")
    };
    let lines = [contact("a", "1"), contact("b", "1"), contact("c", "1")];
    for (line, cseq) in lines.iter().zip(1..) {
        let register = Register::new(cseq, &[line]);
        assert_eq!(server.register(at(0), &register).status(), 200, "{line}");
    }
    assert_eq!(
        server.bindings(at(0)),
        ["sip:c@h 1000 600", "sip:b@h 1000 600"]
    );
    let stranger = contact("d", "2");
    let refused = server.register(at(0), &Register::new(4, &[&stranger]));
    assert_eq!(refused.status(), 403, "another phone");
    assert_eq!(server.bindings(at(0)).len(), 2);
}

#[test]
fn contacts_whose_connection_has_ended_make_room() {
    let mut server = Server::new(2, 100);
    let lines = ["Contact: <sip:a@h>, <sip:b@h>"];
    server.settings.listeners = vec![listener(Protocol::Udp); 3];
    server.register(at(0), &Register::new(1, &lines));
    let third = Register::new(2, &["Contact: <sip:c@h>"]);
    assert_eq!(server.register(at(0), &third).status(), 403, "over UDP");
    // The bindings were made over a stream, but there is no connection, as after a restart.
    server.settings.listeners = vec![listener(Protocol::Tcp); 3];
    assert_eq!(server.register(at(0), &third).status(), 200);
    assert_eq!(
        server.bindings(at(0)),
        ["sip:c@h 1000 600", "sip:b@h 1000 600"]
    );
}

fn listener(protocol: Protocol) -> Listener {
    Listener {
        protocol,
        address: "192.0.2.1:5060".parse().expect("an address"),
        prefix_length: 24,
        advertised: "192.0.2.1:5060".to_owned(),
        behind_balancer: false,
    }
}

#[test]
fn contacts_from_before_a_lower_limit_can_still_be_refreshed() {
    let mut server = Server::new(2, 100);
    server.register(at(0), &Register::new(1, &["Contact: <sip:a@h>, <sip:b@h>"]));
    server.settings.registrar.max_contacts = 1;
    let refresh = Register::new(2, &["Contact: <sip:a@h>"]);
    assert_eq!(server.register(at(1), &refresh).status(), 200);
    let another = Register::new(3, &["Contact: <sip:c@h>"]);
    assert_eq!(server.register(at(1), &another).status(), 403);
    assert_eq!(server.bindings(at(1)).len(), 2);
}

#[test]
fn a_request_of_the_same_call_must_be_newer_than_what_it_changes() {
    let server = Server::new(10, 100);
    let first = Register::new(5, &["Contact: <sip:a@h>, <sip:b@h>;q=0.5"]);
    assert_eq!(server.register(at(0), &first).status(), 200);
    for (what, cseq, line) in [
        ("older refresh", 4, "Contact: <sip:a@h>"),
        ("older end", 4, "Contact: <sip:a@h>;expires=0"),
        ("same number, another q", 5, "Contact: <sip:a@h>;q=0.1"),
        ("same number, end", 5, "Contact: <sip:a@h>;expires=0"),
        (
            "one of two is older",
            5,
            "Contact: <sip:c@h>, <sip:b@h>;q=0.6",
        ),
    ] {
        let response = server.register(at(0), &Register::new(cseq, &[line]));
        assert_eq!(response.status(), 500, "{what}");
        assert_eq!(
            server.bindings(at(0)),
            ["sip:a@h 1000 600", "sip:b@h 500 600"],
            "{what}"
        );
    }
    for cseq in [4, 5] {
        let all = Register::new(cseq, &["Contact: *", "Expires: 0"]);
        assert_eq!(server.register(at(0), &all).status(), 500);
        assert_eq!(server.bindings(at(0)).len(), 2);
    }
    let newer = Register::new(6, &["Contact: <sip:a@h>;q=0.4"]);
    assert_eq!(server.register(at(1), &newer).status(), 200);
    assert_eq!(
        server.bindings(at(1)),
        ["sip:b@h 500 599", "sip:a@h 400 600"]
    );
    let rebooted = Register {
        call_id: "another".to_owned(),
        ..Register::new(1, &["Contact: <sip:a@h>"])
    };
    assert_eq!(
        server.register(at(2), &rebooted).status(),
        200,
        "another Call-ID begins anew"
    );
    let all = Register {
        call_id: "third".to_owned(),
        ..Register::new(1, &["Contact: *", "Expires: 0"])
    };
    assert_eq!(server.register(at(2), &all).status(), 200);
    assert_eq!(server.bindings(at(2)), [""; 0]);
}

#[test]
fn a_retransmission_gets_the_same_answer_and_changes_nothing() {
    let server = Server::new(10, 100);
    let request = Register::new(5, &["Contact: <sip:a@h>;q=0.5, <sip:b@h>", "Expires: 300"]);
    let first = server.register(at(0), &request);
    let again = server.register(at(0), &request);
    assert_eq!(
        (again.status(), again.contacts()),
        (first.status(), first.contacts())
    );
    assert_eq!(
        server.register(at(4), &request).contacts()[0],
        "<sip:b@h>;expires=296"
    );
    let end = Register::new(6, &["Contact: <sip:a@h>;expires=0"]);
    for _ in 0..2 {
        let answer = server.register(at(5), &end);
        assert_eq!((answer.status(), answer.contacts().len()), (200, 1));
    }
    let end_all = Register::new(7, &["Contact: *", "Expires: 0"]);
    for _ in 0..2 {
        let answer = server.register(at(5), &end_all);
        assert_eq!((answer.status(), answer.contacts().len()), (200, 0));
    }
}

/// Section 19.1.4 decides which binding a contact refers to.
#[test]
fn equal_uris_are_one_binding_and_others_are_not() {
    let bound = "sip:%61lice@EXAMPLE.org;transport=udp";
    for (uri, same) in [
        ("sip:alice@example.org;transport=UDP", true),
        ("sip:alice@example.org;newparam=5;transport=udp", true),
        ("sip:Alice@example.org;transport=udp", false),
        ("sip:alice@example.org", false),
        ("sip:alice@example.org:5060;transport=udp", false),
        ("sips:alice@example.org;transport=udp", false),
        ("tel:+1", false),
    ] {
        let server = Server::new(10, 100);
        server.register(at(0), &Register::new(1, &[&format!("Contact: <{bound}>")]));
        server.register(
            at(0),
            &Register::new(2, &[&format!("Contact: <{uri}>;q=0.5")]),
        );
        let expected = if same { 1 } else { 2 };
        let bindings = server.bindings(at(0));
        assert_eq!(bindings.len(), expected, "{uri}: {bindings:?}");
        server.register(
            at(0),
            &Register::new(3, &[&format!("Contact: <{uri}>;expires=0")]),
        );
        assert_eq!(server.bindings(at(0)).len(), expected - 1, "{uri}");
    }
}

/// RFC 3261 section 10.2.1, RFC 5630 section 5.1.
#[test]
fn a_sips_address_of_record_takes_sips_contacts_only() {
    let secure = |cseq, lines: &[&str]| {
        let request = String::from_utf8(Register::new(cseq, lines).bytes()).unwrap();
        request.replace("To: <sip:", "To: <SIPS:").into_bytes()
    };
    let contact = "Contact: <sips:a@192.0.2.1>";
    for (lines, status) in [
        (&[contact][..], 200),
        (&["Contact: <sip:a@192.0.2.1>"], 403),
        (&["Contact: <sip:a@192.0.2.1;transport=tls>"], 403),
        (&["Contact: <tel:+15551234>"], 403),
        (&[contact, "Contact: <sip:b@192.0.2.1>"], 403),
        (&[contact, "Contact: <sip:b@192.0.2.1>;expires=0"], 200),
        (&["Contact: *", "Expires: 0"], 200),
        (&[], 200),
    ] {
        let server = Server::new(10, 100);
        let response = server.receive(at(0), &secure(1, lines), "192.0.2.1:5062");
        assert_eq!(response.status(), status, "{lines:?}");
        let bound = usize::from(status == 200 && lines.contains(&contact));
        assert_eq!(server.bindings(at(0)).len(), bound, "{lines:?}");
        if status == 403 {
            assert_eq!(response.reason(), "Contact must be sips as To is");
        }
    }
    // A binding of the sip address can be ended under both addresses.
    let server = Server::new(10, 100);
    server.register(at(0), &Register::new(1, &["Contact: <sip:a@192.0.2.1>"]));
    let end = secure(2, &["Contact: <sip:a@192.0.2.1>;expires=0"]);
    assert_eq!(server.receive(at(0), &end, "192.0.2.1:5062").status(), 200);
    assert!(server.bindings(at(0)).is_empty());
}

#[test]
fn the_binding_keeps_where_it_came_from() {
    let server = Server::new(10, 100);
    let request = Register {
        source: "[2001:db8::9]:1024",
        ..Register::new(9, &["Contact: <sip:a@h>"])
    };
    server.register(at(0), &request);
    let mut seen = 0;
    server.shared.locations.visit(ALICE, at(0), |binding| {
        seen += 1;
        assert_eq!(binding.source, "[2001:db8::9]:1024".parse().unwrap());
        assert_eq!(binding.listener.0, 2);
        assert_eq!(binding.call_id, b"843817637684230@998sdasdh09");
        assert_eq!(binding.cseq, 9);
        assert_eq!(binding.user_agent, b"Phone/1.0");
        assert_eq!(binding.path, b"");
    });
    assert_eq!(seen, 1);
}

#[test]
fn a_phone_that_names_its_flow_gets_require_outbound() {
    let flow = "Contact: <sip:a@h>;+sip.instance=\"<urn:uuid:1>\";reg-id=1";
    let supported = "Supported: path, outbound";
    let edge = "Path: <sip:edge1.example.org;lr;ob>";
    let other = "Path: <sip:edge1.example.org;lr>";
    let rows: &[(&[&str], bool)] = &[
        (&[flow, supported], true),
        (&[flow], false),
        (&["Contact: <sip:a@h>", supported], false),
        (&[flow, supported, edge], true),
        (&[flow, supported, other], false),
        (&[supported], false),
    ];
    for (lines, is_told) in rows {
        let server = Server::new(10, 100);
        let response = server.register(at(0), &Register::new(1, lines));
        assert_eq!(response.status(), 200);
        let told = response.values(HeaderName::Require) == ["outbound"];
        assert_eq!(told, *is_told, "{lines:?}");
    }
}

#[test]
fn path_is_kept_in_order_and_echoed_to_who_knows_it() {
    let lines = [
        "Contact: <sip:a@h>",
        "Path: <sip:edge1.example.org;lr>,<sip:edge2.example.org;lr>",
        "Path: \"third, and last\" <sip:edge3.example.org;lr>",
    ];
    let path = "<sip:edge1.example.org;lr>,<sip:edge2.example.org;lr>,\"third, and last\" <sip:edge3.example.org;lr>";
    for supported in [None, Some("Supported: 100rel, Path")] {
        let server = Server::new(10, 100);
        let mut register = Register::new(1, &lines);
        register.lines.extend(supported.map(str::to_owned));
        let response = server.register(at(0), &register);
        assert_eq!(response.status(), 200);
        let echoed = response.values(HeaderName::Path).join(",");
        assert_eq!(echoed, if supported.is_some() { path } else { "" });
        server.shared.locations.visit(ALICE, at(0), |binding| {
            assert_eq!(String::from_utf8_lossy(binding.path), path);
        });
        // A refresh on another path replaces it.
        server.register(at(1), &Register::new(2, &["Contact: <sip:a@h>"]));
        server
            .shared
            .locations
            .visit(ALICE, at(1), |binding| assert_eq!(binding.path, b""));
    }
}

#[test]
fn a_flow_has_one_contact() {
    let contact = |host: &str, reg_id: &str| {
        format!("Contact: <sip:a@{host}>;+sip.instance=\"<urn:uuid:1>\"{reg_id}")
    };
    let server = Server::new(10, 100);
    let mut cseq = 0;
    for (host, reg_id, expected) in [
        ("h1", ";reg-id=1", &["sip:a@h1 1000 600"][..]),
        ("h2", ";reg-id=1", &["sip:a@h2 1000 600"]),
        (
            "h3",
            ";reg-id=2",
            &["sip:a@h3 1000 600", "sip:a@h2 1000 600"],
        ),
        (
            "h4",
            "",
            &[
                "sip:a@h4 1000 600",
                "sip:a@h3 1000 600",
                "sip:a@h2 1000 600",
            ],
        ),
        (
            "h5",
            ";reg-id=2",
            &[
                "sip:a@h5 1000 600",
                "sip:a@h4 1000 600",
                "sip:a@h2 1000 600",
            ],
        ),
        (
            "h2",
            ";reg-id=2",
            &["sip:a@h2 1000 600", "sip:a@h4 1000 600"],
        ),
    ] {
        cseq += 1;
        let response = server.register(at(0), &Register::new(cseq, &[&contact(host, reg_id)]));
        assert_eq!(response.status(), 200);
        assert_eq!(server.bindings(at(0)), expected, "{host}{reg_id}");
    }
    let listed = server.register(at(0), &Register::new(99, &[])).contacts();
    assert_eq!(
        listed[0],
        "<sip:a@h2>;expires=600;+sip.instance=\"<urn:uuid:1>\";reg-id=2"
    );
}
