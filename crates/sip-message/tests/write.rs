//! New messages, byte for byte.
use sip_message::{
    HeaderName, Message, Method, RequestWriter, ResponseWriter, reason_phrase, write_ack,
    write_cancel,
};
use std::net::SocketAddr;

const SOURCE: &str = "192.0.2.1:7777";

fn respond(request: &str, source: &str, status: u16, reason: &str, tag: Option<&[u8]>) -> String {
    let message = Message::parse(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    ResponseWriter::begin(
        &mut response,
        &message,
        source.parse::<SocketAddr>().unwrap(),
        status,
        reason,
        tag,
    )
    .finish();
    String::from_utf8(response).unwrap()
}

const INVITE: &str = "INVITE sip:bob@example.org SIP/2.0\r\n\
    v: SIP/2.0/UDP 10.0.0.1:5060;rport;branch=z9hG4bKa;x, SIP/2.0/TCP other;branch=z9hG4bKb\r\n\
    Route: <sip:r1;lr>\r\n\
    Max-Forwards: 10\r\n\
    Timestamp: 54.2\r\n\
    Via: SIP/2.0/UDP third;branch=z9hG4bKc\r\n\
    t: Bob <sip:bob@example.org>\r\n\
    f: Alice\r\n <sip:alice@example.org>;tag=1\r\n\
    Route: <sip:r2;lr>\r\n\
    i: abc@def\r\n\
    CSeq:  00007   INVITE\r\n\
    \r\n";

#[test]
fn a_response_copies_what_section_8_2_6_asks_for() {
    assert_eq!(
        respond(INVITE, SOURCE, 404, "", Some(b"t2")),
        "SIP/2.0 404 Not Found\r\n\
         Via: SIP/2.0/UDP 10.0.0.1:5060;rport=7777;branch=z9hG4bKa;x;received=192.0.2.1, SIP/2.0/TCP other;branch=z9hG4bKb\r\n\
         Via: SIP/2.0/UDP third;branch=z9hG4bKc\r\n\
         From: Alice <sip:alice@example.org>;tag=1\r\n\
         To: Bob <sip:bob@example.org>;tag=t2\r\n\
         Call-ID: abc@def\r\n\
         CSeq: 00007   INVITE\r\n\
         Content-Length: 0\r\n\r\n"
    );
}

#[test]
fn a_100_has_no_tag_and_the_timestamp() {
    let response = respond(INVITE, SOURCE, 100, "", Some(b"t2"));
    assert!(
        response.contains("To: Bob <sip:bob@example.org>\r\n"),
        "{response}"
    );
    assert!(response.contains("Timestamp: 54.2\r\n"), "{response}");
}

#[test]
fn a_tag_that_is_there_stays() {
    let request = INVITE.replace("<sip:bob@example.org>", "<sip:bob@example.org>;tag=old");
    assert!(
        respond(&request, SOURCE, 200, "", Some(b"new"))
            .contains("To: Bob <sip:bob@example.org>;tag=old\r\n")
    );
}

/// sent-by and parameters of a Via, the source of the request, and the completed Via.
#[test]
fn the_topmost_via_tells_where_the_request_came_from() {
    for (via, source, expected) in [
        ("192.0.2.1;branch=b", "192.0.2.1:9", "192.0.2.1;branch=b"),
        (
            "192.0.2.1;branch=b",
            "192.0.2.9:9",
            "192.0.2.1;branch=b;received=192.0.2.9",
        ),
        ("h;branch=b", "192.0.2.9:9", "h;branch=b;received=192.0.2.9"),
        (
            "192.0.2.1;rport;branch=b",
            "192.0.2.1:9",
            "192.0.2.1;rport=9;branch=b;received=192.0.2.1",
        ),
        (
            "192.0.2.1;branch=b ; RPort",
            "192.0.2.1:9",
            "192.0.2.1;branch=b ;rport=9;received=192.0.2.1",
        ),
        (
            "192.0.2.1;rport=1;branch=b",
            "192.0.2.1:65535",
            "192.0.2.1;rport=65535;branch=b;received=192.0.2.1",
        ),
        (
            "h;received=10.9.9.9;branch=b",
            "192.0.2.9:9",
            "h;branch=b;received=192.0.2.9",
        ),
        (
            "192.0.2.1;received=10.9.9.9;branch=b",
            "192.0.2.1:9",
            "192.0.2.1;branch=b",
        ),
        (
            "h;branch=b",
            "[2001:db8::9]:9",
            "h;branch=b;received=2001:db8::9",
        ),
        (
            "[2001:db8::9]:5060;branch=b",
            "[2001:db8::9]:9",
            "[2001:db8::9]:5060;branch=b",
        ),
        (
            "192.0.2.1;branch=b",
            "[::ffff:192.0.2.1]:9",
            "192.0.2.1;branch=b",
        ),
        ("h", "192.0.2.9:9", "h;received=192.0.2.9"),
    ] {
        let request = format!("OPTIONS sip:h SIP/2.0\r\nVia: SIP/2.0/UDP {via}\r\n\r\n");
        let response = respond(&request, source, 200, "", None);
        let line = response.lines().nth(1).unwrap();
        assert_eq!(
            line,
            format!("Via: SIP/2.0/UDP {expected}"),
            "{via} from {source}"
        );
    }
}

#[test]
fn a_broken_request_is_answered_with_what_is_there() {
    let request = "INVITE sip:a  SIP/2.0\r\nVia: SIP/2.0/UDP;;,\r\nTo: \"x <sip:a>\r\nCSeq: x\r\nTo: y\r\nno header\r\n\r\n";
    assert_eq!(
        respond(request, SOURCE, 400, "Bad Via", Some(b"t")),
        "SIP/2.0 400 Bad Via\r\nVia: SIP/2.0/UDP;;,\r\nTo: \"x <sip:a>\r\nCSeq: x\r\nContent-Length: 0\r\n\r\n"
    );
}

#[test]
fn nothing_that_is_copied_can_begin_a_line() {
    let request = "INVITE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP h\r\n ;branch=x,\n\t SIP/2.0/UDP h2\r\nFrom: <sip:a>\n \r\n ;x\ry\r\nTo:\r\n <sip:b>\r\n\r\n";
    let response = respond(request, SOURCE, 400, "Bad\r\nX-Y: z", None);
    assert_eq!(
        response,
        "SIP/2.0 400 Bad X-Y: z\r\nVia: SIP/2.0/UDP h ;branch=x;received=192.0.2.1, SIP/2.0/UDP h2\r\nFrom: <sip:a> ;x y\r\n\
         To: <sip:b>\r\nContent-Length: 0\r\n\r\n"
    );
}

#[test]
fn header_fields_and_a_body_are_added_in_order() {
    let message = Message::parse(b"OPTIONS sip:h SIP/2.0\r\n\r\n").unwrap();
    let mut response = b"before".to_vec();
    ResponseWriter::begin(
        &mut response,
        &message,
        SOURCE.parse().unwrap(),
        200,
        "Fine",
        None,
    )
    .header(HeaderName::Server, b"tandem\r\nX-Y: z")
    .header_with(HeaderName::MinExpires, |into| into.extend_from_slice(b"60"))
    .raw_header(b"X-Y", b"z")
    .finish_with_body(b"text/plain", b"body");
    assert_eq!(
        String::from_utf8(response).unwrap(),
        "beforeSIP/2.0 200 Fine\r\nServer: tandem X-Y: z\r\nMin-Expires: 60\r\nX-Y: z\r\n\
         Content-Type: text/plain\r\nContent-Length: 4\r\n\r\nbody"
    );
}

#[test]
fn a_request_is_written_from_scratch() {
    let mut request = Vec::new();
    RequestWriter::begin(&mut request, Method::Options, b"sip:h")
        .header(HeaderName::Via, b"SIP/2.0/UDP me;branch=z9hG4bK1")
        .header_with(HeaderName::From, |into| {
            into.extend_from_slice(b"<sip:me>;tag=1");
        })
        .raw_header(b"To", b"<sip:h>")
        .header(HeaderName::CallId, b"x")
        .header(HeaderName::CSeq, b"1 OPTIONS")
        .finish();
    assert_eq!(Message::parse(&request).unwrap().validate(), Ok(()));
    assert!(request.starts_with(b"OPTIONS sip:h SIP/2.0\r\nVia: SIP/2.0/UDP me"));
    assert!(request.ends_with(b"\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"));
}

#[test]
fn the_ack_of_a_refused_invite_belongs_to_its_transaction() {
    let invite = Message::parse(INVITE.as_bytes()).unwrap();
    let response = respond(INVITE, SOURCE, 486, "", Some(b"callee"));
    let mut ack = Vec::new();
    write_ack(
        &mut ack,
        &invite,
        &Message::parse(response.as_bytes()).unwrap(),
    );
    assert_eq!(
        String::from_utf8(ack).unwrap(),
        "ACK sip:bob@example.org SIP/2.0\r\n\
         Via: SIP/2.0/UDP 10.0.0.1:5060;rport;branch=z9hG4bKa;x\r\n\
         Route: <sip:r1;lr>\r\n\
         Route: <sip:r2;lr>\r\n\
         Max-Forwards: 70\r\n\
         From: Alice <sip:alice@example.org>;tag=1\r\n\
         To: Bob <sip:bob@example.org>;tag=callee\r\n\
         Call-ID: abc@def\r\n\
         CSeq: 7 ACK\r\n\
         Content-Length: 0\r\n\r\n"
    );
}

#[test]
fn a_cancel_matches_its_request() {
    let invite = Message::parse(INVITE.as_bytes()).unwrap();
    let cancelled = |reason: &str| {
        let mut cancel = Vec::new();
        write_cancel(&mut cancel, &invite, reason.as_bytes());
        String::from_utf8(cancel).unwrap()
    };
    assert_eq!(
        cancelled(""),
        "CANCEL sip:bob@example.org SIP/2.0\r\n\
         Via: SIP/2.0/UDP 10.0.0.1:5060;rport;branch=z9hG4bKa;x\r\n\
         Route: <sip:r1;lr>\r\n\
         Route: <sip:r2;lr>\r\n\
         Max-Forwards: 70\r\n\
         From: Alice <sip:alice@example.org>;tag=1\r\n\
         To: Bob <sip:bob@example.org>\r\n\
         Call-ID: abc@def\r\n\
         CSeq: 7 CANCEL\r\n\
         Content-Length: 0\r\n\r\n"
    );
    assert_eq!(
        cancelled("SIP;cause=200;\r\n text=\"Call completed elsewhere\""),
        cancelled("").replace(
            "Content-Length",
            "Reason: SIP;cause=200; text=\"Call completed elsewhere\"\r\nContent-Length"
        )
    );
}

#[test]
fn every_status_has_a_phrase() {
    for (status, phrase) in [
        (100, "Trying"),
        (200, "OK"),
        (407, "Proxy Authentication Required"),
        (487, "Request Terminated"),
        (503, "Service Unavailable"),
    ] {
        assert_eq!(reason_phrase(status), phrase);
    }
    assert!((100..700).all(|status| !reason_phrase(status).is_empty()));
}
