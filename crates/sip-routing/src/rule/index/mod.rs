//! Which rules a request may match, found by a few lookups for all rules together.
//!
//! For each condition, a lookup of the request's value yields a set of rules, one bit each: those whose condition may hold. A rule that
//! is in all sets is a candidate. Ranges and lists are exact: of a candidate, only patterns with wildcards inside, unusual methods and
//! header fields are tested. Conditions that no rule has are not looked up.

mod build;

use super::condition::Part;
use super::facts::Values;
use super::field_name::FieldName;
use super::text::Text;
use std::cmp::Ordering;
use std::net::IpAddr;

/// How many names of header fields are looked up. Conditions on others are tested rule by rule.
const MAX_HEADERS: usize = 4;
/// The maximum number of lookups: method, source, listener, protocol, texts, header fields.
const MAX_LOOKUPS: usize = 4 + Part::COUNT + MAX_HEADERS;

/// The lookups.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pool: Pool,
    methods: Option<Box<[SetId]>>,
    /// By protocol; the last one is for requests that did not arrive.
    protocols: Option<Box<[SetId]>>,
    /// By listener; the last one is for listeners that no rule names, and for requests that did not arrive.
    listeners: Option<Box<[SetId]>>,
    sources: Option<(RangeIndex<u32>, RangeIndex<u128>)>,
    texts: [Option<TextIndex>; Part::COUNT],
    headers: Box<[HeaderIndex]>,
}

/// Identifies a set of rules in the pool.
#[derive(Clone, Copy, Debug)]
struct SetId(u32);

/// Sets of rules. Equal sets are stored once.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// Words of a set.
    words: usize,
    sets: Vec<u64>,
}

/// The rules for each value of a condition.
#[derive(Clone, Debug)]
struct RangeIndex<K> {
    bounds: Box<[K]>,
    /// One more than bounds: the set with index `i` is for values below bound `i`.
    sets: Box<[SetId]>,
    /// For requests without a value.
    absent: SetId,
}

/// The rules for each text.
type TextIndex = RangeIndex<Box<[u8]>>;

/// The rules for each value of a header field.
#[derive(Clone, Debug)]
struct HeaderIndex {
    name: FieldName,
    values: TextIndex,
}

/// The sets that a request leads to.
struct Found<'i> {
    sets: [&'i [u64]; MAX_LOOKUPS],
    count: usize,
}

impl Index {
    /// The rules that the request may match, in order.
    #[inline]
    pub(super) fn candidates(&self, values: &Values<'_, '_>) -> impl Iterator<Item = usize> {
        let found = self.look_up(values);
        (0..self.pool.words).flat_map(move |word| {
            let mut bits = found.word(word);
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits.wrapping_sub(1);
                (bit < 64).then_some(word * 64 + bit)
            })
        })
    }

    fn look_up(&self, values: &Values<'_, '_>) -> Found<'_> {
        let facts = &values.facts;
        let mut found = Found {
            sets: [&[]; MAX_LOOKUPS],
            count: 0,
        };
        let mut add = |set: Option<SetId>| {
            if let Some(set) = set {
                found.add(self.pool.get(set));
            }
        };
        if let Some(sets) = &self.methods {
            add(sets.get(facts.method().label_index()).copied());
        }
        if let Some(sets) = &self.protocols {
            let protocol = facts.arrival.map(|it| it.protocol as usize);
            add(protocol.map_or(sets.last(), |it| sets.get(it)).copied());
        }
        if let Some(sets) = &self.listeners {
            let listener = facts.arrival.map(|it| usize::from(it.listener.0));
            let named = listener.and_then(|it| sets.get(it));
            add(named.or(sets.last()).copied());
        }
        if let Some((v4, v6)) = &self.sources {
            add(match values.source {
                Some(IpAddr::V4(address)) => v4.find(|bound| bound.cmp(&address.to_bits())),
                Some(IpAddr::V6(address)) => v6.find(|bound| bound.cmp(&address.to_bits())),
                None => Some(v4.absent),
            });
        }
        for (part, index) in Part::ALL.into_iter().zip(&self.texts) {
            if let Some(index) = index {
                add(index.find_text(values.text(part)));
            }
        }
        for HeaderIndex {
            name,
            values: index,
        } in &self.headers
        {
            let mut values = name.values(facts.request);
            match (values.next(), values.next()) {
                (Some(value), None) => add(index.find_text(Some(&Text::plain(value)))),
                (None, _) if !name.is_in(facts.request) => add(index.find_text(None)),
                // The union of several sets would need memory. The rules are tested instead.
                _ => {}
            }
        }
        found
    }
}

impl<'i> Found<'i> {
    fn add(&mut self, set: &'i [u64]) {
        if let Some(free) = self.sets.get_mut(self.count) {
            *free = set;
            self.count += 1;
        }
    }

    /// The rules that are in all sets: 64 of them.
    #[inline]
    fn word(&self, word: usize) -> u64 {
        let sets = self.sets.get(..self.count).unwrap_or_default();
        let all = |found: u64, set: &&[u64]| found & set.get(word).copied().unwrap_or(0);
        sets.iter().fold(u64::MAX, all)
    }
}

impl Pool {
    fn get(&self, set: SetId) -> &[u64] {
        let start = set.0 as usize * self.words;
        self.sets.get(start..start + self.words).unwrap_or_default()
    }
}

impl<K> RangeIndex<K> {
    fn find(&self, compare: impl Fn(&K) -> Ordering) -> Option<SetId> {
        let place = self.bounds.partition_point(|bound| compare(bound).is_le());
        self.sets.get(place).copied()
    }
}

impl TextIndex {
    fn find_text(&self, text: Option<&Text<'_>>) -> Option<SetId> {
        match text {
            Some(text) => self.find(|bound| text.compare(bound)),
            None => Some(self.absent),
        }
    }
}
