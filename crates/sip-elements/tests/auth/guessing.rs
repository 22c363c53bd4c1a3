//! Tests of wrong passwords: what they cost, and which senders they slow down.

use crate::phone::Phone;
use crate::server::{CHALLENGE, REALM, STALE, Server, at, here};
use sip_elements::auth::Verdict;
use sip_elements::bans::{Bans, Source};
use std::net::IpAddr;

/// A scan cannot tell the name of a subscriber from an unknown name, neither by the response nor by its cost.
#[test]
fn a_failed_password_costs_the_store_as_much_as_an_unknown_name() {
    let server = Server::new();
    let nonce = server.nonce(at(0));
    let guess = |name: &str, count: u32| {
        let phone = Phone {
            username: name.to_owned(),
            hashed_username: name.to_owned(),
            password: "guess".to_owned(),
            ..Phone::alice(nonce.clone())
        };
        phone.counting(count).request()
    };
    // Alice is cached, Bob is only in the store, and Carol does not exist.
    let cache = &server.shared.credentials;
    cache.invalidate(b"bob", REALM.as_bytes());
    for name in ["alice", "bob", "carol"] {
        let mut questions = 0;
        for count in 1..=4 {
            let judge = || server.judge_once(here(), &guess(name, count), name, at(0));
            let mut verdict = judge();
            while let Verdict::AskStore { username } = &verdict {
                questions += 1;
                server.answer(username, at(0));
                verdict = judge();
            }
            assert_eq!(verdict, CHALLENGE, "{name}");
        }
        assert_eq!(questions, 1, "{name}");
    }
}

/// A sender that forges its source never gets the challenge sent there. So its nonce is from another source, or not ours.
#[test]
fn wrong_passwords_from_a_forged_source_are_not_counted() {
    let server = Server::new();
    let own = server.nonce(at(0));
    let victim: IpAddr = "198.51.100.9".parse().unwrap();
    for (nonce, expected) in [(own.as_str(), STALE), ("made-up", CHALLENGE)] {
        let forged = Phone {
            password: "guess".to_owned(),
            ..Phone::alice(nonce.to_owned())
        };
        for _ in 0..1_000 {
            let found = server.judge_from(victim, &forged.request(), "alice", at(0));
            assert_eq!(found, expected);
        }
    }
    assert!(!server.shared.bans.is_banned(victim, at(0)));
    assert_eq!(server.shared.bans.stats(), Bans::default().stats());
}

#[test]
fn after_three_wrong_passwords_even_the_right_one_waits() {
    let server = Server::new();
    let right = Phone::alice(server.nonce(at(0)));
    let wrong = Phone {
        password: "guess".to_owned(),
        ..right.clone()
    };
    let judge = |phone: &Phone, now| server.judge(&phone.request(), "alice", at(now));
    for _ in 0..3 {
        assert_eq!(judge(&wrong, 0), CHALLENGE);
    }
    assert_eq!(judge(&right, 0), CHALLENGE, "not even looked at");
    let bob = Phone {
        username: "bob".to_owned(),
        hashed_username: "bob".to_owned(),
        password: "hunter2".to_owned(),
        ..right.clone()
    };
    let found = server.judge(&bob.clone().counting(7).request(), "bob", at(0));
    assert_eq!(found, Verdict::Accepted, "others of the same source go on");
    assert_eq!(judge(&right.counting(8), 1), Verdict::Accepted);
    assert_eq!(server.shared.bans.stats().offences, [3, 0, 1, 0]);
}

/// Clients behind edge proxies share the addresses of the proxies. Via values below theirs come from the client and are
/// not trusted.
#[test]
fn wrong_passwords_through_an_edge_proxy_pause_the_client_behind_it_alone() {
    let mut server = Server::new();
    let [edge, other]: [IpAddr; 2] = ["192.0.2.20", "192.0.2.21"].map(|it| it.parse().unwrap());
    server.settings.proxy.edge_proxies = ["192.0.2.20/31".parse().unwrap()].into_iter().collect();
    // All of them share their nonces.
    let all = Source::of(IpAddr::from([0; 4]));
    let nonce = server.nonce_for(all, at(0));
    let through = |phone: &Phone, vias: &str| {
        let request = String::from_utf8(phone.request()).unwrap();
        let edges = "Via: SIP/2.0/UDP 192.0.2.20;branch=z9hG4bKe\r\n";
        request.replacen(
            "Via: SIP/2.0/UDP 192.0.2.1;",
            &format!("{edges}Via: {vias};"),
            1,
        )
    };
    let right = Phone::alice(nonce);
    let wrong = Phone {
        password: "guess".to_owned(),
        ..right.clone()
    };
    let attacker = "SIP/2.0/UDP 10.0.0.1;received=203.0.113.7";
    let forger = "SIP/2.0/UDP h;received=203.0.113.8,SIP/2.0/UDP h;received=203.0.113.9";
    let nameless = "SIP/2.0/UDP h";
    let judge = |from, phone: &Phone, vias: &str| {
        server.judge_from(from, through(phone, vias).as_bytes(), "alice", at(0))
    };
    for vias in [attacker, forger, nameless] {
        for _ in 0..3 {
            assert_eq!(judge(edge, &wrong, vias), CHALLENGE);
        }
    }
    let paused = judge(edge, &right, attacker);
    assert_eq!(paused, CHALLENGE, "the attacker pauses");
    assert_eq!(judge(other, &right, attacker), CHALLENGE, "on each edge");
    let alice = "SIP/2.0/UDP 10.0.0.1;received=203.0.113.9";
    assert_eq!(judge(edge, &right, alice), Verdict::Accepted);
    assert_eq!(
        judge(other, &right.clone().counting(2), nameless),
        Verdict::Accepted
    );
    let stats = server.shared.bans.stats();
    assert_eq!((stats.offences, stats.unattributed), ([9, 0, 2, 0], 3));
}

#[test]
fn who_tries_many_names_is_banned() {
    let server = Server::new();
    for attempt in 0..50 {
        let now = at(attempt * 5);
        assert!(!server.shared.bans.is_banned(here(), now));
        let name = format!("nobody{attempt}");
        server
            .shared
            .credentials
            .insert(name.as_bytes(), REALM.as_bytes(), None, now);
        let guess = Phone {
            username: name.clone(),
            hashed_username: name.clone(),
            ..Phone::alice(server.nonce(now))
        };
        assert_eq!(server.judge(&guess.request(), &name, now), CHALLENGE);
    }
    assert!(server.shared.bans.is_banned(here(), at(250)));
}

/// A phone with a wrong password must not get other phones at the same address banned.
#[test]
fn a_phone_with_a_wrong_password_is_slowed_down_without_a_ban() {
    let server = Server::new();
    for second in 0..3_600 {
        let now = at(second);
        let wrong = Phone {
            password: "old".to_owned(),
            ..Phone::alice(server.nonce(now))
        };
        assert_eq!(server.judge(&wrong.request(), "alice", now), CHALLENGE);
        assert!(!server.shared.bans.is_banned(here(), now), "{second}");
    }
    let [checked, _, paused, _] = server.shared.bans.stats().offences;
    assert_eq!(checked + paused, 3_600);
    assert!((60..70).contains(&checked), "{checked}");
}
