//! The records that are queried, and the candidates that result.

use super::*;
use crate::Listener;
use proptest::prelude::*;
use std::collections::BTreeMap;

const ALL: [Protocol; 5] = Protocol::ALL;

fn reach(protocols: &[Protocol], addresses: &[&str]) -> Reach {
    let listener = |protocol: &Protocol, address: &&str| Listener {
        protocol: *protocol,
        address: SocketAddr::new(address.parse().expect("an address"), 5060),
        prefix_length: 24,
        advertised: String::new(),
        behind_balancer: false,
    };
    let listeners: Vec<Listener> = protocols
        .iter()
        .flat_map(|protocol| {
            addresses
                .iter()
                .map(move |address| listener(protocol, address))
        })
        .collect();
    Reach::of(&listeners)
}

fn everything() -> Reach {
    reach(&ALL, &["192.0.2.1", "2001:db8::1"])
}

fn to(host: &str, port: Option<u16>, protocol: Option<Protocol>, secure: bool) -> Destination {
    Destination {
        host: host.into(),
        port,
        protocol,
        secure,
    }
}

fn naptr(order: u16, preference: u16, service: &str, replacement: &str) -> Naptr {
    Naptr {
        order,
        preference,
        flags: "s".into(),
        service: service.into(),
        replacement: replacement.into(),
    }
}

fn srv(priority: u16, weight: u16, target: &str) -> Srv {
    Srv {
        priority,
        weight,
        port: 5060,
        target: target.into(),
    }
}

/// A short form of a step.
fn text(step: &Step) -> String {
    let service = |it: &Service| format!("{} {}", it.protocol.via_token(), it.name);
    let server = |it: &Server| format!("{} {}:{}", it.protocol.via_token(), it.host, it.port);
    match step {
        Step::Naptr(name) => format!("naptr {name}"),
        Step::Srv(services) => {
            let all: Vec<String> = services.iter().map(service).collect();
            format!("srv {}", all.join(", "))
        }
        Step::Addresses(servers) => {
            let all: Vec<String> = servers.iter().map(server).collect();
            format!("addresses {}", all.join(", "))
        }
    }
}

#[test]
fn what_the_uri_says_decides_where_the_search_begins() {
    let rows: &[(Option<u16>, Option<Protocol>, bool, &str)] = &[
        (None, None, false, "naptr a.test"),
        (None, None, true, "naptr a.test"),
        (None, Some(Protocol::Udp), false, "srv UDP _sip._udp.a.test"),
        (None, Some(Protocol::Tcp), false, "srv TCP _sip._tcp.a.test"),
        (
            None,
            Some(Protocol::Tls),
            false,
            "srv TLS _sips._tcp.a.test",
        ),
        (None, Some(Protocol::Tcp), true, "srv TLS _sips._tcp.a.test"),
        (None, Some(Protocol::Ws), true, "srv WSS _sips._ws.a.test"),
        (None, Some(Protocol::Udp), true, "addresses "),
        (Some(5070), None, false, "addresses UDP a.test:5070"),
        (Some(5070), None, true, "addresses TLS a.test:5070"),
        (
            Some(5070),
            Some(Protocol::Tcp),
            false,
            "addresses TCP a.test:5070",
        ),
    ];
    for (port, protocol, secure, expected) in rows {
        let destination = to("a.test", *port, *protocol, *secure);
        let step = Selection::new(&destination, everything()).begin();
        assert_eq!(text(&step), *expected, "{destination:?}");
    }
    let destination = to("a.test", Some(5070), None, false);
    let without_udp = reach(&[Protocol::Tcp, Protocol::Tls], &["192.0.2.1"]);
    let step = Selection::new(&destination, without_udp).begin();
    assert_eq!(text(&step), "addresses TCP a.test:5070");
}

#[test]
fn what_is_an_address_needs_no_records() {
    let literal = |host| to(host, None, None, false).literal();
    assert_eq!(literal("192.0.2.4"), Some(IpAddr::from([192, 0, 2, 4])));
    assert_eq!(literal("[2001:db8::9]"), "2001:db8::9".parse().ok());
    assert_eq!(literal("a.test"), None);
}

#[test]
fn of_the_naptr_records_the_first_order_with_something_for_us_decides() {
    let records = [
        naptr(50, 1, "SIP+D2S", "_sip._sctp.a.test"),
        naptr(50, 90, "SIPS+D2T", "_sips._tcp.a.test"),
        naptr(60, 20, "sip+d2t", "_sip._tcp.b.test"),
        naptr(60, 10, "SIP+D2U", "_sip._udp.b.test"),
        naptr(60, 15, "SIP+D2W", "_sip._ws.b.test"),
        naptr(70, 10, "SIP+D2U", "_sip._udp.c.test"),
        naptr(10, 10, "E2U+sip", "a.test"),
    ];
    let rows: &[(&[Protocol], bool, &str)] = &[
        (&ALL, false, "srv TLS _sips._tcp.a.test"),
        (
            &[Protocol::Udp, Protocol::Tcp],
            false,
            "srv UDP _sip._udp.b.test, TCP _sip._tcp.b.test",
        ),
        (&[Protocol::Ws], false, "srv WS _sip._ws.b.test"),
        (&[Protocol::Udp, Protocol::Tcp], true, "addresses "),
    ];
    for (protocols, secure, expected) in rows {
        let destination = to("a.test", None, None, *secure);
        let selection = Selection::new(&destination, reach(protocols, &["192.0.2.1"]));
        assert_eq!(text(&selection.naptr(&records)), *expected, "{protocols:?}");
    }
}

#[test]
fn without_naptr_records_for_sip_the_usual_services_are_asked_for() {
    let other = [naptr(10, 10, "E2U+sip", "a.test")];
    for records in [&[][..], &other[..]] {
        let destination = to("a.test", None, None, false);
        let selection = Selection::new(
            &destination,
            reach(&[Protocol::Udp, Protocol::Tcp], &["192.0.2.1"]),
        );
        let step = selection.naptr(records);
        assert_eq!(
            text(&step),
            "srv UDP _sip._udp.a.test, TCP _sip._tcp.a.test"
        );
        let secure = to("a.test", None, None, true);
        let step = Selection::new(&secure, everything()).naptr(records);
        assert_eq!(text(&step), "srv TLS _sips._tcp.a.test");
    }
}

#[test]
fn without_srv_records_the_host_is_the_server_unless_it_says_that_there_is_none() {
    let destination = to("a.test", None, None, false);
    let selection = Selection::new(&destination, everything());
    let service = Service {
        name: "_sip._tcp.a.test".into(),
        protocol: Protocol::Tcp,
    };
    let none = selection.srv(&[(service.clone(), Vec::new())], 1);
    assert_eq!(text(&none), "addresses TCP a.test:5060");
    let not_offered = selection.srv(&[(service, vec![srv(0, 0, ".")])], 1);
    assert_eq!(text(&not_offered), "addresses ");
}

#[test]
fn twenty_srv_records_are_twenty_candidates() {
    let destination = to("a.test", None, Some(Protocol::Udp), false);
    let selection = Selection::new(&destination, everything());
    let Step::Srv(services) = selection.begin() else {
        panic!("no SRV records are asked for");
    };
    let records: Vec<Srv> = (0..20)
        .map(|n| srv(1, 1, &format!("s{n}.a.test")))
        .collect();
    let Step::Addresses(servers) = selection.srv(&[(services[0].clone(), records)], 7) else {
        panic!("no addresses are asked for");
    };
    let found: Vec<(Server, Vec<IpAddr>)> = servers
        .into_iter()
        .enumerate()
        .map(|(place, server)| (server, vec![IpAddr::from([192, 0, 2, 10 + place as u8])]))
        .collect();
    assert_eq!(selection.addresses(&found).len(), 20);
}

#[test]
fn addresses_come_by_family_in_turn_and_only_where_a_listener_leads() {
    let destination = to("a.test", Some(5060), None, false);
    let server = Server {
        host: "a.test".into(),
        port: 5060,
        protocol: Protocol::Udp,
    };
    let addresses = [
        "192.0.2.8",
        "192.0.2.9",
        "2001:db8::8",
        "127.0.0.1",
        "192.0.2.8",
    ];
    let addresses: Vec<IpAddr> = addresses
        .iter()
        .map(|it| it.parse().expect("an address"))
        .collect();
    let rows: &[(Reach, &[&str])] = &[
        (
            everything(),
            &["2001:db8::8", "192.0.2.8", "192.0.2.9", "127.0.0.1"],
        ),
        (
            reach(&ALL, &["192.0.2.1"]),
            &["192.0.2.8", "192.0.2.9", "127.0.0.1"],
        ),
        (reach(&ALL, &["127.0.0.1"]), &["127.0.0.1"]),
        (reach(&[Protocol::Tls], &["192.0.2.1"]), &[]),
    ];
    for (reach, expected) in rows {
        let found =
            Selection::new(&destination, *reach).addresses(&[(server.clone(), addresses.clone())]);
        let found: Vec<String> = found.iter().map(|it| it.address.ip().to_string()).collect();
        assert_eq!(found, *expected);
    }
}

#[test]
fn a_long_request_tries_tcp_before_udp() {
    assert!(!prefers_stream(1300));
    assert!(prefers_stream(1301));
    let candidate = |protocol, address: &str| Candidate {
        protocol,
        address: address.parse().expect("an address"),
    };
    let udp = candidate(Protocol::Udp, "192.0.2.9:5060");
    let tcp = candidate(Protocol::Tcp, "192.0.2.9:5060");
    let tls = candidate(Protocol::Tls, "192.0.2.9:5061");
    let mut candidates = vec![tls, udp, tcp];
    streams_first(&mut candidates, everything());
    assert_eq!(candidates, [tls, tcp, udp]);
    let mut candidates = vec![udp];
    streams_first(&mut candidates, reach(&[Protocol::Udp], &["192.0.2.1"]));
    assert_eq!(candidates, [udp]);
}

/// How often each record comes first, and how often second after the most frequent first record.
fn shares(records: &[Srv], calls: u32) -> (BTreeMap<&str, f64>, BTreeMap<&str, f64>) {
    let mut first: BTreeMap<&str, f64> = BTreeMap::new();
    let mut second: BTreeMap<&str, f64> = BTreeMap::new();
    for seed in 0..calls {
        let order = srv::in_order(records, u64::from(seed));
        *first.entry(&order[0].target).or_default() += 1.0 / f64::from(calls);
        if &*order[0].target == "a" {
            *second.entry(&order[1].target).or_default() += 1.0;
        }
    }
    let total: f64 = second.values().sum();
    for share in second.values_mut() {
        *share /= total;
    }
    (first, second)
}

#[test]
fn the_first_and_the_next_are_drawn_by_weight() {
    let records = [
        srv(1, 60, "a"),
        srv(1, 30, "b"),
        srv(1, 10, "c"),
        srv(1, 0, "d"),
        srv(2, 9, "e"),
    ];
    let (first, second) = shares(&records, 40_000);
    for (target, expected) in [("a", 0.6), ("b", 0.3), ("c", 0.1)] {
        assert!((first[target] - expected).abs() < 0.02, "{first:?}");
    }
    // RFC 2782: a drawn record is removed, and the others keep their weights.
    for (target, expected) in [("b", 0.75), ("c", 0.25)] {
        assert!((second[target] - expected).abs() < 0.02, "{second:?}");
    }
    assert!(
        first.get("d").is_none_or(|share| *share < 0.002),
        "{first:?}"
    );
    assert_eq!(first.get("e"), None, "{first:?}");
    let equal: Vec<Srv> = ["a", "b", "c", "d"].map(|name| srv(1, 0, name)).to_vec();
    let (first, _) = shares(&equal, 20_000);
    assert!(
        first.values().all(|share| (share - 0.25).abs() < 0.02),
        "{first:?}"
    );
}

proptest! {
    #[test]
    fn weights_are_shares(weights in proptest::collection::vec(1_u16..1_000, 2..12)) {
        let names: Vec<String> = (0..weights.len()).map(|n| format!("s{n}.test")).collect();
        let records: Vec<Srv> = weights.iter().zip(&names).map(|(weight, name)| srv(1, *weight, name)).collect();
        let mut first: BTreeMap<&str, f64> = BTreeMap::new();
        for seed in 0..8_000 {
            *first.entry(&srv::in_order(&records, seed * 77)[0].target).or_default() += 1.0 / 8_000.0;
        }
        let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        for record in &records {
            let share = first.get(&*record.target).copied().unwrap_or_default();
            let expected = f64::from(record.weight) / sum;
            // Five standard deviations of a share out of 8,000.
            let tolerance = 5.0 * (expected * (1.0 - expected) / 8_000.0).sqrt() + 0.001;
            prop_assert!((share - expected).abs() < tolerance, "{} {share} {expected}", record.target);
        }
    }

    #[test]
    fn priorities_are_never_mixed_and_nothing_is_lost(
        rows in proptest::collection::vec((0_u16..4, 0_u16..5), 0..60), seed: u64
    ) {
        let records: Vec<Srv> = rows.iter().enumerate()
            .map(|(n, (priority, weight))| srv(*priority, *weight, &format!("s{n}")))
            .collect();
        let order = srv::in_order(&records, seed);
        prop_assert!(order.is_sorted_by_key(|record| record.priority));
        let mut left: Vec<&str> = order.iter().map(|record| &*record.target).collect();
        left.sort_unstable();
        left.dedup();
        prop_assert_eq!(left.len(), records.len());
    }

    #[test]
    fn the_order_depends_neither_on_the_name_server_nor_on_other_calls(
        weights in proptest::collection::vec(0_u16..5, 2..20), seed: u64
    ) {
        let records: Vec<Srv> = weights.iter().enumerate()
            .map(|(n, weight)| srv(1, *weight, &format!("s{n}")))
            .collect();
        let order: Vec<Srv> = srv::in_order(&records, seed).into_iter().cloned().collect();
        let mut turned = records.clone();
        turned.rotate_left(1);
        let again: Vec<Srv> = srv::in_order(&turned, seed).into_iter().cloned().collect();
        prop_assert_eq!(&order, &again);
        let fewer: Vec<Srv> = srv::in_order(&records[1..], seed).into_iter().cloned().collect();
        let without: Vec<Srv> = order.into_iter().filter(|record| *record != records[0]).collect();
        prop_assert_eq!(fewer, without);
    }
}

#[test]
fn a_uri_says_where_it_leads() {
    let of = |uri: &str| Destination::of_uri(&Uri::parse(uri.as_bytes()).expect("a URI"));
    assert_eq!(
        of("sip:a@example.org"),
        Some(to("example.org", None, None, false))
    );
    assert_eq!(
        of("sips:a@[2001:db8::1]:5099;transport=TCP"),
        Some(to("[2001:db8::1]", Some(5099), Some(Protocol::Tcp), true))
    );
    assert_eq!(
        of("sip:a@example.org;maddr=192.0.2.9"),
        Some(to("192.0.2.9", None, None, false))
    );
    assert_eq!(of("sip:a@example.org;transport=sctp"), None);
    assert_eq!(of("tel:+358501"), None);
}

#[test]
fn an_address_needs_no_records() {
    let found = |destination: &Destination, reach| Selection::new(destination, reach).literal();
    let address = to("192.0.2.9", None, None, false);
    let candidate = |protocol, address: &str| {
        let address = address.parse().expect("an address");
        Some(vec![Candidate { protocol, address }])
    };
    assert_eq!(
        found(&address, everything()),
        candidate(Protocol::Udp, "192.0.2.9:5060")
    );
    let secure = to("[2001:db8::9]", None, None, true);
    assert_eq!(
        found(&secure, everything()),
        candidate(Protocol::Tls, "[2001:db8::9]:5061")
    );
    let v6 = reach(&[Protocol::Udp], &["2001:db8::1"]);
    assert_eq!(found(&address, v6), Some(Vec::new()), "no way there");
    assert_eq!(
        found(&to("example.org", None, None, false), everything()),
        None
    );
}
