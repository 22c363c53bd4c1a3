//! Tests of credentials: which ones are accepted, and for which user.

use crate::phone::Phone;
use crate::server::{CHALLENGE, REALM, STALE, Server, at};
use sip_elements::auth::{Cached, Verdict};
use sip_message::digest::{DigestInput, response_md5};

#[test]
fn the_right_password_is_accepted_with_either_algorithm_and_challenger() {
    for (algorithm, sha256) in [
        (Some("MD5"), false),
        (None, false),
        (Some("SHA-256"), true),
        (Some("sha-256"), true),
    ] {
        for method in ["REGISTER", "INVITE", "MESSAGE"] {
            let server = Server::new();
            let phone = Phone {
                method,
                algorithm,
                sha256,
                ..Phone::alice(server.nonce(at(0)))
            };
            assert_eq!(
                server.judge(&phone.request(), "alice", at(0)),
                Verdict::Accepted,
                "{algorithm:?} {method}"
            );
        }
    }
}

#[test]
fn ours_are_picked_from_several_credentials() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    let foreign = Phone {
        realm: "example.net",
        ..phone.clone()
    }
    .authorization();
    let odd = Phone {
        algorithm: Some("SHA-512-256"),
        ..phone.clone()
    }
    .authorization();
    let lines = [
        "Basic YWxpY2U6c2VjcmV0".to_owned(),
        foreign,
        odd,
        phone.authorization(),
    ];
    assert_eq!(
        server.judge(&phone.with_credentials(&lines), "alice", at(0)),
        Verdict::Accepted
    );
}

/// The placeholder that an unknown subscriber's credentials are compared with does not match any password.
#[test]
fn a_digest_of_a_zero_hash_does_not_authenticate_an_unknown_user() {
    let server = Server::new();
    let phone = Phone {
        username: "nobody".to_owned(),
        hashed_username: "nobody".to_owned(),
        ..Phone::alice(server.nonce(at(0)))
    };
    let (_, count, cnonce) = phone.qop.clone().unwrap();
    let input = DigestInput {
        method: b"REGISTER",
        uri: phone.digest_uri.as_bytes(),
        nonce: phone.nonce.as_bytes(),
        qop_auth: Some((count.as_bytes(), cnonce.as_bytes())),
    };
    let guess = String::from_utf8(response_md5(&[0; 16], &input).to_vec()).unwrap();
    let honest = phone.authorization();
    let (before, rest) = honest.split_once("response=\"").unwrap();
    let (_, after) = rest.split_once('"').unwrap();
    let line = format!("{before}response=\"{guess}\"{after}");
    assert_eq!(
        server.judge(&phone.with_credentials(&[line]), "nobody", at(0)),
        CHALLENGE
    );
}

#[test]
fn who_has_proven_himself_may_not_speak_for_another() {
    let server = Server::new();
    let alice = Phone::alice(server.nonce(at(0)));
    assert_eq!(
        server.judge(&alice.request(), "bob", at(0)),
        Verdict::Forbidden("Credentials of another user")
    );
    // A sender that has proven nothing must not learn which user the identity belongs to.
    let liar = Phone {
        password: "guess".to_owned(),
        ..alice
    };
    assert_eq!(server.judge(&liar.request(), "bob", at(0)), CHALLENGE);
}

#[test]
fn a_name_may_be_written_with_escapes_or_with_its_domain() {
    let server = Server::new();
    let plain = Phone::alice(server.nonce(at(0)));
    let escaped = Phone {
        username: "%61lice".to_owned(),
        ..plain.clone()
    }
    .counting(1);
    assert_eq!(
        server.judge(&escaped.request(), "alice", at(0)),
        Verdict::Accepted
    );
    let full = Phone {
        username: "alice@Example.ORG".to_owned(),
        ..plain.clone()
    }
    .counting(2);
    assert_eq!(
        server.judge(&full.request(), "alice", at(0)),
        Verdict::Accepted
    );
    let elsewhere = Phone {
        username: "alice@example.net".to_owned(),
        ..plain
    }
    .counting(3);
    let asked = Verdict::AskStore {
        username: Box::from(*b"alice@example.net"),
    };
    assert_eq!(server.judge(&elsewhere.request(), "alice", at(0)), asked);
}

#[test]
fn an_unknown_subscriber_is_asked_for_before_anything_is_used_up() {
    let server = Server::new();
    let carol = |server: &Server| Phone {
        username: "carol".to_owned(),
        hashed_username: "carol".to_owned(),
        ..Phone::alice(server.nonce(at(0)))
    };
    let request = carol(&server).request();
    let asked = Verdict::AskStore {
        username: Box::from(*b"carol"),
    };
    assert_eq!(server.judge(&request, "carol", at(0)), asked);
    assert_eq!(
        server.judge(&request, "alice", at(0)),
        asked,
        "credentials of another: whose they are must be known"
    );
    server.learn("carol", Some("secret"));
    assert_eq!(server.judge(&request, "carol", at(0)), Verdict::Accepted);
    server.learn("carol", None);
    assert_eq!(
        server.judge(&carol(&server).request(), "carol", at(0)),
        CHALLENGE
    );
    // A made-up nonce does not cause a question.
    server
        .shared
        .credentials
        .invalidate(b"carol", REALM.as_bytes());
    assert_eq!(
        server
            .shared
            .credentials
            .find(b"carol", REALM.as_bytes(), at(0)),
        Cached::NotCached
    );
    let forged = Phone {
        nonce: "A".repeat(22),
        ..carol(&server)
    };
    assert_eq!(server.judge(&forged.request(), "carol", at(0)), STALE);
}

#[test]
fn a_digest_uri_may_name_the_server_instead_of_the_request_uri() {
    let server = Server::new();
    for digest_uri in [
        "sip:example.org",
        "sip:192.0.2.50:5070",
        "sip:alice@example.org",
        "sip:alice@192.0.2.50:5070",
    ] {
        let phone = Phone {
            method: "INVITE",
            request_uri: "sip:bob@example.org",
            digest_uri,
            ..Phone::alice(server.nonce(at(0)))
        };
        assert_eq!(
            server.judge(&phone.request(), "alice", at(0)),
            Verdict::Accepted,
            "{digest_uri}"
        );
    }
}

#[test]
fn credentials_that_cannot_be_checked_are_malformed() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    let malformed = |lines: &[String]| server.judge(&phone.with_credentials(lines), "alice", at(0));
    assert_eq!(
        malformed(&["Digest username=\"alice\"".to_owned()]),
        Verdict::Malformed("Bad Authorization")
    );
    assert_eq!(
        malformed(&["digest".to_owned()]),
        Verdict::Malformed("Bad Authorization")
    );
    let without_count = phone.authorization().replace("nc=00000001, ", "");
    assert_eq!(
        malformed(&[without_count]),
        Verdict::Malformed("Bad credentials: qop without nc and cnonce")
    );
    for count in ["", "x", "123456789", "-1"] {
        let bad_count = phone
            .authorization()
            .replace("nc=00000001", &format!("nc={count}"));
        assert_eq!(
            malformed(&[bad_count]),
            Verdict::Malformed("Bad credentials: qop without nc and cnonce"),
            "{count}"
        );
    }
    let elsewhere = Phone {
        digest_uri: "sip:example.net",
        ..phone.clone()
    };
    assert_eq!(
        server.judge(&elsewhere.request(), "alice", at(0)),
        Verdict::Malformed("Digest uri does not match Request-URI")
    );
    let another_user = Phone {
        digest_uri: "sip:bob@example.org",
        ..phone.clone()
    };
    assert_eq!(
        server.judge(&another_user.request(), "alice", at(0)),
        Verdict::Malformed("Digest uri does not match Request-URI")
    );
    // Broken credentials next to good ones are meant for another server.
    assert_eq!(
        malformed(&["Digest x".to_owned(), phone.authorization()]),
        Verdict::Accepted
    );
}
