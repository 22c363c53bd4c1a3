//! Two stacks complete every transaction, on each event loop and transport.

use std::num::NonZeroU16;
use tandem_lab::stack::{Cell, EventLoop, Program, Run, Transport, first_cpu, run};

const TRANSACTIONS: u64 = 1_000;

fn measure(transport: Transport, event_loop: EventLoop, ports: u16) -> std::io::Result<Run> {
    let cell = Cell {
        transport,
        ports: NonZeroU16::new(ports).expect("a port"),
        event_loop,
        transactions: TRANSACTIONS,
        window: 100,
        cpu: first_cpu()?,
    };
    // Never started, because one process is enough.
    let program = Program {
        path: "/nonexistent".into(),
        arguments: Vec::new(),
    };
    run(&cell, &program)
}

fn check(transport: Transport, event_loop: EventLoop) {
    for ports in [1, 7, 150] {
        let run = match measure(transport, event_loop, ports) {
            Err(error) if event_loop == EventLoop::IoUring => {
                eprintln!("not on this kernel: {error}");
                return;
            }
            result => result.expect("a run"),
        };
        let what = format!("{transport:?} over {ports} ports: {run:?}");
        assert_eq!((run.failed, run.lost, run.processes), (0, 0, 1), "{what}");
        assert!(run.rate > 0.0 && run.cpu > 0.0, "{what}");
    }
}

#[test]
fn every_transaction_succeeds_on_epoll() {
    check(Transport::Udp, EventLoop::Epoll);
    check(Transport::Tcp, EventLoop::Epoll);
}

#[test]
fn every_transaction_succeeds_on_poll() {
    check(Transport::Udp, EventLoop::Poll);
    check(Transport::Tcp, EventLoop::Poll);
}

#[test]
fn every_transaction_succeeds_on_io_uring() {
    check(Transport::Udp, EventLoop::IoUring);
    check(Transport::Tcp, EventLoop::IoUring);
}
