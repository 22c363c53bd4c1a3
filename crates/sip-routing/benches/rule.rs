//! The cost of finding the rule of a request: the last of 1, 10, 100 and 1,000 rules matches.

use divan::{Bencher, black_box};
use sip_message::Message;
use sip_routing::rule::{Arrival, Facts, HeaderDescription, KnownNames, RuleDescription, RuleSet};
use sip_transport::{ListenerId, Protocol};
use std::net::IpAddr;

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

/// How many rules there are.
const COUNTS: [usize; 4] = [1, 10, 100, 1_000];

/// An INVITE as a trunk sends it.
fn invite(number: usize) -> String {
    format!(
        "INVITE sip:+49{number:06}55@tandem.example.org;user=phone SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.101:5060;branch=z9hG4bK-524287-1---7f8b2c1d9e3a4f60;rport\r\n\
         Max-Forwards: 70\r\n\
         Contact: <sip:+4930123@192.0.2.101:5060>\r\n\
         To: <sip:+49{number:06}55@tandem.example.org>\r\n\
         From: \"Alice\" <sip:+4930123@trunk.example.com>;tag=9fxced76sl\r\n\
         Call-ID: 3848276298220188511@trunk.example.com\r\n\
         CSeq: 1 INVITE\r\n\
         X-Customer: customer-{number}\r\n\
         Allow: INVITE, ACK, CANCEL, BYE\r\n\
         Supported: replaces, timer\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn rule(number: usize) -> RuleDescription {
    RuleDescription {
        name: format!("rule-{number}"),
        method: Some(vec!["INVITE".to_owned()]),
        local: true,
        ..RuleDescription::default()
    }
}

fn network(number: usize) -> String {
    format!("10.{}.{}.0/24", number / 256, number % 256)
}

/// Each rule has a source network.
fn by_network(number: usize) -> RuleDescription {
    RuleDescription {
        source: Some(vec![network(number)]),
        ..rule(number)
    }
}

/// Each rule has a called prefix.
fn by_number(number: usize) -> RuleDescription {
    RuleDescription {
        user: Some(vec![format!("+49{number:06}*")]),
        ..rule(number)
    }
}

/// Each rule has a value of a header field.
fn by_header(number: usize) -> RuleDescription {
    RuleDescription {
        header: Some(vec![HeaderDescription {
            name: "X-Customer".to_owned(),
            value: Some(format!("customer-{number}")),
        }]),
        ..rule(number)
    }
}

/// Each rule has most conditions.
fn by_all(number: usize) -> RuleDescription {
    RuleDescription {
        source: Some(vec![network(number)]),
        transport: Some(vec![Protocol::Udp]),
        user: Some(vec![format!("+49{number:06}*"), "110".to_owned()]),
        domain: Some(vec!["tandem.example.org".to_owned()]),
        from_user: Some(vec!["+49*".to_owned()]),
        ..by_header(number)
    }
}

/// Each rule has a pattern that no lookup finds: all rules are tested.
fn by_wildcard(number: usize) -> RuleDescription {
    RuleDescription {
        user: Some(vec![format!("*{number:06}5?")]),
        ..rule(number)
    }
}

fn compile(count: usize, rule: fn(usize) -> RuleDescription) -> RuleSet {
    let rules: Vec<RuleDescription> = (0..count).map(rule).collect();
    RuleSet::new(&rules, &KnownNames::default(), None).unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "as the fact is")]
const fn arrival(source: IpAddr) -> Option<Arrival> {
    Some(Arrival {
        source,
        listener: ListenerId(0),
        protocol: Protocol::Udp,
    })
}

/// Finds the last rule for a message that has been parsed, and whose values have been, too, as they are needed anyway.
fn find_last(bencher: Bencher<'_, '_>, count: usize, rule: fn(usize) -> RuleDescription) {
    let rules = compile(count, rule);
    let last = count - 1;
    let text = invite(last);
    let message = Message::parse(text.as_bytes()).unwrap();
    let source = format!("10.{}.{}.7", last / 256, last % 256);
    let facts = Facts {
        request: &message,
        arrival: arrival(source.parse().unwrap()),
    };
    assert!(
        rules
            .first(&facts)
            .is_some_and(|found| found.name() == format!("rule-{last}"))
    );
    bencher.bench_local(|| rules.first(black_box(&facts)).is_some());
}

#[divan::bench(args = COUNTS)]
fn networks(bencher: Bencher<'_, '_>, count: usize) {
    find_last(bencher, count, by_network);
}

#[divan::bench(args = COUNTS)]
fn numbers(bencher: Bencher<'_, '_>, count: usize) {
    find_last(bencher, count, by_number);
}

#[divan::bench(args = COUNTS)]
fn headers(bencher: Bencher<'_, '_>, count: usize) {
    find_last(bencher, count, by_header);
}

#[divan::bench(args = COUNTS)]
fn all_conditions(bencher: Bencher<'_, '_>, count: usize) {
    find_last(bencher, count, by_all);
}

#[divan::bench(args = COUNTS)]
fn wildcards(bencher: Bencher<'_, '_>, count: usize) {
    find_last(bencher, count, by_wildcard);
}

/// A hostile user of 60,000 bytes against a pattern with four stars.
#[divan::bench]
fn long_user(bencher: Bencher<'_, '_>) {
    let rule = RuleDescription {
        user: Some(vec!["*a*a*a*b".to_owned()]),
        ..rule(0)
    };
    let rules = RuleSet::new(&[rule], &KnownNames::default(), None).unwrap();
    let text = format!("INVITE sip:{}@h SIP/2.0\r\n\r\n", "a".repeat(60_000));
    let message = Message::parse(text.as_bytes()).unwrap();
    let facts = Facts {
        request: &message,
        arrival: arrival([192, 0, 2, 1].into()),
    };
    bencher.bench_local(|| rules.first(black_box(&facts)).is_some());
}

/// What a reload takes, with the search for rules that never match.
#[divan::bench(args = COUNTS)]
fn compile_all_conditions(bencher: Bencher<'_, '_>, count: usize) {
    bencher.bench_local(|| compile(black_box(count), by_all));
}

fn main() {
    divan::main();
}
