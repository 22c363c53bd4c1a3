//! The deadlines of a worker's connections, with a resolution of one second.
//!
//! This is a timer wheel with one slot per second. Each connection is in it once, at its deadline or earlier. Most deadlines are
//! postponed before they pass, so postponing one costs nothing: a connection that is found too early is scheduled again.

use sip_transport::Time;

/// Seconds in the wheel. A connection with a later deadline is checked once per turn of the wheel.
const SLOTS: usize = 256;

#[derive(Debug)]
pub(super) struct Deadlines {
    slots: Vec<Vec<u32>>,
    /// The second of the next slot.
    next: u64,
    scheduled: usize,
}

impl Deadlines {
    pub(super) fn new(now: Time) -> Self {
        Self {
            slots: vec![Vec::new(); SLOTS],
            next: now.unix_seconds() + 1,
            scheduled: 0,
        }
    }

    /// Schedules a connection at `deadline` (Unix seconds), or as close to it as the wheel reaches. Returns the scheduled second.
    pub(super) fn schedule(&mut self, connection: u32, deadline: u32) -> u32 {
        let second = u64::from(deadline).clamp(self.next, self.next + SLOTS as u64 - 1);
        if let Some(slot) = self.slots.get_mut(second as usize % SLOTS) {
            slot.push(connection);
            self.scheduled += 1;
        }
        second as u32
    }

    /// The second of the next slot to check, or `None` if the wheel is empty.
    pub(super) fn next(&self) -> Option<Time> {
        (self.scheduled > 0).then(|| Time::from_unix_seconds(self.next))
    }

    /// Moves the connections whose second has come into `due`.
    pub(super) fn expire(&mut self, now: Time, due: &mut Vec<u32>) {
        let seconds = now.unix_seconds();
        // One turn is enough, however late the call is.
        self.next = self.next.max(seconds.saturating_sub(SLOTS as u64));
        while self.next <= seconds {
            if let Some(slot) = self.slots.get_mut(self.next as usize % SLOTS) {
                self.scheduled -= slot.len();
                due.append(slot);
                if slot.capacity() > 1_024 {
                    *slot = Vec::new();
                }
            }
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Time {
        Time::from_unix_seconds(1_000 + second)
    }

    fn due(deadlines: &mut Deadlines, second: u64) -> Vec<u32> {
        let mut due = Vec::new();
        deadlines.expire(at(second), &mut due);
        due
    }

    #[test]
    fn each_comes_in_its_second() {
        let mut deadlines = Deadlines::new(at(0));
        assert_eq!(deadlines.next(), None);
        for connection in [3, 1, 2] {
            assert_eq!(
                deadlines.schedule(connection, 1_000 + connection),
                1_000 + connection
            );
        }
        assert_eq!(deadlines.next(), Some(at(1)));
        assert_eq!(due(&mut deadlines, 0), []);
        assert_eq!(due(&mut deadlines, 1), [1]);
        assert_eq!(due(&mut deadlines, 5), [2, 3]);
        assert_eq!(deadlines.next(), None);
    }

    #[test]
    fn far_and_past_deadlines_are_brought_into_reach() {
        let mut deadlines = Deadlines::new(at(0));
        let reach = SLOTS as u64;
        assert_eq!(deadlines.schedule(1, 1_000_000), 1_000 + SLOTS as u32);
        assert_eq!(deadlines.schedule(2, 5), 1_001);
        assert_eq!(due(&mut deadlines, 1), [2]);
        assert_eq!(due(&mut deadlines, reach - 1), []);
        assert_eq!(due(&mut deadlines, reach), [1]);
    }

    #[test]
    fn a_worker_that_was_held_up_for_hours_finds_them_all_once() {
        let mut deadlines = Deadlines::new(at(0));
        for connection in 0..500 {
            deadlines.schedule(connection, 1_000 + connection);
        }
        assert_eq!(due(&mut deadlines, 100_000).len(), 500);
        assert_eq!(deadlines.next(), None);
        assert_eq!(deadlines.schedule(7, 101_005), 101_005);
    }
}
