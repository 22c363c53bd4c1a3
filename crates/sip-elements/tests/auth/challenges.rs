//! Tests of challenges: when a request gets one, and that it reveals no more than it must.

use crate::phone::Phone;
use crate::server::{CHALLENGE, REALM, STALE, Server, at, shared};
use sip_elements::auth::{Challenger, Verdict};
use sip_message::Challenge;
use sip_message::digest::Algorithm;

#[test]
fn each_algorithm_is_offered_in_its_order_with_a_nonce_of_its_own() {
    let server = Server::new();
    let challenges = server.challenges(Challenger::Registrar, false, at(0));
    let parsed: Vec<_> = challenges
        .iter()
        .map(|value| Challenge::parse(value.as_bytes()).unwrap())
        .collect();
    assert_eq!(parsed.len(), 2);
    for (challenge, algorithm) in parsed.iter().zip(["SHA-256", "MD5"]) {
        assert_eq!(challenge.algorithm, Some(algorithm.as_bytes()));
        assert_eq!(challenge.realm, REALM.as_bytes());
        assert_eq!(challenge.qop, Some(&b"auth"[..]));
        assert!(!challenge.stale);
    }
    assert_ne!(parsed[0].nonce, parsed[1].nonce);
    let stale = server.challenges(Challenger::Proxy, true, at(0));
    assert_eq!(stale.len(), 2);
    assert!(
        stale
            .iter()
            .all(|value| Challenge::parse(value.as_bytes()).unwrap().stale)
    );
}

#[test]
fn a_request_without_credentials_is_challenged() {
    let server = Server::new();
    let phone = Phone::alice(server.nonce(at(0)));
    assert_eq!(
        server.judge(&phone.with_credentials(&[]), "alice", at(0)),
        CHALLENGE
    );
    let foreign = Phone {
        realm: "example.net",
        ..phone.clone()
    };
    assert_eq!(server.judge(&foreign.request(), "alice", at(0)), CHALLENGE);
    for other in [
        "Basic YWxpY2U6c2VjcmV0",
        "NoOneKnowsThisScheme opaque-data=here",
    ] {
        assert_eq!(
            server.judge(&phone.with_credentials(&[other.to_owned()]), "alice", at(0)),
            CHALLENGE
        );
    }
    // Credentials for the registrar do not count for the proxy.
    let mut invite = Phone {
        method: "INVITE",
        ..phone
    }
    .request();
    let header = invite
        .windows(6)
        .position(|window| window == b"Proxy-")
        .unwrap();
    invite.drain(header..header + 6);
    assert_eq!(server.judge(&invite, "alice", at(0)), CHALLENGE);
}

#[test]
fn an_algorithm_that_was_not_offered_is_not_taken() {
    let server = Server::offering(&[Algorithm::Sha256]);
    let nonce = server.nonce(at(0));
    let md5 = Phone::alice(nonce.clone());
    assert_eq!(server.judge(&md5.request(), "alice", at(0)), CHALLENGE);
    let absent = Phone {
        algorithm: None,
        ..Phone::alice(nonce)
    };
    assert_eq!(server.judge(&absent.request(), "alice", at(0)), CHALLENGE);
}

#[test]
fn what_proves_nothing_gets_one_and_the_same_challenge() {
    let server = Server::new();
    let right = Phone::alice(server.nonce(at(0)));
    let rows = [
        (
            "wrong password",
            Phone {
                password: "guess".to_owned(),
                ..right.clone()
            },
        ),
        (
            "password of another",
            Phone {
                password: "hunter2".to_owned(),
                ..right.clone()
            },
        ),
        (
            "nobody's name",
            Phone {
                username: "nobody".to_owned(),
                hashed_username: "nobody".to_owned(),
                ..right.clone()
            },
        ),
        (
            "empty name",
            Phone {
                username: String::new(),
                hashed_username: String::new(),
                ..right.clone()
            },
        ),
        (
            "long name",
            Phone {
                username: "x".repeat(300),
                hashed_username: "x".repeat(300),
                ..right.clone()
            },
        ),
        (
            "another name in the hash",
            Phone {
                hashed_username: "alice ".to_owned(),
                ..right.clone()
            },
        ),
        (
            "made-up nonce",
            Phone {
                nonce: "84a4cc6f3082121f32b42a2187831a9e".to_owned(),
                ..right.clone()
            },
        ),
        (
            "auth-int",
            Phone {
                qop: Some(("auth-int", "00000001".to_owned(), "0a4f113b")),
                ..right.clone()
            },
        ),
    ];
    for (what, phone) in rows {
        assert_eq!(
            server.judge(&phone.request(), &phone.username, at(0)),
            CHALLENGE,
            "{what}"
        );
    }
    let other = Server {
        shared: shared((7, 7)),
        ..Server::new()
    };
    let foreign = Phone {
        nonce: other.nonce(at(0)),
        ..right.clone()
    };
    assert_eq!(
        server.judge(&foreign.request(), "alice", at(0)),
        STALE,
        "a nonce of another secret is not looked up"
    );
    assert_eq!(
        server.judge(&right.request(), "alice", at(2)),
        Verdict::Accepted,
        "none of them used up the nonce; the pause after wrong passwords is over"
    );
}
