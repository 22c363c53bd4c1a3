//! The torture messages of RFC 4475 and RFC 5118, byte for byte: the result of parsing and validating each.
//!
//! The RFCs leave some cases open; this table decides them. The handling of valid messages by a registrar or proxy (420, 483, 501
//! …) is tested in the crates that implement these.
use sip_message::HeaderName::{self, CSeq, Contact, ContentLength, From, To, Via};
use sip_message::{Host, Message, Method, Patch, ResponseWriter, Scheme, Uri};

/// The result of parsing and validating a message.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// Sound at this layer.
    Valid,
    /// A request rejected with this status because of this header field, or of the start line.
    Refused(u16, Option<HeaderName>),
    /// A response that is dropped, or bytes that cannot be answered.
    Dropped,
}
use Outcome::{Dropped, Refused, Valid};

macro_rules! table {
    ($folder:literal: $($file:literal => $outcome:expr,)*) => {
        &[$(($file, include_bytes!(concat!("torture/", $folder, "/", $file, ".dat")), $outcome)),*]
    };
}

type Row = (&'static str, &'static [u8], Outcome);

const RFC_4475: &[Row] = table! { "rfc4475":
    // 3.1.1: valid messages.
    "wsinv" => Valid,
    "intmeth" => Valid,
    "esc01" => Valid,
    "escnull" => Valid,
    "esc02" => Valid,
    "lwsdisp" => Valid,
    "longreq" => Valid,
    "dblreq" => Valid,
    "semiuri" => Valid,
    "transports" => Valid,
    "mpart01" => Valid,
    "unreason" => Valid,
    "noreason" => Valid,
    // 3.1.2: invalid messages.
    "badinv01" => Refused(400, Some(Via)),
    "clerr" => Refused(400, Some(ContentLength)),
    "ncl" => Refused(400, Some(ContentLength)),
    "scalar02" => Refused(400, Some(CSeq)),
    "scalarlg" => Dropped,
    "quotbal" => Refused(400, Some(To)),
    "ltgtruri" => Refused(400, None),
    "lwsruri" => Refused(400, None),
    "lwsstart" => Refused(400, None),
    "trws" => Refused(400, None),
    "escruri" => Refused(400, None),
    // The time zone does not matter here.
    "baddate" => Valid,
    "regbadct" => Refused(400, Some(Contact)),
    "badaspec" => Refused(400, Some(To)),
    "baddn" => Refused(400, Some(From)),
    "badvers" => Refused(505, None),
    "mismatch01" => Refused(400, Some(CSeq)),
    "mismatch02" => Refused(501, Some(CSeq)),
    "bigcode" => Dropped,
    // 3.2: the branch is the bare cookie, and is matched as in RFC 2543.
    "badbranch" => Valid,
    // 3.3: decisions of the transaction user, and missing or repeated header fields.
    "insuf" => Refused(400, Some(From)),
    "unkscm" => Refused(416, None),
    "novelsc" => Refused(416, None),
    "unksm2" => Valid,
    "bext01" => Valid,
    "invut" => Valid,
    "regaut01" => Valid,
    "multi01" => Refused(400, Some(From)),
    "mcl01" => Refused(400, Some(ContentLength)),
    "bcast" => Valid,
    "zeromf" => Valid,
    "cparam01" => Valid,
    "cparam02" => Valid,
    "regescrt" => Valid,
    "sdp01" => Valid,
    // 3.4: RFC 2543.
    "inv2543" => Valid,
};

const RFC_5118: &[Row] = table! { "rfc5118":
    "ipv6-good" => Valid,
    "ipv6-bad" => Refused(400, None),
    "port-ambiguous" => Valid,
    "port-unambiguous" => Valid,
    "via-received-param-with-delim" => Valid,
    "via-received-param-no-delim" => Valid,
    "ipv6-in-sdp" => Valid,
    "mult-ip-in-header" => Valid,
    "mult-ip-in-sdp" => Valid,
    "ipv4-mapped-ipv6" => Valid,
    "ipv6-bug-abnf-3-colons" => Refused(400, None),
    "ipv6-correct-abnf-2-colons" => Valid,
};

fn rows() -> impl Iterator<Item = &'static Row> {
    RFC_4475.iter().chain(RFC_5118)
}

fn outcome(bytes: &[u8]) -> Outcome {
    let Ok(message) = Message::parse(bytes) else {
        return Dropped;
    };
    match message.validate() {
        Ok(()) => Valid,
        Err(malformed) if message.is_request() => Refused(malformed.status, malformed.header),
        Err(_) => Dropped,
    }
}

#[test]
fn each_message_has_the_outcome_of_its_rfc() {
    assert_eq!((RFC_4475.len(), RFC_5118.len()), (49, 12));
    let wrong: Vec<_> = rows()
        .map(|(name, bytes, expected)| (name, outcome(bytes), expected))
        .filter(|(_, got, expected)| got != *expected)
        .collect();
    assert!(wrong.is_empty(), "(message, got, expected): {wrong:#?}");
}

fn message(name: &str) -> Message<'static> {
    let (_, bytes, _) = rows().find(|(other, ..)| *other == name).unwrap();
    Message::parse(bytes).unwrap()
}

/// The offset after the first empty line.
fn end_of_header(bytes: &[u8]) -> usize {
    bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap()
        + 4
}

/// A proxy must not alter more than necessary: an empty patch leaves every valid message unchanged up to the end of its body.
#[test]
fn valid_messages_are_forwarded_octet_for_octet() {
    for (name, bytes, _) in rows().filter(|(_, _, expected)| *expected == Valid) {
        let message = Message::parse(bytes).unwrap();
        let mut out = Vec::new();
        Patch::new(&message).write(&mut out);
        // A second request follows in the same datagram.
        let end = if *name == "dblreq" {
            end_of_header(bytes)
        } else {
            bytes.len()
        };
        assert!(
            out == bytes[..end],
            "{name}: {}",
            String::from_utf8_lossy(&out)
        );
    }
}

/// A rejection contains the header fields that identify the request.
#[test]
fn every_refused_request_gets_its_answer() {
    for (name, bytes, expected) in rows() {
        let Refused(status, _) = expected else {
            continue;
        };
        let request = Message::parse(bytes).unwrap();
        let malformed = request.validate().unwrap_err();
        let mut out = Vec::new();
        let source = "192.0.2.1:5060".parse().unwrap();
        ResponseWriter::begin(
            &mut out,
            &request,
            source,
            malformed.status,
            malformed.reason,
            Some(b"t"),
        )
        .finish();
        let response = Message::parse(&out).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(response.status(), *status, "{name}");
        for header in [Via, From, To, HeaderName::CallId, CSeq] {
            assert_eq!(
                response.header(header).is_some(),
                request.header(header).is_some(),
                "{name} {header:?}"
            );
        }
    }
}

#[test]
fn reason_phrases_name_the_header_field_at_fault() {
    for (name, bytes, expected) in rows() {
        if let Refused(_, Some(header)) = expected {
            let reason = Message::parse(bytes)
                .unwrap()
                .validate()
                .unwrap_err()
                .reason;
            assert!(reason.contains(header.as_str()), "{name}: {reason}");
        }
    }
}

// The statements of RFC 4475 section 3.1.1 about each valid message.

#[test]
fn wsinv_is_understood_in_spite_of_its_white_space() {
    let message = message("wsinv");
    let vias: Vec<_> = message
        .values(Via)
        .map(|value| sip_message::Via::parse(value).unwrap())
        .collect();
    assert_eq!(
        vias.iter().map(|via| via.transport).collect::<Vec<_>>(),
        [b"UDP", b"TCP", b"UDP"]
    );
    assert_eq!(vias[1].branch(), Some(&b"z9hG4bK9ikj8"[..]));
    assert_eq!(
        (message.max_forwards(), message.cseq().unwrap().number),
        (Some(Some(68)), 9)
    );
    assert_eq!(message.to().unwrap().tag(), Some(&b"1918181833n"[..]));
    assert_eq!(
        message.from().unwrap().display_name,
        Some(&br#""J Rosenberg \\\"""#[..])
    );
    let contact = sip_message::NameAddr::parse(message.values(Contact).next().unwrap()).unwrap();
    assert_eq!(
        (contact.q(), contact.params.value(b"newparam")),
        (Some(Some(330)), Some(&b"newvalue"[..]))
    );
    let odd = message
        .headers()
        .find(|header| header.name_bytes == b"UnknownHeaderWithUnusualValue")
        .unwrap();
    assert_eq!(odd.value, b";;,,;;,;");
}

#[test]
fn intmeth_keeps_every_unusual_character() {
    let message = message("intmeth");
    assert_eq!(
        message.method().as_bytes(),
        b"!interesting-Method0123456789_*+`.%indeed'~"
    );
    let uri = Uri::parse(message.request_uri()).unwrap();
    assert_eq!(
        uri.user,
        Some(&b"1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"[..])
    );
    assert_eq!(
        uri.password,
        Some(&b"&it+has=1,weird!*pas$wo~d_too.(doesn't-it)"[..])
    );
    assert_eq!(
        message.from().unwrap().display_name,
        Some(&b"token1~` token2'+_ token3*%!.-"[..])
    );
}

#[test]
fn escapes_are_not_resolved_where_they_are_none() {
    assert_eq!(message("esc02").method(), Method::Other(b"RE%47IST%45R"));
    assert_eq!(
        message("esc02").to().unwrap().display_name,
        Some(&br#""%Z%45""#[..])
    );
    let uri = Uri::parse(message("esc01").request_uri()).unwrap();
    let mut key = Vec::new();
    uri.write_address_of_record(&mut key);
    assert_eq!(key, b"sips%3Auser%40example.com@example.net");
}

#[test]
fn escnull_registers_two_contacts() {
    let message = message("escnull");
    let uris: Vec<_> = message
        .values(Contact)
        .map(|value| sip_message::NameAddr::parse(value).unwrap().uri().unwrap())
        .collect();
    assert_eq!(uris.len(), 2);
    assert!(!uris[0].equivalent(&uris[1]));
    let mut key = Vec::new();
    message
        .to()
        .unwrap()
        .uri()
        .unwrap()
        .write_address_of_record(&mut key);
    assert_eq!(key, b"null-%00-null@example.com");
}

#[test]
fn dblreq_ends_with_its_content_length() {
    assert_eq!(
        (message("dblreq").method(), message("dblreq").body()),
        (Method::Register, &b""[..])
    );
}

#[test]
fn semiuri_has_a_user_with_semicolons() {
    let uri = Uri::parse(message("semiuri").request_uri()).unwrap();
    assert_eq!(
        (uri.user, uri.host),
        (
            Some(&b"user;par=u%40example.net"[..]),
            Host::Name(b"example.com")
        )
    );
}

#[test]
fn transports_and_multipart_bodies_are_kept() {
    assert_eq!(message("transports").values(Via).count(), 5);
    let multipart = message("mpart01");
    assert_eq!(
        multipart.body(),
        &multipart.bytes()[end_of_header(multipart.bytes())..]
    );
    assert_eq!(multipart.body().len(), 553);
    assert!(multipart.body().contains(&0), "its second part is binary");
}

#[test]
fn contact_and_uri_parameters_are_distinguished() {
    let contact =
        |name| sip_message::NameAddr::parse(message(name).header(Contact).unwrap()).unwrap();
    assert!(contact("cparam01").params.contains(b"unknownparam"));
    assert!(
        !contact("cparam01")
            .uri()
            .unwrap()
            .params
            .contains(b"unknownparam")
    );
    assert!(!contact("cparam02").params.contains(b"unknownparam"));
    assert!(
        contact("cparam02")
            .uri()
            .unwrap()
            .params
            .contains(b"unknownparam")
    );
    assert_eq!(
        contact("regescrt").uri().unwrap().headers,
        Some(&b"Route=%3Csip:sip.example.com%3E"[..])
    );
}

#[test]
fn unksm2_has_uris_that_only_the_registrar_can_judge() {
    assert_eq!(
        message("unksm2").to().unwrap().uri().unwrap().scheme,
        Scheme::Other(b"isbn")
    );
}

// RFC 5118.

#[test]
fn an_ambiguous_port_belongs_to_the_address() {
    let uri = |name| Uri::parse(message(name).request_uri()).unwrap();
    assert_eq!(
        uri("port-ambiguous").host,
        Host::Address("2001:db8::10:5070".parse().unwrap())
    );
    assert_eq!(uri("port-ambiguous").port, None);
    assert_eq!(
        uri("port-unambiguous").host,
        Host::Address("2001:db8::10".parse().unwrap())
    );
    assert_eq!(uri("port-unambiguous").port, Some(5070));
}

#[test]
fn received_is_read_with_and_without_delimiters() {
    for name in [
        "via-received-param-with-delim",
        "via-received-param-no-delim",
    ] {
        assert_eq!(
            message(name).top_via().unwrap().received(),
            Some("2001:db8::9:255".parse().unwrap()),
            "{name}"
        );
    }
}
