//! A connection from its socket to its messages, with its data split at any positions. The messages are those of the
//! unsplit stream. When the peer has gone, no state of the connection is left.
//!
//! Input: a byte that selects the listener (a plain one, one behind a balancer, a WebSocket), the number of cuts, two
//! bytes for each cut, the stream.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_runtime::{
    CloseReason, Driver, EventLoopKind, Options, Runtime, StreamOptions, WorkerStats,
};
use sip_transport::{Input, Listener, Node, Output, Protocol, Received, Time};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::Arc;

const LONGEST: usize = 2_000;

/// Stores what it receives, and answers it.
struct Keeper(Rc<RefCell<Vec<Vec<u8>>>>);

impl Node for Keeper {
    type Question = ();
    type Record = std::convert::Infallible;
    type Control = ();

    fn handle(&mut self, _: Time, input: Input<'_, ()>, output: &mut Output<()>) {
        if let Input::Received(Received { flow, bytes, .. }) = input {
            self.0.borrow_mut().push(bytes.to_vec());
            output.send(flow, |into| into.extend_from_slice(bytes));
        }
    }

    fn expire(&mut self, _: Time, _: &mut Output<()>) {}

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

type Sink = fn(u16, ()) -> Result<(), ()>;

struct Bench {
    driver: Driver<Keeper, Sink>,
    received: Rc<RefCell<Vec<Vec<u8>>>>,
    addresses: Vec<SocketAddr>,
}

thread_local! {
    static BENCH: RefCell<Bench> = RefCell::new(Bench::new());
}

fuzz_target!(|bytes: &[u8]| {
    let [which, count, rest @ ..] = bytes else {
        return;
    };
    let Some((cuts, stream)) = rest.split_at_checked(usize::from(count % 8) * 2) else {
        return;
    };
    let mut cuts: Vec<usize> = cuts
        .chunks(2)
        .map(|cut| usize::from(u16::from_le_bytes([cut[0], cut[1]])) % (stream.len() + 1))
        .collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
    BENCH.with_borrow_mut(|bench| {
        let which = usize::from(which % 3);
        assert_eq!(bench.connect(which, &pieces), bench.connect(which, &[stream]));
    });
});

impl Bench {
    fn new() -> Self {
        let listeners = [(Protocol::Tcp, false), (Protocol::Tcp, true), (Protocol::Ws, false)];
        let listeners = listeners.map(|(protocol, behind_balancer)| Listener {
            protocol,
            address: ([127, 0, 0, 1], 0).into(),
            prefix_length: 8,
            advertised: String::new(),
            behind_balancer,
        });
        let options = Options {
            event_loop: EventLoopKind::Epoll,
            streams: StreamOptions {
                max_header: LONGEST,
                max_body: LONGEST,
                ..StreamOptions::default()
            },
            ..Options::default()
        };
        let received = Rc::default();
        let bound = Runtime::bind(listeners.to_vec(), NonZeroU16::MIN, options).expect("bind");
        let sink: Sink = |_, ()| Ok(());
        let driver = bound.drive(Keeper(Rc::clone(&received)), sink).expect("epoll");
        let addresses = driver.listeners().iter().map(|it| it.address).collect();
        Self {
            driver,
            received,
            addresses,
        }
    }

    /// Sends this data over one connection and returns the messages that resulted.
    fn connect(&mut self, which: usize, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let stats = self.driver.stats();
        let (ended, framing) = (closed(&stats), by_framing(&stats));
        let mut peer = TcpStream::connect(self.addresses[which]).expect("connect");
        peer.set_nonblocking(true).expect("a socket");
        self.turn_until(|| stats.connections.value() == 1);
        let begun = stats.stream_octets_received.value();
        let mut sent = 0;
        for piece in pieces {
            if peer.write_all(piece).is_err() {
                break;
            }
            sent += piece.len() as u64;
            self.turn_until(|| {
                stats.stream_octets_received.value() - begun == sent || closed(&stats) > ended
            });
            let mut answers = [0; 65_536];
            while peer.read(&mut answers).is_ok_and(|count| count > 0) {}
        }
        drop(peer);
        self.turn_until(|| stats.connections.value() == 0);
        assert_eq!(stats.connections_accepted.value(), closed(&stats));
        let mut received = self.received.take();
        // If a plain stream ends with a framing error, the node gets the incomplete message too.
        if which != 2 && by_framing(&stats) > framing {
            received.pop();
        }
        received
    }

    fn turn_until(&mut self, is_done: impl Fn() -> bool) {
        for _ in 0..1_000_000 {
            self.driver.turn();
            if is_done() {
                return;
            }
        }
        panic!("it hangs");
    }
}

fn closed(stats: &Arc<WorkerStats>) -> u64 {
    stats.connections_closed.iter().map(|it| it.value()).sum()
}

/// How many connections ended because the end of a message could not be found.
fn by_framing(stats: &Arc<WorkerStats>) -> u64 {
    let reasons = [CloseReason::NotSip, CloseReason::TooLong, CloseReason::BadLength];
    let of = |reason: CloseReason| stats.connections_closed[reason as usize].value();
    reasons.into_iter().map(of).sum()
}
