//! Gateways that answer the calls of the load generator, on real sockets.

use clap::Parser;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};
use tandem_lab::gateways::{Agent, Behaviour};
use tandem_lab::interrupt::Interrupt;
use tandem_lab::run::{self, Arguments, Report};

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    run: Arguments,
}

/// Calls the gateway at this address directly.
fn calls_to(gateway: SocketAddr, more: &str) -> Report {
    let words = format!(
        "lab call --server {gateway} --registered --phones 10 --ports 1 --rate 100 --duration 500ms {more}"
    );
    let program = Program::parse_from(words.split_whitespace());
    let run = program.run.run().expect("a run");
    run::run(&run, &Interrupt::default(), |_| ()).expect("a report")
}

fn agent() -> Agent {
    Agent::start(([127, 0, 0, 1], 0).into()).expect("a gateway")
}

#[test]
fn a_gateway_counts_as_many_calls_as_the_generator_makes() {
    let gateway = agent();
    let report = calls_to(gateway.address(), "");
    assert_eq!(report.units["calls"].succeeded, 50, "{report}");
    let counts = gateway.counts();
    assert_eq!(
        (counts.calls, counts.acknowledged, counts.ended, counts.live),
        (50, 50, 50, 0),
        "{counts:?}"
    );
}

#[test]
fn a_closed_gateway_refuses_calls_until_it_is_open_again() {
    let gateway = agent();
    gateway.behave(Behaviour::Closed);
    let is_closed = || UdpSocket::bind(gateway.address()).is_ok();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_closed() {
        assert!(Instant::now() < deadline, "the port is still open");
        thread::yield_now();
    }
    let report = calls_to(gateway.address(), "");
    assert_eq!(report.failures["calls: unreachable"], 50, "{report}");
    gateway.behave(Behaviour::Answering);
    let report = calls_to(gateway.address(), "--ignore-icmp");
    assert_eq!(report.units["calls"].succeeded, 50, "{report}");
    assert_eq!(gateway.counts().calls, 50);
}
