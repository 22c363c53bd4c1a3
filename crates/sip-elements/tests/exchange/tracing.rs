//! Copies of messages, for traces and for a collector.

use crate::bench::{ALICE, BOB, Bench, accept_at, register, request, settings};
use sip_elements::bans::Source;
use sip_elements::trace::{Direction, Selection, TraceId, TraceOrder, Traced};
use sip_elements::{ControlMessage, Exchange, ExchangeOptions, Record};
use sip_message::{Message, worker_hash};
use sip_transport::{Flow, ListenerId, Node, Received};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const TRACE: TraceId = TraceId::of_serial(0);

/// A server whose phones need no password, with bob registered.
fn bench() -> Bench {
    let mut settings = settings();
    settings.proxy.trusted_peers = ["192.0.2.10/32".parse().expect("a network")]
        .into_iter()
        .collect();
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    bench
}

fn user(text: &str) -> Vec<(TraceId, Selection)> {
    vec![(TRACE, Selection::user(text).expect("a user"))]
}

impl Bench {
    fn order(&mut self, number: u64, traces: Vec<(TraceId, Selection)>, everything: bool) {
        let order = Arc::new(TraceOrder {
            number,
            traces,
            everything,
        });
        let message = ControlMessage::Trace(order);
        self.exchange.control(self.now, message, &mut self.output);
        assert_eq!(self.metrics.trace_order.value(), number);
    }

    fn copies(&mut self) -> Vec<Traced> {
        let records = self.output.drain_records();
        let copies = records.filter_map(|record| match record {
            Record::Traced(traced) => Some(traced),
            Record::Notice(_)
            | Record::Call(_)
            | Record::Dialog { .. }
            | Record::Missed(_)
            | Record::Dialogs(_) => None,
        });
        copies.collect()
    }

    /// The copies since the last call: direction, port of the peer's address, and what it is.
    fn seen(&mut self) -> Vec<String> {
        let seen = |traced: Traced| {
            let message = Message::parse(&traced.bytes).expect("a message");
            let what = match message.status() {
                0 => String::from_utf8_lossy(message.method().as_bytes()).into_owned(),
                status => status.to_string(),
            };
            let arrow = match traced.direction {
                Direction::Received => '>',
                Direction::Sent => '<',
            };
            let peer = if traced.flow.remote.to_string() == ALICE {
                "alice"
            } else {
                "bob"
            };
            format!("{peer} {arrow} {what}")
        };
        self.copies().into_iter().map(seen).collect()
    }

    /// A call from alice to bob's address, whose To names somebody else.
    fn call(&mut self, call_id: &str) {
        let invite = invite(call_id);
        let sent = self.receive(ALICE, &invite);
        let (_, forwarded) = sent.last().expect("forwarded");
        let forwarded = forwarded.clone();
        self.receive(BOB, &accept_at(&forwarded, "sip:x@192.0.2.20"));
    }
}

fn invite(call_id: &str) -> String {
    let caller = "sip:alice@example.org";
    let invite = request("INVITE", "sip:bob@example.org", caller, call_id, "");
    let invite = invite.replace("To: <sip:bob@", "To: <sip:carol@");
    invite.replace("Call-ID: call-1", &format!("Call-ID: {call_id}"))
}

#[test]
fn nothing_is_copied_while_nothing_is_traced() {
    let mut bench = bench();
    bench.call("c1");
    assert_eq!(bench.seen(), <[&str; 0]>::default());
    bench.order(1, user("bob@example.org"), true);
    bench.call("c2");
    assert_eq!(bench.seen().len(), 5);
    bench.order(2, Vec::new(), false);
    bench.call("c3");
    assert_eq!(bench.seen(), <[&str; 0]>::default());
}

#[test]
fn both_sides_of_a_users_call_are_copied_also_where_they_do_not_name_the_user() {
    let mut bench = bench();
    bench.order(1, user("bob@example.org"), false);
    bench.call("c1");
    let expected = [
        "alice > INVITE",
        "alice < 100",
        "bob < INVITE",
        "bob > 200",
        "alice < 200",
    ];
    assert_eq!(bench.seen(), expected);
    // Another order leaves the calls of the trace as they are.
    bench.order(2, user("bob@example.org"), false);
    let bye = request("BYE", "sip:x@192.0.2.20", "sip:alice@example.org", "b", "");
    let bye = bye.replace("Call-ID: call-1", "Call-ID: c1");
    bench.receive(ALICE, &bye);
    assert_eq!(
        bench.seen().first().map(String::as_str),
        Some("alice > BYE")
    );
    let other = request(
        "MESSAGE",
        "sip:dave@example.org",
        "sip:carol@example.org",
        "o",
        "",
    );
    let other = other.replace("<sip:alice@", "<sip:carol@");
    bench.receive(ALICE, &other);
    assert_eq!(bench.seen(), <[&str; 0]>::default());
}

#[test]
fn a_copy_has_the_bytes_the_flow_and_the_times_of_its_message() {
    let mut bench = bench();
    let call = Selection::Call((*b"c1").into());
    bench.order(1, vec![(TRACE, call)], false);
    let arrived = bench.now;
    bench.now = arrived + Duration::from_millis(5);
    let bytes = invite("c1").replace('\n', "\r\n");
    let flow = Flow::to(ListenerId(0), ALICE.parse().expect("an address"));
    let received = Received::new(arrived, flow, bytes.as_bytes());
    let input = sip_transport::Input::Received(received);
    bench.exchange.handle(bench.now, input, &mut bench.output);
    let copies = bench.copies();
    let [invite, _trying, forwarded] = &copies[..] else {
        panic!("{copies:#?}");
    };
    assert_eq!(
        (&*invite.bytes, invite.flow, invite.at),
        (bytes.as_bytes(), flow, arrived)
    );
    let (to_bob, sent) = bench.sent().pop().expect("forwarded");
    assert_eq!(
        (forwarded.flow.remote, &*forwarded.bytes),
        (to_bob, sent.as_bytes())
    );
    assert_eq!(forwarded.at, bench.now);
    assert!(forwarded.readers.contains(TRACE));
    assert!(!forwarded.readers.contains(TraceId::of_serial(1)));
    assert!(!forwarded.readers.contains_collector());
    bench.call("c2");
    assert_eq!(bench.seen(), <[&str; 0]>::default());
}

#[test]
fn what_a_timer_sends_is_copied() {
    let mut bench = bench();
    bench.order(1, user("bob@example.org"), false);
    bench.receive(ALICE, &invite("c1"));
    assert_eq!(bench.seen().len(), 3);
    bench.wait(Duration::from_millis(600));
    assert_eq!(bench.seen(), ["bob < INVITE"]);
}

#[test]
fn a_collector_gets_everything_that_is_sip() {
    let mut bench = bench();
    bench.order(1, Vec::new(), true);
    for no_message in ["", "\n\n", "\u{0}\u{1}", "HELLO\n\n"] {
        bench.receive(ALICE, no_message);
    }
    assert_eq!(bench.copies(), []);
    bench.receive(ALICE, &register("alice", ALICE, 1, ""));
    let copies = bench.copies();
    assert_eq!(copies.len(), 2);
    assert!(copies.iter().all(|copy| copy.readers.contains_collector()));
}

#[test]
fn a_message_that_goes_to_its_home_is_copied_there_and_only_there() {
    let mut bench = bench();
    bench.exchange = Exchange::new(ExchangeOptions {
        worker: 0,
        workers: 2,
        shared: Arc::clone(&bench.shared),
        settings: Arc::new(settings()),
        metrics: Arc::clone(&bench.metrics),
        seed: [7; 32],
        now: bench.now,
    });
    bench.order(1, Vec::new(), true);
    let mut at_home = [0, 0];
    for number in 0..32 {
        let call_id = format!("c{number}");
        let home = worker_hash(call_id.as_bytes()) % 2;
        let invite = invite(&call_id);
        bench.receive(ALICE, &invite);
        let received = bench
            .seen()
            .iter()
            .filter(|copy| copy.contains('>'))
            .count();
        assert_eq!(received, usize::from(home == 0), "{call_id}");
        at_home[home as usize] += 1;
    }
    assert!(at_home.iter().all(|calls| *calls > 0), "{at_home:?}");
}

/// Otherwise a flood displaces the messages of others, whose copies wait in the same queue.
#[test]
fn a_flood_of_banned_sources_and_of_scanners_is_not_copied() {
    let mut settings = settings();
    settings.bans.drop_user_agents = vec!["friendly-scanner".to_owned()];
    let mut bench = Bench::new(settings);
    bench.order(1, user("alice@example.org"), true);
    let until = bench.now + Duration::from_secs(60);
    let bob: SocketAddr = BOB.parse().expect("an address");
    bench.shared.bans.ban(Source::of(bob.ip()), until);
    let scan = "User-Agent: friendly-scanner\n";
    for (from, extra, copies) in [(BOB, "", 0), (ALICE, scan, 0), (ALICE, "", 2)] {
        let message = register("alice", ALICE, 1, extra).replace('\n', "\r\n");
        let flow = Flow::to(ListenerId(0), from.parse().expect("an address"));
        let received = Received::new(bench.now, flow, message.as_bytes());
        let input = sip_transport::Input::Received(received);
        bench.exchange.handle(bench.now, input, &mut bench.output);
        assert_eq!(bench.copies().len(), copies, "served: {from} {extra}");
        bench
            .exchange
            .refuse(bench.now, received, &mut bench.output);
        assert_eq!(bench.copies().len(), copies, "shed: {from} {extra}");
    }
}
