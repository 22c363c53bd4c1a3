//! The location service (RFC 3261 section 10): the contacts of each address of record. It is concurrent, bounded, and
//! read without a lock.
//!
//! Each address of record has one packed record. A change packs a new record and swaps it in for the old one. If another
//! worker was faster, the change starts over. So a reader sees a REGISTER completely or not at all, and no thread waits.
//! Only the values that a plain refresh changes are updated in place (`times.rs`).

mod changes;
mod contacts;
mod key;
mod merge;
mod record;
mod times;
mod user_agents;

#[cfg(test)]
mod tests;

pub(crate) use contacts::{Change, Contacts};
pub(crate) use key::{AddressHasher, AddressKey, AddressMap, address_map, make_room};

pub use merge::{Merge, Merged};

use changes::PendingChanges;
use contacts::{Announced, is_outdated};
use papaya::{Compute, Operation};
use record::{MAX_BINDING, Record};
use sip_transport::{ConnectionId, Flow, ListenerId, Time};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;
use user_agents::UserAgents;

/// One contact of an address of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding<'a> {
    /// The contact URI as registered.
    pub contact: &'a [u8],
    /// The preference in thousandths.
    pub q: u16,
    /// When the binding ends, in seconds since the Unix epoch.
    pub expires_at: u32,
    /// The Call-ID of the REGISTER that created it.
    pub call_id: &'a [u8],
    /// The `CSeq` of the last REGISTER.
    pub cseq: u32,
    /// The Path values of the REGISTER, joined by commas, first hop first. Empty: none (RFC 3327).
    pub path: &'a [u8],
    /// The `+sip.instance` value as written, including its quotes, followed by `;reg-id=N` if the phone sent one (RFC
    /// 5626). Empty: none.
    pub instance: &'a [u8],
    /// The first 64 bytes of User-Agent.
    pub user_agent: &'a [u8],
    /// The source address of the REGISTER.
    pub source: SocketAddr,
    /// The listener that received the REGISTER.
    pub listener: ListenerId,
    /// The connection that the REGISTER came over. It may have ended.
    pub connection: ConnectionId,
}

impl<'a> Binding<'a> {
    /// The `+sip.instance` value alone. Bindings with the same value belong to the same phone.
    pub fn instance_id(&self) -> &'a [u8] {
        self.split_instance().0
    }

    /// Whether the phone sent a `reg-id`, so that it is reached over the flow that it registered on (RFC 5626).
    pub fn names_flow(&self) -> bool {
        !self.split_instance().1.is_empty()
    }

    fn split_instance(&self) -> (&'a [u8], &'a [u8]) {
        let reg_id = self
            .instance
            .windows(REG_ID.len())
            .rposition(|window| window == REG_ID);
        let end = reg_id.unwrap_or(self.instance.len());
        self.instance.split_at_checked(end).unwrap_or_default()
    }
}

/// Precedes the `reg-id` in [`Binding::instance`].
pub(crate) const REG_ID: &[u8] = b";reg-id=";

/// Limits of the location service.
#[derive(Clone, Copy, Debug)]
pub struct LocationLimits {
    /// The maximum number of bindings in total.
    pub max_bindings: usize,
    /// The maximum number of changes that wait for the control plane. If there are more, the next save is a full one.
    pub max_pending_changes: usize,
}

/// Counts since the start: `created == ended + live` (restored bindings count as created).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they count")]
pub struct LocationStats {
    pub created: u64,
    pub ended: u64,
    pub live: u64,
    pub addresses: u64,
    pub refused_full: u64,
}

/// The changes to save.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Addresses of record (`user@domain`) whose bindings changed. Read them with [`Locations::visit`] and save the
    /// present bindings.
    pub addresses: Vec<Box<[u8]>>,
    /// Too many changes to list: save everything.
    pub everything: bool,
    /// The number of this save, for [`Locations::note_saved`].
    pub save: u64,
}

/// Why a change was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotChanged<R> {
    /// The change itself was refused.
    Refused(R),
    /// The table has reached its maximum number of bindings.
    Full,
    /// A binding does not fit into a record.
    TooLong,
}

/// All bindings of a process.
#[derive(Debug)]
pub struct Locations {
    records: AddressMap<Record>,
    user_agents: UserAgents,
    hasher: AddressHasher,
    limits: LocationLimits,
    pending: PendingChanges,
    /// Bindings in the table, and places reserved for bindings that are being added.
    occupied: AtomicUsize,
    /// No binding ends before this time, in Unix seconds, so there is nothing to sweep until then.
    next_end: AtomicU32,
    created: AtomicU64,
    ended: AtomicU64,
    refused_full: AtomicU64,
    not_written: Striped,
    /// Whether each refresh is announced.
    announces_all: bool,
}

/// A counter that many workers increase at once. It has sixteen parts, selected by address of record, so that workers
/// seldom use the same one.
#[derive(Debug, Default)]
struct Striped([Stripe; 16]);

/// A part of the counter, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe(AtomicU64);

impl Striped {
    fn add(&self, key: AddressKey) {
        if let Some(Stripe(count)) = self.0.get(key.sixteenth()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn sum(&self) -> u64 {
        let counts = self.0.iter();
        counts
            .map(|Stripe(count)| count.load(Ordering::Relaxed))
            .sum()
    }
}

impl Locations {
    /// Creates an empty location service.
    pub fn new(limits: LocationLimits) -> Self {
        Self::with_hasher(AddressHasher::random(), limits)
    }

    /// Like [`Locations::new`], but the caller provides the secret of the hashes. Then two runs behave alike.
    pub fn with_secret(secret: (u64, u64), limits: LocationLimits) -> Self {
        Self::with_hasher(AddressHasher::new(secret), limits)
    }

    fn with_hasher(hasher: AddressHasher, limits: LocationLimits) -> Self {
        Self {
            records: address_map(),
            user_agents: UserAgents::new(),
            hasher,
            limits,
            pending: PendingChanges::new(limits.max_pending_changes),
            occupied: AtomicUsize::new(0),
            next_end: AtomicU32::new(u32::MAX),
            created: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            refused_full: AtomicU64::new(0),
            not_written: Striped::default(),
            announces_all: false,
        }
    }

    /// Announces every refresh, even if it hardly moves the expiry. Nodes that share their bindings need this: a refresh that another node
    /// has not seen could otherwise look like a change that is newer than that node's.
    #[must_use]
    pub const fn announcing_all(mut self) -> Self {
        self.announces_all = true;
        self
    }

    /// Calls `visit` with each live binding of an address of record (`user@domain`, canonical), highest q first, newest
    /// first among equals. Returns the number of bindings.
    pub fn visit(&self, address: &[u8], now: Time, mut visit: impl FnMut(&Binding<'_>)) -> usize {
        self.read(address, now, |live| {
            live.inspect(|binding| visit(binding)).count()
        })
    }

    fn live<'a>(&'a self, record: Option<&'a Record>, now: Time) -> Live<'a> {
        Live {
            only: None,
            bindings: record.map(|record| record.bindings(&self.user_agents)),
            now: unix_seconds(now),
        }
    }

    /// Passes the live bindings of an address of record to `read`, in the order of [`Locations::visit`].
    pub(crate) fn read<R>(&self, address: &[u8], now: Time, read: impl FnOnce(Live<'_>) -> R) -> R {
        let records = self.records.pin();
        read(self.live(records.get(&self.hasher.key(address)), now))
    }

    /// Changes all bindings of an address of record at once, or none. `read` gets the live bindings after the change.
    pub(crate) fn change<C: Change, R>(
        &self,
        address: &[u8],
        now: Time,
        change: &C,
        read: impl FnOnce(Live<'_>) -> R,
    ) -> Result<R, NotChanged<C::Error>> {
        let key = self.hasher.key(address);
        let records = self.records.pin();
        let seconds = unix_seconds(now);
        if let Some(binding) = change.refreshed()
            && let Some(record) = records.get(&key)
            && let Some(before) = record.times().advance(&binding, seconds)
        {
            if binding.expires_at < before.expires_at {
                self.note_end(Some(binding.expires_at));
            }
            if self.announces_all || is_outdated(before.saved_until, binding.expires_at, seconds) {
                record.times().note_saved(binding.expires_at);
                self.pending.announce(address, now);
            } else {
                self.not_written.add(key);
            }
            return Ok(read(Live::only(binding, now)));
        }
        self.apply(address, now, change, true, read)
            .map(|(result, _)| result)
    }

    /// Swaps in a changed record for the old one. `announced` tells whether the change goes to the store. Also returns
    /// how many bindings ended.
    fn apply<C: Change, R>(
        &self,
        address: &[u8],
        now: Time,
        change: &C,
        announced: bool,
        read: impl FnOnce(Live<'_>) -> R,
    ) -> Result<(R, usize), NotChanged<C::Error>> {
        let seconds = unix_seconds(now);
        let records = self.records.pin();
        // The most places that any attempt needed. Places that the last attempt did not need are returned.
        let mut taken = 0;
        let result = records.compute(self.hasher.key(address), |entry| {
            let old = entry
                .map(|(_, record)| record)
                .inspect(|record| record.times().seal());
            let mut contacts = Contacts::unpack(old, &self.user_agents, seconds);
            if let Err(refusal) = change.apply(&mut contacts) {
                return Operation::Abort(Err(NotChanged::Refused(refusal)));
            }
            if !contacts.can_be_packed() || address.len() > MAX_BINDING {
                return Operation::Abort(Err(NotChanged::TooLong));
            }
            if !contacts.is_touched() || (contacts.is_empty() && old.is_none()) {
                return Operation::Abort(Ok(old));
            }
            let growth = contacts.growth();
            if growth > taken {
                if !self.take_places(growth - taken) {
                    return Operation::Abort(Err(NotChanged::Full));
                }
                taken = growth;
            }
            if contacts.is_empty() {
                return Operation::Remove;
            }
            let announced = match (announced, self.announces_all) {
                (false, _) => Announced::Never,
                (true, false) => Announced::IfOutdated,
                (true, true) => Announced::Always,
            };
            Operation::Insert(contacts.pack(address, &self.user_agents, seconds, announced))
        });
        let (record, added, ended, announce) = match result {
            Compute::Inserted(_, new) | Compute::Updated { new: (_, new), .. } => {
                let difference = new.difference();
                (
                    Some(new),
                    usize::from(difference.added),
                    usize::from(difference.ended),
                    difference.announce,
                )
            }
            Compute::Removed(_, old) => (None, 0, old.count(), announced),
            Compute::Aborted(Ok(unchanged)) => (unchanged, 0, 0, false),
            Compute::Aborted(Err(refusal)) => {
                self.occupied.fetch_sub(taken, Ordering::Relaxed);
                if matches!(refusal, NotChanged::Full) {
                    self.refused_full.fetch_add(1, Ordering::Relaxed);
                }
                return Err(refusal);
            }
        };
        self.count(taken, added, ended);
        self.note_end(record.and_then(|record| record.first_end(&self.user_agents)));
        if announce {
            self.pending.announce(address, now);
        }
        Ok((read(self.live(record, now)), ended))
    }

    /// Notes when the next binding ends. Call it when the bindings are already visible. A sweep first resets the note and
    /// then reads the bindings, so it finds the binding or leaves the note.
    fn note_end(&self, end: Option<u32>) {
        fence(Ordering::SeqCst);
        if let Some(end) = end
            && end < self.next_end.load(Ordering::Relaxed)
        {
            self.next_end.fetch_min(end, Ordering::AcqRel);
        }
    }

    /// Reserves places for new bindings. Returns whether there were enough.
    fn take_places(&self, count: usize) -> bool {
        let before = self.occupied.fetch_add(count, Ordering::Relaxed);
        let fits = before.saturating_add(count) <= self.limits.max_bindings;
        if !fits {
            self.occupied.fetch_sub(count, Ordering::Relaxed);
        }
        fits
    }

    fn count(&self, taken: usize, added: usize, ended: usize) {
        if added != taken + ended {
            // This may wrap, but the sum never does.
            let correction = added.wrapping_sub(ended).wrapping_sub(taken);
            self.occupied.fetch_add(correction, Ordering::Relaxed);
        }
        if added > 0 {
            self.created.fetch_add(added as u64, Ordering::Relaxed);
        }
        if ended > 0 {
            self.ended.fetch_add(ended as u64, Ordering::Relaxed);
        }
    }

    /// Restores a saved binding at start. It replaces a binding with the same contact. A binding that does not fit is
    /// skipped and counted as refused.
    pub fn restore(&self, address: &[u8], binding: &Binding<'_>) {
        self.take_over(address, binding, Time::default(), |_| true);
    }

    /// Adds a binding of another registrar. A binding with the same contact stays, unless `is_replaced` selects it. Returns when the
    /// binding with this contact ends, in seconds since the Unix epoch; `None` if the new one does not fit.
    pub fn take_over(
        &self,
        address: &[u8],
        binding: &Binding<'_>,
        now: Time,
        is_replaced: impl Fn(&Binding<'_>) -> bool,
    ) -> Option<u32> {
        let change = TakeOver {
            binding: *binding,
            is_replaced,
        };
        let taken = self.apply(address, now, &change, false, |mut live| {
            let known = live.find(|known| known.contact == binding.contact);
            known.map(|known| known.expires_at)
        });
        make_room(&self.records);
        taken.ok().and_then(|(ends_at, _)| ends_at)
    }

    /// The key of an address of record.
    pub(crate) fn key(&self, address: &[u8]) -> AddressKey {
        self.hasher.key(address)
    }

    /// The maximum number of bindings.
    pub(crate) const fn most(&self) -> usize {
        self.limits.max_bindings
    }

    /// Ends the bindings of an address of record that were reached over the connection of `flow`, which has ended.
    /// Bindings that `outlives` selects only lose their connection. Returns how many ended.
    pub(crate) fn end_connection(
        &self,
        key: AddressKey,
        flow: Flow,
        now: Time,
        outlives: impl Fn(&Binding<'_>) -> bool,
    ) -> usize {
        let records = self.records.pin();
        let Some(record) = records.get(&key) else {
            return 0;
        };
        let change = Disconnect { flow, outlives };
        let changed = self.apply(record.address(), now, &change, true, |_| ());
        changed.map_or(0, |((), ended)| ended)
    }

    /// Removes all bindings of an address of record, for the admin interface. Returns how many there were.
    pub fn remove(&self, address: &[u8], now: Time) -> usize {
        let records = self.records.pin();
        let Some((_, removed)) = records.remove_entry(&self.hasher.key(address)) else {
            return 0;
        };
        let count = removed.count();
        self.count(0, 0, count);
        self.pending.announce(address, now);
        count
    }

    /// Calls `visit` with the address of record and each of its live bindings, for all addresses. It is meant for lists
    /// and full saves, not for the call path.
    pub fn for_each(&self, now: Time, mut visit: impl FnMut(&[u8], &Binding<'_>)) {
        for (_, record) in &self.records.pin() {
            for binding in self.live(Some(record), now) {
                visit(record.address(), &binding);
            }
        }
    }

    /// Removes expired bindings and reserves room for new ones. The control plane calls this periodically. Returns how
    /// many bindings ended.
    pub fn sweep(&self, now: Time) -> usize {
        make_room(&self.records);
        let seconds = unix_seconds(now);
        if self.next_end.load(Ordering::Acquire) > seconds {
            return 0;
        }
        self.next_end.swap(u32::MAX, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let mut swept = 0;
        for record in self.records.pin().values() {
            match record.first_end(&self.user_agents) {
                Some(end) if end <= seconds => {
                    let changed = self.apply(record.address(), now, &Expire, true, |_| ());
                    swept += changed.map_or(0, |((), ended)| ended);
                }
                end => self.note_end(end),
            }
        }
        swept
    }

    /// How many changes [`take_changes`](Self::take_changes) would return.
    pub fn pending_changes(&self) -> usize {
        self.pending.len()
    }

    /// Notes that everything up to this save ([`Changes::save`]) is in the database. `is_behind` is
    /// true if more than `room` changes wait.
    pub fn note_saved(&self, save: u64, room: usize) {
        self.pending.note_saved(save, room);
    }

    /// The number of the save that will include everything this thread has changed.
    pub(crate) fn next_save(&self) -> u64 {
        self.pending.next_save()
    }

    /// Whether the save with this number has succeeded.
    pub(crate) fn is_saved(&self, save: u64) -> bool {
        self.pending.is_saved(save)
    }

    /// The age of the oldest change that is not in the database.
    pub fn save_lag(&self, now: Time) -> Duration {
        self.pending.lag(now)
    }

    /// Whether saving lags behind: more changes wait than can be saved in time, or one has waited longer than `longest`.
    pub(crate) fn is_behind(&self, longest: Duration, now: Time) -> bool {
        self.pending.is_behind(longest, now)
    }

    /// Refreshes that were not announced because the end in the database is close enough: within an eighth of the lifetime.
    pub fn refreshes_not_written(&self) -> u64 {
        self.not_written.sum()
    }

    /// Takes the changes that must be saved.
    pub fn take_changes(&self) -> Changes {
        self.pending.take()
    }

    /// Reads the counts.
    pub fn stats(&self) -> LocationStats {
        // A binding is visible before it is counted as created, so another worker may already have ended it.
        let ended = self.ended.load(Ordering::Relaxed);
        let created = self.created.load(Ordering::Relaxed).max(ended);
        LocationStats {
            created,
            ended,
            live: created - ended,
            addresses: self.records.len() as u64,
            refused_full: self.refused_full.load(Ordering::Relaxed),
        }
    }
}

/// The bindings of an address of record that have not expired.
#[derive(Clone, Debug)]
pub(crate) struct Live<'r> {
    /// The only binding, if it is known without reading the record.
    only: Option<Binding<'r>>,
    bindings: Option<record::Bindings<'r>>,
    now: u32,
}

impl<'r> Live<'r> {
    fn only(binding: Binding<'r>, now: Time) -> Self {
        Self {
            only: Some(binding),
            bindings: None,
            now: unix_seconds(now),
        }
    }
}

impl<'r> Iterator for Live<'r> {
    type Item = Binding<'r>;

    fn next(&mut self) -> Option<Binding<'r>> {
        let now = self.now;
        let stored = self.bindings.as_mut().into_iter().flatten();
        let mut bindings = self
            .only
            .take()
            .into_iter()
            .chain(stored.map(|stored| stored.binding));
        bindings.find(|binding| binding.expires_at > now)
    }
}

/// A binding from the store, or of another registrar.
struct TakeOver<'b, R> {
    binding: Binding<'b>,
    /// Whether a binding with the same contact is replaced.
    is_replaced: R,
}

impl<R: Fn(&Binding<'_>) -> bool> Change for TakeOver<'_, R> {
    type Error = std::convert::Infallible;

    fn apply<'s>(&'s self, contacts: &mut Contacts<'s>) -> Result<(), Self::Error> {
        let known = contacts.position(|known| known.contact == self.binding.contact);
        let Some(position) = known else {
            contacts.add(self.binding);
            return Ok(());
        };
        let known = contacts.at(position);
        if known.is_some_and(|(known, _)| (self.is_replaced)(known)) {
            contacts.replace(position, self.binding);
        }
        Ok(())
    }
}

/// The end of a connection.
struct Disconnect<O> {
    flow: Flow,
    /// Whether a binding is reachable without the connection.
    outlives: O,
}

impl<O: Fn(&Binding<'_>) -> bool> Change for Disconnect<O> {
    type Error = std::convert::Infallible;

    fn apply<'s>(&'s self, contacts: &mut Contacts<'s>) -> Result<(), Self::Error> {
        for position in (0..contacts.len()).rev() {
            let Some((binding, _)) = contacts.at(position) else {
                continue;
            };
            // The identifier of a connection is reused after a while, for another peer.
            let was_over_it = binding.connection == self.flow.connection
                && binding.source == self.flow.remote
                && binding.path.is_empty();
            if was_over_it && (self.outlives)(binding) {
                contacts.disconnect(position);
            } else if was_over_it {
                contacts.remove(position);
            }
        }
        Ok(())
    }
}

/// No change except that time has passed.
struct Expire;

impl Change for Expire {
    type Error = std::convert::Infallible;

    fn apply<'s>(&'s self, _contacts: &mut Contacts<'s>) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Whole seconds since the Unix epoch. They fit until 2106.
pub(crate) fn unix_seconds(now: Time) -> u32 {
    u32::try_from(now.unix_seconds()).unwrap_or(u32::MAX)
}
