//! A closed loop: units begin when others end, on threads that sleep and on threads that poll.

use clap::Parser;
use std::net::{SocketAddr, UdpSocket};
use tandem_lab::interrupt::Interrupt;
use tandem_lab::run::{self, Arguments, Ends, Report};

const WINDOW: u64 = 8;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    run: Arguments,
}

fn arguments(words: &str) -> Arguments {
    Program::parse_from(["lab"].into_iter().chain(words.split_whitespace())).run
}

/// Runs this for half a second.
fn report(words: &str) -> Report {
    let arguments = arguments(&format!("{words} --window {WINDOW} --duration 500ms"));
    let run = arguments.run().expect("a run");
    run::run(&run, &Interrupt::default(), |_| ()).expect("a report")
}

fn check(report: &Report, kind: &str) {
    let Ends {
        attempted,
        succeeded,
        failed,
        skipped,
    } = report.units[kind];
    assert_eq!((failed, skipped, report.unfinished), (0, 0, 0), "{report}");
    assert_eq!(succeeded, attempted, "{report}");
    // Far more than at the usual rate, which would begin 50 units.
    assert!(attempted > 200, "{report}");
    let most = report.timeline.iter().map(|second| second.in_progress);
    assert!(most.max() <= Some(WINDOW), "{report}");
}

#[test]
fn calls_begin_when_others_end() {
    for how in ["", "--busy-poll", "--busy-poll --addresses 4 --ports 2"] {
        let report = report(&format!("call --direct --phones 100 {how}"));
        check(&report, "calls");
        assert_eq!(report.calls_taken, report.units["calls"].attempted, "{how}");
    }
}

#[test]
fn datagrams_come_back_from_the_floor_to_the_address_of_each_phone() {
    let free = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at: SocketAddr = free.local_addr().expect("bound");
    drop(free);
    std::thread::spawn(move || tandem_lab::floor::serve(at));
    let process = std::process::id();
    let report = report(&format!(
        "echo --server {at} --busy-poll --addresses 300 --from 127.1.0.0 --ports 1 --pid {process} --warm-up 100ms"
    ));
    check(&report, "echoes");
    let cost = report.cost.expect("the process is known");
    assert!(cost.cpu_us_per_unit > 0.0 && cost.busy > 0.0, "{report}");
}

#[test]
fn a_loop_has_no_rate_and_a_polling_thread_no_connection() {
    for (words, problem) in [
        ("call --direct --window 8 --rate 5", "--window and --rate"),
        ("itsp --subscribers 100 --window 8", "--window requires"),
        ("call --busy-poll --transport tcp", "--busy-poll requires"),
    ] {
        let error = arguments(words).run().expect_err(words).to_string();
        assert!(error.starts_with(problem), "{error}");
    }
}
