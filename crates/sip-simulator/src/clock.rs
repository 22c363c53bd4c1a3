//! Virtual time: a queue of planned events, ordered by time. Events at the same time keep the order in which they were
//! planned.
use sip_transport::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The planned events of a world, and the current time.
#[derive(Debug)]
pub struct Clock<E> {
    now: Time,
    planned: u64,
    queue: BinaryHeap<Reverse<Entry<E>>>,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<E> Clock<E> {
    /// Creates an empty queue at `now`.
    pub const fn new(now: Time) -> Self {
        Self {
            now,
            planned: 0,
            queue: BinaryHeap::new(),
        }
    }

    /// The current time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Plans an event. An event in the past happens next.
    pub fn plan(&mut self, at: Time, event: E) {
        self.planned += 1;
        let at = at.max(self.now);
        self.queue.push(Reverse(Entry {
            at,
            number: self.planned,
            event,
        }));
    }

    /// Removes and returns the next event at or before `until`, and advances the time to it.
    pub fn next_before(&mut self, until: Time) -> Option<E> {
        let Reverse(first) = self.queue.peek()?;
        if first.at > until {
            return None;
        }
        let Reverse(entry) = self.queue.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }

    /// Advances the time without an event.
    pub fn advance_to(&mut self, now: Time) {
        self.now = self.now.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use sip_transport::Time;

    #[test]
    fn events_come_in_order_of_time_and_then_of_planning() {
        let at = Time::from_micros;
        let mut clock = Clock::new(at(10));
        clock.plan(at(30), "later");
        clock.plan(at(20), "first");
        clock.plan(at(20), "second");
        clock.plan(at(5), "overdue");
        let mut seen = Vec::new();
        while let Some(event) = clock.next_before(at(25)) {
            seen.push((clock.now().as_micros(), event));
        }
        assert_eq!(seen, [(10, "overdue"), (20, "first"), (20, "second")]);
        assert_eq!(clock.next_before(at(30)), Some("later"));
    }
}
