//! CANCEL (RFC 3261 section 9.1): when it is sent, and what happens to its INVITE.

use crate::world::{World, reliable, unreliable};
use sip_message::{HeaderName, KeyHasher, Message, Method};
use sip_transaction::Limits;

#[test]
fn cancel_waits_for_provisional() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.cancel(invite);
    world.run(200);
    assert_eq!(world.trace(), ["0 -> INVITE", "5 new INVITE"]);
    world.respond("INVITE", 100);
    world.run(10);
    assert_eq!(
        world.trace(),
        [
            "200 <- 100",
            "205 up 100",
            "205 -> CANCEL",
            "210 new CANCEL"
        ]
    );
}

#[test]
fn given_up_invite_is_not_retransmitted_but_a_late_ringing_is_cancelled() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.run(3_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE",
            "5 new INVITE",
            "500 -> INVITE",
            "1500 -> INVITE"
        ]
    );
    world.give_up(invite);
    world.run(20_000);
    assert_eq!(world.trace(), [""; 0]);
    world.respond("INVITE", 180);
    world.run(10);
    assert_eq!(
        world.trace(),
        [
            "23000 <- 180",
            "23005 up 180",
            "23005 -> CANCEL",
            "23010 new CANCEL"
        ]
    );
    world.respond("CANCEL", 200);
    world.respond("INVITE", 487);
    world.run(70_000);
    assert!(world.is_at_rest());
}

#[test]
fn cancel_says_why_at_once_or_when_it_may_leave() {
    let why = "SIP;cause=200;text=\"Call completed elsewhere\"";
    for rings_first in [true, false] {
        let mut world = unreliable();
        let invite = world.request(Method::Invite);
        world.run(5);
        if rings_first {
            world.respond("INVITE", 180);
            world.run(5);
        }
        world.cancel_because(invite, why);
        world.cancel_because(invite, "SIP;cause=600");
        if !rings_first {
            world.respond("INVITE", 180);
        }
        world.run(10);
        let [_, cancel] = world.incoming.as_slice() else {
            panic!("an INVITE and a CANCEL have arrived")
        };
        let cancel = Message::parse(&cancel.bytes).expect("a message");
        let reasons: Vec<_> = cancel.values(HeaderName::Reason).collect();
        assert_eq!(reasons, [why.as_bytes()], "rings first: {rings_first}");
        world.respond("CANCEL", 200);
        world.respond("INVITE", 487);
        world.run(40_000);
        assert!(world.is_at_rest());
    }
}

#[test]
fn cancel_that_never_leaves_goes_with_its_invite() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.cancel_because(invite, "SIP;cause=200");
    assert_eq!(world.client.stats().clients_live, 2);
    world.lose = Box::new(|_| true);
    world.run(33_000);
    assert!(world.trace().iter().all(|line| !line.contains("CANCEL")));
    let (ended, live) = {
        let stats = world.client.stats();
        (stats.clients_ended, stats.clients_live)
    };
    assert_eq!((ended, live), (2, 0));
}

#[test]
fn cancel_is_answered_and_ends_the_invite() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(5);
    world.cancel(invite);
    world.cancel(invite);
    world.run(5);
    world.respond("CANCEL", 200);
    world.respond("INVITE", 487);
    world.run(100);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE",
            "5 new INVITE",
            "5 <- 180",
            "10 up 180",
            "10 -> CANCEL",
            "15 new CANCEL",
            "15 <- 200 of CANCEL",
            "15 <- 487",
            "20 up 487",
            "20 -> ACK",
        ]
    );
    assert_eq!(world.client.stats().clients_created, 2, "the CANCEL counts");
    world.run(32_000);
    assert!(world.is_at_rest());
}

#[test]
fn cancel_is_that_of_its_invite() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(5);
    world.cancel(invite);
    world.run(5);
    let cancel = Message::parse(&world.incoming[1].bytes).expect("a message");
    let invite = Message::parse(&world.incoming[0].bytes).expect("a message");
    assert_eq!(cancel.request_uri(), invite.request_uri());
    for name in [
        HeaderName::Via,
        HeaderName::From,
        HeaderName::To,
        HeaderName::CallId,
    ] {
        assert_eq!(cancel.header(name), invite.header(name));
    }
    let found = world.server.find_server(
        KeyHasher::new((1, 2))
            .cancelled_transaction(&cancel)
            .expect("a key"),
    );
    assert_eq!(found, world.incoming[0].id);
}

#[test]
fn lost_cancel_is_retransmitted() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(5);
    world.trace();
    world.lose = Box::new(|line| line == "-> CANCEL");
    world.cancel(invite);
    world.run(1_000);
    world.lose = Box::new(|_| false);
    world.run(510);
    world.respond("CANCEL", 200);
    world.run(5_000);
    assert_eq!(
        world.trace(),
        [
            "10 -> CANCEL lost",
            "510 -> CANCEL lost",
            "1510 -> CANCEL",
            "1515 new CANCEL",
            "1520 <- 200 of CANCEL"
        ]
    );
}

#[test]
fn cancelled_invite_without_final_response_is_given_up_after_64_t1() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(5);
    world.cancel(invite);
    world.run(5);
    world.respond("CANCEL", 200);
    world.run(20_000);
    world.respond("INVITE", 182);
    world.run(20_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE",
            "5 new INVITE",
            "5 <- 180",
            "10 up 180",
            "10 -> CANCEL",
            "15 new CANCEL",
            "15 <- 200 of CANCEL",
            "20015 <- 182",
            "20020 up 182",
            "32010 timeout",
        ]
    );
    assert_eq!(world.client.stats().clients_live, 0);
}

#[test]
fn cancel_without_a_response_is_reported_once_as_that_of_the_invite() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(5);
    world.lose = Box::new(|_| true);
    world.cancel(invite);
    world.trace();
    world.run(60_000);
    let reported: Vec<String> = world
        .trace()
        .into_iter()
        .filter(|line| !line.contains("CANCEL"))
        .collect();
    assert_eq!(reported, ["32010 timeout"]);
    assert_eq!(world.client.stats().clients_live, 0);
}

#[test]
fn a_2xx_that_crosses_the_cancel_still_counts() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(5);
    world.cancel(invite);
    world.respond("INVITE", 200);
    world.run(5);
    world.respond("CANCEL", 200);
    world.trace();
    world.run(60_000);
    assert_eq!(world.trace(), [] as [&str; 0], "no timeout");
    assert!(world.is_at_rest());
}

#[test]
fn cancel_after_a_final_response_does_nothing() {
    for status in [200, 486] {
        let mut world = unreliable();
        let invite = world.request(Method::Invite);
        world.run(5);
        world.respond("INVITE", status);
        world.run(10);
        world.trace();
        world.cancel(invite);
        world.run(60_000);
        world.cancel(invite);
        assert_eq!(world.trace(), [] as [&str; 0]);
    }
}

#[test]
fn cancel_does_nothing_to_other_methods() {
    let mut world = unreliable();
    let id = world.request(Method::Options);
    world.cancel(id);
    world.run(10);
    world.respond("OPTIONS", 100);
    world.run(10);
    world.cancel(id);
    assert_eq!(world.client.stats().clients_created, 1);
}

#[test]
fn cancel_is_sent_even_when_the_table_is_full() {
    let mut world = World::new(
        false,
        Limits {
            servers: 10,
            clients: 1,
            bytes: 1 << 30,
            amplification: 3,
        },
    );
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(5);
    world.cancel(invite);
    world.run(5);
    world.respond("CANCEL", 200);
    world.respond("INVITE", 487);
    world.run(5);
    assert!(
        world
            .trace()
            .ends_with(&["20 up 487".to_owned(), "20 -> ACK".to_owned()])
    );
    let stats = world.client.stats();
    assert_eq!(
        (stats.full, stats.clients_created, stats.responses_stray),
        (1, 1, 1)
    );
}

#[test]
fn cancel_goes_with_its_invite() {
    let mut world = reliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(5);
    world.cancel(invite);
    world.run(5);
    world.respond("INVITE", 487);
    world.run(5);
    assert_eq!(world.client.stats().clients_live, 0);
    world.respond("CANCEL", 200);
    world.run(10);
    assert_eq!(world.client.stats().responses_stray, 1);
    assert!(world.is_at_rest());
}

#[test]
fn cancel_over_a_reliable_transport_is_sent_once() {
    let mut world = reliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(5);
    world.trace();
    world.lose = Box::new(|_| true);
    world.cancel(invite);
    world.run(60_000);
    assert_eq!(world.trace(), ["10 -> CANCEL lost", "32010 timeout"]);
}
