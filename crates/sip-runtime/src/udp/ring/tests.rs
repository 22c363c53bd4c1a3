//! Datagrams through a real ring.

use super::buffers::BUFFERS;
use crate::event_loop::{EventLoop, EventLoopKind};
use crate::stats::WorkerStats;
use crate::udp::send::tests::{bound, let_the_kernel_refuse_trains, outgoing};
use crate::udp::{Buffers, Sharing, UdpSocket};
use rustix::net::sockopt;
use sip_transport::{Flow, ListenerId, Outgoing};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ANYWHERE: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];
const PATIENCE: Duration = Duration::from_secs(5);

/// A ring and the sockets whose datagrams it carries.
struct Carrier {
    event_loop: EventLoop,
    sockets: Vec<UdpSocket>,
    stats: Arc<WorkerStats>,
}

impl Carrier {
    fn of(addresses: &[&str]) -> Self {
        let buffers = Buffers {
            receive: 4 << 20,
            send: 4 << 20,
        };
        let open = |address: &&str| {
            let address = address.parse().expect("an address");
            UdpSocket::open(address, Sharing::Exclusive, buffers).expect("bind")
        };
        let sockets: Vec<UdpSocket> = addresses.iter().map(open).collect();
        let stats = Arc::new(WorkerStats::default());
        let mut event_loop = EventLoop::open(EventLoopKind::IoUring).expect("a ring");
        event_loop
            .ring()
            .expect("a ring")
            .carry_datagrams(sockets.iter().map(Some), true, Arc::clone(&stats))
            .expect("registered");
        Self {
            event_loop,
            sockets,
            stats,
        }
    }

    fn address(&self, listener: usize) -> SocketAddr {
        self.sockets[listener].address().expect("address")
    }

    /// The listeners with pending datagrams.
    fn wait(&mut self, timeout: Duration) -> Vec<usize> {
        let mut listeners = Vec::new();
        self.event_loop
            .wait(Some(timeout), |ready| listeners.push(ready.token))
            .expect("wait");
        listeners
    }

    /// The next datagrams of a listener, at least one, with their senders.
    fn receive(&mut self, listener: u16) -> Vec<(Vec<u8>, SocketAddr)> {
        let begun = Instant::now();
        // On a busy machine, a datagram of another listener may arrive first.
        while !self.wait(PATIENCE).contains(&usize::from(listener)) {
            assert!(begun.elapsed() < PATIENCE);
        }
        let mut received = Vec::new();
        let take = |datagram: crate::udp::Datagram<'_>| {
            assert!(!datagram.is_truncated && datagram.stamp.is_some());
            received.push((datagram.bytes.to_vec(), datagram.from));
        };
        let ring = self.event_loop.ring().expect("a ring");
        let count = ring.receive(listener, take).expect("received");
        assert_eq!(received.len(), count);
        received
    }

    fn send(&mut self, messages: &[Outgoing], bytes: &[u8]) {
        let ring = self.event_loop.ring().expect("a ring");
        ring.send(0, messages, bytes);
        ring.flush();
    }
}

#[test]
fn datagrams_come_whole_in_order_and_with_their_sender() {
    for address in ANYWHERE {
        let mut carrier = Carrier::of(&[address]);
        let (peer, from) = bound(address);
        peer.connect(carrier.address(0)).expect("connect");
        // Three times the number of buffers.
        let count = usize::from(BUFFERS) * 3;
        let sent: Vec<(Vec<u8>, SocketAddr)> = (0..count)
            .map(|number| (vec![number as u8; number * 7], from))
            .collect();
        for (bytes, _) in &sent {
            peer.send(bytes).expect("send");
        }
        let mut received = Vec::new();
        while received.len() < count {
            received.extend(carrier.receive(0));
        }
        assert!(received == sent);
        assert_eq!(carrier.wait(Duration::ZERO), [0; 0]);
        assert_eq!(carrier.stats.receive_errors.value(), 0);
    }
}

#[test]
fn the_longest_datagrams_are_not_cut_short() {
    for (address, longest) in ANYWHERE.into_iter().zip([65_507, 65_527]) {
        let mut carrier = Carrier::of(&[address]);
        let (peer, from) = bound(address);
        sockopt::set_socket_send_buffer_size(&peer, 1 << 20).expect("send buffer");
        peer.connect(carrier.address(0)).expect("connect");
        let sent: Vec<u8> = (0..longest).map(|index: u32| (index % 251) as u8).collect();
        for _ in 0..=usize::from(BUFFERS) {
            peer.send(&sent).expect("send");
            assert!(carrier.receive(0) == [(sent.clone(), from)]);
        }
    }
}

#[test]
fn what_is_not_taken_is_named_again() {
    let mut carrier = Carrier::of(&[ANYWHERE[0]]);
    let (peer, _) = bound(ANYWHERE[0]);
    peer.send_to(b"hello", carrier.address(0)).expect("send");
    for _ in 0..3 {
        assert_eq!(carrier.wait(PATIENCE), [0]);
    }
    assert_eq!(carrier.receive(0).len(), 1);
    assert_eq!(carrier.wait(Duration::ZERO), [0; 0]);
}

#[test]
fn a_listener_whose_buffers_are_full_takes_none_of_anothers() {
    let mut carrier = Carrier::of(&[ANYWHERE[0], ANYWHERE[1], ANYWHERE[0]]);
    let (storm, _) = bound(ANYWHERE[0]);
    for number in 0..usize::from(BUFFERS) * 4 {
        storm
            .send_to(&number.to_be_bytes(), carrier.address(0))
            .expect("send");
    }
    assert_eq!(carrier.wait(PATIENCE), [0]);
    let (quiet, from) = bound(ANYWHERE[1]);
    quiet.send_to(b"hello", carrier.address(1)).expect("send");
    assert_eq!(carrier.receive(1), [(b"hello".to_vec(), from)]);
    let mut next = 0;
    while next < usize::from(BUFFERS) * 4 {
        for (bytes, _) in carrier.receive(0) {
            assert_eq!(bytes, next.to_be_bytes());
            next += 1;
        }
    }
}

#[test]
fn more_messages_than_there_is_room_for_arrive_in_order() {
    for address in ANYWHERE {
        let mut carrier = Carrier::of(&[address]);
        for (count, length) in [(500, 20), (20, 60_000)] {
            let (receiver, to) = bound(address);
            sockopt::set_socket_recv_buffer_size_force(&receiver, 4 << 20)
                .or_else(|_| sockopt::set_socket_recv_buffer_size(&receiver, 4 << 20))
                .expect("receive buffer");
            let mut bytes = Vec::new();
            // Each is longer than the one before, so none can share a GSO batch.
            let messages: Vec<Outgoing> = (0..count)
                .map(|number| outgoing(to, &mut bytes, &vec![number as u8; length + number]))
                .collect();
            carrier.send(&messages, &bytes);
            let mut buffer = vec![0; 65_536];
            for number in 0..count {
                let received = receiver.recv_from(&mut buffer).expect("datagram");
                assert_eq!(received, (length + number, carrier.address(0)));
                let payload = &buffer[..length + number];
                assert!(payload.iter().all(|byte| *byte == number as u8));
            }
        }
        let stats = &carrier.stats;
        assert_eq!(stats.datagrams_sent.value(), 520);
        let bytes = (0..500).map(|number| 20 + number).sum::<u64>()
            + (0..20).map(|number| 60_000 + number).sum::<u64>();
        assert_eq!(stats.bytes_sent.value(), bytes);
    }
}

/// Sends messages to two receivers, in GSO batches and singly, and checks that they arrive. They
/// arrive in order unless GSO is rejected.
fn check_gso(carrier: &mut Carrier, to: &str, in_order: bool) {
    let (one, other) = (bound(to), bound(to));
    let lengths = [300, 300, 300, 200, 300, 900, 900, 1300, 1300, 10];
    let mut bytes = Vec::new();
    let mut messages = Vec::new();
    for (number, length) in lengths.into_iter().enumerate() {
        for to in [one.1, other.1] {
            messages.push(outgoing(to, &mut bytes, &vec![number as u8; length]));
        }
    }
    let before = carrier.stats.datagrams_sent.value();
    carrier.send(&messages, &bytes);
    let mut buffer = [0; 2_000];
    for (receiver, _) in [one, other] {
        let mut received: Vec<(usize, usize)> = (0..lengths.len())
            .map(|_| {
                let length = receiver.recv(&mut buffer).expect("datagram");
                (usize::from(buffer[0]), length)
            })
            .collect();
        if !in_order {
            received.sort_unstable();
        }
        assert!(received.into_iter().eq(lengths.into_iter().enumerate()));
    }
    let stats = &carrier.stats;
    assert_eq!(stats.datagrams_sent.value() - before, messages.len() as u64);
    assert_eq!(stats.send_errors.value() + stats.send_too_long.value(), 0);
}

#[test]
fn the_messages_of_a_train_arrive_one_by_one_and_in_order() {
    let mut carrier = Carrier::of(&[ANYWHERE[0]]);
    for _ in 0..3 {
        check_gso(&mut carrier, ANYWHERE[0], true);
    }
}

#[test]
fn where_the_kernel_takes_no_trains_nothing_is_lost() {
    let mut carrier = Carrier::of(&[ANYWHERE[0]]);
    let_the_kernel_refuse_trains(carrier.sockets[0].as_fd());
    for number in 1..=10 {
        check_gso(&mut carrier, &format!("127.0.0.{number}:0"), false);
        // From now on its messages are sent one by one.
        check_gso(&mut carrier, &format!("127.0.0.{number}:0"), true);
    }
}

#[test]
fn a_refused_message_is_counted_and_stops_no_other() {
    let mut carrier = Carrier::of(&[ANYWHERE[0]]);
    let (receiver, to) = bound(ANYWHERE[0]);
    let mut bytes = Vec::new();
    let other_family = ([0_u16, 0, 0, 0, 0, 0, 0, 1], 5060).into();
    let messages = [
        outgoing(to, &mut bytes, &vec![0; 65_508]),
        outgoing(to, &mut bytes, b"first"),
        outgoing(to, &mut bytes, &vec![0; 1 << 20]),
        outgoing(other_family, &mut bytes, b"lost"),
        outgoing(to, &mut bytes, b"second"),
    ];
    carrier.send(&messages, &bytes);
    let mut buffer = [0; 200];
    for expected in [&b"first"[..], b"second"] {
        let length = receiver.recv(&mut buffer).expect("datagram");
        assert_eq!(&buffer[..length], expected);
    }
    let stats = &carrier.stats;
    assert_eq!(stats.send_too_long.value(), 2);
    assert_eq!(stats.send_errors.value(), 1);
    assert_eq!(
        (stats.datagrams_sent.value(), stats.bytes_sent.value()),
        (2, 11)
    );
}

#[test]
fn messages_leave_with_the_next_wait() {
    let mut carrier = Carrier::of(&[ANYWHERE[0]]);
    let (receiver, to) = bound(ANYWHERE[0]);
    receiver.set_nonblocking(true).expect("non-blocking");
    let message = Outgoing {
        flow: Flow::to(ListenerId(0), to),
        range: 0..5,
    };
    let ring = carrier.event_loop.ring().expect("a ring");
    ring.send(0, std::slice::from_ref(&message), b"hello");
    assert!(receiver.recv(&mut [0; 8]).is_err(), "not yet");
    assert_eq!(carrier.wait(Duration::ZERO), [0; 0]);
    assert_eq!(receiver.recv(&mut [0; 8]).expect("a datagram"), 5);
    assert_eq!(carrier.stats.datagrams_sent.value(), 1);
}

#[test]
fn the_end_of_a_ring_closes_its_sockets_though_datagrams_wait() {
    for _ in 0..10 {
        let mut carrier = Carrier::of(&["127.99.1.1:0", "127.99.1.1:0"]);
        let addresses = [carrier.address(0), carrier.address(1)];
        let (peer, _) = bound(ANYWHERE[0]);
        for _ in 0..200 {
            peer.send_to(b"hello", addresses[0]).expect("send");
        }
        carrier.wait(PATIENCE);
        drop(carrier);
        for address in addresses {
            std::net::UdpSocket::bind(address).expect("nobody is bound there any more");
        }
    }
}

#[test]
fn the_end_of_a_ring_lets_go_of_all_its_sockets() {
    let mut carrier = Carrier::of(&[ANYWHERE[0]; 100]);
    let (peer, _) = bound(ANYWHERE[0]);
    for listener in 0..carrier.sockets.len() {
        peer.send_to(b"hello", carrier.address(listener))
            .expect("send");
    }
    assert!(!carrier.wait(PATIENCE).is_empty());
    let Carrier {
        event_loop,
        sockets,
        ..
    } = carrier;
    drop(event_loop);
    for socket in sockets {
        let shared = socket.shared();
        drop(socket);
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}

#[test]
fn each_of_many_sockets_is_named_as_long_as_something_waits_in_it() {
    let mut carrier = Carrier::of(&[ANYWHERE[0]; 100]);
    let (peer, from) = bound(ANYWHERE[0]);
    let hello = [(b"hello".to_vec(), from)];
    for round in 0..3 {
        for listener in (0..100).rev() {
            peer.send_to(b"hello", carrier.address(listener))
                .expect("send");
        }
        for listener in 0..100 {
            // The kernel reports about twenty at a time.
            let named = (0..100).any(|_| carrier.wait(PATIENCE).contains(&usize::from(listener)));
            assert!(named, "{listener} in round {round}");
            assert_eq!(carrier.receive(listener), hello, "round {round}");
        }
        assert_eq!(carrier.wait(Duration::ZERO), [0; 0]);
    }
}
