//! The prefix table: from dialled digits to the gateway groups that may take the call, by the longest matching prefix.
//!
//! ```text
//! table, prefix, groups ─▶ Builder ─▶ PrefixTable ─▶ lookup("retail", "+4930123") ─▶ 4930: berlin-a, berlin-b
//!      a million rows                  immutable
//! ```
//!
//! **Prefixes.** A prefix has 1 to 32 digits: `0` to `9`, `*`, `#`, and `A` to `D`, as telephones send them and as routing numbers of ported
//! subscribers contain them. A leading `+` is ignored, in prefixes and in numbers: `+49` and `49` are the same prefix, as in the rate sheets
//! of carriers. `0049` is another one. The table compares what is dialled; to rewrite numbers is the work of rules. If the callers of one
//! group dial national numbers without a prefix, and those of another one international numbers, give each group a table of its own.
//! The word `default` is the prefix without digits: it matches each number that no other prefix matches.
//!
//! **Tables.** Each group of callers can have a table of its own. A group without one uses the table `default`. If a group has a table and
//! no prefix of it matches, there is no match: the table `default` is not asked, because what a customer may not dial must not be reached over
//! the routes of other customers.
//!
//! **Lookups** take no lock and allocate nothing. A number is hashed once for each length that prefixes in its neighbourhood have, from the
//! longest one down. Time and memory hardly depend on how the prefixes are distributed. A trie with bitmaps needs a third of the memory for
//! clustered prefixes, but four times as much for ported numbers, where its lookups take ten times as long. A sorted array takes twice as long.

mod bad_rows;
mod builder;
mod csv;
mod digits;
mod lengths;
mod lists;
mod long;
mod short;

pub use bad_rows::{BadRow, BadRows, Problem};
pub use builder::Builder;
pub use csv::CsvReader;
pub use digits::MAX_DIGITS;
pub use lists::{MAX_GROUPS, RouteList};

use digits::Digits;
use lists::ListId;
use long::Long;
use short::Short;
use std::mem::size_of_val;

/// The name of the table of all groups of callers that have no table of their own; and the prefix that matches each number.
pub const DEFAULT: &str = "default";

/// Gateway groups by prefix, for each group of callers. Immutable; a new table replaces it as a whole.
#[derive(Debug)]
pub struct PrefixTable {
    /// In the order of their names.
    tables: Box<[Table]>,
    lists: Box<[RouteList]>,
    bytes: usize,
    prefixes: usize,
}

/// The prefixes of one group of callers.
#[derive(Debug)]
struct Table {
    name: Box<str>,
    default: Option<ListId>,
    short: Short,
    long: Long,
}

/// The longest prefix of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match<'t> {
    /// The digits of the prefix, without a leading `+`; 0 for the prefix `default`.
    pub length: usize,
    /// The groups that may take the call.
    pub routes: &'t RouteList,
}

/// Why a number goes where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation<'t> {
    /// The table that decides: that of the group of callers, or `default`. `None` if neither exists.
    pub table: Option<&'t str>,
    /// The digits that are compared: the first 32 of the number. Empty if it is not a dialled number.
    pub digits: String,
    /// All prefixes that match, the longest first, which wins.
    pub candidates: Vec<Candidate<'t>>,
}

/// A prefix of the number that is explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<'t> {
    /// Its digits, or `default`.
    pub prefix: String,
    /// Its groups.
    pub routes: &'t RouteList,
}

impl Default for PrefixTable {
    /// The table without prefixes.
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new())
    }
}

impl PrefixTable {
    /// The longest prefix of a number in the table of a group of callers.
    ///
    /// `number` is the user part of a URI. The separators of RFC 3966 (`-`, `.`, `(`, `)`) are ignored, `%23` is `#`, and the number ends at
    /// its parameters (`;`). A user part with any other byte is no number, which has no match.
    pub fn lookup(&self, table: &str, number: &[u8]) -> Option<Match<'_>> {
        let digits = Digits::of_number(number)?;
        let (length, list) = self.table(table)?.matches(digits).next()?;
        self.matched(length, list)
    }

    /// All prefixes of a number, for operators.
    pub fn explain(&self, table: &str, number: &[u8]) -> Explanation<'_> {
        let table = self.table(table);
        let digits = Digits::of_number(number);
        let matches = table.zip(digits).into_iter().flat_map(|(table, digits)| {
            let matches = table.matches(digits);
            matches.map(move |(length, list)| (digits.first(length), length, list))
        });
        let candidates = matches.filter_map(|(prefix, length, list)| {
            let routes = self.matched(length, list)?.routes;
            let prefix = if length == 0 {
                DEFAULT.to_owned()
            } else {
                prefix.to_string()
            };
            Some(Candidate { prefix, routes })
        });
        Explanation {
            table: table.map(|table| &*table.name),
            digits: digits.map(|digits| digits.to_string()).unwrap_or_default(),
            candidates: candidates.collect(),
        }
    }

    /// The number of prefixes in all tables.
    pub const fn len(&self) -> usize {
        self.prefixes
    }

    /// Whether there is no prefix.
    pub const fn is_empty(&self) -> bool {
        self.prefixes == 0
    }

    /// The bytes of memory that this value takes: all that it allocated, and itself.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The names of the tables and the number of their prefixes, in the order of the names.
    pub fn tables(&self) -> impl Iterator<Item = (&str, usize)> {
        self.tables.iter().map(|table| (&*table.name, table.len()))
    }

    /// The distinct lists of groups.
    pub fn lists(&self) -> &[RouteList] {
        &self.lists
    }

    fn new(mut tables: Vec<Table>, lists: Vec<RouteList>) -> Self {
        tables.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let mut table = Self {
            prefixes: tables.iter().map(Table::len).sum(),
            tables: tables.into(),
            lists: lists.into(),
            bytes: 0,
        };
        table.bytes = size_of::<Self>()
            + size_of_val(&*table.tables)
            + table.tables.iter().map(Table::bytes).sum::<usize>()
            + size_of_val(&*table.lists)
            + lists::bytes(&table.lists);
        table
    }

    /// The table of a group of callers.
    fn table(&self, name: &str) -> Option<&Table> {
        self.own_table(name).or_else(|| self.own_table(DEFAULT))
    }

    fn own_table(&self, name: &str) -> Option<&Table> {
        let found = self
            .tables
            .binary_search_by(|table| (*table.name).cmp(name));
        found.ok().and_then(|index| self.tables.get(index))
    }

    fn matched(&self, length: u32, list: ListId) -> Option<Match<'_>> {
        Some(Match {
            length: length as usize,
            routes: self.lists.get(list.index())?,
        })
    }
}

impl Table {
    /// All matching prefixes with their length, the longest first.
    #[inline]
    fn matches(&self, digits: Digits) -> impl Iterator<Item = (u32, ListId)> {
        self.long
            .matches(digits)
            .chain(self.short.matches(digits))
            .chain(self.default.map(|list| (0, list)))
    }

    fn len(&self) -> usize {
        self.short.len() + self.long.len() + usize::from(self.default.is_some())
    }

    /// The bytes on the heap.
    fn bytes(&self) -> usize {
        self.name.len() + self.short.bytes() + self.long.bytes()
    }
}
