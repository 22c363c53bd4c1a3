//! The values that the parser finds in the bytes of a message.
use sip_message::{HeaderName, Message, Method, ParseError};

/// The longest message that is parsed, in bytes.
const MAX_LENGTH: usize = 256 * 1024;

fn parse(text: &str) -> Message<'_> {
    Message::parse(text.as_bytes()).unwrap()
}

fn values(message: &Message<'_>, name: HeaderName) -> Vec<String> {
    message
        .values(name)
        .map(|value| String::from_utf8(value.to_vec()).unwrap())
        .collect()
}

#[test]
fn a_request_is_seen_in_its_bytes() {
    let message = parse(
        "INVITE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP h\r\ni: abc\r\nCSeq: 1 INVITE\r\nX-Y: z\r\n\r\nbody",
    );
    assert!(message.is_request());
    assert_eq!(
        (message.method(), message.request_uri()),
        (Method::Invite, &b"sip:bob@example.org"[..])
    );
    assert_eq!((message.status(), message.reason()), (0, &b""[..]));
    assert_eq!(
        (message.call_id(), message.body()),
        (Some(&b"abc"[..]), &b"body"[..])
    );
    assert_eq!(message.top_via().unwrap().sent_by, b"h");
    let names: Vec<_> = message
        .headers()
        .map(|header| {
            (
                header.name,
                header.name_bytes.to_vec(),
                header.value.to_vec(),
            )
        })
        .collect();
    assert_eq!(
        names[1],
        (HeaderName::CallId, b"i".to_vec(), b"abc".to_vec())
    );
    assert_eq!(
        names[3],
        (HeaderName::Other, b"X-Y".to_vec(), b"z".to_vec())
    );
}

#[test]
fn a_response_is_seen_in_its_bytes() {
    let message = parse("SIP/2.0 183 Session Progress\r\nCSeq: 314 PRACK\r\n\r\n");
    assert!(!message.is_request());
    assert_eq!(
        (message.status(), message.reason()),
        (183, &b"Session Progress"[..])
    );
    assert_eq!(
        (message.method(), message.request_uri()),
        (Method::Prack, &b""[..])
    );
    assert_eq!(parse("SIP/2.0 100 \r\n\r\n").reason(), b"");
    assert_eq!(parse("SIP/2.0 100\r\n\r\n").status(), 100);
}

#[test]
fn lines_may_be_folded_and_end_in_a_bare_line_feed() {
    let message =
        parse("\r\n\nOPTIONS sip:h SIP/2.0\nSubject:\r\n one\n\ttwo \r\nTo :<sip:x>\n\nb");
    assert_eq!(
        message.header(HeaderName::Subject),
        Some(&b"one\n\ttwo"[..])
    );
    assert_eq!(message.header(HeaderName::To), Some(&b"<sip:x>"[..]));
    assert_eq!(message.body(), b"b");
}

#[test]
fn values_go_over_all_lines_of_a_list() {
    let message = parse(
        "OPTIONS sip:h SIP/2.0\r\nRoute: <sip:a>, <sip:b,c>\r\nSubject: a, b\r\nroute:,<sip:d>\r\nSubject: c\r\n\r\n",
    );
    assert_eq!(
        values(&message, HeaderName::Route),
        ["<sip:a>", "<sip:b,c>", "<sip:d>"]
    );
    assert_eq!(values(&message, HeaderName::Subject), ["a, b", "c"]);
    assert_eq!(values(&message, HeaderName::Path), Vec::<String>::new());
}

#[test]
fn tokens_are_found_without_case() {
    let message = parse("OPTIONS sip:h SIP/2.0\r\nk: 100rel , Path\r\nSupported: timer\r\n\r\n");
    for token in ["path", "TIMER", "100rel"] {
        assert!(
            message.lists_token(HeaderName::Supported, token.as_bytes()),
            "{token}"
        );
    }
    assert!(!message.lists_token(HeaderName::Supported, b"pat"));
    assert!(!message.lists_token(HeaderName::Require, b"path"));
}

#[test]
fn numbers_tell_absent_from_malformed() {
    let message =
        parse("OPTIONS sip:h SIP/2.0\r\nMax-Forwards: 256\r\nExpires: 4294967296\r\n\r\n");
    assert_eq!(
        (message.max_forwards(), message.expires()),
        (Some(None), Some(None))
    );
    let message = parse("OPTIONS sip:h SIP/2.0\r\nMax-Forwards: 0\r\nExpires: 4294967295\r\n\r\n");
    assert_eq!(
        (message.max_forwards(), message.expires()),
        (Some(Some(0)), Some(Some(u32::MAX)))
    );
    let message = parse("OPTIONS sip:h SIP/2.0\r\n\r\n");
    assert_eq!((message.max_forwards(), message.expires()), (None, None));
}

#[test]
fn content_length_bounds_the_body() {
    for (length, body) in [
        ("2", "bo"),
        ("0", ""),
        ("4", "body"),
        ("5", "body"),
        ("-1", "body"),
        ("99999999999", "body"),
    ] {
        assert_eq!(
            parse(&format!("OPTIONS sip:h SIP/2.0\r\nl: {length}\r\n\r\nbody")).body(),
            body.as_bytes(),
            "{length}"
        );
    }
    assert_eq!(parse("OPTIONS sip:h SIP/2.0\r\n").body(), b"");
}

#[test]
fn the_first_of_a_name_is_found_however_far_behind() {
    for others in [0, 39, 40, 253, 254, 255, 256, 400] {
        let filler = "X-Y: z\r\n".repeat(others);
        let text =
            format!("OPTIONS sip:h SIP/2.0\r\n{filler}Subject: a\r\nTo: b\r\nsubject: c\r\n\r\n");
        let message = parse(&text);
        assert_eq!(
            message.header(HeaderName::Subject),
            Some(&b"a"[..]),
            "{others}"
        );
        assert_eq!(
            values(&message, HeaderName::Subject),
            ["a", "c"],
            "{others}"
        );
        assert_eq!(message.header(HeaderName::To), Some(&b"b"[..]), "{others}");
        assert_eq!(message.header(HeaderName::From), None, "{others}");
        assert_eq!(message.headers().count(), others + 3);
    }
}

#[test]
fn sizes_are_bounded() {
    let with = |headers: usize| {
        format!(
            "OPTIONS sip:h SIP/2.0\r\n{}\r\n",
            "X-Y: z\r\n".repeat(headers)
        )
    };
    assert!(Message::parse(with(512).as_bytes()).is_ok());
    assert_eq!(
        Message::parse(with(513).as_bytes()).err(),
        Some(ParseError::TooManyHeaders)
    );
    let long = |length: usize| [with(1).into_bytes(), vec![b'x'; length - with(1).len()]].concat();
    assert!(Message::parse(&long(MAX_LENGTH)).is_ok());
    assert_eq!(
        Message::parse(&long(MAX_LENGTH + 1)).err(),
        Some(ParseError::TooLong)
    );
}

#[test]
fn what_can_not_be_answered_does_not_parse() {
    assert_eq!(Message::parse(b"").err(), Some(ParseError::Empty));
    assert_eq!(Message::parse(b"\r\n\r\n").err(), Some(ParseError::Empty));
    for bytes in [
        "hello\r\n\r\n",
        "INVITE sip:h\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "SIP/2.0\r\n\r\n",
        "SIP/2.0 99 x\r\n\r\n",
        "SIP/2.0 700 x\r\n\r\n",
        "SIP/2.0 2000 x\r\n\r\n",
        "SIP/2.0 +20 x\r\n\r\n",
        "SIP/2.0  200 OK\r\n\r\n",
        " SIP/2.0\r\n\r\n",
        "INVITESIP/2.0\r\n",
        "x SIP/x\r\n",
    ] {
        assert_eq!(
            Message::parse(bytes.as_bytes()).err(),
            Some(ParseError::NotSip),
            "{bytes:?}"
        );
    }
}

#[test]
fn lines_that_are_no_header_fields_are_kept_as_invalid() {
    let name = "N".repeat(256);
    let text = format!(
        "OPTIONS sip:h SIP/2.0\r\nno colon\r\n: x\r\nbad name: x\r\n{name}: x\r\nTo: y\r\n\r\n"
    );
    let message = parse(&text);
    let names: Vec<_> = message.headers().map(|header| header.name).collect();
    assert_eq!(
        names,
        [[HeaderName::Invalid; 4].as_slice(), &[HeaderName::To]].concat()
    );
}
