//! Behaviour that all event loops share.

mod comings_and_goings;

use super::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

const WRITABLE: Interest = Interest {
    readable: false,
    writable: true,
};
const BOTH: Interest = Interest {
    readable: true,
    writable: true,
};
const NEITHER: Interest = Interest {
    readable: false,
    writable: false,
};
const KINDS: [EventLoopKind; 3] = [
    EventLoopKind::Epoll,
    EventLoopKind::Poll,
    EventLoopKind::IoUring,
];

fn check_all_kinds(check: impl Fn(EventLoop)) {
    for kind in KINDS {
        check(EventLoop::open(kind).expect("event loop"));
    }
}

fn event(count: u32) -> OwnedFd {
    eventfd(count, EventfdFlags::NONBLOCK).expect("eventfd")
}

fn pair() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    ours.set_nonblocking(true).expect("non-blocking");
    (ours, theirs)
}

/// What is ready now, as (token, readable, writable), ordered by token.
fn ready_now(event_loop: &mut EventLoop) -> Vec<(usize, bool, bool)> {
    ready_within(event_loop, Duration::ZERO)
}

fn ready_within(event_loop: &mut EventLoop, timeout: Duration) -> Vec<(usize, bool, bool)> {
    let mut told = Vec::new();
    event_loop
        .wait(Some(timeout), |ready| {
            told.push((ready.token, ready.readable, ready.writable));
        })
        .expect("wait");
    told.sort_unstable();
    told
}

fn fill(mut stream: &UnixStream) {
    while stream.write(&[0; 4_096]).is_ok() {}
}

fn drain(stream: &mut UnixStream) {
    stream.set_nonblocking(true).expect("non-blocking");
    while stream.read(&mut [0; 4_096]).is_ok_and(|count| count > 0) {}
}

#[test]
fn names_only_the_readable_descriptors_and_again_until_they_are_drained() {
    check_all_kinds(|mut event_loop| {
        let (quiet, ready) = (event(0), event(1));
        for (descriptor, token) in [(&quiet, 3), (&ready, 7)] {
            event_loop
                .watch(descriptor.as_fd(), token, Interest::READABLE)
                .expect("watch");
        }
        for _ in 0..3 {
            let mut named = Vec::new();
            event_loop
                .wait(None, |ready| named.push(ready.token))
                .expect("wait");
            assert_eq!(named, [7]);
        }
        rustix::io::read(&ready, &mut [0; 8]).expect("drain");
        assert_eq!(ready_now(&mut event_loop), []);
    });
}

#[test]
fn a_wait_ends_when_another_thread_makes_a_descriptor_ready() {
    check_all_kinds(|mut event_loop| {
        let waker = event(0);
        event_loop
            .watch(waker.as_fd(), usize::MAX, Interest::READABLE)
            .expect("watch");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                rustix::io::write(&waker, &1_u64.to_ne_bytes()).expect("write");
            });
            let mut named = Vec::new();
            event_loop
                .wait(None, |ready| named.push(ready.token))
                .expect("wait");
            assert_eq!(named, [usize::MAX]);
        });
    });
}

#[test]
fn a_timeout_is_never_early() {
    check_all_kinds(|mut event_loop| {
        let quiet = event(0);
        event_loop
            .watch(quiet.as_fd(), 0, Interest::READABLE)
            .expect("watch");
        for _ in 0..3 {
            let timeout = Duration::from_micros(2_300);
            let start = Instant::now();
            assert_eq!(ready_within(&mut event_loop, timeout), []);
            assert!(start.elapsed() >= timeout);
        }
    });
}

#[test]
fn a_pause_takes_its_time_whatever_comes() {
    check_all_kinds(|mut event_loop| {
        let ready = event(1);
        event_loop
            .watch(ready.as_fd(), 0, Interest::READABLE)
            .expect("watch");
        for _ in 0..3 {
            let start = Instant::now();
            event_loop.pause(Duration::from_millis(5));
            assert!(start.elapsed() >= Duration::from_millis(5));
        }
        assert_eq!(ready_now(&mut event_loop), [(0, true, false)]);
    });
}

#[test]
fn a_stream_is_writable_until_its_buffer_is_full_and_again_when_the_peer_has_read() {
    check_all_kinds(|mut event_loop| {
        let (ours, mut theirs) = pair();
        event_loop.watch(ours.as_fd(), 5, WRITABLE).expect("watch");
        for _ in 0..2 {
            assert_eq!(ready_now(&mut event_loop), [(5, false, true)]);
        }
        fill(&ours);
        assert_eq!(ready_now(&mut event_loop), []);
        theirs
            .write_all(b"nobody wants to read this")
            .expect("write");
        assert_eq!(ready_now(&mut event_loop), []);
        drain(&mut theirs);
        let patience = Duration::from_secs(5);
        assert_eq!(ready_within(&mut event_loop, patience), [(5, false, true)]);
    });
}

#[test]
fn a_change_holds_from_the_next_wait_on() {
    check_all_kinds(|mut event_loop| {
        let (ours, mut theirs) = pair();
        theirs.write_all(b"hello").expect("write");
        event_loop
            .watch(ours.as_fd(), 1, Interest::READABLE)
            .expect("watch");
        assert_eq!(ready_now(&mut event_loop), [(1, true, false)]);
        for (token, interest, expected) in [
            (1, WRITABLE, vec![(1, false, true)]),
            (2, BOTH, vec![(2, true, true)]),
            (2, NEITHER, vec![]),
            (3, Interest::READABLE, vec![(3, true, false)]),
        ] {
            event_loop
                .change(ours.as_fd(), token, interest)
                .expect("change");
            for _ in 0..2 {
                assert_eq!(ready_now(&mut event_loop), expected);
            }
        }
        // Of several changes between two waits, the last one applies.
        event_loop.change(ours.as_fd(), 4, BOTH).expect("change");
        event_loop
            .change(ours.as_fd(), 5, WRITABLE)
            .expect("change");
        assert_eq!(ready_now(&mut event_loop), [(5, false, true)]);
    });
}

#[test]
fn a_peer_that_hangs_up_makes_ready_for_both_whatever_is_waited_for() {
    check_all_kinds(|mut event_loop| {
        for interest in [Interest::READABLE, WRITABLE, BOTH, NEITHER] {
            let (ours, theirs) = pair();
            event_loop.watch(ours.as_fd(), 1, interest).expect("watch");
            ready_now(&mut event_loop);
            drop(theirs);
            for _ in 0..2 {
                let told = ready_within(&mut event_loop, Duration::from_secs(5));
                assert_eq!(told, [(1, true, true)], "{interest:?}");
            }
            event_loop.forget(ours.as_fd(), 1).expect("forget");
        }
    });
}

#[test]
fn a_peer_that_ends_does_not_wake_a_loop_that_only_writes() {
    check_all_kinds(|mut event_loop| {
        let (ours, mut theirs) = pair();
        fill(&ours);
        event_loop.watch(ours.as_fd(), 1, WRITABLE).expect("watch");
        assert_eq!(ready_now(&mut event_loop), []);
        theirs.shutdown(Shutdown::Write).expect("shutdown");
        let (cpu, start) = (cpu_time(), Instant::now());
        let timeout = Duration::from_millis(200);
        assert_eq!(ready_within(&mut event_loop, timeout), []);
        assert!(start.elapsed() >= timeout);
        assert!(cpu_time() < cpu + timeout / 4, "it slept");
        drain(&mut theirs);
        let patience = Duration::from_secs(5);
        for _ in 0..2 {
            assert_eq!(ready_within(&mut event_loop, patience), [(1, false, true)]);
        }
        event_loop
            .change(ours.as_fd(), 1, Interest::READABLE)
            .expect("change");
        assert_eq!(ready_now(&mut event_loop), [(1, true, false)]);
    });
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.cast_unsigned(),
        time.tv_nsec.cast_unsigned() as u32,
    )
}

#[test]
fn misuse_is_an_error() {
    check_all_kinds(|mut event_loop| {
        let descriptor = event(0);
        let error = |result: io::Result<()>| {
            Errno::from_io_error(&result.expect_err("misuse")).expect("an errno")
        };
        let interest = Interest::READABLE;
        assert_eq!(
            error(event_loop.change(descriptor.as_fd(), 1, interest)),
            Errno::NOENT
        );
        assert_eq!(
            error(event_loop.forget(descriptor.as_fd(), 1)),
            Errno::NOENT
        );
        event_loop
            .watch(descriptor.as_fd(), 1, interest)
            .expect("watch");
        assert_eq!(
            error(event_loop.watch(descriptor.as_fd(), 2, interest)),
            Errno::EXIST
        );
    });
}

#[test]
fn timeouts_round_up_and_saturate() {
    assert_eq!(milliseconds(None), -1);
    assert_eq!(milliseconds(Some(Duration::ZERO)), 0);
    assert_eq!(milliseconds(Some(Duration::from_nanos(1))), 1);
    assert_eq!(milliseconds(Some(Duration::from_millis(5))), 5);
    assert_eq!(milliseconds(Some(Duration::MAX)), i32::MAX);
}
