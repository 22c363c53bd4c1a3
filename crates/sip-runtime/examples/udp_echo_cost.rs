//! Measures what the runtime costs on top of the kernel: CPU time of the server's thread per datagram that it receives and sends
//! back. It compares a worker on each event loop with a bare loop of `recvfrom` and `sendto`.
//!
//! ```text
//! cargo run --release -p sip-runtime --example udp_echo_cost -- [DATAGRAMS] [BYTES] [WINDOW…]
//! ```
//! The server runs on CPU 0, the client on CPU 1. The client keeps WINDOW datagrams in flight: with 1, the server sleeps after
//! each datagram; with 64, it hardly ever sleeps. The variants take turns in twenty short rounds each. The program prints the
//! lowest figures, because other programs on the machine can only add time.

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use sip_runtime::{EventLoopKind, Options, Runtime};
use sip_transport::{Input, Listener, Node, Output, Protocol, Received, Time};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::time::Duration;

/// A datagram that starts with this byte is answered with the CPU time of the server's thread.
const CPU_TIME: u8 = b'?';
/// A datagram that starts with this byte ends the bare loop.
const END: u8 = b'!';
const ROUNDS: usize = 20;
const LOOPS: [EventLoopKind; 3] = [
    EventLoopKind::Epoll,
    EventLoopKind::Poll,
    EventLoopKind::IoUring,
];

fn main() -> io::Result<()> {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|argument| argument.parse::<usize>());
    let mut next = |default| {
        arguments
            .next()
            .map_or(default, |number| number.expect("a number"))
    };
    let (datagrams, bytes) = (next(2_000), next(600));
    let mut windows: Vec<usize> = arguments.map(|number| number.expect("a number")).collect();
    if windows.is_empty() {
        windows = vec![1, 4, 16, 64];
    }
    println!("{datagrams} datagrams of {bytes} bytes; CPU µs of the server's thread per echo");
    println!(
        "{:>8} {:>10} {:>10} {:>10} {:>10} {:>16}",
        "window", "bare loop", "epoll", "poll", "io_uring", "io_uring / epoll"
    );
    for window in windows {
        let (mut bare, mut ours) = (f64::MAX, [f64::MAX; LOOPS.len()]);
        for _ in 0..ROUNDS {
            bare = bare.min(measure_bare_loop(datagrams, bytes, window)?);
            for (kind, ours) in LOOPS.into_iter().zip(&mut ours) {
                *ours = ours.min(measure_runtime(kind, datagrams, bytes, window)?);
            }
        }
        let [epoll, poll, ring] = ours;
        println!(
            "{window:>8} {bare:>10.3} {epoll:>10.3} {poll:>10.3} {ring:>10.3} {:>16.2}",
            ring / epoll
        );
    }
    Ok(())
}

fn measure_bare_loop(datagrams: usize, bytes: usize, window: usize) -> io::Result<f64> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = socket.local_addr()?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(0);
            let mut buffer = vec![0; 65_536];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                match buffer[0] {
                    CPU_TIME => socket.send_to(&cpu_time().to_ne_bytes(), from).map(drop),
                    END => return,
                    _ => socket.send_to(&buffer[..length], from).map(drop),
                }
                .expect("send");
            }
        });
        let figure = measure(address, datagrams, bytes, window);
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.send_to(&[END], address)?;
        figure
    })
}

fn measure_runtime(
    event_loop: EventLoopKind,
    datagrams: usize,
    bytes: usize,
    window: usize,
) -> io::Result<f64> {
    let listener = Listener {
        protocol: Protocol::Udp,
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        prefix_length: 8,
        advertised: String::new(),
        behind_balancer: false,
    };
    let options = Options {
        event_loop,
        cpus: vec![0],
        ..Options::default()
    };
    let bound =
        Runtime::bind(vec![listener], NonZeroU16::MIN, options).map_err(io::Error::other)?;
    let running = bound.start(|_| Echo, &|_, ()| Ok(()))?;
    let figure = measure(running.listeners()[0].address, datagrams, bytes, window);
    running.stop();
    figure
}

/// The client: returns CPU µs per echo, as reported by the server's thread.
fn measure(server: SocketAddr, datagrams: usize, bytes: usize, window: usize) -> io::Result<f64> {
    pin(1);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20)?;
    let payload = vec![b'x'; bytes];
    let mut buffer = vec![0; 65_536];
    let mut exchange = |count: usize| -> io::Result<()> {
        for _ in 0..window {
            socket.send(&payload)?;
        }
        for received in 0..count {
            socket.recv(&mut buffer)?;
            if received + window < count {
                socket.send(&payload)?;
            }
        }
        Ok(())
    };
    let ask_cpu_time = || -> io::Result<u64> {
        let mut answer = [0; 8];
        socket.send(&[CPU_TIME])?;
        socket.recv(&mut answer)?;
        Ok(u64::from_ne_bytes(answer))
    };
    exchange(datagrams / 2 + window)?;
    let before = ask_cpu_time()?;
    exchange(datagrams)?;
    let after = ask_cpu_time()?;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    Ok((after - before) as f64 / 1_000.0 / datagrams as f64)
}

struct Echo;

impl Node for Echo {
    type Question = ();
    type Record = std::convert::Infallible;
    type Control = ();

    fn handle(&mut self, _: Time, input: Input<'_, ()>, output: &mut Output<()>) {
        if let Input::Received(Received { flow, bytes, .. }) = input {
            output.send(flow, |buffer| match bytes.first() {
                Some(&CPU_TIME) => buffer.extend_from_slice(&cpu_time().to_ne_bytes()),
                _ => buffer.extend_from_slice(bytes),
            });
        }
    }

    fn expire(&mut self, _: Time, _: &mut Output<()>) {}

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// Nanoseconds of CPU time of the calling thread.
fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(error) = sched_setaffinity(None, &set) {
        eprintln!("not pinned to CPU {cpu}: {error}");
    }
}
