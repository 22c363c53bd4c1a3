//! Merges a change that another node made to one binding, unless this node has changed the binding meanwhile.
//!
//! The caller knows the state of the binding that the change supersedes. Workers may have changed it since. The comparison and the change
//! are one step, so a REGISTER that arrives at the same time is never overwritten: the caller learns of it and decides again.

use super::contacts::{Change, Contacts};
use super::{Binding, Locations, NotChanged, make_room};
use sip_transport::Time;

/// A change of one binding.
#[derive(Debug)]
pub struct Merge<'b, S, E> {
    /// The binding after the change; `None`: it is removed.
    pub binding: Option<Binding<'b>>,
    /// Selects the binding that the change is about.
    pub selects: S,
    /// Whether the present binding (`None`: there is none) is the one that the change supersedes.
    pub expects: E,
}

/// The result of a [`Merge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged<R> {
    /// The change was made. The result of `read` for the binding as it is stored.
    Done(R),
    /// The present binding is another one than expected. Nothing has changed.
    Unexpected,
    /// The table is full, or the binding is too long. Nothing has changed.
    NoRoom,
}

/// The present binding is another one than expected.
#[derive(Debug)]
pub struct Unexpected;

impl<S, E> Change for Merge<'_, S, E>
where
    S: Fn(&Binding<'_>) -> bool,
    E: Fn(Option<&Binding<'_>>) -> bool,
{
    type Error = Unexpected;

    fn apply<'s>(&'s self, contacts: &mut Contacts<'s>) -> Result<(), Unexpected> {
        let position = contacts.position(|known| (self.selects)(known));
        let known = position.and_then(|position| contacts.at(position));
        if !(self.expects)(known.map(|(binding, _)| binding)) {
            return Err(Unexpected);
        }
        match (position, self.binding) {
            (Some(position), Some(binding)) => contacts.replace(position, binding),
            (Some(position), None) => contacts.remove(position),
            (None, Some(binding)) => contacts.add(binding),
            (None, None) => {}
        }
        Ok(())
    }
}

impl Locations {
    /// Makes a change of another node. It is not announced, because the store already has it. `read` gets the binding after the change, as
    /// it is stored.
    pub fn merge<S, E, R>(
        &self,
        address: &[u8],
        now: Time,
        change: &Merge<'_, S, E>,
        mut read: impl FnMut(Option<&Binding<'_>>) -> R,
    ) -> Merged<R>
    where
        S: Fn(&Binding<'_>) -> bool,
        E: Fn(Option<&Binding<'_>>) -> bool,
    {
        let merged = self.apply(address, now, change, false, |mut live| {
            read(live.find(|binding| (change.selects)(binding)).as_ref())
        });
        match merged {
            Ok((result, _)) => Merged::Done(result),
            Err(NotChanged::Refused(Unexpected)) => Merged::Unexpected,
            Err(NotChanged::Full | NotChanged::TooLong) => Merged::NoRoom,
        }
    }

    /// Reserves room for more bindings, so that workers need not wait while a map grows. Call it after each batch of merges.
    pub fn make_room(&self) {
        make_room(&self.records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::LocationLimits;
    use sip_transport::{ConnectionId, ListenerId};

    const ALICE: &[u8] = b"alice@example.org";
    const NOW: Time = Time::from_unix_seconds(1_000);

    fn locations(max_bindings: usize) -> Locations {
        Locations::new(LocationLimits {
            max_bindings,
            max_pending_changes: 10,
        })
    }

    fn binding(contact: &'static [u8], cseq: u32) -> Binding<'static> {
        Binding {
            contact,
            q: 1000,
            expires_at: 2_000,
            call_id: b"1",
            cseq,
            path: b"",
            instance: b"",
            user_agent: b"",
            source: "192.0.2.1:5060".parse().unwrap(),
            listener: ListenerId(0),
            connection: ConnectionId::NONE,
        }
    }

    fn merge(locations: &Locations, to: Option<u32>, expected: Option<u32>) -> Merged<Option<u32>> {
        let change = Merge {
            binding: to.map(|cseq| binding(b"sip:a@192.0.2.1", cseq)),
            selects: |known: &Binding<'_>| known.contact == b"sip:a@192.0.2.1",
            expects: |known: Option<&Binding<'_>>| known.map(|known| known.cseq) == expected,
        };
        locations.merge(ALICE, NOW, &change, |after| after.map(|after| after.cseq))
    }

    #[test]
    fn a_change_is_made_only_to_the_binding_that_it_supersedes() {
        let locations = locations(10);
        locations.restore(ALICE, &binding(b"sip:b@192.0.2.1", 7));
        assert_eq!(merge(&locations, Some(1), Some(3)), Merged::Unexpected);
        assert_eq!(merge(&locations, Some(1), None), Merged::Done(Some(1)));
        assert_eq!(merge(&locations, Some(2), None), Merged::Unexpected);
        assert_eq!(merge(&locations, Some(2), Some(1)), Merged::Done(Some(2)));
        assert_eq!(merge(&locations, None, Some(1)), Merged::Unexpected);
        assert_eq!(merge(&locations, None, Some(2)), Merged::Done(None));
        assert_eq!(merge(&locations, None, None), Merged::Done(None));
        assert_eq!(
            locations.visit(ALICE, NOW, |known| assert_eq!(known.cseq, 7)),
            1
        );
        assert_eq!(locations.pending_changes(), 0, "nothing is announced");
    }

    #[test]
    fn a_change_without_room_leaves_the_rest() {
        let locations = locations(1);
        locations.restore(ALICE, &binding(b"sip:b@192.0.2.1", 7));
        assert_eq!(merge(&locations, Some(1), None), Merged::NoRoom);
        assert_eq!(locations.stats().live, 1);
    }
}
