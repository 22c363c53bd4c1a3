//! Builds the lookups.

use super::super::condition::Part;
use super::super::conditions::{Conditions, HeaderCondition};
use super::super::field_name::FieldName;
use super::super::methods::OTHER;
use super::super::ranges::Range;
use super::super::text_set::TextSet;
use super::{HeaderIndex, Index, MAX_HEADERS, Pool, RangeIndex, SetId};
use sip_transport::{ListenerId, Protocol};
use std::collections::HashMap;

/// The ranges of values for which the condition of a rule may hold; `None`: the rule does not have the condition.
type Bounds<K> = Option<Vec<Range<K>>>;

impl Index {
    /// Builds the lookups for rules in the order in which they are tested.
    pub(in super::super) fn new(rules: &[&Conditions]) -> Self {
        let mut builder = Builder::new(rules.len());
        let methods: Vec<_> = rules.iter().map(|rule| rule.methods.as_ref()).collect();
        let protocols: Vec<_> = rules.iter().map(|rule| rule.protocols.as_ref()).collect();
        Self {
            methods: builder.table(&methods, OTHER + 1, |methods, label| {
                methods.may_contain(label)
            }),
            protocols: builder.table(&protocols, Protocol::ALL.len() + 1, |protocols, index| {
                let protocol = Protocol::ALL.get(index);
                protocol.is_some_and(|protocol| protocols.contains(*protocol))
            }),
            listeners: builder.listeners(rules),
            sources: builder.sources(rules),
            texts: Part::ALL.map(|part| {
                let bounds = |rule: &&Conditions| rule.text_set(part).map(TextSet::bounds);
                builder.ranges(&rules.iter().map(bounds).collect::<Vec<_>>())
            }),
            headers: builder.headers(rules),
            pool: builder.pool,
        }
    }
}

struct Builder {
    pool: Pool,
    known: HashMap<Vec<u64>, SetId>,
    rules: usize,
}

impl Builder {
    fn new(rules: usize) -> Self {
        Self {
            pool: Pool {
                words: rules.div_ceil(64),
                sets: Vec::new(),
            },
            known: HashMap::new(),
            rules,
        }
    }

    /// The set of the rules that satisfy `test`.
    fn set(&mut self, test: impl Fn(usize) -> bool) -> SetId {
        let mut set = vec![0; self.pool.words];
        for rule in (0..self.rules).filter(|rule| test(*rule)) {
            if let Some(word) = set.get_mut(rule / 64) {
                *word |= 1 << (rule % 64);
            }
        }
        let next = SetId(u32::try_from(self.known.len()).unwrap_or(u32::MAX));
        let pool = &mut self.pool;
        *self.known.entry(set).or_insert_with_key(|set| {
            pool.sets.extend_from_slice(set);
            next
        })
    }

    /// One set for each of a few values; `None` if no rule has the condition.
    fn table<T>(
        &mut self,
        conditions: &[Option<&T>],
        values: usize,
        may_hold: impl Fn(&T, usize) -> bool,
    ) -> Option<Box<[SetId]>> {
        if conditions.iter().all(Option::is_none) {
            return None;
        }
        let mut set = |value| {
            self.set(|rule| {
                let condition = conditions.get(rule).copied().flatten();
                condition.is_none_or(|condition| may_hold(condition, value))
            })
        };
        Some((0..values).map(&mut set).collect())
    }

    fn listeners(&mut self, rules: &[&Conditions]) -> Option<Box<[SetId]>> {
        let listeners: Vec<_> = rules.iter().map(|rule| rule.listeners.as_ref()).collect();
        let named = listeners.iter().copied().flatten().flatten();
        let count = named.map(|listener| usize::from(listener.0) + 1).max();
        let count = count.unwrap_or(0);
        self.table(&listeners, count + 1, |listeners, index| {
            let id = u16::try_from(index).map(ListenerId);
            index < count && id.is_ok_and(|id| listeners.contains(&id))
        })
    }

    fn sources(&mut self, rules: &[&Conditions]) -> Option<(RangeIndex<u32>, RangeIndex<u128>)> {
        let sources = rules.iter().map(|rule| rule.sources.as_ref());
        let (v4, v6): (Vec<_>, Vec<_>) = sources
            .map(|sources| {
                let v4 = sources.map(|it| it.v4.iter().cloned().collect());
                let v6 = sources.map(|it| it.v6.iter().cloned().collect());
                (v4, v6)
            })
            .unzip();
        self.ranges(&v4).zip(self.ranges(&v6))
    }

    fn headers(&mut self, rules: &[&Conditions]) -> Box<[HeaderIndex]> {
        let mut names: Vec<FieldName> = Vec::new();
        for header in rules
            .iter()
            .filter_map(|rule| rule.headers.as_ref())
            .flatten()
        {
            if names.len() < MAX_HEADERS && !names.contains(&header.name) {
                names.push(header.name.clone());
            }
        }
        let index = |name: FieldName| {
            let bounds: Vec<_> = rules
                .iter()
                .map(|rule| header_bounds(rule, &name))
                .collect();
            let values = self.ranges(&bounds)?;
            Some(HeaderIndex { name, values })
        };
        names.into_iter().filter_map(index).collect()
    }

    /// The sets for all ranges between two bounds; `None` if no rule has the condition.
    fn ranges<K: Ord + Clone>(&mut self, rules: &[Bounds<K>]) -> Option<RangeIndex<K>> {
        if rules.iter().all(Option::is_none) {
            return None;
        }
        let absent = self.set(|rule| rules.get(rule).is_some_and(Option::is_none));
        let mut steps = steps(rules).peekable();
        // How many of its ranges each rule is in.
        let mut depths: Vec<i64> = vec![0; rules.len()];
        let (mut bounds, mut sets) = (Vec::new(), vec![absent]);
        while let Some((bound, rule, step)) = steps.next() {
            if let Some(depth) = depths.get_mut(rule) {
                *depth += step;
            }
            if steps.peek().is_some_and(|(next, ..)| *next == bound) {
                continue;
            }
            sets.push(self.set(|rule| {
                rules.get(rule).is_some_and(Option::is_none)
                    || depths.get(rule).is_some_and(|depth| *depth > 0)
            }));
            bounds.push(bound);
        }
        Some(RangeIndex {
            bounds: bounds.into(),
            sets: sets.into(),
            absent,
        })
    }
}

/// Where ranges begin (1) and end (-1), in order, with the rules that have them.
fn steps<K: Ord + Clone>(rules: &[Bounds<K>]) -> impl Iterator<Item = (K, usize, i64)> {
    let mut steps = Vec::new();
    for (rule, ranges) in rules.iter().enumerate() {
        for range in ranges.iter().flatten() {
            steps.push((range.start.clone(), rule, 1));
            steps.extend(range.end.clone().map(|end| (end, rule, -1)));
        }
    }
    steps.sort_unstable();
    steps.into_iter()
}

/// The ranges of the values of one header field; `None` if another one may satisfy the condition.
fn header_bounds(rule: &Conditions, name: &FieldName) -> Bounds<Box<[u8]>> {
    let headers = rule.headers.as_ref()?;
    if headers.iter().any(|header| header.name != *name) {
        return None;
    }
    let all = Range {
        start: Box::default(),
        end: None,
    };
    let bounds = |header: &HeaderCondition| match &header.value {
        Some(set) => set.bounds(),
        None => vec![all.clone()],
    };
    Some(headers.iter().flat_map(bounds).collect())
}
