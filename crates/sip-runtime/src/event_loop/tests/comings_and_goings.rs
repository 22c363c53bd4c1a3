//! Descriptors that are forgotten, closed, replaced, and many at once.

use super::{check_all_kinds, event, pair, ready_now};
use crate::event_loop::{EventLoop, EventLoopKind, Interest, Uring};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[test]
fn what_is_forgotten_is_not_named_whatever_becomes_of_it() {
    check_all_kinds(|mut event_loop| {
        let (forgotten, other) = (event(0), event(1));
        for (descriptor, token) in [(&forgotten, 1), (&other, 2)] {
            event_loop
                .watch(descriptor.as_fd(), token, Interest::READABLE)
                .expect("watch");
        }
        assert_eq!(ready_now(&mut event_loop), [(2, true, false)]);
        // It is ready when it is forgotten, and the event loop may know already.
        rustix::io::write(&forgotten, &1_u64.to_ne_bytes()).expect("write");
        event_loop.forget(forgotten.as_fd(), 1).expect("forget");
        for _ in 0..3 {
            assert_eq!(ready_now(&mut event_loop), [(2, true, false)]);
        }
        event_loop
            .watch(forgotten.as_fd(), 9, Interest::READABLE)
            .expect("watched again");
        let both = [(2, true, false), (9, true, false)];
        assert_eq!(ready_now(&mut event_loop), both);
    });
}

#[test]
fn a_new_descriptor_with_an_old_number_and_token_gets_no_old_event() {
    check_all_kinds(|mut event_loop| {
        // The descriptor is closed in each round, so the next one gets the same number unless
        // another test takes it.
        for round in 0..50 {
            let ready = event(0);
            event_loop
                .watch(ready.as_fd(), 1, Interest::READABLE)
                .expect("watch");
            assert_eq!(ready_now(&mut event_loop), [], "round {round}");
            rustix::io::write(&ready, &1_u64.to_ne_bytes()).expect("write");
            event_loop.forget(ready.as_fd(), 1).expect("forget");
            drop(ready);
        }
    });
}

#[test]
fn what_was_forgotten_and_closed_is_closed_for_its_peer() {
    check_all_kinds(|mut event_loop| {
        let (ours, mut theirs) = pair();
        let bystander = event(0);
        event_loop
            .watch(ours.as_fd(), 1, Interest::READABLE)
            .expect("watch");
        event_loop
            .watch(bystander.as_fd(), 2, Interest::READABLE)
            .expect("watch");
        assert_eq!(ready_now(&mut event_loop), []);
        event_loop.forget(ours.as_fd(), 1).expect("forget");
        drop(ours);
        assert_eq!(ready_now(&mut event_loop), []);
        theirs
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("timeout");
        assert_eq!(theirs.read(&mut [0; 8]).expect("the end"), 0);
    });
}

/// Checks that every one of many descriptors is reported, and reported again.
fn check_many(mut event_loop: EventLoop, count: usize) {
    let descriptors: Vec<OwnedFd> = (0..count).map(|_| event(0)).collect();
    for (token, descriptor) in descriptors.iter().enumerate() {
        event_loop
            .watch(descriptor.as_fd(), token, Interest::READABLE)
            .expect("watch");
    }
    assert_eq!(ready_now(&mut event_loop), []);
    for descriptor in &descriptors {
        rustix::io::write(descriptor, &1_u64.to_ne_bytes()).expect("write");
    }
    for _ in 0..2 {
        let mut named = vec![false; count];
        let start = Instant::now();
        while named.iter().any(|named| !named) {
            assert!(start.elapsed() < Duration::from_secs(5), "{named:?}");
            for (token, readable, writable) in ready_now(&mut event_loop) {
                assert!(readable && !writable);
                named[token] = true;
            }
        }
    }
    for (token, descriptor) in descriptors.iter().enumerate() {
        if token % 2 == 0 {
            rustix::io::read(descriptor, &mut [0; 8]).expect("drain");
        } else {
            event_loop
                .forget(descriptor.as_fd(), token)
                .expect("forget");
        }
    }
    for _ in 0..2 {
        assert_eq!(ready_now(&mut event_loop), []);
    }
}

#[test]
fn there_may_be_many_descriptors() {
    check_all_kinds(|event_loop| check_many(event_loop, 700));
}

#[test]
fn more_descriptors_than_both_rings_have_entries_are_all_named() {
    let ring = Uring::with_room_for(4, 8).expect("a ring");
    check_many(EventLoop::Uring(Box::new(ring)), 300);
}

#[test]
fn the_end_of_a_ring_interrupts_no_system_call() {
    let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
    ours.set_read_timeout(Some(Duration::from_secs(5)))
        .expect("timeout");
    for _ in 0..5 {
        let mut event_loop = EventLoop::open(EventLoopKind::IoUring).expect("a ring");
        let worker = std::thread::spawn(move || {
            ready_now(&mut event_loop);
            std::thread::sleep(Duration::from_millis(10));
            drop(event_loop);
            std::thread::sleep(Duration::from_millis(30));
            theirs.write_all(b"x").expect("write");
            theirs
        });
        ours.read_exact(&mut [0]).expect("not interrupted");
        theirs = worker.join().expect("no panic");
    }
}
