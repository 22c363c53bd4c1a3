//! What happens to sources that guess passwords, send malformed messages, or identify themselves as scanners.

use crate::bench::{ALICE, BOB, Bench, answer_challenge, only, register, settings, status};
use sip_elements::Record;
use sip_elements::bans::{Notice, Source};
use sip_elements::metrics::DropReason;
use sip_transport::{ConnectionId, Flow, Input, ListenerId, Node, Received};
use std::net::IpAddr;
use std::time::Duration;

fn ip(address: &str) -> IpAddr {
    let address: std::net::SocketAddr = address.parse().expect("an address");
    address.ip()
}

impl Bench {
    fn dropped(&self, reason: DropReason) -> u64 {
        self.metrics.drops[reason as usize].value()
    }
}

#[test]
fn a_guesser_gets_no_answer_any_more_until_the_ban_is_over() {
    let mut settings = settings();
    settings.bans.failures = 5;
    let mut bench = Bench::new(settings).with_subscribers();
    for number in 0..5 {
        let user = format!("user{number}");
        let name = user.as_bytes();
        bench
            .shared
            .credentials
            .insert(name, b"example.org", None, bench.now);
        let challenge = only(bench.receive(ALICE, &register(&user, ALICE, 1, "")));
        let guess = answer_challenge(&challenge, &user, "REGISTER", "sip:example.org");
        let guess = format!("Authorization: {guess}\n");
        let answer = only(bench.receive(ALICE, &register(&user, ALICE, 2, &guess)));
        assert_eq!(status(&answer), 401);
    }
    let records: Vec<Record> = bench.output.drain_records().collect();
    let (Some(Record::Notice(Notice::Banned(ban))), 6) = (records.last(), records.len()) else {
        panic!("five failures and a ban: {records:?}");
    };
    assert_eq!(ban.source, Source::of(ip(ALICE)));
    assert_eq!(bench.receive(ALICE, &register("alice", ALICE, 1, "")), []);
    assert_eq!(bench.receive(ALICE, "\n\n"), []);
    assert_eq!(bench.dropped(DropReason::Banned), 2);
    bench.register("bob", BOB);
    bench.now = bench.now + Duration::from_secs(600);
    bench.register("alice", ALICE);
}

#[test]
fn a_connection_of_a_banned_source_is_closed() {
    let mut bench = Bench::new(settings());
    let until = bench.now + Duration::from_secs(60);
    bench.shared.bans.ban(Source::of(ip(ALICE)), until);
    let flow = Flow {
        listener: ListenerId(0),
        connection: ConnectionId::new(0, 1),
        remote: ALICE.parse().expect("an address"),
    };
    let message = register("alice", ALICE, 1, "").replace('\n', "\r\n");
    bench
        .exchange
        .receive(bench.now, flow, message.as_bytes(), &mut bench.output);
    assert!(bench.output.outgoing().is_empty());
    assert_eq!(bench.output.closed(), [flow.connection]);
}

#[test]
fn nonsense_counts_over_a_connection_and_not_in_datagrams() {
    let mut settings = settings();
    settings.bans.failures = 3;
    let mut bench = Bench::new(settings);
    for _ in 0..1_000 {
        bench.receive(BOB, "GET / HTTP/1.1\n\n");
    }
    assert!(!bench.shared.bans.is_banned(ip(BOB), bench.now));
    let flow = Flow {
        listener: ListenerId(0),
        connection: ConnectionId::new(0, 1),
        remote: ALICE.parse().expect("an address"),
    };
    for _ in 0..3 {
        bench.receive_on(flow, "GET / HTTP/1.1\n\n");
    }
    assert!(bench.shared.bans.is_banned(ip(ALICE), bench.now));
}

/// Any caller that can call through a carrier may make it relay such a message.
#[test]
fn invalid_data_from_a_peer_that_we_connected_to_causes_no_ban() {
    let mut settings = settings();
    settings.bans.failures = 3;
    let mut bench = Bench::new(settings);
    let mut message = Received {
        arrived: bench.now,
        flow: Flow {
            listener: ListenerId(0),
            connection: ConnectionId::new(0, 1),
            remote: ALICE.parse().expect("an address"),
        },
        bytes: b"GET / HTTP/1.1\r\n\r\n",
        handed_over: false,
        over_our_connection: true,
    };
    for (over_our_connection, banned) in [(true, false), (false, true)] {
        message.over_our_connection = over_our_connection;
        for _ in 0..3 {
            let input = Input::Received(message);
            bench.exchange.handle(bench.now, input, &mut bench.output);
        }
        assert_eq!(bench.shared.bans.is_banned(ip(ALICE), bench.now), banned);
    }
    assert_eq!(bench.dropped(DropReason::NotSip), 6);
}

#[test]
fn a_scanner_that_says_so_gets_no_answer_where_the_operator_wants_it_so() {
    let scan = register("alice", ALICE, 1, "User-Agent: Friendly-Scanner 1.8\n");
    let mut bench = Bench::new(settings());
    assert_eq!(status(&only(bench.receive(ALICE, &scan))), 401);
    let mut settings = settings();
    settings.bans.drop_user_agents = vec!["friendly-scanner".to_owned()];
    let mut bench = Bench::new(settings);
    assert_eq!(bench.receive(ALICE, &scan), []);
    assert_eq!(bench.dropped(DropReason::Scanner), 1);
    let other = register("alice", ALICE, 1, "User-Agent: a friendly-scanner\n");
    assert_eq!(status(&only(bench.receive(ALICE, &other))), 401);
}
