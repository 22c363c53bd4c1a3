//! Tracks which addresses of record registered over which connection of this worker, so that their bindings end with the
//! connection.
//!
//! REGISTER is served where it arrives, and a connection belongs to one worker. So that worker knows all of its registrations.

use crate::location::{AddressKey, Binding};
use crate::phase::destination;
use crate::{Shared, WorkerParts};
use sip_transport::{ConnectionId, Flow};
use std::collections::BTreeSet;

/// Pairs of a connection of this worker and an address of record. A pair takes 24 bytes, or about 35 including its share
/// of the tree.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    pairs: BTreeSet<(u32, AddressKey)>,
}

impl Registered {
    /// Notes that a binding was made over a flow of this worker. The binding ends with the connection unless the phone is
    /// reachable in another way.
    pub(crate) fn note_binding(&mut self, shared: &Shared, flow: Flow, address: &[u8]) {
        if flow.connection.is_some() {
            let locations = &shared.locations;
            self.note(flow.connection, locations.key(address), locations.most());
        }
    }

    /// Ends the bindings that depended on a connection, after the connection has ended.
    pub(crate) fn end_bindings(&mut self, parts: &WorkerParts<'_>, flow: Flow) {
        for key in self.take(flow.connection) {
            let settings = parts.settings;
            let outlives =
                |binding: &Binding<'_>| destination::outlives_connection(settings, binding);
            let locations = &parts.shared.locations;
            let ended = locations.end_connection(key, flow, parts.now, outlives);
            parts.metrics.bindings_disconnected.add(ended as u64);
        }
    }

    /// Notes that an address of record has registered over a connection. Beyond `most` pairs nothing is noted, and the
    /// binding stays until it expires.
    fn note(&mut self, connection: ConnectionId, key: AddressKey, most: usize) {
        if self.pairs.len() < most {
            self.pairs.insert((connection.slot(), key));
        }
    }

    /// Takes out the addresses of record of a connection.
    fn take(&mut self, connection: ConnectionId) -> Vec<AddressKey> {
        let slot = connection.slot();
        let range = (slot, AddressKey::LEAST)..=(slot, AddressKey::GREATEST);
        let keys: Vec<AddressKey> = self.pairs.range(range).map(|(_, key)| *key).collect();
        for key in &keys {
            self.pairs.remove(&(slot, *key));
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::AddressHasher;

    #[test]
    fn a_connection_takes_its_addresses_and_no_others() {
        let mut registered = Registered::default();
        let hasher = AddressHasher::new((1, 2));
        let keys = [b"alice@a.example", b"bobby@a.example"].map(|address| hasher.key(address));
        let connections = [1, 2, 3].map(|slot| ConnectionId::new(0, slot));
        for connection in connections {
            for key in keys.iter().chain(&keys) {
                registered.note(connection, *key, 5);
            }
        }
        let mut both = keys.to_vec();
        both.sort();
        assert_eq!(registered.take(connections[1]), both);
        assert_eq!(registered.take(connections[1]), []);
        assert_eq!(registered.take(connections[0]), both);
        assert_eq!(
            registered.take(connections[2]).len(),
            1,
            "there was no more room"
        );
        assert!(registered.pairs.is_empty());
    }
}
