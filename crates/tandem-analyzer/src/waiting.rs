//! Messages that came to the server and wait for what it makes of them: a table with a bound, which forgets what is old.

use crate::capture::{Moment, Time};
use std::collections::VecDeque;
use std::collections::{HashMap, hash_map::Entry};
use std::hash::{BuildHasherDefault, Hasher};

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

/// Keys are keyed hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// The table. One in it is forgotten `lifetime` after it came, or when there is no room: the oldest first.
#[derive(Debug)]
pub struct Table {
    messages: HashMap<u64, Waiting, BuildHasherDefault<AsItIs>>,
    /// In the order in which they came.
    order: VecDeque<(Time, u64)>,
    most: usize,
    /// In nanoseconds.
    lifetime: i64,
}

impl Table {
    /// For so many messages, each for so many nanoseconds.
    pub fn new(most: usize, lifetime: i64) -> Self {
        Self {
            messages: HashMap::default(),
            order: VecDeque::new(),
            most: most.max(1),
            lifetime,
        }
    }

    /// Adds a message unless it is there; whether it was added.
    pub fn insert(&mut self, key: u64, message: Waiting) -> bool {
        match self.messages.entry(key) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(message);
                self.order.push_back((message.came.time, key));
                true
            }
        }
    }

    /// One that is there.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut Waiting> {
        self.messages.get_mut(&key)
    }

    /// Takes out one that is older than its lifetime allows; call until there is none.
    pub fn expired(&mut self, now: Time) -> Option<Waiting> {
        let (came, _) = self.order.front()?;
        (now.since(*came) > self.lifetime).then(|| self.pop())?
    }

    /// Takes out the oldest one where there are too many; call until there is none.
    pub fn surplus(&mut self) -> Option<Waiting> {
        (self.order.len() > self.most).then(|| self.pop())?
    }

    /// Those that are there.
    pub fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.messages.values()
    }

    /// How many are there.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    fn pop(&mut self) -> Option<Waiting> {
        let (_, key) = self.order.pop_front()?;
        self.messages.remove(&key)
    }
}
