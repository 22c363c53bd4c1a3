//! Table of a worker's response contexts, and the number that leads back to each of them.

use super::context::Context;

/// The top bit: marks owners of transactions and tickets that belong to the proxy.
const PROXY: u64 = 1 << 63;
/// Bits of the index, which bounds the number of live contexts.
const INDEX_BITS: u32 = 24;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u32 = u32::MAX >> 1;

/// Identifies a response context. The generation exposes a stale key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// Returns the number that transactions, timers and questions carry: proxy bit, generation (31), index (24), branch
    /// (8).
    pub(super) fn owner(self, branch: u8) -> u64 {
        PROXY
            | (u64::from(self.generation) << 32)
            | (u64::from(self.index) << 8)
            | u64::from(branch)
    }

    /// Decodes the number; `None` if it does not belong to the proxy.
    pub(super) fn from_owner(owner: u64) -> Option<(Self, u8)> {
        let index = (owner >> 8) as u32 & INDEX_MASK;
        let generation = (owner >> 32) as u32 & GENERATION_MASK;
        (owner & PROXY != 0).then_some((Self { index, generation }, owner as u8))
    }
}

/// A context is taken out while it handles an event, and put back unless it has ended. No other code sees it half
/// changed.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    context: Option<Box<Context>>,
}

impl Contexts {
    /// Number of occupied slots.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All contexts that are in their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Context> {
        self.slots.iter().filter_map(|slot| slot.context.as_deref())
    }

    /// Occupies a slot, if fewer than `limit` are occupied. Follow with [`Contexts::put`] or [`Contexts::release`].
    pub(super) fn reserve(&mut self, limit: usize) -> Option<Key> {
        if self.len() >= limit.min(INDEX_MASK as usize) {
            return None;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                context: None,
            });
            self.slots.len() as u32 - 1
        });
        let slot = self.slots.get_mut(index as usize)?;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        Some(Key {
            index,
            generation: slot.generation,
        })
    }

    /// Takes a context out of its slot, which stays occupied.
    pub(super) fn take(&mut self, key: Key) -> Option<Box<Context>> {
        self.slots
            .get_mut(key.index as usize)
            .filter(|slot| slot.generation == key.generation)?
            .context
            .take()
    }

    /// Puts a context back into its slot.
    pub(super) fn put(&mut self, key: Key, context: Box<Context>) {
        if let Some(slot) = self.slots.get_mut(key.index as usize) {
            slot.context = Some(context);
        }
    }

    /// Frees the slot of a context that was taken out.
    pub(super) fn release(&mut self, key: Key) {
        self.free.push(key.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_the_way_through_an_owner() {
        let key = Key {
            index: 0x00ab_cdef,
            generation: GENERATION_MASK,
        };
        assert_eq!(Key::from_owner(key.owner(255)), Some((key, 255)));
        assert_eq!(Key::from_owner(7), None, "not of the proxy");
    }

    #[test]
    fn a_place_is_reused_under_another_generation_and_never_beyond_the_limit() {
        let mut contexts = Contexts::default();
        let first = contexts.reserve(1).expect("room");
        assert_eq!(contexts.reserve(1), None);
        contexts.release(first);
        let second = contexts.reserve(1).expect("room again");
        assert_eq!(second.index, first.index);
        assert_ne!(second.generation, first.generation);
        assert_eq!(contexts.len(), 1);
    }
}
