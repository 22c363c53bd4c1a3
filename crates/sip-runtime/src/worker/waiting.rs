//! Guessing what waits in a socket, to spare system calls.

use crate::udp::Expected;

/// Datagrams read one by one, which is cheaper when they come one by one, before it is tried again
/// whether they come many at once.
const READS_OF_ONE: u8 = 8;

/// What may wait in a socket, judged by what came last.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    /// Worth reading without asking the event loop.
    pub(super) is_likely: bool,
    /// Reads since the last one that could have brought many.
    reads_of_one: u8,
}

impl Waiting {
    pub(super) const UNKNOWN: Self = Self {
        is_likely: true,
        reads_of_one: READS_OF_ONE,
    };

    pub(super) fn expected(self) -> Expected {
        if self.reads_of_one < READS_OF_ONE {
            Expected::One
        } else {
            Expected::Many
        }
    }

    /// `count` datagrams came when `expected` were. Where two came at once there are likely more
    /// by the time they are handled; where one came it was likely alone, and so will the next be.
    pub(super) fn after(self, expected: Expected, count: usize) -> Self {
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

    /// Reads that bring `counts`, and what was expected of each.
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
}
