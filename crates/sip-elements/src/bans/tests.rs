//! Tests of bans by failures and by hand, and of the log lines.

use super::*;

fn at(seconds: u64) -> Time {
    Time::from_unix_seconds(1_000 + seconds)
}

fn settings() -> Settings {
    let mut settings = Settings::new(&["example.org".to_owned()], Vec::new());
    settings.bans = BanSettings {
        failures: 5,
        window: Duration::from_secs(60),
        duration: Duration::from_secs(100),
        ..BanSettings::default()
    };
    settings.proxy.edge_proxies = ["198.51.100.0/24".parse().expect("a network")]
        .into_iter()
        .collect();
    settings
}

/// Wrong passwords of alice, and what the operator's log gets.
fn fail(bans: &Bans, address: &str, times: u32, now: Time) -> Vec<Notice> {
    fail_under(&settings(), bans, address, times, now)
}

fn fail_under(
    settings: &Settings,
    bans: &Bans,
    address: &str,
    times: u32,
    now: Time,
) -> Vec<Notice> {
    let strike = Strike {
        address: address.parse().expect("an address"),
        username: b"alice",
        offence: Offence::WrongPassword,
        call_id: b"c 1",
    };
    let mut notices = Vec::new();
    let client = Some(Source::of(strike.address));
    for _ in 0..times {
        bans.pause(client, strike.username, b"example.org", now);
        bans.strike(&strike, settings, now, &mut |notice| notices.push(notice));
    }
    notices
}

fn is_banned(bans: &Bans, address: &str, now: Time) -> bool {
    bans.is_banned(address.parse().expect("an address"), now)
}

#[test]
fn one_failure_too_many_bans_the_source_for_a_while() {
    let bans = Bans::default();
    fail(&bans, "192.0.2.1", 4, at(0));
    assert!(!is_banned(&bans, "192.0.2.1", at(0)));
    fail(&bans, "192.0.2.1", 1, at(59));
    assert!(is_banned(&bans, "192.0.2.1", at(59)));
    assert!(is_banned(&bans, "::ffff:192.0.2.1", at(158)));
    assert!(!is_banned(&bans, "192.0.2.2", at(59)));
    assert!(!is_banned(&bans, "192.0.2.1", at(159)), "it has expired");
    bans.sweep(Duration::from_secs(60), at(159));
    let stats = bans.stats();
    assert_eq!((stats.banned, stats.automatic), (0, 1));
}

#[test]
fn failures_far_apart_cause_no_ban() {
    let bans = Bans::default();
    for round in 0..20 {
        fail(&bans, "192.0.2.1", 4, at(round * 60));
    }
    assert!(!is_banned(&bans, "192.0.2.1", at(19 * 60)));
}

#[test]
fn an_ipv6_network_is_banned_as_a_whole() {
    let bans = Bans::default();
    for last in 1..=5 {
        fail(&bans, &format!("2001:db8::{last}"), 1, at(0));
    }
    assert!(is_banned(&bans, "2001:db8::ffff", at(1)));
    assert!(!is_banned(&bans, "2001:db8:0:1::1", at(1)));
}

#[test]
fn this_machine_and_the_operators_proxies_are_never_banned_by_failures_but_by_hand() {
    let bans = Bans::default();
    for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "198.51.100.7"] {
        fail(&bans, address, 100, at(0));
        assert!(!is_banned(&bans, address, at(1)), "{address}");
    }
    let source = Source::of("198.51.100.7".parse().expect("an address"));
    assert!(bans.ban(source, at(50)));
    assert!(is_banned(&bans, "198.51.100.7", at(49)));
    assert!(bans.lift(source));
    assert!(!is_banned(&bans, "198.51.100.7", at(49)));
    assert!(!bans.lift(source));
}

#[test]
fn a_shorter_ban_does_not_shorten_one() {
    let bans = Bans::default();
    let source = Source::of("192.0.2.1".parse().expect("an address"));
    bans.ban(source, at(100));
    bans.ban(source, at(10));
    let mut listed = Vec::new();
    bans.for_each(at(50), |ban| listed.push(ban));
    let expected = Ban {
        source,
        until: at(100),
    };
    assert_eq!(listed, [expected]);
}

#[test]
fn the_tables_are_bounded_and_the_oldest_failures_make_room() {
    let bans = Bans::new(3);
    for last in 1..=5_u8 {
        bans.ban(Source::of([192, 0, 2, last].into()), at(100));
        fail(&bans, &format!("203.0.113.{last}"), 1, at(0));
    }
    let stats = bans.stats();
    assert_eq!((stats.banned, stats.sources, stats.names), (3, 3, 3));
    assert_eq!(stats.forgotten, 2 + 2 + 2);
}

#[test]
fn full_tables_still_ban_and_keep_manual_bans() {
    let bans = Bans::new(8);
    let by_hand = Source::of([192, 0, 2, 1].into());
    bans.ban(by_hand, at(1_000));
    for network in 0..1_000 {
        fail(&bans, &format!("2001:db8:{network:x}::1"), 1, at(0));
    }
    for last in 1..=9 {
        fail(&bans, &format!("203.0.113.{last}"), 5, at(1));
        assert!(is_banned(&bans, &format!("203.0.113.{last}"), at(1)));
    }
    assert!(is_banned(&bans, "192.0.2.1", at(1)));
    assert!(!is_banned(&bans, "203.0.113.1", at(1)), "the oldest one");
    assert_eq!(bans.stats().banned, 8);
}

#[test]
fn many_failures_from_all_over_an_ipv6_network_ban_it() {
    let bans = Bans::default();
    for network in 0..39 {
        fail(&bans, &format!("2001:db8:1:2{network:02x}::1"), 1, at(0));
        assert!(!is_banned(&bans, "2001:db8:1:2ff::1", at(0)));
    }
    fail(&bans, "2001:db8:1:2aa::1", 1, at(0));
    assert!(is_banned(&bans, "2001:db8:1:2ff::1", at(0)));
    assert!(!is_banned(&bans, "2001:db8:1:300::1", at(0)));
    assert!(bans.lift(Source::of("2001:db8:1:2ff::1".parse().expect("an address"))));
    assert!(!is_banned(&bans, "2001:db8:1:2ff::1", at(0)));
}

#[test]
fn failures_around_a_peer_of_the_operator_do_not_ban_it() {
    let bans = Bans::default();
    let mut settings = settings();
    settings.proxy.trusted_peers = ["2001:db8:1:210::5/128".parse().expect("a network")]
        .into_iter()
        .collect();
    let fail = |address: &str| {
        fail_under(&settings, &bans, address, 10, at(0));
    };
    // Failures of phones in the same /64 network, and of phones all over the /56 network.
    fail("2001:db8:1:210::7");
    (0x20..0x40).for_each(|network| fail(&format!("2001:db8:1:2{network:02x}::1")));
    assert!(is_banned(&bans, "2001:db8:1:220::1", at(0)));
    assert!(!is_banned(&bans, "2001:db8:1:210::5", at(0)));
    assert!(!is_banned(&bans, "2001:db8:1:2ff::1", at(0)));
}

#[test]
fn a_source_cannot_flood_the_log_and_others_are_still_heard() {
    let bans = Bans::default();
    assert_eq!(fail(&bans, "127.0.0.1", 1_000, at(0)).len(), 20);
    let failure = Failure {
        source: "192.0.2.1".parse().expect("an address"),
        user: "alice".to_owned(),
        call_id: "c%201".to_owned(),
        offence: Offence::WrongPassword,
    };
    let notices = fail(&bans, "192.0.2.1", 1, at(0));
    assert_eq!(notices, [Notice::Failure(failure)]);
    assert_eq!(bans.stats().unlogged, 980);
}

#[test]
fn a_name_can_forge_no_line() {
    for (name, shown) in [
        (&b"alice"[..], "alice"),
        (b"a.b_c+1-2@example.org", "a.b_c+1-2@example.org"),
        (
            b"x\nWARN auth failed source=10.0.0.1",
            "x%0AWARN%20auth%20failed%20source%3D10.0.0.1",
        ),
        (b"\xff\x1b[31m", "%FF%1B%5B31m"),
        (b"a=b \"c\"", "a%3Db%20%22c%22"),
    ] {
        assert_eq!(printable(name, MAX_NAME), shown);
    }
    assert!(printable(&[b'%'; 1_000], MAX_NAME).len() <= MAX_NAME + 2);
}
