//! Takes over records of other nodes. A record is judged like a message of an unknown peer: one that is not ours is counted and skipped.

use super::counters::Ignored;
use super::layout::{bucket_of, shard};
use super::ledger::{Entry, Key, Ledger, Place};
use super::locations::{FleetLocations, id_of, millis, seconds};
use sip_elements::location::{Binding, Merge, Merged};
use sip_transport::{ConnectionId, Time};
use std::time::Duration;
use tandem_store::BindingRow;
use tandem_store::fleet::{BindingId, SharedBinding, Version};

/// The longest name of a user agent in memory, in bytes.
const USER_AGENT: usize = 64;

/// A record as it came from the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) place: Place,
    pub(super) version: Version,
    /// When the record may be deleted, in seconds since the Unix epoch.
    pub(super) forget_at: u32,
}

impl FleetLocations {
    /// Takes over a record if it is newer than what this node knows. Counts it. `at_home` tells whether a bucket is where such a record
    /// belongs. `None`: it is not a readable record.
    pub(super) fn receive(
        &self,
        field: &[u8],
        value: &[u8],
        now: Time,
        at_home: impl Fn(u16) -> bool,
    ) -> Option<Received> {
        let parts = BindingId::of_field(field).zip(SharedBinding::decode(value).ok());
        let Some(((address, id), record)) =
            parts.filter(|((address, _), _)| at_home(bucket_of(address)))
        else {
            self.counters.note_ignored(Ignored::Unreadable);
            return None;
        };
        let (bucket, hash) = self.address_place(address);
        let key = Key {
            address: hash,
            binding: id,
        };
        let place = (bucket, key);
        match self.take_over(address, place, &record, now) {
            Ok(()) => {
                self.counters.received.inc();
            }
            Err(why) => self.counters.note_ignored(why),
        }
        Some(Received {
            place,
            version: record.version(),
            forget_at: record.forget_at,
        })
    }

    /// Measures how long a record of this node took to come back, if this node wrote it.
    pub(super) fn note_returned(&self, value: &[u8], now: Time) {
        let record = SharedBinding::decode(value).ok();
        if let Some(record) = record.filter(|record| *record.writer == *self.instance) {
            // The time of a version is ahead of the clock if it has to be later than that of another node.
            let took = millis(now).saturating_sub(record.time.millis());
            self.counters.round_trip.record(Duration::from_millis(took));
        }
    }

    fn take_over(
        &self,
        address: &[u8],
        place: Place,
        record: &SharedBinding<'_>,
        now: Time,
    ) -> Result<(), Ignored> {
        let mut ledger = self.ledger();
        if !ledger.observe(record.time, millis(now)) {
            return Err(Ignored::Ahead);
        }
        let known = ledger.known(place).copied();
        if known.is_some_and(|known| ledger.version(&known) >= record.version()) {
            return Err(Ignored::Older);
        }
        let writer = ledger.writer(&record.writer);
        let Some(writer) = writer.filter(|_| ledger.has_room(place)) else {
            return Err(Ignored::NoRoom);
        };
        let binding = record.binding.as_ref().map(|row| self.in_memory(row, now));
        if binding.is_some_and(|binding| id_of(&binding) != place.1.binding) {
            return Err(Ignored::Unreadable);
        }
        match self.merge(address, place, known, binding, now) {
            Merged::Done(fingerprint) => {
                let entry = Entry {
                    time: record.time,
                    fingerprint,
                    // A binding is never removed because it has expired.
                    expires_at: binding.map_or(0, |binding| binding.expires_at.max(1)),
                    writer,
                };
                ledger.insert(place, entry, address);
                Ok(())
            }
            Merged::NoRoom => Err(Ignored::NoRoom),
            Merged::Unexpected => {
                self.stamp_now(ledger, address, now);
                Err(Ignored::Overtaken)
            }
        }
    }

    /// Changes the binding in memory, if it is as the ledger says. Returns the fingerprint of the binding as stored.
    fn merge(
        &self,
        address: &[u8],
        place: Place,
        known: Option<Entry>,
        binding: Option<Binding<'_>>,
        now: Time,
    ) -> Merged<u64> {
        let at = seconds(now);
        let expected = known.filter(|known| known.expires_at > at);
        let change = Merge {
            binding: binding.filter(|binding| binding.expires_at > at),
            selects: |other: &Binding<'_>| id_of(other) == place.1.binding,
            expects: |present: Option<&Binding<'_>>| {
                let present = present.map(|present| self.fingerprint(present));
                present == expected.map(|expected| expected.fingerprint)
            },
        };
        let read = |after: Option<&Binding<'_>>| after.map_or(0, |after| self.fingerprint(after));
        self.locations().merge(address, now, &change, read)
    }

    /// Gives a version to what a worker has just changed. It is later than all that were received.
    fn stamp_now(&self, ledger: std::sync::MutexGuard<'_, Ledger>, address: &[u8], now: Time) {
        drop(ledger);
        self.outbox.add(self.stamp(&[address.into()], now), 0);
    }

    /// A binding of another node, as this node has it in memory.
    fn in_memory<'r>(&self, row: &'r BindingRow<'_>, now: Time) -> Binding<'r> {
        let user_agent = row.user_agent.get(..USER_AGENT);
        Binding {
            contact: &row.contact,
            q: row.q,
            expires_at: row.expires_at.min(self.latest_end(now)),
            call_id: &row.call_id,
            cseq: row.cseq,
            path: &row.path,
            instance: &row.instance,
            user_agent: user_agent.unwrap_or(&row.user_agent),
            source: row.source,
            listener: self.names.find(row),
            // Its connection is one of another process.
            connection: ConnectionId::NONE,
        }
    }
}

/// Whether a bucket belongs to a shard.
pub(super) fn is_in_shard(of: u16) -> impl Fn(u16) -> bool {
    move |bucket| shard(bucket) == of
}
