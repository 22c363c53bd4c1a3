//! Messages of real implementations that no RFC requires us to accept. They pass, or get a response that helps their
//! sender.

use crate::bench::{ALICE, BOB, Bench, only, register, request, settings, status};
use sip_elements::{ChallengedMethods, Settings};
use sip_message::{HeaderName, Message};

const BOB_URI: &str = "sip:bob@example.org";

fn open() -> Settings {
    Settings {
        challenge: ChallengedMethods::Listed(Vec::new()),
        ..settings()
    }
}

fn bind(bench: &mut Bench, contact: &str) {
    let message = register("bob", BOB, 1, "").replace(&format!("<sip:bob@{BOB}>"), contact);
    assert_eq!(status(&only(bench.receive(BOB, &message))), 200);
}

/// Returns where a request to bob is forwarded to, or as `Err` the status of the response.
fn ask(bench: &mut Bench, message: &str) -> Result<String, u16> {
    let (to, last) = bench.receive(ALICE, message).pop().expect("something");
    match to.to_string().as_str() {
        ALICE => Err(status(&last)),
        to => Ok(to.to_owned()),
    }
}

#[test]
fn what_a_proxy_need_not_understand_passes() {
    let mut bench = Bench::new(open()).with_subscribers();
    bind(&mut bench, &format!("<sip:bob@{BOB}>"));
    let from = "sip:alice@example.org";
    let plain = request("MESSAGE", BOB_URI, from, "m", "");
    let bad_contact = plain.replace(&format!("<sip:alice@{ALICE}>"), "<sip:\"x>, , <<");
    assert_eq!(
        ask(&mut bench, &bad_contact.replace("Km", "Km1")),
        Ok(BOB.into())
    );
    for (place, name) in ["Alice (Sales)", "alice@home", "Al: [1/2] = {x}"]
        .into_iter()
        .enumerate()
    {
        let named = plain.replace("From: <", &format!("From: {name} <"));
        let named = named.replace("bKm", &format!("bKn{place}"));
        assert_eq!(ask(&mut bench, &named), Ok(BOB.into()), "{name}");
    }
    // RFC 4475 section 3.1.2.15: it is ambiguous where this name ends.
    let comma = plain.replace("From: <", "From: Bell, Alexander <");
    assert_eq!(ask(&mut bench, &comma), Err(400));
    let invite =
        request("INVITE", BOB_URI, from, "i", "").replace(&format!("<sip:alice@{ALICE}>"), "<<");
    assert_eq!(ask(&mut bench, &invite), Err(400), "a Contact that matters");
}

#[test]
fn a_contact_that_is_no_sip_address_is_kept_and_not_called() {
    let invite = request("INVITE", BOB_URI, "sip:alice@example.org", "i1", "");
    for (contact, expected) in [
        ("<tel:+4930123>", Err(480)),
        ("<mailto:bob@example.org>", Err(480)),
        (
            &*format!("<tel:+4930123>, <sip:bob@{BOB}>;q=0.1"),
            Ok(BOB.into()),
        ),
    ] {
        let mut bench = Bench::new(open()).with_subscribers();
        bind(&mut bench, contact);
        assert_eq!(ask(&mut bench, &invite), expected, "{contact}");
    }
}

#[test]
fn a_contact_elsewhere_is_followed_only_where_the_operator_says_so() {
    let invite = request("INVITE", BOB_URI, "sip:alice@example.org", "i1", "");
    for (follow_contact, expected) in [(false, BOB), (true, "203.0.113.99:5070")] {
        let mut settings = open();
        settings.registrar.follow_contact = follow_contact;
        let mut bench = Bench::new(settings).with_subscribers();
        bind(&mut bench, "<sip:bob@203.0.113.99:5070>");
        assert_eq!(ask(&mut bench, &invite), Ok(expected.into()));
    }
    // A host name may lead anywhere as well.
    let mut bench = Bench::new(open()).with_subscribers();
    bind(&mut bench, "<sip:bob@victim.example>");
    assert_eq!(ask(&mut bench, &invite), Ok(BOB.into()));
    assert!(bench.question().is_none(), "no name server is asked");
}

#[test]
fn a_405_names_what_the_server_itself_answers() {
    let mut bench = Bench::new(open()).with_subscribers();
    for method in ["INVITE", "MESSAGE", "SUBSCRIBE"] {
        let uri = "sip:example.org";
        let message = request(method, uri, "sip:alice@example.org", method, "");
        let answer = only(bench.receive(ALICE, &message));
        let parsed = Message::parse(answer.as_bytes()).expect("a response");
        assert_eq!(parsed.status(), 405);
        let allowed = parsed.header(HeaderName::Allow).expect("Allow");
        assert_eq!(allowed, b"ACK, CANCEL, OPTIONS, REGISTER");
    }
}

#[test]
fn more_header_fields_than_configured_are_refused() {
    let settings = Settings {
        max_header_fields: 30,
        ..open()
    };
    let mut bench = Bench::new(settings).with_subscribers();
    bind(&mut bench, &format!("<sip:bob@{BOB}>"));
    for (fields, expected) in [(10, Ok(BOB.into())), (30, Err(400))] {
        let extra = "X-Filler: y\n".repeat(fields);
        let from = "sip:alice@example.org";
        let message = request("MESSAGE", BOB_URI, from, &fields.to_string(), &extra);
        assert_eq!(ask(&mut bench, &message), expected, "{fields}");
    }
}

#[test]
fn a_register_whose_to_lies_in_another_of_our_domains_is_not_found() {
    let listeners = settings().listeners;
    let settings = Settings::new(&["example.org".into(), "example.net".into()], listeners);
    let mut bench = Bench::new(settings).with_subscribers();
    for (request_uri, expected) in [
        ("sip:example.org", 401),
        ("sip:192.0.2.1", 401),
        ("sip:example.net", 404),
    ] {
        let message = register("bob", BOB, 1, "").replace(
            "REGISTER sip:example.org",
            &format!("REGISTER {request_uri}"),
        );
        assert_eq!(
            status(&only(bench.receive(BOB, &message))),
            expected,
            "{request_uri}"
        );
    }
}
