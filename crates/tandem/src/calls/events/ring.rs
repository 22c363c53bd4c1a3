//! The latest events, within a bound on their bytes.
use super::filter::Filter;
use super::frame::{self, EventId};
use crate::calls::SharedEvent;
use crate::calls::queue::Weight;
use axum::body::Bytes;
use std::collections::VecDeque;

/// Bytes that a reader takes at once. One event more may exceed it.
const MAX_TAKEN: usize = 64 << 10;
/// Events that a reader looks at before it lets others have the ring.
const MAX_SEEN: usize = 1_024;

struct Entry {
    event: SharedEvent,
    /// What readers receive; made for the first one that wants it.
    frame: Option<Bytes>,
}

/// The ring. Event numbers begin at 1 and have no holes.
pub(super) struct Ring {
    run: u64,
    entries: VecDeque<Entry>,
    /// The number of the oldest entry.
    first: u64,
    bytes: usize,
    most_bytes: usize,
}

/// What the reader wanted has left the ring.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Behind;

impl Ring {
    /// An empty ring for at most so many bytes.
    pub(super) const fn new(run: u64, most_bytes: usize) -> Self {
        Self {
            run,
            entries: VecDeque::new(),
            first: 1,
            bytes: 0,
            most_bytes,
        }
    }

    /// The number of the oldest event.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// The number of the event that comes next.
    pub(super) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The bytes of all events.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an event, and removes the oldest ones that no longer fit.
    pub(super) fn push(&mut self, event: SharedEvent) {
        self.bytes += event.weight();
        self.entries.push_back(Entry { event, frame: None });
        while self.bytes > self.most_bytes
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= weight(&oldest);
            self.first += 1;
        }
    }

    /// Forgets all events. One number is skipped: events that are not pushed from now on are missing after the last one.
    pub(super) fn clear(&mut self) {
        self.first = self.next() + 1;
        self.entries = VecDeque::new();
        self.bytes = 0;
    }

    /// Takes wanted events from number `next` on, as far as a reader takes at once, and moves `next` behind what was looked at.
    pub(super) fn take(
        &mut self,
        next: &mut u64,
        filter: &Filter,
        taken: &mut VecDeque<Bytes>,
    ) -> Result<(), Behind> {
        let start = next.checked_sub(self.first).ok_or(Behind)?;
        let start = usize::try_from(start)
            .unwrap_or(usize::MAX)
            .min(self.entries.len());
        let mut bytes = 0;
        for entry in self.entries.range_mut(start..).take(MAX_SEEN) {
            if bytes >= MAX_TAKEN {
                break;
            }
            if filter.admits(&entry.event) {
                let id = EventId {
                    run: self.run,
                    number: *next,
                };
                let made = entry.frame.is_none();
                let frame = entry
                    .frame
                    .get_or_insert_with(|| frame::event(id, &entry.event));
                if made {
                    self.bytes += frame.len();
                }
                bytes += frame.len();
                taken.push_back(frame.clone());
            }
            *next += 1;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn encoded(&self) -> usize {
        let encoded = |entry: &&Entry| entry.frame.is_some();
        self.entries.iter().filter(encoded).count()
    }
}

fn weight(entry: &Entry) -> usize {
    entry.event.weight() + entry.frame.as_ref().map_or(0, Bytes::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::sample::event;
    use sip_dialog::Change;

    fn filled(events: u128, most_bytes: usize) -> Ring {
        let mut ring = Ring::new(0xab, most_bytes);
        for number in 1..=events {
            ring.push(event(Change::Answered, number));
        }
        ring
    }

    fn take(ring: &mut Ring, mut next: u64) -> Result<(u64, usize), Behind> {
        let mut taken = VecDeque::new();
        ring.take(&mut next, &Filter::default(), &mut taken)?;
        Ok((next, taken.len()))
    }

    #[test]
    fn the_bytes_of_the_ring_are_bounded_and_the_oldest_events_leave() {
        let mut ring = filled(1_000, 100_000);
        assert!(ring.bytes() <= 100_000);
        let first = ring.first();
        assert!(first > 500, "{first}");
        assert_eq!(ring.next(), 1_001);
        assert_eq!(take(&mut ring, first - 1), Err(Behind));
        let mut next = first;
        while next < 1_001 {
            let (end, taken) = take(&mut ring, next).expect("kept");
            assert_eq!(end - next, taken as u64);
            next = end;
        }
        assert!(ring.bytes() > 100_000, "frames count");
        ring.push(event(Change::Answered, 1));
        assert!(ring.bytes() <= 100_000);
        while let Some(entry) = ring.entries.pop_front() {
            ring.bytes -= weight(&entry);
        }
        assert_eq!(ring.bytes(), 0);
    }

    #[test]
    fn an_event_larger_than_the_ring_leaves_at_once() {
        let ring = filled(3, 10);
        assert_eq!((ring.first(), ring.next(), ring.bytes()), (4, 4, 0));
    }

    #[test]
    fn an_event_is_encoded_once_and_only_for_a_reader_that_wants_it() {
        let mut ring = filled(3, 1 << 20);
        ring.push(event(Change::Started, 4));
        let query = [("types".to_owned(), "started".to_owned())];
        let filter = Filter::parse(&query).expect("valid");
        let (mut first, mut second) = (VecDeque::new(), VecDeque::new());
        ring.take(&mut 1, &filter, &mut first).expect("taken");
        assert_eq!(ring.encoded(), 1);
        ring.take(&mut 1, &filter, &mut second).expect("taken");
        assert_eq!(first[0].as_ptr(), second[0].as_ptr());
        assert!(first[0].starts_with(b"id: ab-4\nevent: started\n"));
    }

    #[test]
    fn a_reader_takes_a_bounded_number_of_bytes_at_once() {
        let mut ring = filled(500, 1 << 30);
        let (next, taken) = take(&mut ring, 1).expect("taken");
        assert!(next < 400 && taken as u64 == next - 1, "{taken}");
        assert_eq!(take(&mut ring, 501), Ok((501, 0)));
    }

    #[test]
    fn after_forgetting_an_earlier_position_is_behind() {
        let mut ring = filled(3, 1 << 20);
        ring.clear();
        assert_eq!(take(&mut ring, 4), Err(Behind));
        let next = ring.next();
        assert_eq!(take(&mut ring, next), Ok((5, 0)));
    }
}
