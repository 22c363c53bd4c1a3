//! Header fields that rules change: everything else stays byte for byte.

use crate::requests::{compile, known, list, rule};
use sip_message::{HeaderName, Message, Patch};
use sip_routing::rule::{FieldDescription, RuleDescription, RuleSet};

const REQUEST: &str = "INVITE sip:bob@example.org SIP/2.0\r\n\
v: SIP/2.0/UDP 192.0.2.1 ;branch=z9hG4bK1\r\n\
X-Inner:  one,\r\n\ttwo\r\n\
Max-Forwards:70\r\n\
From: <sip:alice@example.com>;tag=1\r\n\
x-inner : three \r\n\
To: <sip:bob@example.org>\r\n\
subject: Old\r\n\
Call-ID: c@example.com\r\n\
s: Older\r\n\
CSeq: 1 INVITE\r\n\
u: dialog\r\n\
Content-Length: 4\r\n\
X-Inner: four\r\n\
\x20\r\n\
\r\n\
body";

/// The request after the edits of a rule.
fn edited(
    request: &str,
    change: impl FnOnce(&mut RuleDescription),
    forward: impl Fn(&mut Patch<'_, '_>),
) -> String {
    let mut description = rule("r");
    change(&mut description);
    let rules = compile(&[description]);
    let message = Message::parse(request.as_bytes()).expect("a message");
    let mut patch = Patch::new(&message);
    let edits = rules.iter().next().expect("a rule").header_edits();
    edits.apply(&mut patch);
    forward(&mut patch);
    let mut into = Vec::new();
    patch.write(&mut into);
    String::from_utf8(into).expect("text")
}

fn field(name: &str, value: &str) -> FieldDescription {
    FieldDescription {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

fn without(removed: &[&str]) -> String {
    removed.iter().fold(REQUEST.to_owned(), |text, line| {
        assert_eq!(text.matches(line).count(), 1, "{line:?}");
        text.replace(line, "")
    })
}

/// The lines of `X-Inner`.
const INNER: [&str; 3] = [
    "X-Inner:  one,\r\n\ttwo\r\n",
    "x-inner : three \r\n",
    "X-Inner: four\r\n \r\n",
];

#[test]
fn without_edits_nothing_changes() {
    assert_eq!(edited(REQUEST, |_| {}, |_| {}), REQUEST);
}

#[test]
fn removing_takes_all_lines_with_their_folds_and_nothing_else() {
    let remove = |names: &[&str]| {
        let names = list(names).unwrap_or_default();
        edited(REQUEST, |rule| rule.remove_header = names, |_| {})
    };
    assert_eq!(remove(&["X-Inner"]), without(&INNER));
    assert_eq!(
        remove(&["Subject"]),
        without(&["subject: Old\r\n", "s: Older\r\n"])
    );
    assert_eq!(remove(&["Allow-Events"]), without(&["u: dialog\r\n"]));
    assert_eq!(remove(&["X-Absent", "Reason"]), REQUEST);
}

#[test]
fn adding_puts_a_line_behind_all_others() {
    let added = edited(
        REQUEST,
        |rule| rule.add_header = vec![field("X-Inner", "five"), field("reason", "Q.850")],
        |_| {},
    );
    let expected = REQUEST.replace(
        "\r\n\r\nbody",
        "\r\nX-Inner: five\r\nReason: Q.850\r\n\r\nbody",
    );
    assert_eq!(added, expected);
}

#[test]
fn replacing_leaves_one_line_with_the_new_value() {
    let replaced = edited(
        REQUEST,
        |rule| rule.replace_header = vec![field("X-Inner", "new"), field("s", "New")],
        |_| {},
    );
    let rest = without(&[
        INNER[0],
        INNER[1],
        INNER[2],
        "subject: Old\r\n",
        "s: Older\r\n",
    ]);
    let expected = rest.replace(
        "\r\n\r\nbody",
        "\r\nX-Inner: new\r\nSubject: New\r\n\r\nbody",
    );
    assert_eq!(replaced, expected);
}

#[test]
fn edits_agree_with_those_of_the_proxy() {
    let forward = |patch: &mut Patch<'_, '_>| {
        patch.top_via_source("198.51.100.1:5080".parse().expect("an address"));
        patch.prepend(HeaderName::Via, b"SIP/2.0/UDP 203.0.113.9;branch=z9hG4bK2");
        patch.prepend(HeaderName::RecordRoute, b"<sip:203.0.113.9;lr>");
        patch.max_forwards(69);
        patch.complete_content_length();
        patch.request_uri(b"sip:bob@192.0.2.2");
    };
    let both = edited(
        REQUEST,
        |rule| {
            rule.remove_header = vec!["X-Inner".to_owned()];
            rule.add_header = vec![field("X-Trunk", "a")];
        },
        forward,
    );
    let plain = edited(REQUEST, |_| {}, forward);
    let removed = INNER
        .iter()
        .fold(plain, |text, line| text.replace(line, ""));
    assert_eq!(
        both,
        removed.replace("\r\n\r\nbody", "\r\nX-Trunk: a\r\n\r\nbody")
    );
}

#[test]
fn a_first_line_that_is_removed_makes_room_for_the_via() {
    let request = format!(
        "INVITE sip:b SIP/2.0\r\nX-Inner: 1\r\n{}",
        REQUEST.split_once("\r\n").expect("lines").1
    );
    let text = edited(
        &request,
        |rule| rule.remove_header = vec!["x-inner".to_owned()],
        |patch| {
            patch.prepend(HeaderName::RecordRoute, b"<sip:h;lr>");
        },
    );
    assert!(text.contains("\r\nRecord-Route: <sip:h;lr>\r\n"), "{text}");
    assert!(!text.to_lowercase().contains("x-inner"), "{text}");
}

#[test]
fn an_added_identity_is_removed_with_the_asserted_ones() {
    let text = edited(
        REQUEST,
        |rule| rule.add_header = vec![field("P-Asserted-Identity", "<sip:a@h>")],
        |patch| {
            patch.remove(HeaderName::PAssertedIdentity);
        },
    );
    assert_eq!(text, REQUEST);
}

#[test]
fn a_message_without_body_or_end_is_edited_too() {
    let request = "INVITE sip:b SIP/2.0\r\nX-Inner: 1\r\nTo: sip:b\r\nX-Inner: 2";
    let text = edited(
        request,
        |rule| rule.remove_header = vec!["X-Inner".to_owned()],
        |_| {},
    );
    assert_eq!(text, "INVITE sip:b SIP/2.0\r\nTo: sip:b\r\n");
}

#[test]
fn edits_are_listed_in_the_order_in_which_they_apply() {
    let mut description = rule("r");
    description.add_header = vec![field("X-A", "1")];
    description.remove_header = vec!["X-B".to_owned()];
    let rules = RuleSet::new(&[description], &known(), None).expect("rules");
    let edits: Vec<String> = rules
        .iter()
        .flat_map(|rule| rule.header_edits().iter())
        .map(|edit| format!("{edit:?}"))
        .collect();
    assert!(
        edits[0].starts_with("Remove") && edits[1].starts_with("Add"),
        "{edits:?}"
    );
}
