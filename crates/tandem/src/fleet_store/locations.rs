//! The bindings of this node and their versions: gives versions to what workers have changed, and records to what the store lacks.

use super::counters::FleetCounters;
use super::layout::bucket_of;
use super::ledger::{Entry, Key, Ledger, Place};
use super::outbox::{Outbox, Outgoing};
use crate::serve::ListenerNames;
use sip_elements::Shared;
use sip_elements::location::{Binding, Locations};
use sip_runtime::Clock;
use sip_transport::Time;
use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tandem_store::BindingRow;
use tandem_store::fleet::{BindingId, SharedBinding};
use tracing::error;

/// Between the instance and the process in the origin of an entry.
const PROCESS: char = '#';
/// Addresses of record that get versions at once.
pub(super) const BATCH: usize = 256;

/// What [`FleetLocations::new`] needs.
pub(crate) struct FleetOptions {
    /// The name of this instance.
    pub(crate) instance: String,
    /// A text that no other process has.
    pub(crate) process: String,
    /// The tables of the workers.
    pub(crate) shared: Arc<Shared>,
    /// The listeners of this node.
    pub(crate) names: ListenerNames,
    /// The clock of the workers.
    pub(crate) clock: Clock,
    /// How far this node's clock is ahead of that one: 0 except in tests.
    pub(crate) ahead: Duration,
    /// The longest lifetime of a binding.
    pub(crate) longest: Duration,
    /// The maximum number of bindings.
    pub(crate) most_bindings: usize,
    /// Bytes of records that may wait for the store.
    pub(crate) queue_bytes: usize,
    /// Whether responses to REGISTER wait until the store has the binding, even while it is away.
    pub(crate) waits_for_store: bool,
    /// The counters.
    pub(crate) counters: Arc<FleetCounters>,
}

/// Called with the number of a save that has succeeded, and how many changes may wait from now on.
type Progress = Box<dyn Fn(u64, usize) + Send + Sync>;

/// The bindings of a node of a fleet.
pub(crate) struct FleetLocations {
    pub(super) instance: String,
    /// How this process signs its entries in the streams: the instance and the process.
    pub(super) origin: String,
    shared: Arc<Shared>,
    pub(super) names: ListenerNames,
    clock: Clock,
    ahead: Duration,
    longest: Duration,
    waits_for_store: bool,
    pub(super) hasher: RandomState,
    ledger: Mutex<Ledger>,
    pub(super) outbox: Outbox,
    progress: OnceLock<Progress>,
    pub(super) counters: Arc<FleetCounters>,
}

impl std::fmt::Debug for FleetLocations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetLocations")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

impl FleetLocations {
    /// No binding has a version yet.
    pub(crate) fn new(options: FleetOptions) -> Self {
        // Entries of bindings that were removed or have expired are kept for a while.
        let most_entries = options.most_bindings.saturating_mul(2);
        let ledger = Ledger::new(&options.instance, most_entries, options.longest);
        Self {
            origin: format!("{}{PROCESS}{}", options.instance, options.process),
            instance: options.instance,
            shared: options.shared,
            names: options.names,
            clock: options.clock,
            ahead: options.ahead,
            longest: options.longest,
            waits_for_store: options.waits_for_store,
            hasher: RandomState::new(),
            ledger: Mutex::new(ledger),
            outbox: Outbox::new(options.queue_bytes, Arc::clone(&options.counters)),
            progress: OnceLock::new(),
            counters: options.counters,
        }
    }

    /// Says what to call when changes are in the store.
    pub(crate) fn report_to(&self, progress: impl Fn(u64, usize) + Send + Sync + 'static) {
        let _ = self.progress.set(Box::new(progress));
    }

    pub(super) fn note_saved(&self, save: u64, room: usize) {
        if let Some(progress) = self.progress.get() {
            progress(save, room);
        }
    }

    pub(crate) fn locations(&self) -> &Locations {
        &self.shared.locations
    }

    /// Reports an entry of another process that has the name of this instance. What a predecessor wrote is older than the position at which this
    /// process begins to read.
    pub(super) fn check_origin(&self, origin: &str) {
        let instance = origin.rsplit_once(PROCESS).map(|(instance, _)| instance);
        if instance != Some(&*self.instance) {
            return;
        }
        if self.counters.same_instance.inc() == 0 {
            error!(
                instance = self.instance,
                "another process has the same instance, and writes bindings to the store: give each process its own `fleet.instance`"
            );
        }
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now() + self.ahead
    }

    /// The latest end of a binding that is taken over at `now`.
    pub(super) fn latest_end(&self, now: Time) -> u32 {
        seconds(now + self.longest)
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives versions to the changes that workers have announced. If the store is away, they need not wait for it.
    pub(super) async fn stamp_changes(&self) {
        let changes = self.locations().take_changes();
        let addresses = if changes.everything {
            self.all_addresses()
        } else {
            changes.addresses
        };
        let mut batches = addresses.chunks(BATCH);
        while let Some(batch) = batches.next() {
            self.outbox.add(self.stamp(batch, self.now()), 0);
            if batches.len() > 0 {
                tokio::task::yield_now().await;
            }
        }
        self.outbox.add(Vec::new(), changes.save);
        if !self.waits_for_store && !self.counters.is_connected() {
            self.note_saved(changes.save, usize::MAX);
        }
    }

    /// The addresses of record of all bindings.
    pub(super) fn all_addresses(&self) -> Vec<Box<[u8]>> {
        let mut addresses: Vec<Box<[u8]>> = Vec::new();
        self.locations().for_each(self.now(), |address, _| {
            // The bindings of an address are adjacent.
            if addresses.last().is_none_or(|last| **last != *address) {
                addresses.push(address.into());
            }
        });
        addresses
    }

    /// Gives versions to the bindings of these addresses that have changed, and to those that were removed. Returns their records.
    pub(super) fn stamp(&self, addresses: &[Box<[u8]>], now: Time) -> Vec<Outgoing> {
        let mut ledger = self.ledger();
        let mut records = Vec::with_capacity(addresses.len());
        for address in addresses {
            self.stamp_address(&mut ledger, address, now, &mut records);
        }
        let (entries, bytes) = (ledger.len(), ledger.bytes());
        self.counters.set_versions(entries, bytes);
        records
    }

    fn stamp_address(
        &self,
        ledger: &mut Ledger,
        address: &[u8],
        now: Time,
        records: &mut Vec<Outgoing>,
    ) {
        let mut present = HashSet::new();
        self.locations().visit(address, now, |binding| {
            let place = self.place(address, binding);
            present.insert(place.1);
            let fingerprint = self.fingerprint(binding);
            let known = ledger.known(place);
            if known.is_some_and(|known| !known.is_removed() && known.fingerprint == fingerprint) {
                return;
            }
            let entry = Entry {
                time: ledger.tick(millis(now)),
                fingerprint,
                expires_at: binding.expires_at,
                writer: 0,
            };
            ledger.insert(place, entry, address);
            records.extend(self.record(ledger, place, entry, address, Some(binding)));
        });
        let (bucket, hash) = self.address_place(address);
        let gone: Vec<Key> = ledger
            .of_address(bucket, hash)
            .filter(|(key, entry)| entry.expires_at > seconds(now) && !present.contains(key))
            .map(|(key, _)| key)
            .collect();
        for key in gone {
            let entry = Entry {
                time: ledger.tick(millis(now)),
                fingerprint: 0,
                expires_at: 0,
                writer: 0,
            };
            let place = (bucket, key);
            ledger.insert(place, entry, address);
            records.extend(self.record(ledger, place, entry, address, None));
        }
    }

    /// The record of an entry.
    pub(super) fn record(
        &self,
        ledger: &Ledger,
        place: Place,
        entry: Entry,
        address: &[u8],
        binding: Option<&Binding<'_>>,
    ) -> Option<Outgoing> {
        let record = SharedBinding {
            time: entry.time,
            writer: Cow::Borrowed(ledger.writer_name(&entry)),
            forget_at: ledger.forget_at(entry.time, entry.expires_at),
            binding: binding.map(|binding| self.row(binding)),
        };
        Some(Outgoing {
            place,
            version: ledger.version(&entry),
            field: place.1.binding.field(address),
            value: record.encode()?,
        })
    }

    fn row<'b>(&'b self, binding: &Binding<'b>) -> BindingRow<'b> {
        BindingRow {
            contact: Cow::Borrowed(binding.contact),
            q: binding.q,
            expires_at: binding.expires_at,
            call_id: Cow::Borrowed(binding.call_id),
            cseq: binding.cseq,
            path: Cow::Borrowed(binding.path),
            instance: Cow::Borrowed(binding.instance),
            user_agent: Cow::Borrowed(binding.user_agent),
            source: binding.source,
            listener: Cow::Borrowed(self.names.name(binding.listener)),
        }
    }

    /// The place of a binding in the ledger.
    pub(super) fn place(&self, address: &[u8], binding: &Binding<'_>) -> Place {
        let (bucket, address) = self.address_place(address);
        let binding = id_of(binding);
        (bucket, Key { address, binding })
    }

    /// The bucket of an address of record, and its part of a [`Key`].
    pub(super) fn address_place(&self, address: &[u8]) -> (u16, u64) {
        (bucket_of(address), self.hasher.hash_one(address))
    }

    /// A hash of everything in a binding that nodes share.
    pub(super) fn fingerprint(&self, binding: &Binding<'_>) -> u64 {
        self.hasher.hash_one((
            (binding.contact, binding.call_id, binding.path),
            (binding.instance, binding.user_agent, binding.source),
            (binding.q, binding.expires_at, binding.cseq),
            binding.listener.0,
        ))
    }
}

/// The identifier of a binding: that of its flow, if the phone names it (RFC 5626), else that of its contact.
pub(super) fn id_of(binding: &Binding<'_>) -> BindingId {
    if binding.names_flow() {
        BindingId::of_flow(binding.instance)
    } else {
        BindingId::of_contact(binding.contact)
    }
}

/// Whole seconds since the Unix epoch.
pub(super) fn seconds(now: Time) -> u32 {
    u32::try_from(now.unix_seconds()).unwrap_or(u32::MAX)
}

/// Milliseconds since the Unix epoch.
pub(super) const fn millis(now: Time) -> u64 {
    now.as_micros() / 1_000
}
