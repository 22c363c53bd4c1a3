//! Which subscribers of a batch to write, given those that exist.

use crate::subscriber::{Existing, Imported, Subscriber};
use std::collections::{HashMap, HashSet};

/// A subscriber's (username, domain).
pub(crate) type Name<'a> = (&'a str, &'a str);

/// The (username, domain) of a subscriber.
pub(crate) fn name(subscriber: &Subscriber) -> Name<'_> {
    (&subscriber.username, &subscriber.domain)
}

/// The entries of a chunk of a batch to write: each name once.
pub(crate) struct ImportPlan<'b> {
    pub write: Vec<&'b Subscriber>,
}

impl<'b> ImportPlan<'b> {
    /// Plans a chunk that begins at position `start` of its batch. `known` are the names of the chunk that exist. Adds to `imported` what
    /// the plan does.
    pub(crate) fn new(
        chunk: &'b [Subscriber],
        start: usize,
        known: &HashSet<(String, String)>,
        existing: Existing,
        imported: &mut Imported,
    ) -> Self {
        let known: HashSet<Name<'_>> = known
            .iter()
            .map(|(username, domain)| (&**username, &**domain))
            .collect();
        let mut slots: HashMap<Name<'b>, usize> = HashMap::with_capacity(chunk.len());
        let mut write: Vec<&'b Subscriber> = Vec::with_capacity(chunk.len());
        for (entry, position) in chunk.iter().zip(start..) {
            let earlier = slots.get(&name(entry)).copied();
            let exists = earlier.is_some() || known.contains(&name(entry));
            match (exists, existing) {
                (false, _) => imported.added += 1,
                (true, Existing::Keep) => {
                    imported.kept.push(position);
                    continue;
                }
                (true, Existing::Replace) => imported.replaced += 1,
            }
            if let Some(slot) = earlier.and_then(|slot| write.get_mut(slot)) {
                *slot = entry;
            } else {
                slots.insert(name(entry), write.len());
                write.push(entry);
            }
        }
        Self { write }
    }
}
