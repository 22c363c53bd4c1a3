//! What the threads of a run share: which thread plays which phone, where each phone is reached, and when calls were sent and answered.

use super::messages::Port;
use super::moments::Moments;
use std::ops::Range;
use std::sync::Arc;

/// How the phones of a run are divided among its threads: in ranges of almost equal length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) threads: u16,
}

impl Division {
    /// The phones of a thread.
    pub(super) fn phones(self, thread: u16) -> Range<u32> {
        let (count, threads) = (u64::from(self.count), u64::from(self.threads));
        let begin = |thread: u64| self.first + (count * thread / threads) as u32;
        begin(thread.into())..begin(u64::from(thread) + 1)
    }

    /// The thread of a phone. `None` if the run does not have the phone.
    pub(super) fn thread(self, phone: u32) -> Option<u16> {
        let place = phone.checked_sub(self.first);
        let place = u64::from(place.filter(|place| *place < self.count)?);
        let threads = u64::from(self.threads);
        Some((((place + 1) * threads - 1) / u64::from(self.count)) as u16)
    }

    /// The default callee of a phone: half of all phones further on.
    pub(super) fn opposite(self, phone: u32) -> u32 {
        self.first + (phone - self.first + self.count.div_ceil(2)) % self.count
    }
}

/// What all threads of a run know.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) division: Division,
    /// The ports of each thread.
    ports: Vec<Arc<[Port]>>,
    /// When each call's last INVITE was due.
    pub(super) invited: Moments,
    /// When each call was answered.
    pub(super) answered: Moments,
}

impl Shared {
    pub(super) fn new(division: Division, ports: Vec<Arc<[Port]>>) -> Self {
        Self {
            division,
            ports,
            invited: Moments::new(division.threads),
            answered: Moments::new(division.threads),
        }
    }

    pub(super) fn ports_of(&self, thread: u16) -> Arc<[Port]> {
        Arc::clone(&self.ports[usize::from(thread)])
    }

    /// The port of any phone of the run.
    pub(super) fn port_of(&self, phone: u32) -> Option<&Port> {
        let thread = self.division.thread(phone)?;
        let ports = &self.ports[usize::from(thread)];
        let place = phone - self.division.phones(thread).start;
        ports.get(place as usize % ports.len().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phone_has_one_thread_and_a_callee_that_calls_it_back_if_they_are_even() {
        for (count, threads) in [(2, 1), (7, 3), (1_000, 256), (1_001, 4)] {
            let division = Division {
                first: 40,
                count,
                threads,
            };
            for thread in 0..threads {
                for phone in division.phones(thread) {
                    assert_eq!(division.thread(phone), Some(thread), "{division:?}");
                    let callee = division.opposite(phone);
                    assert_ne!(callee, phone);
                    assert_eq!(division.opposite(callee) == phone, count % 2 == 0);
                }
            }
            assert_eq!(division.phones(0).start, 40);
            assert_eq!(division.phones(threads - 1).end, 40 + count);
            assert_eq!(
                (division.thread(39), division.thread(40 + count)),
                (None, None)
            );
        }
    }
}
