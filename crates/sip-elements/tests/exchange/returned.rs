//! Datagrams that come back as ICMP errors. Any host can forge such errors, so most of them have no effect.

use crate::bench::{ALICE, BOB, Bench, request, settings, status};
use sip_elements::{Exchange, ExchangeOptions};
use sip_message::{Message, worker_hash};
use sip_transport::{Flow, Input, ListenerId, Node, Undelivered};
use std::net::SocketAddr;
use std::sync::Arc;

fn call(number: u32) -> String {
    let (callee, caller) = ("sip:bob@example.org", "sip:alice@example.org");
    request("INVITE", callee, caller, &format!("i{number}"), "")
}

/// A node at which alice may call without a password, and bob has a phone.
fn bench() -> Bench {
    let mut bench = Bench::new(settings()).with_subscribers();
    bench.register("bob", BOB);
    let mut open = settings();
    open.challenge.clear();
    bench.exchange = exchange(&bench, open, 1);
    bench
}

fn exchange(bench: &Bench, settings: sip_elements::Settings, workers: u16) -> Exchange {
    Exchange::new(ExchangeOptions {
        worker: 0,
        workers,
        shared: Arc::clone(&bench.shared),
        settings: Arc::new(settings),
        metrics: Arc::clone(&bench.metrics),
        seed: [7; 32],
        now: bench.now,
    })
}

/// Places a call from alice. Returns the INVITE as bob's phone gets it.
fn forwarded(bench: &mut Bench) -> String {
    let sent = bench.receive(ALICE, &call(1));
    let [_, (to, invite)] = &*sent else {
        panic!("{sent:#?}")
    };
    assert_eq!(to.to_string(), BOB);
    invite.clone()
}

/// Receives an ICMP error that quotes a message to `to`. Returns what the node then sends.
fn comes_back(bench: &mut Bench, to: &str, quote: &str) -> Vec<(SocketAddr, String)> {
    let flow = Flow::to(ListenerId(0), to.parse().expect("an address"));
    bench.undeliverable(flow, quote.as_bytes());
    bench.sent()
}

fn reply(invite: &str, status: &str) -> String {
    let line = |name: &str| {
        let found = invite.split("\r\n").filter(|line| line.starts_with(name));
        found.collect::<Vec<_>>().join("\n")
    };
    let lines = ["Via", "From", "Call-ID", "CSeq"].map(line).join("\n");
    let to = line("To");
    format!("SIP/2.0 {status}\n{lines}\n{to};tag=b\nContent-Length: 0\n\n")
}

#[test]
fn a_call_whose_request_comes_back_fails_at_once() {
    for length in [400, 520, 4_000] {
        let mut bench = bench();
        let invite = forwarded(&mut bench);
        let quote = &invite[..length.min(invite.len())];
        let sent = comes_back(&mut bench, BOB, quote);
        let [(to, response)] = &*sent else {
            panic!("{sent:#?}")
        };
        assert_eq!((to.to_string(), status(response)), (ALICE.into(), 500));
    }
}

#[test]
fn an_error_that_quotes_nothing_of_ours_is_ignored() {
    let mut bench = bench();
    let invite = forwarded(&mut bench);
    let branch = invite.find("branch=z9hG4bK").expect("a branch") + 20;
    let mut other_branch = invite.clone().into_bytes();
    other_branch[branch] ^= 1;
    let other_branch = String::from_utf8(other_branch).expect("ASCII");
    let other_user = invite.replacen("sip:bob", "sip:eve", 1);
    for quote in ["", "INVITE s", &invite[..100], &other_branch, &other_user] {
        assert_eq!(comes_back(&mut bench, BOB, quote), [], "{quote}");
    }
    assert_eq!(comes_back(&mut bench, "192.0.2.20:5061", &invite), []);
    assert_eq!(comes_back(&mut bench, "192.0.2.66:5060", &invite), []);
    let answer = reply(&invite, "200 OK");
    let to_alice = bench.receive(BOB, &answer);
    assert_eq!(status(&to_alice[0].1), 200, "the call goes on");
}

#[test]
fn an_error_for_a_request_that_had_a_response_is_ignored() {
    for provisional in ["100 Trying", "180 Ringing"] {
        let mut bench = bench();
        let invite = forwarded(&mut bench);
        bench.receive(BOB, &reply(&invite, provisional));
        assert_eq!(comes_back(&mut bench, BOB, &invite), [], "{provisional}");
        let to_alice = bench.receive(BOB, &reply(&invite, "200 OK"));
        assert_eq!(status(&to_alice[0].1), 200, "the call goes on");
        assert_eq!(comes_back(&mut bench, BOB, &invite), []);
    }
}

#[test]
fn an_error_that_another_worker_hears_of_finds_the_home_of_the_call() {
    let mut bench = bench();
    let invite = forwarded(&mut bench);
    let message = Message::parse(invite.as_bytes()).expect("a request");
    let home = worker_hash(message.call_id().expect("Call-ID")) % 7;
    let elsewhere = home != 0;
    bench.exchange = exchange(&bench, settings(), 7);
    let quote = &invite[..invite.len() - 40];
    let flow = Flow::to(ListenerId(0), BOB.parse().expect("an address"));
    bench.undeliverable(flow, quote.as_bytes());
    let hand_overs = bench.output.hand_overs();
    let given: Vec<u16> = hand_overs.iter().map(|it| it.worker).collect();
    assert_eq!(given, if elsewhere { vec![home as u16] } else { vec![] });
    assert!(elsewhere, "the test's call has its home at worker 0");
    bench.output.clear();
    let handed_over = Input::Undeliverable(Undelivered {
        flow,
        bytes: quote.as_bytes(),
        handed_over: true,
    });
    bench
        .exchange
        .handle(bench.now, handed_over, &mut bench.output);
    assert_eq!(
        bench.output.hand_overs().len(),
        0,
        "it is never given back again"
    );
    bench.undeliverable(flow, b"INVITE sip:bob@192.0.2.20");
    assert_eq!(bench.output.hand_overs().len(), 0, "too short to tell");
}

/// The other worker would have to copy the quote and look at its transactions.
#[test]
fn an_error_without_a_branch_of_ours_is_not_handed_to_another_worker() {
    let mut bench = bench();
    let invite = forwarded(&mut bench);
    bench.exchange = exchange(&bench, settings(), 7);
    let place = invite.find("branch=z9hG4bK").expect("a branch") + "branch=z9hG4bK".len();
    let other_digit = |at: usize| {
        let mut bytes = invite.clone().into_bytes();
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        String::from_utf8(bytes).expect("ASCII")
    };
    let forged = [
        other_digit(place),
        other_digit(place + 8),
        other_digit(place + 16),
        invite.replacen("branch=z9hG4bK", "branch=z9hG4bk", 1),
        invite.replacen("Call-ID: call-1", "Call-ID: call-3", 1),
    ];
    let flow = Flow::to(ListenerId(0), BOB.parse().expect("an address"));
    let mut handed_over = |quote: &str| {
        bench.undeliverable(flow, quote.as_bytes());
        let count = bench.output.hand_overs().len();
        bench.output.clear();
        count
    };
    assert_eq!(handed_over(&invite), 1);
    for quote in &forged {
        assert_ne!(*quote, invite);
        assert_eq!(handed_over(quote), 0, "{quote}");
    }
}
