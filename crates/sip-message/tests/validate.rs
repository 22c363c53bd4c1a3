//! The faults that validation finds, and the responses to them.
use sip_message::HeaderName as H;
use sip_message::{HeaderName, Malformed, Message};

const SOUND: &str = "OPTIONS sip:bob@example.org SIP/2.0\r\n\
    Via: SIP/2.0/UDP h;branch=z9hG4bK1\r\n\
    Max-Forwards: 70\r\n\
    From: <sip:a@b>;tag=1\r\n\
    To: <sip:c@d>\r\n\
    Call-ID: x\r\n\
    CSeq: 1 OPTIONS\r\n\
    Contact: <sip:a@h>\r\n\
    Content-Length: 0\r\n\
    \r\n";

fn check(text: &str) -> Result<(), Malformed> {
    Message::parse(text.as_bytes()).unwrap().validate()
}

#[test]
fn a_sound_request_passes() {
    assert_eq!(check(SOUND), Ok(()));
}

#[test]
fn what_rfc_2543_left_out_is_not_asked_for() {
    for absent in [
        ";branch=z9hG4bK1",
        "Max-Forwards: 70\r\n",
        ";tag=1",
        "Contact: <sip:a@h>\r\n",
        "Content-Length: 0\r\n",
    ] {
        assert_eq!(check(&SOUND.replace(absent, "")), Ok(()), "{absent}");
    }
}

type Fault = (
    &'static str,
    &'static str,
    u16,
    Option<HeaderName>,
    &'static str,
);

macro_rules! faults {
    ($($sound:literal is $faulty:literal => $status:literal $header:expr, $reason:literal;)*) => {
        &[$(($sound, $faulty, $status, $header, $reason)),*]
    };
}

/// A part of the sound request, its replacement, and the response to the result.
const FAULTS: &[Fault] = faults! {
    "SIP/2.0\r\nVia" is "SIP/3.0\r\nVia" => 505 None, "Version Not Supported";
    "SIP/2.0\r\nVia" is "SIP/2.0 \r\nVia" => 400 None, "Bad Request-Line: white space at its end";
    "OPTIONS sip" is "OPT{IONS sip" => 400 None, "Bad Request-Line: the method is not a token";
    "OPTIONS sip" is "OPTIONS  sip" => 400 None, "Bad Request-URI";
    "OPTIONS sip" is "OPTIONS\tsip" => 400 None, "Bad Request-URI";
    " sip:bob@example.org " is " " => 400 None, "Bad Request-URI";
    "sip:bob@example.org" is "http://example.org" => 416 None, "Unsupported URI Scheme";
    "example.org" is "example.org?a=b" => 400 None, "Bad Request-URI: header fields are not allowed";
    "Call-ID: x" is "Call ID: x" => 400 Some(H::Invalid), "Bad header line: not a header field";
    "Via: SIP" is " Via: SIP" => 400 Some(H::Invalid), "Bad header line: not a header field";
    "Call-ID: x" is "Call-ID: x\ry" => 400 Some(H::Invalid), "Bad header line: CR without LF";
    "Length: 0\r\n\r\n" is "Length: 0\r\n" => 400 Some(H::Invalid), "Bad header: no empty line at its end";
    "Via: " is "X-Y: " => 400 Some(H::Via), "Missing Via";
    "UDP h" is "UDP" => 400 Some(H::Via), "Bad Via";
    "UDP h" is "UDP h, ," => 400 Some(H::Via), "Bad Via";
    ";branch" is ";;branch" => 400 Some(H::Via), "Bad Via";
    "From: " is "X-Y: " => 400 Some(H::From), "Missing From";
    "To: <" is " To: <" => 400 Some(H::From), "Bad From";
    "<sip:a@b>;tag" is "\"A <sip:a@b>;tag" => 400 Some(H::From), "Bad From";
    "<sip:a@b>;tag" is "<sip:a b>;tag" => 400 Some(H::From), "Bad From: not a valid URI";
    "tag=1" is "tag=" => 400 Some(H::From), "Bad From";
    "To: " is "X-Y: " => 400 Some(H::To), "Missing To";
    "<sip:c@d>" is "<sip:c@d" => 400 Some(H::To), "Bad To";
    "<sip:c@d>" is "< sip:c@d >" => 400 Some(H::To), "Bad To: not a valid URI";
    "Call-ID: x\r\n" is "" => 400 Some(H::CallId), "Missing Call-ID";
    "Call-ID: x" is "Call-ID: " => 400 Some(H::CallId), "Bad Call-ID";
    "Call-ID: x" is "Call-ID: x y" => 400 Some(H::CallId), "Bad Call-ID";
    "CSeq: 1" is "X-Y: 1" => 400 Some(H::CSeq), "Missing CSeq";
    "CSeq: 1" is "CSeq: 4294967296" => 400 Some(H::CSeq), "Bad CSeq: number above 2^32-1";
    "CSeq: 1" is "CSeq: one" => 400 Some(H::CSeq), "Bad CSeq";
    "CSeq: 1 OPTIONS" is "CSeq: 1 INVITE" => 400 Some(H::CSeq), "Bad CSeq: not the method of the request";
    "OPTIONS sip" is "NEWMETHOD sip" => 501 Some(H::CSeq), "Bad CSeq: not the method of the request";
    "s: 70" is "s: 256" => 400 Some(H::MaxForwards), "Bad Max-Forwards: not a number from 0 to 255";
    "<sip:a@h>" is "<sip:a@h" => 400 Some(H::Contact), "Bad Contact";
    "<sip:a@h>" is "<sip:a@h>, sip:a@h?x=y" => 400 Some(H::Contact), "Bad Contact";
    "<sip:a@h>" is "*" => 400 Some(H::Contact), "Bad Contact: * must stand alone, in REGISTER";
    "Call-ID: x\r\n" is "Call-ID: x\r\ni: x\r\n" => 400 Some(H::CallId), "Bad Call-ID: more than one";
    "Call-ID: x\r\n" is "Call-ID: x\r\nl: 0\r\n" => 400 Some(H::ContentLength), "Bad Content-Length: more than one";
    "Call-ID: x\r\n" is "Call-ID: x\r\nRoute: <sip:a b>\r\n" => 400 Some(H::Route), "Bad Route";
    "Call-ID: x\r\n" is "Call-ID: x\r\nRecord-Route: x\r\n" => 400 Some(H::RecordRoute), "Bad Record-Route";
    "Call-ID: x\r\n" is "Call-ID: x\r\nPath: <x>\r\n" => 400 Some(H::Path), "Bad Path";
    "Length: 0" is "Length: 1" => 400 Some(H::ContentLength), "Bad Content-Length: beyond the end of the message";
    "Length: 0" is "Length: -1" => 400 Some(H::ContentLength), "Bad Content-Length: not a number";
};

#[test]
fn each_fault_has_its_status_header_field_and_reason() {
    for &(sound, faulty, status, header, reason) in FAULTS {
        let text = SOUND.replacen(sound, faulty, 1);
        assert_ne!(text, SOUND, "{sound:?} is not there");
        assert_eq!(
            check(&text),
            Err(Malformed {
                status,
                header,
                reason
            }),
            "{faulty:?}"
        );
    }
}

#[test]
fn a_star_stands_alone_in_a_register() {
    let register = SOUND
        .replace("OPTIONS", "REGISTER")
        .replace("<sip:a@h>", "*");
    assert_eq!(check(&register), Ok(()));
    assert!(check(&register.replace("Call-ID", "m: <sip:a@h>\r\nCall-ID")).is_err());
    assert!(check(&register.replace("Contact: *", "Contact: *, <sip:a@h>")).is_err());
}

#[test]
fn folds_and_bare_line_feeds_are_no_stray_carriage_returns() {
    assert_eq!(check(&SOUND.replace("Via: ", "Via:\r\n ")), Ok(()));
    assert_eq!(check(&SOUND.replace("\r\n", "\n")), Ok(()));
    assert_eq!(
        check(&SOUND.replace("h;", "h\r\n\t;").replace("x\r\n", "x\n")),
        Ok(())
    );
}

#[test]
fn a_stray_carriage_return_does_not_hide_behind_a_bare_line_feed() {
    let text = SOUND.replace("Call-ID: x\r\n", "Call-ID: x\nSubject: a\rb\r\n");
    assert!(check(&text).is_err());
    assert!(check(&text.replace("a\rb\r\n", "ab\r\r\n")).is_err());
}

#[test]
fn the_sip_of_the_version_has_no_case() {
    assert_eq!(
        check(&SOUND.replacen("SIP/2.0\r\nVia", "sip/2.0\r\nVia", 1)),
        Ok(())
    );
}
