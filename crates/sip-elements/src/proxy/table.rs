//! Table of a worker's response contexts.

use super::context::Context;
use crate::owner::ContextId;
use sip_transport::{Slab, Tenant};
use std::ops::Range;

/// A context is taken out while it handles an event, and put back unless it has ended. No other code sees it half
/// changed.
#[derive(Debug)]
pub(super) struct Contexts(Slab<Slot>);

#[derive(Debug)]
struct Slot {
    generation: u32,
    context: Option<Box<Context>>,
}

impl Tenant for Slot {
    fn generation(&self) -> u32 {
        self.generation
    }
}

impl Contexts {
    /// Creates an empty table.
    pub(super) const fn new() -> Self {
        Self(Slab::new(0))
    }

    /// Number of occupied slots.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// All contexts that are in their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Context> {
        self.0.iter().filter_map(|slot| slot.context.as_deref())
    }

    /// Number of slots, occupied or not.
    pub(super) const fn slots(&self) -> u32 {
        self.0.slots()
    }

    /// The first context in these slots with this property.
    pub(super) fn find(
        &self,
        slots: Range<u32>,
        is_wanted: impl Fn(&Context) -> bool,
    ) -> Option<ContextId> {
        let is_wanted = |slot: &Slot| slot.context.as_deref().is_some_and(&is_wanted);
        let mut slots = self.0.range(slots);
        let found = slots.find(|(_, slot)| is_wanted(slot));
        found.map(|(id, _)| ContextId(id))
    }

    /// The context in a slot.
    pub(super) fn at_mut(&mut self, slot: u32) -> Option<&mut Context> {
        self.0.at_mut(slot)?.context.as_deref_mut()
    }

    /// Occupies a slot. Follow with [`Contexts::put`] or [`Contexts::release`].
    pub(super) fn reserve(&mut self) -> ContextId {
        ContextId(self.0.insert(|id| Slot {
            generation: id.generation,
            context: None,
        }))
    }

    /// Takes a context out of its slot, which stays occupied.
    pub(super) fn take(&mut self, id: ContextId) -> Option<Box<Context>> {
        self.0.get_mut(id.0)?.context.take()
    }

    /// Puts a context back into its slot.
    pub(super) fn put(&mut self, id: ContextId, context: Box<Context>) {
        if let Some(slot) = self.0.get_mut(id.0) {
            slot.context = Some(context);
        }
    }

    /// Frees the slot of a context that was taken out.
    pub(super) fn release(&mut self, id: ContextId) {
        self.0.remove(id.0);
    }
}
