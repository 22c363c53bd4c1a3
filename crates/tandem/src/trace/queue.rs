//! Copies on their way from the workers to the keeper: a queue for each worker, bounded in bytes.
//!
//! Adding a copy does not wake the keeper, because a wake-up costs the worker more than the copy. The keeper looks every few milliseconds instead.
use crossbeam_queue::SegQueue;
use sip_elements::trace::Traced;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Bytes that may wait for each worker.
const MAX_BYTES: usize = 4 << 20;

/// The queues of all workers.
#[derive(Debug)]
pub(crate) struct TraceQueue(Box<[WorkerQueue]>);

#[derive(Debug, Default)]
#[repr(align(128))] // two cache lines, so that workers do not share one
struct WorkerQueue {
    copies: SegQueue<Traced>,
    bytes: AtomicUsize,
    taken: AtomicU64,
    dropped: AtomicU64,
}

/// The memory of a copy, in bytes.
fn size(traced: &Traced) -> usize {
    size_of::<Traced>() + traced.bytes.len()
}

impl TraceQueue {
    pub(crate) fn new(workers: u16) -> Self {
        Self((0..workers).map(|_| WorkerQueue::default()).collect())
    }

    /// Adds a copy of worker `worker`, or drops and counts it if there is no room. Never blocks.
    pub(crate) fn add(&self, worker: u16, traced: Traced) {
        let Some(queue) = self.0.get(usize::from(worker)) else {
            return;
        };
        let size = size(&traced);
        // Only this worker adds, so the sum cannot exceed the limit in between.
        if queue.bytes.load(Relaxed) + size > MAX_BYTES {
            queue.dropped.fetch_add(1, Relaxed);
            return;
        }
        queue.bytes.fetch_add(size, Relaxed);
        queue.taken.fetch_add(1, Relaxed);
        queue.copies.push(traced);
    }

    /// Moves at most `most` copies of each worker into `into`, with the worker that made them.
    pub(super) fn take(&self, most: usize, into: &mut Vec<(u16, Traced)>) {
        for (worker, queue) in (0..).zip(&self.0) {
            for _ in 0..most {
                let Some(traced) = queue.copies.pop() else {
                    break;
                };
                queue.bytes.fetch_sub(size(&traced), Relaxed);
                into.push((worker, traced));
            }
        }
    }

    /// Copies that were added.
    pub(crate) fn taken(&self) -> u64 {
        self.0.iter().map(|queue| queue.taken.load(Relaxed)).sum()
    }

    /// Copies that were dropped because a queue was full.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.iter().map(|queue| queue.dropped.load(Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_elements::trace::{Direction, Readers};
    use sip_transport::{Flow, ListenerId, Time};

    fn traced(bytes: usize) -> Traced {
        Traced {
            at: Time::default(),
            direction: Direction::Sent,
            flow: Flow::to(ListenerId(0), ([192, 0, 2, 1], 5060).into()),
            readers: Readers::default(),
            bytes: vec![b'x'; bytes].into(),
        }
    }

    #[test]
    fn a_full_queue_drops_and_counts_until_it_is_read() {
        let queue = TraceQueue::new(2);
        let large = 64 << 10;
        for _ in 0..100 {
            queue.add(0, traced(large));
        }
        let room = (MAX_BYTES / size(&traced(large))) as u64;
        assert_eq!((queue.taken(), queue.dropped()), (room, 100 - room));
        // The other worker has a queue of its own.
        queue.add(1, traced(large));
        assert_eq!((queue.taken(), queue.dropped()), (room + 1, 100 - room));
        let mut taken = Vec::new();
        queue.take(1, &mut taken);
        assert_eq!(
            taken.iter().map(|(worker, _)| *worker).collect::<Vec<_>>(),
            [0, 1]
        );
        queue.add(0, traced(large));
        assert_eq!(queue.dropped(), 100 - room);
        taken.clear();
        queue.take(usize::MAX, &mut taken);
        assert_eq!(taken.len() as u64, room);
        // All memory is given back.
        assert!(queue.0.iter().all(|queue| queue.bytes.load(Relaxed) == 0));
    }
}
