//! Many workers at once: limits stay exact, and sweeps forget nothing.

use super::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;

const THREADS: usize = 4;

#[test]
fn threads_together_get_exactly_the_rate_and_the_burst() {
    for (calls_per_second, burst, expected) in [(1000.0, 50, 1050), (0.0, 9, 0), (2.0, 1, 3)] {
        let limits = limits(&Description {
            overall: rate(calls_per_second, burst),
            each_source: Some(each(rate(100_000.0, 1_000_000), 10)),
            ..Description::default()
        });
        let (calls, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for step in 0..=2000 {
                        while limits.admit(&from("192.0.2.1"), at(step * 500)).is_ok() {
                            calls.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(calls.into_inner(), expected);
        let stats = limits.overall().stats();
        assert_eq!((stats.admitted, stats.live), (expected as u64, 0));
    }
}

#[test]
fn no_thread_ever_sees_more_calls_than_the_maximum() {
    const MOST: u32 = 3;
    let limits = limits(&Description {
        overall: max_calls(MOST),
        each_source: Some(each(max_calls(MOST), 10)),
        ..Description::default()
    });
    let (live, admitted) = (AtomicU32::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 * THREADS {
            scope.spawn(|| {
                for _ in 0..5000 {
                    let Ok(permits) = limits.admit(&from("192.0.2.1"), at(0)) else {
                        continue;
                    };
                    admitted.fetch_add(1, Ordering::Relaxed);
                    assert!(live.fetch_add(1, Ordering::SeqCst) < MOST);
                    thread::yield_now();
                    live.fetch_sub(1, Ordering::SeqCst);
                    drop(permits);
                }
            });
        }
    });
    let stats = limits.overall().stats();
    assert_eq!(
        (stats.live, stats.admitted),
        (0, admitted.into_inner() as u64)
    );
    assert_eq!(limits.source_calls([192, 0, 2, 1].into()), 0);
}

/// In each round, time stands still and each source has a full bucket. A sweep tries to remove the sources meanwhile, in the order in which
/// the threads call. If it removed one whose bucket was charged, the source would get a new bucket and more calls than its burst.
#[test]
fn a_sweep_forgets_no_call_while_threads_come_and_go() {
    const ROUNDS: u64 = 1000;
    const BURST: u32 = 2;
    let limits = limits(&Description {
        each_source: Some(each(rate(1000.0, BURST), 1000)),
        ..Description::default()
    });
    for number in 0..200 {
        drop(limits.admit(&source(number), at(0)).expect("a permit"));
    }
    let mut sources = Vec::new();
    limits.for_each_source(|address, _| sources.push((address, AtomicU32::new(0))));
    let (barrier, mut removed, mut wrong) = (Barrier::new(THREADS + 1), 0, Vec::new());
    thread::scope(|scope| {
        for first in 0..THREADS {
            let (limits, sources, barrier) = (&limits, &sources, &barrier);
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    barrier.wait();
                    let in_order = sources.iter().cycle().skip(first * 10);
                    for (address, calls) in in_order.take(sources.len()) {
                        let call = Call {
                            source: *address,
                            ..source(0)
                        };
                        let is_admitted = limits.admit(&call, at(round * 2000)).is_ok();
                        calls.fetch_add(is_admitted.into(), Ordering::Relaxed);
                    }
                    barrier.wait();
                }
            });
        }
        for round in 1..=ROUNDS {
            barrier.wait();
            for _ in 0..5 {
                removed += limits.sweep(at(round * 2000), 1000).removed;
            }
            barrier.wait();
            for (address, calls) in &sources {
                let calls = calls.swap(0, Ordering::Relaxed);
                if calls != BURST {
                    wrong.push((round, *address, calls));
                }
            }
        }
    });
    assert_eq!(wrong, [], "round, source and calls");
    assert!(removed > 0, "the sweeps removed nothing");
    limits.sweep(at((ROUNDS + 1) * 2000), 1000);
    assert_eq!(keys(&limits), 0);
}

#[test]
fn a_table_never_exceeds_its_size_and_empties() {
    const MOST: usize = 50;
    let limits = limits(&Description {
        each_source: Some(each(max_calls(2), MOST)),
        ..Description::default()
    });
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: [_; THREADS] = std::array::from_fn(|worker| {
            let limits = &limits;
            scope.spawn(move || {
                for number in 0..20_000_u32 {
                    let last = number.wrapping_mul(2_654_435_761 + worker as u32) >> 24;
                    let _permits = limits.admit(&source(last), at(0));
                }
            })
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                limits.sweep(at(0), 1000);
                let mut keys = 0;
                limits.for_each_source(|_, live| {
                    keys += 1;
                    assert!(live <= 2);
                });
                assert!(keys <= MOST, "{keys} keys");
            }
        });
        for worker in workers {
            worker.join().expect("a worker");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    limits.sweep(at(0), 1000);
    assert_eq!(keys(&limits), 0);
    assert_eq!(limits.overall().stats().live, 0);
}
