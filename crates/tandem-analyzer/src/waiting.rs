//! A bounded table of incoming messages that have no matching outgoing message yet. It evicts old messages.

use crate::capture::{Moment, Time};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::collections::VecDeque;

/// An incoming message.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says something of its own"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// When it first entered.
    pub came: Moment,
    /// Whether it is a request.
    pub is_request: bool,
    /// Whether it had credentials.
    pub is_authenticated: bool,
    /// Whether 100 was sent for it.
    pub tried: bool,
    /// Whether it was forwarded.
    pub forwarded: bool,
    /// For a request, whether the server responded itself; for a response, whether it was relayed.
    pub answered: bool,
}

impl Waiting {
    /// Whether no matching message has been seen.
    pub const fn is_open(&self) -> bool {
        !self.forwarded && !self.answered
    }
}

/// Initial capacity of the table of numbers, 2.5 MiB; it is reallocated when it grows.
const AT_FIRST: u32 = 7 << 16;

/// The table. It evicts a message `lifetime` after it entered, or when there is no room, the oldest first.
///
/// Messages are stored in the order of arrival, because most lookups are for recent messages, which are in the processor's cache. A small
/// table of their numbers finds them by key.
#[derive(Debug)]
pub struct Table {
    /// Numbers of messages, by key.
    numbers: HashTable<u32>,
    /// In the order of arrival.
    messages: VecDeque<(u64, Waiting)>,
    /// The number of the oldest message; numbers wrap around to 0.
    first: u32,
    most: usize,
    /// In nanoseconds.
    lifetime: i64,
}

impl Table {
    /// For `most` messages, each for `lifetime` nanoseconds.
    pub fn new(most: u32, lifetime: i64) -> Self {
        Self {
            numbers: HashTable::with_capacity(most.min(AT_FIRST) as usize),
            messages: VecDeque::new(),
            first: 0,
            most: most.max(1) as usize,
            lifetime,
        }
    }

    /// Adds a message unless its key exists. Returns whether it was added. The key is already a keyed hash.
    pub fn insert(&mut self, key: u64, message: Waiting) -> bool {
        let (messages, first) = (&mut self.messages, self.first);
        let is_it = |&number: &u32| key_at(messages, first, number) == Some(key);
        let key_of = |&number: &u32| key_at(messages, first, number).unwrap_or_default();
        match self.numbers.entry(key, is_it, key_of) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacancy) => {
                vacancy.insert(first.wrapping_add(messages.len() as u32));
                messages.push_back((key, message));
                true
            }
        }
    }

    /// The message with this key.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut Waiting> {
        let (messages, first) = (&self.messages, self.first);
        let is_it = |&number: &u32| key_at(messages, first, number) == Some(key);
        let number = *self.numbers.find(key, is_it)?;
        let (_, message) = self.messages.get_mut(place(first, number))?;
        Some(message)
    }

    /// Evicts a message that exceeds its lifetime. Call it until it returns `None`.
    pub fn expired(&mut self, now: Time) -> Option<Waiting> {
        let (_, oldest) = self.messages.front()?;
        (now.since(oldest.came.time) > self.lifetime).then(|| self.pop())?
    }

    /// Evicts the oldest message if there are too many. Call it until it returns `None`.
    pub fn surplus(&mut self) -> Option<Waiting> {
        (self.messages.len() > self.most).then(|| self.pop())?
    }

    /// All messages.
    pub fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.messages.iter().map(|(_, message)| message)
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    fn pop(&mut self) -> Option<Waiting> {
        let (key, message) = self.messages.pop_front()?;
        let first = self.first;
        if let Ok(found) = self.numbers.find_entry(key, |&number| number == first) {
            found.remove();
        }
        self.first = first.wrapping_add(1);
        Some(message)
    }
}

/// Index of the message with this number, if the first one has the number `first`.
const fn place(first: u32, number: u32) -> usize {
    number.wrapping_sub(first) as usize
}

fn key_at(messages: &VecDeque<(u64, Waiting)>, first: u32, number: u32) -> Option<u64> {
    messages.get(place(first, number)).map(|(key, _)| *key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn came_at(time: i64) -> Waiting {
        Waiting {
            came: Moment {
                frame: 0,
                time: Time(time),
            },
            is_request: true,
            is_authenticated: false,
            tried: false,
            forwarded: false,
            answered: false,
        }
    }

    proptest! {
        /// Repeated keys, passing time, and numbers that wrap around.
        #[test]
        fn those_that_came_lately_are_found(
            keys in prop::collection::vec(0_u64..40, 1..300),
            most in 1_u32..30,
            lifetime in 1_i64..40,
            first in prop::sample::select(vec![0, u32::MAX - 20]),
        ) {
            let mut table = Table { first, ..Table::new(most, lifetime) };
            let mut expected = BTreeMap::new();
            for (now, key) in (0_i64..).zip(keys) {
                while let Some(expired) = table.expired(Time(now)) {
                    prop_assert!(now - expired.came.time.0 > lifetime);
                }
                expected.retain(|_, came| now - *came <= lifetime);
                prop_assert_eq!(table.insert(key, came_at(now)), !expected.contains_key(&key));
                expected.entry(key).or_insert(now);
                while table.surplus().is_some() {}
                while expected.len() > most as usize {
                    let oldest = *expected.values().min().unwrap();
                    expected.retain(|_, came| *came != oldest);
                }
                prop_assert_eq!(table.len(), expected.len());
                for key in 0..40 {
                    let found = table.get_mut(key).map(|message| message.came.time.0);
                    prop_assert_eq!(found, expected.get(&key).copied());
                }
            }
        }
    }
}
