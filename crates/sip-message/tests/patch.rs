//! Edits change what they should, and everything else stays byte for byte.
use sip_message::{HeaderName, Message, Patch};

/// Applies edits to a message given as text.
fn patched(text: &str, edit: impl FnOnce(&mut Patch<'_, '_>)) -> String {
    let message = Message::parse(text.as_bytes()).unwrap();
    let mut patch = Patch::new(&message);
    edit(&mut patch);
    let mut out = Vec::new();
    patch.write(&mut out);
    String::from_utf8(out).unwrap()
}

/// A request with these header field lines.
fn request(lines: &str) -> String {
    format!("INVITE sip:a SIP/2.0\r\n{lines}\r\n")
}

/// The result of edits to header field lines.
fn lines(lines: &str, edit: impl FnOnce(&mut Patch<'_, '_>)) -> String {
    let text = patched(&request(lines), edit);
    text.strip_prefix("INVITE sip:a SIP/2.0\r\n")
        .and_then(|text| text.strip_suffix("\r\n"))
        .unwrap()
        .to_owned()
}

#[test]
fn without_edits_the_message_is_copied_without_what_surrounds_it() {
    let text = "\r\n\r\nMESSAGE sip:x  SIP/2.0\nl:3\r\nX-Y:\r\n\tz\n\r\nabcdef";
    assert_eq!(
        patched(text, |_| {}),
        "MESSAGE sip:x  SIP/2.0\nl:3\r\nX-Y:\r\n\tz\n\r\nabc"
    );
}

#[test]
fn a_forwarded_request_changes_where_it_must_only() {
    let text = "INVITE sip:bob@example.org SIP/2.0\r\n\
        v: SIP/2.0/UDP 10.0.0.1;rport;branch=z9hG4bKa, SIP/2.0/TCP other\r\n\
        Route: <sip:me;lr>, <sip:next;lr>\r\n\
        MAX-FORWARDS: 0070\r\n\
        X-Y: strange \t value  \r\n\
        Content-Length:  4\r\n\r\nbodybehind";
    let out = patched(text, |patch| {
        patch
            .request_uri(b"sip:bob@192.0.2.7")
            .top_via_source("192.0.2.1:7".parse().unwrap())
            .prepend(HeaderName::Via, b"SIP/2.0/UDP me;branch=z9hG4bKm")
            .prepend(HeaderName::RecordRoute, b"<sip:me;lr>")
            .remove_first_values(HeaderName::Route, 1)
            .max_forwards(69);
    });
    assert_eq!(
        out,
        "INVITE sip:bob@192.0.2.7 SIP/2.0\r\n\
         Via: SIP/2.0/UDP me;branch=z9hG4bKm\r\n\
         v: SIP/2.0/UDP 10.0.0.1;rport=7;branch=z9hG4bKa;received=192.0.2.1, SIP/2.0/TCP other\r\n\
         Record-Route: <sip:me;lr>\r\n\
         Route: <sip:next;lr>\r\n\
         MAX-FORWARDS: 69\r\n\
         X-Y: strange \t value  \r\n\
         Content-Length:  4\r\n\r\nbody"
    );
}

#[test]
fn values_are_prepended_above_the_first_of_their_name() {
    let two = |patch: &mut Patch<'_, '_>| {
        patch
            .prepend(HeaderName::Route, b"<1>")
            .prepend(HeaderName::Route, b"<2>");
    };
    assert_eq!(
        lines("To: x\r\nroute: <a>\r\n", two),
        "To: x\r\nRoute: <2>\r\nRoute: <1>\r\nroute: <a>\r\n"
    );
    assert_eq!(
        lines("To: x\r\nv: a\r\n b\r\nX-Y: z\r\n", two),
        "To: x\r\nv: a\r\n b\r\nRoute: <2>\r\nRoute: <1>\r\nX-Y: z\r\n"
    );
    assert_eq!(
        lines("To: x\r\n", two),
        "Route: <2>\r\nRoute: <1>\r\nTo: x\r\n"
    );
    assert_eq!(lines("", two), "Route: <2>\r\nRoute: <1>\r\n");
    assert_eq!(
        lines("To: x\r\n", |patch| {
            patch.prepend(HeaderName::Via, b"v");
        }),
        "Via: v\r\nTo: x\r\n"
    );
}

#[test]
fn values_are_appended_below_everything() {
    let edit = |patch: &mut Patch<'_, '_>| {
        patch
            .append(HeaderName::Route, b"<1>")
            .append_raw(b"X-New", b"x\r\ny")
            .append(HeaderName::Route, b"<2>");
        patch.prepend(HeaderName::Route, b"<0>");
    };
    assert_eq!(
        lines("v: a\r\n", edit),
        "v: a\r\nRoute: <0>\r\nRoute: <1>\r\nX-New: x y\r\nRoute: <2>\r\n"
    );
}

#[test]
fn first_values_go_with_their_comma_or_line() {
    const ROUTES: &str = "Route: <a,1> ,\r\n <b> , <c>\r\nX-Y: z\r\nroute:<d>\r\n";
    let popped = |count| {
        move |patch: &mut Patch<'_, '_>| {
            patch.remove_first_values(HeaderName::Route, count);
        }
    };
    assert_eq!(lines(ROUTES, popped(0)), ROUTES);
    assert_eq!(
        lines(ROUTES, popped(1)),
        "Route: <b> , <c>\r\nX-Y: z\r\nroute:<d>\r\n"
    );
    assert_eq!(
        lines(ROUTES, popped(2)),
        "Route: <c>\r\nX-Y: z\r\nroute:<d>\r\n"
    );
    assert_eq!(lines(ROUTES, popped(3)), "X-Y: z\r\nroute:<d>\r\n");
    assert_eq!(lines(ROUTES, popped(4)), "X-Y: z\r\n");
    assert_eq!(lines(ROUTES, popped(9)), "X-Y: z\r\n");
}

#[test]
fn last_values_go_with_their_comma_or_line() {
    const ROUTES: &str = "Route: <a>\r\nX-Y: z\r\nRoute: <b> , \r\n <c>\r\n";
    let dropped = |times| {
        move |patch: &mut Patch<'_, '_>| {
            for _ in 0..times {
                patch.remove_last_value(HeaderName::Route);
            }
        }
    };
    assert_eq!(
        lines(ROUTES, dropped(1)),
        "Route: <a>\r\nX-Y: z\r\nRoute: <b>\r\n"
    );
    assert_eq!(lines(ROUTES, dropped(2)), "Route: <a>\r\nX-Y: z\r\n");
    assert_eq!(lines(ROUTES, dropped(4)), "X-Y: z\r\n");
}

#[test]
fn removals_from_both_ends_add_up() {
    let edit = |patch: &mut Patch<'_, '_>| {
        patch
            .remove_first_values(HeaderName::Route, 1)
            .remove_last_value(HeaderName::Route)
            .remove_first_values(HeaderName::Route, 1);
    };
    assert_eq!(
        lines("Route: <a>, <b>, <c>, <d>\r\n", edit),
        "Route: <c>\r\n"
    );
    assert_eq!(lines("Route: <a>, <b>, <c>\r\n", edit), "");
}

#[test]
fn a_strict_route_is_repaired() {
    let text = "BYE sip:me;lr SIP/2.0\r\nRoute: <sip:a;lr>, <sip:target>\r\n\r\n";
    let out = patched(text, |patch| {
        patch
            .request_uri(b"sip:target")
            .remove_last_value(HeaderName::Route);
    });
    assert_eq!(out, "BYE sip:target SIP/2.0\r\nRoute: <sip:a;lr>\r\n\r\n");
}

type Edit = fn(&mut Patch<'_, '_>);

#[test]
fn the_later_of_two_edits_of_a_value_counts() {
    const NAME: HeaderName = HeaderName::Expires;
    let cases: [(Edit, &str); 6] = [
        (
            |patch| {
                patch.replace(NAME, b"1").replace(NAME, b"2");
            },
            "v: a\r\nexpires: 2\r\n",
        ),
        (
            |patch| {
                patch.replace(NAME, b"1").remove(NAME);
            },
            "v: a\r\n",
        ),
        (
            |patch| {
                patch.remove(NAME).replace(NAME, b"1");
            },
            "v: a\r\nExpires: 1\r\n",
        ),
        (
            |patch| {
                patch.remove(NAME).replace(NAME, b"1").replace(NAME, b"2");
            },
            "v: a\r\nExpires: 2\r\n",
        ),
        (
            |patch| {
                patch.prepend(NAME, b"1").append(NAME, b"2").remove(NAME);
            },
            "v: a\r\n",
        ),
        (
            |patch| {
                patch.remove(NAME).prepend(NAME, b"1");
            },
            "v: a\r\nExpires: 1\r\n",
        ),
    ];
    for (index, (edit, expected)) in cases.into_iter().enumerate() {
        assert_eq!(lines("v: a\r\nexpires: 9\r\n", edit), expected, "{index}");
    }
}

#[test]
fn a_completed_via_is_completed_once_and_goes_when_it_is_popped() {
    const VIAS: &str = "v: SIP/2.0/UDP h;rport, SIP/2.0/UDP i\r\n";
    let source = |text: &str| text.parse().unwrap();
    let out = lines(VIAS, |patch| {
        patch
            .top_via_source(source("10.0.0.1:1"))
            .top_via_source(source("10.0.0.2:2"))
            .remove_last_value(HeaderName::Via);
    });
    assert_eq!(out, "v: SIP/2.0/UDP h;rport=2;received=10.0.0.2\r\n");
    let out = lines(VIAS, |patch| {
        patch
            .top_via_source(source("10.0.0.1:1"))
            .remove_first_values(HeaderName::Via, 1);
    });
    assert_eq!(out, "v: SIP/2.0/UDP i\r\n");
    let out = lines(VIAS, |patch| {
        patch
            .remove_first_values(HeaderName::Via, 1)
            .top_via_source(source("10.0.0.1:1"));
    });
    assert_eq!(out, "v: SIP/2.0/UDP i\r\n");
    let out = lines("Via: broken\r\n", |patch| {
        patch.top_via_source(source("10.0.0.1:1"));
    });
    assert_eq!(out, "Via: broken\r\n");
}

#[test]
fn a_new_body_has_its_length() {
    let out = patched(
        "MESSAGE sip:a SIP/2.0\r\nl: 3\r\nX-Y: z\r\nContent-Length: 3\r\n\r\nold+",
        |patch| {
            patch.body(b"first").body(b"a new one");
        },
    );
    assert_eq!(
        out,
        "MESSAGE sip:a SIP/2.0\r\nl: 9\r\nX-Y: z\r\n\r\na new one"
    );
    let out = patched("MESSAGE sip:a SIP/2.0\r\n\r\nold", |patch| {
        patch.body(b"").append(HeaderName::Subject, b"s");
    });
    assert_eq!(
        out,
        "MESSAGE sip:a SIP/2.0\r\nContent-Length: 0\r\nSubject: s\r\n\r\n"
    );
}

#[test]
fn a_message_without_content_length_gets_that_of_its_body() {
    let complete = |text: &str| {
        patched(text, |patch| {
            patch.complete_content_length();
        })
    };
    let with = "MESSAGE sip:a@b SIP/2.0\r\nl: 2\r\n\r\nhi";
    assert_eq!(complete(with), with);
    assert_eq!(
        complete("MESSAGE sip:a@b SIP/2.0\r\nCSeq: 1 MESSAGE\r\n\r\nhi\r\n"),
        "MESSAGE sip:a@b SIP/2.0\r\nCSeq: 1 MESSAGE\r\nContent-Length: 4\r\n\r\nhi\r\n"
    );
    assert_eq!(
        complete("ACK sip:a@b SIP/2.0\r\nCSeq: 1 ACK\r\n\r\n"),
        "ACK sip:a@b SIP/2.0\r\nCSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n"
    );
}

#[test]
fn an_empty_value_is_replaced_too() {
    assert_eq!(
        lines("s:\r\nX-Y: z\r\n", |patch| {
            patch.replace(HeaderName::Subject, b"new");
        }),
        "s:new\r\nX-Y: z\r\n"
    );
}

#[test]
fn values_written_never_begin_a_line() {
    let out = lines("Subject: old\r\n", |patch| {
        patch
            .replace(HeaderName::Subject, b"a\r\nX-Y: z")
            .append(HeaderName::Reason, b"b\n\nX-Y: z");
    });
    assert_eq!(out, "Subject: a X-Y: z\r\nReason: b X-Y: z\r\n");
    assert_eq!(
        patched(&request(""), |patch| {
            patch.request_uri(b"sip:x\r\ny");
        }),
        "INVITE sip:x y SIP/2.0\r\n\r\n"
    );
}

#[test]
fn nothing_runs_into_a_last_line_without_end() {
    for text in [
        "MESSAGE sip:a SIP/2.0\r\nTo: x",
        "MESSAGE sip:a SIP/2.0\r\nTo: x\r\n",
    ] {
        assert_eq!(patched(text, |_| {}), text);
        let out = patched(text, |patch| {
            patch.body(b"body").append(HeaderName::Subject, b"s");
        });
        assert_eq!(
            out,
            "MESSAGE sip:a SIP/2.0\r\nTo: x\r\nContent-Length: 4\r\nSubject: s\r\n\r\nbody"
        );
    }
    let out = patched("MESSAGE sip:a SIP/2.0\r\nVia: x", |patch| {
        patch.prepend(HeaderName::Route, b"r");
    });
    assert_eq!(out, "MESSAGE sip:a SIP/2.0\r\nVia: x\r\nRoute: r\r\n");
}

#[test]
fn names_that_stand_for_no_header_field_edit_nothing() {
    let text = "X-Y: z\r\nno colon\r\n";
    for name in [HeaderName::Other, HeaderName::Invalid] {
        let out = lines(text, |patch| {
            patch
                .remove(name)
                .replace(name, b"1")
                .prepend(name, b"2")
                .append(name, b"3");
        });
        assert_eq!(out, text);
    }
}

#[test]
fn the_scratch_buffer_comes_back() {
    let message = Message::parse(b"OPTIONS sip:a SIP/2.0\r\n\r\n").unwrap();
    let scratch = Vec::with_capacity(1000);
    let address = scratch.as_ptr();
    let mut patch = Patch::with_scratch(&message, scratch);
    patch.append(HeaderName::Subject, b"s");
    let scratch = patch.into_scratch();
    assert_eq!((scratch.as_ptr(), scratch.capacity()), (address, 1000));
}
