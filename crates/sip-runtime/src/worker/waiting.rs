//! Predicts what waits in a socket, to save system calls.

use crate::udp::Expected;

/// After this many reads of a single datagram, try a batch again. A single read is cheaper if datagrams arrive one at a time.
const READS_OF_ONE: u8 = 8;

/// What may wait in the sockets of a worker. Those worth reading are in a list, so that thousands of others cost nothing.
pub(super) struct Sockets {
    waiting: Vec<Waiting>,
    /// Indexes of the sockets with `is_likely`, each once.
    likely: Vec<usize>,
}

impl Sockets {
    /// Creates `count` sockets with an unknown state.
    pub(super) fn new(count: usize) -> Self {
        Self {
            waiting: vec![Waiting::UNKNOWN; count],
            likely: (0..count).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether any socket is worth reading.
    pub(super) fn any_likely(&self) -> bool {
        !self.likely.is_empty()
    }

    /// Moves the sockets worth reading into `turn`, which must be empty.
    pub(super) fn take_likely(&mut self, turn: &mut Vec<usize>) {
        std::mem::swap(&mut self.likely, turn);
        for place in turn {
            if let Some(waiting) = self.waiting.get_mut(*place) {
                waiting.is_likely = false;
            }
        }
    }

    /// Marks a socket as worth reading.
    pub(super) fn mark(&mut self, place: usize) {
        if let Some(waiting) = self.waiting.get_mut(place)
            && !waiting.is_likely
        {
            waiting.is_likely = true;
            self.likely.push(place);
        }
    }

    /// Marks all sockets, because their state is unknown.
    pub(super) fn mark_all(&mut self) {
        (0..self.len()).for_each(|place| self.mark(place));
    }

    /// How many datagrams probably wait in a socket.
    pub(super) fn expected(&self, place: usize) -> Expected {
        self.waiting
            .get(place)
            .map_or(Expected::Many, |waiting| waiting.expected())
    }

    /// Records that a read returned `count` datagrams when `expected` were expected.
    pub(super) fn after(&mut self, place: usize, expected: Expected, count: usize) {
        if let Some(waiting) = self.waiting.get_mut(place) {
            let is_listed = waiting.is_likely;
            *waiting = waiting.after(expected, count);
            if is_listed {
                waiting.is_likely = true;
            } else if waiting.is_likely {
                self.likely.push(place);
            }
        }
    }
}

/// What may wait in a socket, judged by the last reads.
#[derive(Clone, Copy)]
struct Waiting {
    /// Whether it is worth reading without polling the event loop.
    is_likely: bool,
    /// Single reads since the last batch read.
    reads_of_one: u8,
}

impl Waiting {
    const UNKNOWN: Self = Self {
        is_likely: true,
        reads_of_one: READS_OF_ONE,
    };

    fn expected(self) -> Expected {
        if self.reads_of_one < READS_OF_ONE {
            Expected::One
        } else {
            Expected::Many
        }
    }

    /// The state after a read of `count` datagrams. If two or more arrived at once, more will probably have arrived by the time
    /// they are handled. If one arrived, it was probably alone, and so will the next one be.
    fn after(self, expected: Expected, count: usize) -> Self {
        let reads_of_one = match expected {
            Expected::One => self.reads_of_one.saturating_add(1),
            Expected::Many if count == 1 => 0,
            Expected::Many => READS_OF_ONE,
        };
        Self {
            is_likely: count >= 2,
            reads_of_one,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads that return `counts`, and what is expected before each.
    fn check(counts: &[usize], expected: &[Expected]) {
        let mut waiting = Waiting::UNKNOWN;
        let mut found = Vec::new();
        for count in counts {
            found.push(waiting.expected());
            waiting = waiting.after(waiting.expected(), *count);
            assert_eq!(waiting.is_likely, *count >= 2, "after {count}");
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn many_are_expected_until_they_come_one_by_one() {
        use Expected::{Many, One};
        check(&[32, 7, 2, 1, 1, 1], &[Many, Many, Many, Many, One, One]);
    }

    #[test]
    fn an_empty_socket_says_nothing_about_how_many_come_next() {
        check(&[5, 0, 5, 0], &[Expected::Many; 4]);
    }

    #[test]
    fn now_and_then_it_is_tried_whether_many_come_again() {
        use Expected::{Many, One};
        let mut expected = vec![Many];
        expected.extend([One; 8]);
        expected.extend([Many, Many, One]);
        check(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 5, 1, 1], &expected);
    }

    #[test]
    fn a_socket_is_in_the_list_once_and_only_while_it_is_worth_reading() {
        let mut sockets = Sockets::new(3);
        let mut turn = Vec::new();
        let mut check = |sockets: &mut Sockets, expected: &[usize]| {
            turn.clear();
            assert_eq!(sockets.any_likely(), !expected.is_empty());
            sockets.take_likely(&mut turn);
            assert_eq!(turn, expected);
        };
        check(&mut sockets, &[0, 1, 2]);
        check(&mut sockets, &[]);
        for place in [2, 1, 2, 7] {
            sockets.mark(place);
        }
        sockets.after(1, Expected::Many, 0);
        sockets.after(0, Expected::Many, 32);
        check(&mut sockets, &[2, 1, 0]);
        sockets.after(0, Expected::Many, 2);
        sockets.after(1, Expected::Many, 1);
        check(&mut sockets, &[0]);
        sockets.mark(1);
        sockets.mark_all();
        check(&mut sockets, &[1, 0, 2]);
    }
}
