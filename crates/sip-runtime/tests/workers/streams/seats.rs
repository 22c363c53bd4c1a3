//! Which connections get a slot when few are left, and which ones lose theirs.

use super::peer::Peer;
use super::switch::Switches;
use crate::workers::script::ANYWHERE;
use sip_runtime::{CloseReason, PeerPolicy, RefuseReason, SharedPeerPolicy, StreamOptions};
use std::time::Duration;

fn refused(switches: &Switches) -> u64 {
    switches.running.stats()[0].connections_refused[RefuseReason::TableFull as usize].value()
}

/// After this time, an unproven connection may be displaced by one whose peer has as many
/// connections.
const TIME_TO_PROVE: Duration = Duration::from_millis(2_100);

/// Three slots. Unproven connections may stay for a minute.
fn three_seats() -> StreamOptions {
    StreamOptions {
        max_connections: 3,
        unproven_timeout: Some(Duration::from_secs(60)),
        open_timeout: Duration::from_secs(1),
        ..StreamOptions::default()
    }
}

/// A peer with this host number, connected and answered.
fn seated(host: u8, switches: &Switches) -> Peer {
    let mut peer = Peer::from_host(host, switches.address());
    assert_eq!(peer.asks("hello"), "hello");
    peer
}

#[test]
fn trusted_peers_may_take_the_seats_that_are_kept() {
    let options = StreamOptions {
        max_connections: 5,
        kept_for_opening: 2,
        policy: SharedPeerPolicy::new(PeerPolicy {
            trusted: ["127.0.0.2/32".parse().expect("a network")]
                .into_iter()
                .collect(),
            ..PeerPolicy::default()
        }),
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let mut all: Vec<Peer> = (0..3).map(|_| seated(1, &switches)).collect();
    Peer::from_host(1, switches.address()).until_closed();
    all.extend((0..2).map(|_| seated(2, &switches)));
    Peer::from_host(2, switches.address()).until_closed();
    for peer in &mut all {
        assert_eq!(peer.asks("still there"), "still there");
    }
    drop(all);
    switches.await_closed(CloseReason::ByPeer, 5);
    assert_eq!(refused(&switches), 2);
}

#[test]
fn the_oldest_stranger_gives_its_seat_to_a_newcomer() {
    let switches = Switches::start(ANYWHERE[0], 1, three_seats());
    let [mut first, mut second, mut third] = [1; 3].map(|host| seated(host, &switches));
    assert_eq!(second.asks("prove me"), "prove me");
    // They have had no time to be proven yet.
    Peer::from_host(1, switches.address()).until_closed();
    std::thread::sleep(TIME_TO_PROVE);
    let mut fourth = seated(1, &switches);
    first.until_closed();
    let mut fifth = seated(1, &switches);
    third.until_closed();
    assert_eq!(switches.closed(CloseReason::Displaced), 2);
    for proven in [&mut fourth, &mut fifth] {
        assert_eq!(proven.asks("prove me"), "prove me");
    }
    Peer::from_host(1, switches.address()).until_closed();
    for proven in [&mut second, &mut fourth, &mut fifth] {
        assert_eq!(proven.asks("still there"), "still there");
    }
    assert_eq!(switches.closed(CloseReason::Displaced), 2);
    assert_eq!(refused(&switches), 2);
}

#[test]
fn an_address_with_many_seats_gives_some_to_one_with_few_and_not_the_other_way_round() {
    let switches = Switches::start(ANYWHERE[0], 1, three_seats());
    let mut single = seated(2, &switches);
    let [mut first, mut second] = [1; 2].map(|host| seated(host, &switches));
    let mut other = seated(3, &switches);
    first.until_closed();
    Peer::from_host(1, switches.address()).until_closed();
    for peer in [&mut single, &mut second, &mut other] {
        assert_eq!(peer.asks("still there"), "still there");
    }
    std::thread::sleep(TIME_TO_PROVE);
    // Two slots would be more than the other peers have.
    let mut third = seated(1, &switches);
    second.until_closed();
    for peer in [&mut single, &mut other, &mut third] {
        assert_eq!(peer.asks("still there"), "still there");
    }
    // Among equals, the oldest one is displaced.
    let _newcomer = seated(4, &switches);
    single.until_closed();
    assert_eq!(switches.closed(CloseReason::Displaced), 3);
}
