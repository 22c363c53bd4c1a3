//! INVITE transactions of a client and a server against each other.

use crate::world::{SERVER, World, reliable, unreliable, write_request};
use sip_message::Method;
use std::net::SocketAddr;

#[test]
fn invite_is_retransmitted_until_provisional() {
    let mut world = unreliable();
    world.lose = Box::new(|line| line == "-> INVITE");
    world.request(Method::Invite);
    world.run(7_499);
    world.lose = Box::new(|_| false);
    world.run(2);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE lost",
            "500 -> INVITE lost",
            "1500 -> INVITE lost",
            "3500 -> INVITE lost",
            "7500 -> INVITE"
        ]
    );
    world.run(4);
    world.respond("INVITE", 100);
    world.run(600_000);
    assert_eq!(
        world.trace(),
        ["7505 new INVITE", "7505 <- 100", "7510 up 100"]
    );
    assert_eq!(world.client.stats().requests_retransmitted, 4);
}

#[test]
fn invite_without_any_response_times_out_after_64_t1() {
    let mut world = unreliable();
    world.lose = Box::new(|_| true);
    world.request(Method::Invite);
    world.run(60_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE lost",
            "500 -> INVITE lost",
            "1500 -> INVITE lost",
            "3500 -> INVITE lost",
            "7500 -> INVITE lost",
            "15500 -> INVITE lost",
            "31500 -> INVITE lost",
            "32000 timeout",
        ]
    );
    assert!(world.is_at_rest());
    assert_eq!(world.client.stats().timeouts, 1);
}

#[test]
fn invite_over_a_reliable_transport_is_sent_once() {
    let mut world = reliable();
    world.lose = Box::new(|_| true);
    world.request(Method::Invite);
    world.run(60_000);
    assert_eq!(world.trace(), ["0 -> INVITE lost", "32000 timeout"]);
    assert!(world.is_at_rest());
}

#[test]
fn ringing_may_take_minutes() {
    let mut world = unreliable();
    world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(1_000_000);
    world.respond("INVITE", 200);
    world.run(5);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE",
            "5 new INVITE",
            "5 <- 180",
            "10 up 180",
            "1000005 <- 200",
            "1000010 up 200"
        ]
    );
}

#[test]
fn retransmitted_invite_gets_the_last_provisional_response() {
    let mut world = unreliable();
    world.lose = Box::new(|line| line == "<- 100" || line == "<- 183");
    world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 100);
    world.run(200);
    world.respond("INVITE", 183);
    world.run(300);
    world.lose = Box::new(|_| false);
    world.run(10_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE",
            "5 new INVITE",
            "5 <- 100 lost",
            "205 <- 183 lost",
            "500 -> INVITE",
            "505 <- 183 lost",
            "1500 -> INVITE",
            "1505 <- 183",
            "1510 up 183",
        ]
    );
    assert_eq!(world.server.stats().responses_retransmitted, 2);
    assert_eq!(world.server.stats().requests_absorbed, 2);
}

#[test]
fn non_2xx_is_resent_until_ack() {
    let mut world = unreliable();
    world.lose = Box::new(|line| line == "<- 486");
    world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 100);
    world.respond("INVITE", 486);
    world.run(16_000);
    world.lose = Box::new(|_| false);
    world.run(10_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE",
            "5 new INVITE",
            "5 <- 100",
            "5 <- 486 lost",
            "10 up 100",
            "505 <- 486 lost",
            "1505 <- 486 lost",
            "3505 <- 486 lost",
            "7505 <- 486 lost",
            "11505 <- 486 lost",
            "15505 <- 486 lost",
            "19505 <- 486",
            "19510 up 486",
            "19510 -> ACK",
        ]
    );
    world.run(60_000);
    assert_eq!(world.trace(), [] as [&str; 0]);
    assert!(world.is_at_rest());
}

#[test]
fn ack_is_repeated_for_each_retransmission_of_the_final_response() {
    let mut world = unreliable();
    world.lose = Box::new(|line| line == "-> ACK");
    world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 404);
    world.run(600);
    world.lose = Box::new(|_| false);
    world.run(31_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE",
            "5 new INVITE",
            "5 <- 404",
            "10 up 404",
            "10 -> ACK lost",
            "505 <- 404",
            "510 -> ACK lost",
            "1505 <- 404",
            "1510 -> ACK",
        ]
    );
    // The server ends after T4, the client after timer D.
    assert_eq!(world.server.stats().servers_live, 0);
    assert_eq!(world.client.stats().clients_live, 1);
    world.run(1_000);
    assert!(world.is_at_rest());
}

#[test]
fn final_response_without_an_ack_is_reported() {
    let mut world = unreliable();
    world.lose = Box::new(|line| line != "-> INVITE");
    world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 500);
    world.run(60_000);
    let trace = world.trace();
    assert_eq!(
        trace.iter().filter(|line| line.contains("<- 500")).count(),
        11 + 6,
        "by timer G and for INVITEs"
    );
    assert!(trace.contains(&"32005 no ACK".to_owned()), "{trace:?}");
    assert!(world.is_at_rest());
}

#[test]
fn non_2xx_over_a_reliable_transport_ends_both_sides_at_once() {
    let mut world = reliable();
    world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 486);
    world.run(10);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE",
            "5 new INVITE",
            "5 <- 486",
            "10 up 486",
            "10 -> ACK"
        ]
    );
    assert!(world.is_at_rest());
}

#[test]
fn every_2xx_reaches_the_user() {
    let mut world = unreliable();
    world.request(Method::Invite);
    world.run(5);
    assert!(world.respond("INVITE", 200));
    world.run(500);
    assert!(world.respond("INVITE", 200), "retransmitted by the user");
    world.run(1_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE",
            "5 new INVITE",
            "5 <- 200",
            "10 up 200",
            "505 <- 200",
            "510 up 200"
        ]
    );
    world.run(32_000);
    assert!(world.is_at_rest());
}

#[test]
fn invite_after_a_2xx_is_absorbed_in_silence() {
    let mut world = unreliable();
    world.lose = Box::new(|line| line == "<- 200");
    world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 200);
    world.run(10_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE",
            "5 new INVITE",
            "5 <- 200 lost",
            "500 -> INVITE",
            "1500 -> INVITE",
            "3500 -> INVITE",
            "7500 -> INVITE",
        ]
    );
    assert_eq!(world.server.stats().requests_absorbed, 4);
    assert_eq!(world.server.stats().responses_retransmitted, 0);
}

#[test]
fn ack_with_the_branch_of_an_accepted_invite_is_passed_up() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 200);
    world.run(5);
    world.ack_with_branch_of(invite);
    world.run(5);
    assert_eq!(
        world.trace(),
        [
            "0 -> INVITE",
            "5 new INVITE",
            "5 <- 200",
            "10 up 200",
            "10 -> ACK",
            "15 new ACK"
        ]
    );
    assert_eq!(world.server.stats().servers_live, 1);
}

#[test]
fn only_the_first_final_response_is_sent() {
    let mut world = unreliable();
    world.request(Method::Invite);
    world.run(5);
    assert!(world.respond("INVITE", 486));
    assert!(!world.respond("INVITE", 180));
    assert!(!world.respond("INVITE", 603));
    assert!(!world.respond("INVITE", 200));
    world.run(60_000);
    assert!(!world.respond("INVITE", 200), "the transaction is gone");
    let id = world.incoming[0].id.expect("a transaction");
    assert!(world.server.server_is_final(id));
    assert_eq!(world.server.server_owner(id), None);
}

#[test]
fn a_late_2xx_of_a_branch_that_failed_is_dropped() {
    let mut world = unreliable();
    world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 486);
    world.run(10);
    let mut late = Vec::new();
    crate::world::write_response(&mut late, &world.incoming[0].bytes, 200);
    world.trace();
    world.inject_response(&late);
    world.run(1_000);
    assert_eq!(world.trace(), [] as [&str; 0]);
}

#[test]
fn what_the_network_gives_back_names_the_transaction_that_sent_it() {
    let mut world = unreliable();
    world.lose = Box::new(|_| true);
    let id = world.request(Method::Invite);
    let mut sent = Vec::new();
    write_request(&mut sent, Method::Invite, id);
    let found = |world: &World, bytes: &[u8]| {
        let client = world.client.client_that_sent(bytes);
        client.map(|client| client.id)
    };
    assert_eq!(found(&world, &sent), Some(id));
    let via = sent.windows(4).position(|window| window == b"Via:");
    let cut = via.expect("a Via") + 120;
    assert_eq!(found(&world, &sent[..cut]), Some(id), "cut off");
    assert_eq!(found(&world, &sent[..20]), None, "cut off too early");
    let mut forged = sent.clone();
    *forged.last_mut().expect("bytes") = b'x';
    assert_eq!(found(&world, &forged), None, "not what was sent");
    for method in [Method::Cancel, Method::Ack] {
        let mut other = Vec::new();
        write_request(&mut other, method, id);
        assert_eq!(found(&world, &other), None, "{method:?}");
    }
    assert_eq!(found(&world, b"\r\nVia: nonsense"), None);
    world.client.abandon_client(id);
    assert_eq!(found(&world, &sent), None, "it has ended");
}

/// An ICMP error may be forged. It must not end a transaction that has had a response, or one with another destination.
#[test]
fn an_error_for_what_was_sent_elsewhere_or_had_a_response_is_ignored() {
    for method in [Method::Invite, Method::Bye] {
        let mut world = unreliable();
        let id = world.request(method);
        let mut sent = Vec::new();
        write_request(&mut sent, method, id);
        let quote = &sent[..sent.len() - 10];
        let found = |world: &World, to: SocketAddr, bytes: &[u8]| {
            let client = world.client.client_unreached(to, bytes);
            client.map(|client| client.id)
        };
        assert_eq!(found(&world, SERVER, quote), Some(id));
        let mut elsewhere = SERVER;
        elsewhere.set_port(SERVER.port() + 1);
        assert_eq!(found(&world, elsewhere, quote), None, "another port");
        elsewhere = "192.0.2.99:5060".parse().expect("an address");
        assert_eq!(found(&world, elsewhere, quote), None, "another host");
        assert_eq!(found(&world, SERVER, &sent[..8]), None, "8 bytes of it");
        assert_eq!(found(&world, SERVER, b""), None, "nothing of it");
        world.run(5);
        let name = if method == Method::Invite {
            "INVITE"
        } else {
            "BYE"
        };
        world.respond(name, 100);
        world.run(10);
        assert_eq!(found(&world, SERVER, quote), None, "it is there");
    }
}
