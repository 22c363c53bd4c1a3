//! Calls from phone to phone and to other domains.

use crate::bench::{
    ALICE, BOB, Bench, accept, answer_challenge, only, recorded, register, request, settings,
    status,
};
use sip_elements::routing::NextHop;

#[test]
fn a_registered_phone_is_called_after_the_caller_has_proven_himself() {
    let mut bench = Bench::new(settings()).with_subscribers();
    bench.register("alice", ALICE);
    bench.register("bob", BOB);
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    let challenge = only(bench.receive(ALICE, &invite));
    assert_eq!(status(&challenge), 407);
    let credentials = answer_challenge(&challenge, "alice", "INVITE", "sip:bob@example.org");
    let extra = format!("Proxy-Authorization: {credentials}\n");
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i2",
        &extra,
    );
    let sent = bench.receive(ALICE, &invite);
    let [(to_alice, trying), (to_bob, forwarded)] = &sent[..] else {
        panic!("{sent:#?}")
    };
    assert_eq!((to_alice.to_string(), status(trying)), (ALICE.into(), 100));
    assert_eq!(to_bob.to_string(), BOB);
    assert!(
        forwarded.starts_with(&format!("INVITE sip:bob@{BOB} SIP/2.0\r\n")),
        "{forwarded}"
    );
    assert!(
        forwarded.contains("Record-Route: <sip:192.0.2.1:5060;lr;"),
        "{forwarded}"
    );
    assert!(
        bench.receive(ALICE, &invite).len() == 1,
        "a retransmission gets the 100 again and is not forwarded"
    );
}

#[test]
fn credentials_for_us_go_no_further_and_those_for_others_do() {
    const FOREIGN: [&str; 2] = [
        "proxy-authorization: Digest username=\"alice\",realm=\"elsewhere\" , nonce=\"x\", uri=\"sip:y\", response=\"0\"",
        "Proxy-Authorization: Negotiate realm=\"example.org\"",
    ];
    let mut bench = Bench::new(settings()).with_subscribers();
    bench.register("bob", BOB);
    let send = |bench: &mut Bench, branch, extra: &str| {
        let (callee, caller) = ("sip:bob@example.org", "sip:alice@example.org");
        bench.receive(ALICE, &request("INVITE", callee, caller, branch, extra))
    };
    let challenge = only(send(&mut bench, "i1", ""));
    let ours = answer_challenge(&challenge, "alice", "INVITE", "sip:bob@example.org");
    let [first, last] = FOREIGN;
    let extra = format!("{first}\nProxy-Authorization: {ours}\n{last}\n");
    let forwarded = send(&mut bench, "i2", &extra).pop().expect("a copy").1;
    let passed: Vec<&str> = forwarded
        .split("\r\n")
        .filter(|line| line.to_ascii_lowercase().starts_with("proxy-auth"))
        .collect();
    assert_eq!(passed, FOREIGN, "{forwarded}");

    let challenge = only(send(&mut bench, "i3", ""));
    let ours = answer_challenge(&challenge, "alice", "INVITE", "sip:bob@example.org");
    let extra = format!("Proxy-Authorization: {ours}\n");
    let forwarded = send(&mut bench, "i4", &extra).pop().expect("a copy").1;
    assert!(!forwarded.contains("Authorization"), "{forwarded}");

    let answered = bench.receive(BOB, &accept(&forwarded)).pop();
    let routes = recorded(&answered.expect("it passes").1);
    let extra = format!("Route: {}\n{extra}", routes[0]);
    let in_dialog = |method| {
        request(
            method,
            "sip:bob@192.0.2.20:5060",
            "sip:alice@example.org",
            method,
            &extra,
        )
        .replace(
            "To: <sip:bob@192.0.2.20:5060>",
            "To: <sip:bob@example.org>;tag=b1",
        )
    };
    let ack = only(bench.receive(ALICE, &in_dialog("ACK")));
    assert!(!ack.contains("Authorization"), "{ack}");
    // The same is true for the credentials of a BYE, which a phone adds without a challenge. A receiver could try
    // passwords on them.
    let bye = only(bench.receive(ALICE, &in_dialog("BYE")));
    assert!(!bye.contains("Authorization"), "{bye}");
}

#[test]
fn unknown_callee_is_404_and_known_but_absent_is_480() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    let absent = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    assert_eq!(status(&only(bench.receive(ALICE, &absent))), 480);
    let unknown = request(
        "INVITE",
        "sip:nobody@example.org",
        "sip:alice@example.org",
        "i2",
        "",
    );
    let parked = only(bench.receive(ALICE, &unknown));
    assert_eq!(status(&parked), 100, "it waits for the store");
    let question = bench.question().expect("does he exist?");
    assert_eq!(status(&only(bench.answer(question))), 404);
}

#[test]
fn it_is_no_open_relay() {
    let mut bench = Bench::new(settings()).with_subscribers();
    for (from, refused, ended) in [
        ("sip:stranger@elsewhere.example", 403, 481),
        ("sip:alice@example.org", 407, 407),
    ] {
        let branch = |name: &str| format!("{name}{refused}");
        let victim = "sip:victim@elsewhere.example";
        let message = request("MESSAGE", victim, from, &branch("m1"), "");
        assert_eq!(status(&only(bench.receive(ALICE, &message))), refused);
        let through = request(
            "MESSAGE",
            "sip:victim@elsewhere.example",
            from,
            &branch("m2"),
            "Route: <sip:192.0.2.1;lr>\n",
        );
        assert_eq!(status(&only(bench.receive(ALICE, &through))), refused);
        let forged = request(
            "BYE",
            "sip:victim@elsewhere.example",
            from,
            &branch("m3"),
            "Route: <sip:192.0.2.1;lr;ck=0123456789abcdef>\n",
        )
        .replace(
            "To: <sip:victim@elsewhere.example>",
            "To: <sip:victim@elsewhere.example>;tag=x",
        );
        assert_eq!(status(&only(bench.receive(ALICE, &forged))), ended);
    }
}

#[test]
fn subscribers_reach_other_domains_through_the_configured_next_hop_and_strangers_do_not() {
    let mut settings = settings();
    settings.challenge.clear();
    settings.proxy.outbound = Some(NextHop::Address(
        "198.51.100.9:5060".parse().expect("address"),
    ));
    let mut bench = Bench::new(settings).with_subscribers();
    let own = request(
        "MESSAGE",
        "sip:somebody@elsewhere.example",
        "sip:alice@example.org",
        "m1",
        "",
    );
    let sent = bench.receive(ALICE, &own);
    assert_eq!(
        sent.first().map(|(to, _)| to.to_string()),
        Some("198.51.100.9:5060".into()),
        "{sent:#?}"
    );
    let strange = request(
        "MESSAGE",
        "sip:somebody@elsewhere.example",
        "sip:stranger@elsewhere.example",
        "m2",
        "",
    );
    assert_eq!(status(&only(bench.receive(ALICE, &strange))), 403);
}

#[test]
fn a_contact_that_names_the_server_is_not_called() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    let loops = register("bob", BOB, 1, "").replace(
        &format!("Contact: <sip:bob@{BOB}>"),
        "Contact: <sip:bob@example.org;x=1>, <sip:bob@192.0.2.1;x=2>",
    );
    assert_eq!(status(&only(bench.receive(BOB, &loops))), 200);
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    assert_eq!(status(&only(bench.receive(ALICE, &invite))), 480);
}

#[test]
fn a_sips_address_of_record_is_reached_at_sips_contacts_only() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    let contact = register("bob", BOB, 1, "");
    assert_eq!(status(&only(bench.receive(BOB, &contact))), 200);
    let invite = request(
        "INVITE",
        "sips:bob@example.org",
        "sip:stranger@elsewhere.example",
        "i1",
        "",
    );
    assert_eq!(status(&only(bench.receive(ALICE, &invite))), 480);
}
