//! Non-INVITE transactions of a client and a server against each other.

use crate::world::{reliable, unreliable};
use sip_message::Method;

#[test]
fn retransmitted_request_gets_stored_response() {
    let mut world = unreliable();
    world.lose = Box::new(|line| line == "<- 200");
    world.request(Method::Register);
    world.run(5);
    world.respond("REGISTER", 200);
    world.run(600);
    world.lose = Box::new(|_| false);
    world.run(10_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> REGISTER",
            "5 new REGISTER",
            "5 <- 200 lost",
            "500 -> REGISTER",
            "505 <- 200 lost",
            "1500 -> REGISTER",
            "1505 <- 200",
            "1510 up 200",
        ]
    );
    assert_eq!(world.client.stats().clients_live, 0, "T4 has passed");
    assert_eq!(world.server.stats().servers_live, 1, "64*T1 has not");
    world.run(30_000);
    assert!(world.is_at_rest());
}

#[test]
fn request_is_retransmitted_at_t2_at_most_and_times_out_after_64_t1() {
    let mut world = unreliable();
    world.lose = Box::new(|_| true);
    world.request(Method::Message);
    world.run(60_000);
    let times: Vec<String> = world
        .trace()
        .iter()
        .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        times,
        [
            "0", "500", "1500", "3500", "7500", "11500", "15500", "19500", "23500", "27500",
            "31500", "32000"
        ]
    );
    assert!(world.is_at_rest());
}

#[test]
fn provisional_response_slows_retransmissions_to_t2() {
    let mut world = unreliable();
    world.request(Method::Options);
    world.run(5);
    world.respond("OPTIONS", 100);
    world.run(9_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> OPTIONS",
            "5 new OPTIONS",
            "5 <- 100",
            "10 up 100",
            "500 -> OPTIONS",
            "505 <- 100",
            "510 up 100",
            "4500 -> OPTIONS",
            "4505 <- 100",
            "4510 up 100",
            "8500 -> OPTIONS",
            "8505 <- 100",
            "8510 up 100",
        ]
    );
    world.run(30_000);
    assert!(world.trace().contains(&"32000 timeout".to_owned()));
}

#[test]
fn retransmitted_request_without_a_response_is_absorbed() {
    let mut world = unreliable();
    world.request(Method::Options);
    world.run(2_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> OPTIONS",
            "5 new OPTIONS",
            "500 -> OPTIONS",
            "1500 -> OPTIONS"
        ]
    );
    assert_eq!(world.server.stats().requests_absorbed, 2);
    assert_eq!(world.server.stats().responses_retransmitted, 0);
}

#[test]
fn second_final_response_is_absorbed() {
    let mut world = unreliable();
    world.request(Method::Options);
    world.run(5);
    world.respond("OPTIONS", 404);
    assert!(!world.respond("OPTIONS", 200));
    world.run(5);
    world.trace();
    let mut again = Vec::new();
    crate::world::write_response(&mut again, &world.incoming[0].bytes, 404);
    world.inject_response(&again);
    assert_eq!(world.trace(), [] as [&str; 0]);
    assert_eq!(
        world.client.stats().responses_stray,
        0,
        "it is known, only not wanted"
    );
}

#[test]
fn reliable_transport_leaves_nothing_behind() {
    let mut world = reliable();
    world.request(Method::Bye);
    world.run(5);
    assert!(world.respond("BYE", 200));
    world.run(5);
    assert_eq!(
        world.trace(),
        ["0 -> BYE", "5 new BYE", "5 <- 200", "10 up 200"]
    );
    assert!(world.is_at_rest());
}

#[test]
fn unanswered_request_over_a_reliable_transport_times_out() {
    let mut world = reliable();
    world.request(Method::Bye);
    world.run(31_999);
    assert_eq!(world.trace(), ["0 -> BYE", "5 new BYE"]);
    world.run(1);
    assert_eq!(world.trace(), ["32000 timeout"]);
}
