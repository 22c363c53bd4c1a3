//! Tests of nonces: how long, how often and from where one is valid.

use crate::phone::Phone;
use crate::server::{STALE, Server, at};
use sip_elements::auth::Verdict;

#[test]
fn an_old_nonce_is_stale_whatever_the_password() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    assert_eq!(
        server.judge(&phone.clone().counting(1).request(), "alice", at(299)),
        Verdict::Accepted
    );
    let late = phone.clone().counting(2);
    assert_eq!(server.judge(&late.request(), "alice", at(302)), STALE);
    let guess = Phone {
        password: "guess".to_owned(),
        ..late
    };
    assert_eq!(server.judge(&guess.request(), "alice", at(302)), STALE);
    // The password is not checked, so this does not count as a failure.
    assert_eq!(server.shared.bans.stats().offences, [0; 4]);
}

#[test]
fn a_used_nonce_count_is_refused_and_a_higher_one_accepted() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    for (count, expected) in [
        (1, Verdict::Accepted),
        (2, Verdict::Accepted),
        (1, STALE),
        (7, Verdict::Accepted),
        (3, STALE),
        (8, Verdict::Accepted),
    ] {
        assert_eq!(
            server.judge(&phone.clone().counting(count).request(), "alice", at(1)),
            expected,
            "{count}"
        );
    }
}

#[test]
fn a_retransmission_is_accepted_but_nothing_else_with_the_same_count() {
    for method in ["REGISTER", "INVITE"] {
        let server = Server::new();
        let phone = Phone {
            method,
            body: "v=0\r\n",
            ..Phone::alice(server.nonce(at(0)))
        };
        assert_eq!(
            server.judge(&phone.request(), "alice", at(0)),
            Verdict::Accepted
        );
        assert_eq!(
            server.judge(&phone.request(), "alice", at(31)),
            Verdict::Accepted,
            "the same again"
        );
        assert_eq!(
            server.judge(&phone.request(), "alice", at(34)),
            STALE,
            "too late for a retransmission"
        );
        for (what, replay) in [
            (
                "contact",
                Phone {
                    contact: "<sip:thief@203.0.113.66>",
                    ..phone.clone()
                },
            ),
            (
                "CSeq",
                Phone {
                    cseq: 3,
                    ..phone.clone()
                },
            ),
            (
                "branch",
                Phone {
                    branch: "z9hG4bKother".to_owned(),
                    ..phone.clone()
                },
            ),
            (
                "Request-URI",
                Phone {
                    request_uri: "sip:example.org:5060",
                    ..phone.clone()
                },
            ),
            (
                "body",
                Phone {
                    body: "v=1\r\n",
                    ..phone.clone()
                },
            ),
        ] {
            assert_eq!(
                server.judge(&replay.request(), "alice", at(1)),
                STALE,
                "{method}: another {what}"
            );
        }
    }
}

#[test]
fn without_qop_a_nonce_is_good_for_one_request() {
    let server = Server::new();
    let phone = Phone {
        qop: None,
        algorithm: None,
        ..Phone::alice(server.nonce(at(0)))
    };
    assert_eq!(
        server.judge(&phone.request(), "alice", at(0)),
        Verdict::Accepted
    );
    assert_eq!(
        server.judge(&phone.request(), "alice", at(0)),
        Verdict::Accepted,
        "its retransmission"
    );
    let next = Phone {
        cseq: 3,
        ..phone.clone()
    };
    assert_eq!(server.judge(&next.request(), "alice", at(0)), STALE);
    let counting = Phone {
        qop: Some(("auth", "00000009".to_owned(), "x")),
        ..phone
    };
    assert_eq!(server.judge(&counting.request(), "alice", at(0)), STALE);
}

#[test]
fn a_nonce_count_may_be_written_without_zeros() {
    let server = Server::new();
    let phone = Phone {
        qop: Some(("auth", "1".to_owned(), "0a4f113b")),
        ..Phone::alice(server.nonce(at(0)))
    };
    assert_eq!(
        server.judge(&phone.request(), "alice", at(0)),
        Verdict::Accepted
    );
    let again = Phone {
        qop: Some(("auth", "0001".to_owned(), "0a4f113b")),
        cseq: 9,
        ..phone
    };
    assert_eq!(server.judge(&again.request(), "alice", at(0)), STALE);
}

#[test]
fn a_nonce_is_good_only_from_where_it_was_sent_to() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    for (source, expected) in [
        ("192.0.2.2", STALE),
        ("2001:db8::1", STALE),
        ("192.0.2.1", Verdict::Accepted),
    ] {
        let source = source.parse().unwrap();
        let found = server.judge_from(source, &phone.request(), "alice", at(0));
        assert_eq!(found, expected, "{source}");
    }
}
