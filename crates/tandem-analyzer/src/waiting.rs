//! Messages that came to the server and wait for what it makes of them: a table with a bound, which forgets what is old.

use crate::capture::{Moment, Time};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::collections::VecDeque;

/// A message that came in.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says something of its own"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// When it came first.
    pub came: Moment,
    /// Whether it is a request.
    pub is_request: bool,
    /// Whether it had credentials.
    pub is_authenticated: bool,
    /// 100 was sent for it.
    pub tried: bool,
    /// It was forwarded.
    pub forwarded: bool,
    /// The server answered it itself; or, of a response, passed it on.
    pub answered: bool,
}

impl Waiting {
    /// Whether what the server makes of it has not been seen.
    pub const fn is_open(&self) -> bool {
        !self.forwarded && !self.answered
    }
}

/// Messages for which the table of numbers has room from the beginning, in 2.5 MiB: beyond, it is made anew as it grows.
const AT_FIRST: u32 = 7 << 16;

/// The table. One in it is forgotten `lifetime` after it came, or when there is no room: the oldest first.
///
/// Messages lie in the order in which they came, as most that are asked for came just before and are in the processor's cache; what finds
/// them by key is a table of their numbers, which is small.
#[derive(Debug)]
pub struct Table {
    /// Numbers of messages, by key.
    numbers: HashTable<u32>,
    /// In the order in which they came.
    messages: VecDeque<(u64, Waiting)>,
    /// The number of the oldest; behind the last number comes 0.
    first: u32,
    most: usize,
    /// In nanoseconds.
    lifetime: i64,
}

impl Table {
    /// For so many messages, each for so many nanoseconds.
    pub fn new(most: u32, lifetime: i64) -> Self {
        Self {
            numbers: HashTable::with_capacity(most.min(AT_FIRST) as usize),
            messages: VecDeque::new(),
            first: 0,
            most: most.max(1) as usize,
            lifetime,
        }
    }

    /// Adds a message unless it is there; whether it was added. Its key is a keyed hash already.
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

    /// One that is there.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut Waiting> {
        let (messages, first) = (&self.messages, self.first);
        let is_it = |&number: &u32| key_at(messages, first, number) == Some(key);
        let number = *self.numbers.find(key, is_it)?;
        let (_, message) = self.messages.get_mut(place(first, number))?;
        Some(message)
    }

    /// Takes out one that is older than its lifetime allows; call until there is none.
    pub fn expired(&mut self, now: Time) -> Option<Waiting> {
        let (_, oldest) = self.messages.front()?;
        (now.since(oldest.came.time) > self.lifetime).then(|| self.pop())?
    }

    /// Takes out the oldest one where there are too many; call until there is none.
    pub fn surplus(&mut self) -> Option<Waiting> {
        (self.messages.len() > self.most).then(|| self.pop())?
    }

    /// Those that are there.
    pub fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.messages.iter().map(|(_, message)| message)
    }

    /// How many are there.
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

/// Where the message of a number lies, of which the first has that number.
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
        /// Keys that come again, time that passes, numbers that begin anew.
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
