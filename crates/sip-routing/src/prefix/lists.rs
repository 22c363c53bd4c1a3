//! Lists of gateway groups: few distinct ones, to which many prefixes refer.

use super::bad_rows::{Problem, excerpt};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The maximum number of groups of a list.
pub const MAX_GROUPS: usize = 16;
/// The maximum number of distinct lists.
pub(super) const MAX_LISTS: usize = 65_536;
/// Names of configured groups that an error message contains.
const NAMES_IN_ERRORS: usize = 10;

/// Names of gateway groups, in the order in which they are tried. A clone shares the names, and keeps them when the table is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteList(Arc<[Arc<str>]>);

/// The index of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListId(pub(super) u32);

impl RouteList {
    /// The names of the groups.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }
}

impl ListId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The bytes on the heap of lists, with the names that they share.
pub(super) fn bytes(lists: &[RouteList]) -> usize {
    /// The two counts of an `Arc`.
    const COUNTS: usize = 2 * size_of::<usize>();
    let names: BTreeSet<&str> = lists.iter().flat_map(RouteList::groups).collect();
    let of_names = |name: &&str| COUNTS + name.len().next_multiple_of(align_of::<usize>());
    let of_list = |list: &RouteList| COUNTS + size_of_val(&*list.0);
    names.iter().map(of_names).sum::<usize>() + lists.iter().map(of_list).sum::<usize>()
}

/// Makes lists of texts.
#[derive(Debug)]
pub(super) struct Interner {
    known: BTreeSet<Arc<str>>,
    lists: Vec<RouteList>,
    by_list: HashMap<RouteList, ListId>,
    /// Texts as they were written; not more than lists.
    by_text: HashMap<Box<str>, ListId>,
}

impl Interner {
    pub(super) fn new<'g>(groups: impl IntoIterator<Item = &'g str>) -> Self {
        Self {
            known: groups.into_iter().map(Arc::from).collect(),
            lists: Vec::new(),
            by_list: HashMap::new(),
            by_text: HashMap::new(),
        }
    }

    /// The list of a text such as `berlin-a;berlin-b`.
    pub(super) fn intern(&mut self, text: &str) -> Result<ListId, Problem> {
        if let Some(list) = self.by_text.get(text) {
            return Ok(*list);
        }
        let list = self.parse(text)?;
        let id = match self.by_list.get(&list) {
            Some(id) => *id,
            None => self.insert(list)?,
        };
        if self.by_text.len() < MAX_LISTS {
            self.by_text.insert(text.into(), id);
        }
        Ok(id)
    }

    pub(super) fn into_lists(self) -> Vec<RouteList> {
        self.lists
    }

    fn insert(&mut self, list: RouteList) -> Result<ListId, Problem> {
        if self.lists.len() == MAX_LISTS {
            return Err(Problem::TooManyLists);
        }
        let id = ListId(self.lists.len() as u32);
        self.lists.push(list.clone());
        self.by_list.insert(list, id);
        Ok(id)
    }

    fn parse(&self, text: &str) -> Result<RouteList, Problem> {
        if text.trim().is_empty() {
            return Err(Problem::NoGroups);
        }
        let mut groups: Vec<Arc<str>> = Vec::new();
        for name in text.split(';').map(str::trim) {
            if name.is_empty() {
                let groups = excerpt(text);
                return Err(Problem::EmptyGroup { groups });
            }
            let Some(group) = self.known.get(name) else {
                return Err(self.unknown(name));
            };
            if groups.contains(group) {
                let name = excerpt(name);
                return Err(Problem::RepeatedGroup { name });
            }
            if groups.len() == MAX_GROUPS {
                return Err(Problem::TooManyGroups);
            }
            groups.push(Arc::clone(group));
        }
        Ok(RouteList(groups.into()))
    }

    #[cold]
    fn unknown(&self, name: &str) -> Problem {
        let first: Vec<&str> = self
            .known
            .iter()
            .map(|known| &**known)
            .take(NAMES_IN_ERRORS)
            .collect();
        let mut configured = first.join(", ");
        if configured.is_empty() {
            "none".clone_into(&mut configured);
        }
        let others = self.known.len() - first.len();
        if others > 0 {
            configured = format!("{configured} and {others} more");
        }
        Problem::UnknownGroup {
            name: excerpt(name),
            configured,
        }
    }
}
