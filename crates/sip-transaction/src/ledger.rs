//! Bounds what one worker holds, in total and for each source: entries of its tables and bytes of messages.
//!
//! A source is an IPv4 address, or the first 64 bits of an IPv6 address. An unproven source gets a sixteenth of each table and of the
//! bytes. All unproven sources together get three quarters; the rest is for senders that have proved who they are. Requests inside dialogs
//! may use half as much again as the limit of a table, and brief ones half as much again of the bytes. Calls can therefore end when nothing
//! new is accepted. One source gets a quarter for its subscribers, and another quarter for its dialogs. Trusted peers have no share.

use crate::Full;
use hashbrown::HashTable;
use sip_message::KeyHasher;
use sip_transport::{Slab, SlabId, Tenant};
use std::net::IpAddr;

/// An unproven source may hold one part in this many of each bound.
const SHARE_OF_STRANGER: usize = 16;
/// A source may hold one part in this many for its subscribers, and as much for its dialogs, because many phones may share its address.
const SHARE_OF_PROVEN: usize = 4;
/// Entries and bytes that a source may hold in any case, because the tables of tests are small.
const LEAST_ENTRIES: usize = 16;
const LEAST_BYTES: usize = 128 * 1024;

/// What the sender of a request has proved, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A sender that has proved nothing. Only packets with its address arrive.
    Stranger(IpAddr),
    /// An authenticated subscriber at this address, or a trusted peer (`None`).
    Known(Option<IpAddr>),
    /// A request inside a dialog that we established, from this address or from a trusted peer (`None`).
    Established(Option<IpAddr>),
    /// Like [`Sender::Established`], for a BYE or a request without a body.
    Brief(Option<IpAddr>),
}

impl Sender {
    /// The address of the sender; `None` for a trusted peer.
    pub const fn source(self) -> Option<IpAddr> {
        match self {
            Self::Stranger(address) => Some(address),
            Self::Known(source) | Self::Established(source) | Self::Brief(source) => source,
        }
    }

    const fn room(self) -> Room {
        match self {
            Self::Stranger(_) => Room::Stranger,
            Self::Known(_) => Room::Known,
            Self::Established(_) => Room::Established,
            Self::Brief(_) => Room::Brief,
        }
    }
}

/// A class of senders, which decides how much of a bound they may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Room {
    Stranger,
    Known,
    Established,
    Brief,
}

impl Room {
    /// The limits that apply to the class: entries of a table, and bytes.
    const fn bounds(self, table: Table, limit: usize, bytes: usize) -> (usize, usize) {
        match self {
            Self::Stranger => (limit - limit / 4, bytes - bytes / 4),
            // Subscribers may fill this table: requests inside dialogs rarely wait, and may use half as much again.
            Self::Known if matches!(table, Table::Parked) => (limit, bytes),
            Self::Known => (limit - limit / 8, bytes - bytes / 8),
            Self::Established => (limit.saturating_add(limit / 2), bytes),
            Self::Brief => (
                limit.saturating_add(limit / 2),
                bytes.saturating_add(bytes / 2),
            ),
        }
    }

    const fn share(self) -> usize {
        match self {
            Self::Stranger => SHARE_OF_STRANGER,
            Self::Known | Self::Established | Self::Brief => SHARE_OF_PROVEN,
        }
    }

    /// The class whose share is used: brief requests use that of their dialogs.
    const fn shared(self) -> Self {
        match self {
            Self::Brief => Self::Established,
            room => room,
        }
    }
}

/// The tables whose entries are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they hold")]
pub enum Table {
    Servers,
    Clients,
    Contexts,
    Parked,
    Dialogs,
}

/// The number of tables.
const TABLES: usize = 5;

/// The account that an entry is charged to. Each entry keeps the account that it entered with, and leaves with it.
///
/// The upper two bits hold the `Room`, the others the source whose share it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account(u32);

impl Account {
    const SOURCE_BITS: u32 = 30;
    const NO_SOURCE: u32 = (1 << Self::SOURCE_BITS) - 1;

    /// The account of known senders without a share.
    pub const KNOWN: Self = Self::new(Room::Known, Self::NO_SOURCE);

    const fn new(room: Room, source: u32) -> Self {
        Self((room as u32) << Self::SOURCE_BITS | source)
    }

    const fn room(self) -> Room {
        match self.0 >> Self::SOURCE_BITS {
            0 => Room::Stranger,
            1 => Room::Known,
            2 => Room::Established,
            _ => Room::Brief,
        }
    }

    const fn source(self) -> Option<u32> {
        let source = self.0 & Self::NO_SOURCE;
        if source == Self::NO_SOURCE {
            None
        } else {
            Some(source)
        }
    }

    /// Whether the sender is unproven.
    pub const fn is_stranger(self) -> bool {
        matches!(self.room(), Room::Stranger)
    }

    /// Whether the sender may be at another address than its datagrams say. The proof of a dialog is valid from any address.
    pub(crate) const fn may_be_spoofed(self) -> bool {
        self.source().is_some() && !matches!(self.room(), Room::Known)
    }
}

/// What one source holds. The source is removed when it holds no entry.
#[derive(Debug)]
struct Source {
    key: Key,
    entries: [u32; TABLES],
    generation: u32,
    bytes: usize,
}

impl Tenant for Source {
    fn generation(&self) -> u32 {
        self.generation
    }
}

/// The class and the address that share an account.
type Key = (Room, u128);

/// Counters of the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerStats {
    /// Bytes of messages held.
    pub bytes: u64,
    /// Sources with at least one entry.
    pub sources: u64,
    /// Entries refused because a source had used up its share.
    pub shares_refused: u64,
    /// Entries refused because a table, or its part for strangers, was full.
    pub full: u64,
}

/// What one worker holds, in total and for each source.
#[derive(Debug)]
pub struct Ledger {
    hasher: KeyHasher,
    most_bytes: usize,
    bytes: usize,
    sources: Slab<Source>,
    by_key: HashTable<u32>,
    shares_refused: u64,
    full: u64,
}

impl Ledger {
    /// Creates an empty ledger. The secret of `hasher` prevents an attacker from choosing addresses that collide.
    pub(crate) fn new(hasher: KeyHasher, most_bytes: usize) -> Self {
        Self {
            hasher,
            most_bytes,
            bytes: 0,
            sources: Slab::new(0),
            by_key: HashTable::new(),
            shares_refused: 0,
            full: 0,
        }
    }

    /// Changes the bound. If it is lower, held messages beyond it stay.
    pub(crate) const fn set_most_bytes(&mut self, most_bytes: usize) {
        self.most_bytes = most_bytes;
    }

    /// Enters an entry into a table that has `live` entries and room for `limit`. Call [`Ledger::leave`] when it is removed.
    ///
    /// # Errors
    /// The table, the bytes, or the share of the source are used up.
    pub fn enter(
        &mut self,
        table: Table,
        sender: Sender,
        live: usize,
        limit: usize,
    ) -> Result<Account, Full> {
        let room = sender.room();
        let Some(address) = sender.source() else {
            let account = Account::new(room, Account::NO_SOURCE);
            self.join(table, account, live, limit)?;
            return Ok(account);
        };
        self.check_room(table, room, live, limit)?;
        let index = self.source((room.shared(), key_of(address)));
        let account = Account::new(room, index);
        let entered = self.join(table, account, live, limit);
        self.remove_source(index);
        entered.map(|()| account)
    }

    /// Enters another entry for an existing account.
    ///
    /// # Errors
    /// The table, the bytes, or the share of the source are used up.
    pub fn join(
        &mut self,
        table: Table,
        account: Account,
        live: usize,
        limit: usize,
    ) -> Result<(), Full> {
        let room = account.room();
        self.check_room(table, room, live, limit)?;
        let Some(index) = account.source() else {
            return Ok(());
        };
        let most = (limit / room.share()).max(LEAST_ENTRIES);
        let (_, most_bytes) = room.bounds(table, limit, self.most_bytes);
        let most_bytes = (most_bytes.max(self.most_bytes) / room.share()).max(LEAST_BYTES);
        let Some(source) = self.sources.at_mut(index) else {
            return Err(Full);
        };
        let Some(entries) = source.entries.get_mut(table as usize) else {
            return Err(Full);
        };
        if *entries as usize >= most || source.bytes >= most_bytes {
            self.shares_refused += 1;
            return Err(Full);
        }
        *entries += 1;
        Ok(())
    }

    /// Removes an entry of a table.
    pub fn leave(&mut self, table: Table, account: Account) {
        let Some(index) = account.source() else {
            return;
        };
        if let Some(source) = self.sources.at_mut(index)
            && let Some(entries) = source.entries.get_mut(table as usize)
        {
            *entries = entries.saturating_sub(1);
        }
        self.remove_source(index);
    }

    /// Changes what an account holds from `before` to `after` bytes. An account with bytes has an entry, so this never removes a source.
    pub fn hold(&mut self, account: Account, before: usize, after: usize) {
        self.bytes = (self.bytes + after).saturating_sub(before);
        if let Some(index) = account.source()
            && let Some(source) = self.sources.at_mut(index)
        {
            source.bytes = (source.bytes + after).saturating_sub(before);
        }
    }

    /// Whether another `bytes` bytes fit.
    pub const fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.most_bytes
    }

    /// Bytes of messages held.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Entries refused.
    pub(crate) const fn refused(&self) -> u64 {
        self.full + self.shares_refused
    }

    /// The current counters.
    pub fn stats(&self) -> LedgerStats {
        LedgerStats {
            bytes: self.bytes as u64,
            sources: self.sources.len() as u64,
            shares_refused: self.shares_refused,
            full: self.full,
        }
    }

    fn check_room(
        &mut self,
        table: Table,
        room: Room,
        live: usize,
        limit: usize,
    ) -> Result<(), Full> {
        let (most, most_bytes) = room.bounds(table, limit, self.most_bytes);
        if live < most && self.bytes < most_bytes {
            return Ok(());
        }
        self.full += 1;
        Err(Full)
    }

    /// The index of a source, which is inserted if it is new.
    fn source(&mut self, key: Key) -> u32 {
        let hash = self.hash(key);
        let sources = &self.sources;
        let same = |index: &u32| sources.at(*index).is_some_and(|source| source.key == key);
        if let Some(index) = self.by_key.find(hash, same) {
            return *index;
        }
        let SlabId { index, .. } = self.sources.insert(|id| Source {
            key,
            entries: [0; TABLES],
            generation: id.generation,
            bytes: 0,
        });
        let (hasher, sources) = (&self.hasher, &self.sources);
        self.by_key.insert_unique(hash, index, |index| {
            sources
                .at(*index)
                .map_or(0, |source| hash_key(hasher, source.key))
        });
        index
    }

    /// Removes a source that holds nothing.
    fn remove_source(&mut self, index: u32) {
        let is_empty = |source: &Source| source.entries == [0; TABLES];
        let Some(key) = self
            .sources
            .at(index)
            .filter(|source| is_empty(source))
            .map(|source| source.key)
        else {
            return;
        };
        let hash = self.hash(key);
        if let Ok(entry) = self.by_key.find_entry(hash, |other| *other == index) {
            entry.remove();
        }
        self.sources.remove_at(index);
    }

    fn hash(&self, key: Key) -> u64 {
        hash_key(&self.hasher, key)
    }
}

fn hash_key(hasher: &KeyHasher, (room, address): Key) -> u64 {
    hasher.hash(&[b"source", &[room as u8], &address.to_be_bytes()])
}

/// An IPv4 address, or the network of an IPv6 address: a host with one IPv6 address has 2^64 of them.
fn key_of(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1600;
    const BYTES: usize = 16 << 20;

    fn ledger() -> Ledger {
        Ledger::new(KeyHasher::new((1, 2)), BYTES)
    }

    fn stranger(last: u16) -> Sender {
        Sender::Stranger(IpAddr::V6([0x2001, 0xdb8, 0, last, 0, 0, 0, 1].into()))
    }

    #[test]
    fn one_source_gets_a_sixteenth_and_gives_it_back() {
        let mut ledger = ledger();
        let mut accounts = Vec::new();
        while let Ok(account) = ledger.enter(Table::Servers, stranger(1), accounts.len(), LIMIT) {
            accounts.push(account);
        }
        assert_eq!(accounts.len(), LIMIT / 16);
        assert_eq!(ledger.stats().shares_refused, 1);
        let same_network = Sender::Stranger("2001:db8:0:1::ffff".parse().expect("an address"));
        assert!(
            ledger
                .enter(Table::Servers, same_network, 100, LIMIT)
                .is_err()
        );
        assert!(
            ledger
                .enter(Table::Servers, stranger(2), 100, LIMIT)
                .is_ok()
        );
        assert_eq!(ledger.stats().sources, 2);
        for account in accounts {
            ledger.leave(Table::Servers, account);
        }
        assert_eq!(ledger.stats().sources, 1, "the other is left");
        assert!(ledger.enter(Table::Servers, stranger(1), 1, LIMIT).is_ok());
    }

    #[test]
    fn the_reserve_is_for_those_who_are_known_and_for_dialogs() {
        let mut ledger = ledger();
        let mut enters = |sender, live| ledger.enter(Table::Contexts, sender, live, LIMIT).is_ok();
        assert!(enters(stranger(1), LIMIT * 3 / 4 - 1) && !enters(stranger(2), LIMIT * 3 / 4));
        assert!(enters(Sender::Known(None), LIMIT * 7 / 8 - 1));
        assert!(!enters(Sender::Known(None), LIMIT * 7 / 8));
        assert!(enters(Sender::Established(None), LIMIT * 3 / 2 - 1));
        assert!(!enters(Sender::Established(None), LIMIT * 3 / 2));
        assert_eq!(ledger.stats().full, 3);
    }

    #[test]
    fn one_source_gets_a_quarter_for_its_dialogs_and_trusted_peers_have_no_share() {
        let mut ledger = ledger();
        let source = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        let mut fill = |sender, live| {
            let enter = |_: &usize| ledger.enter(Table::Contexts, sender, live, LIMIT).is_ok();
            (0..LIMIT).take_while(enter).count()
        };
        assert_eq!(fill(Sender::Established(source(1)), 0), LIMIT / 4);
        assert_eq!(fill(Sender::Brief(source(1)), 0), 0, "the same share");
        assert_eq!(fill(Sender::Brief(source(2)), 0), LIMIT / 4);
        assert_eq!(fill(Sender::Known(source(1)), 0), LIMIT / 4);
        assert_eq!(fill(Sender::Stranger([192, 0, 2, 1].into()), 0), 100);
        assert_eq!(fill(Sender::Known(None), 0), LIMIT);
        assert_eq!(fill(Sender::Established(None), LIMIT), LIMIT);
    }

    #[test]
    fn brief_requests_of_dialogs_pass_the_bound_of_bytes() {
        let mut ledger = ledger();
        ledger.hold(Account::KNOWN, 0, BYTES);
        let source = Some(IpAddr::from([192, 0, 2, 1]));
        let enters = |ledger: &mut Ledger, sender| {
            let entered = ledger.enter(Table::Servers, sender, 0, LIMIT);
            entered.is_ok()
        };
        assert!(!enters(&mut ledger, Sender::Established(source)));
        assert!(enters(&mut ledger, Sender::Brief(source)));
        ledger.hold(Account::KNOWN, 0, BYTES / 2);
        assert!(!enters(&mut ledger, Sender::Brief(source)), "not forever");
    }

    #[test]
    fn bytes_are_bounded_in_all_and_for_a_source() {
        let mut ledger = ledger();
        let first = ledger
            .enter(Table::Servers, stranger(1), 0, LIMIT)
            .expect("room");
        ledger.hold(first, 0, BYTES / 16);
        assert!(ledger.enter(Table::Servers, stranger(1), 1, LIMIT).is_err());
        let second = ledger
            .enter(Table::Servers, stranger(2), 1, LIMIT)
            .expect("another source");
        ledger.hold(second, 0, BYTES * 3 / 4 - BYTES / 16);
        assert!(ledger.enter(Table::Servers, stranger(3), 2, LIMIT).is_err());
        assert!(
            ledger
                .enter(Table::Servers, Sender::Known(None), 2, LIMIT)
                .is_ok()
        );
        assert!(ledger.has_room(BYTES / 4) && !ledger.has_room(BYTES / 4 + 1));
        ledger.hold(first, BYTES / 16, 0);
        ledger.hold(second, BYTES * 3 / 4 - BYTES / 16, 0);
        assert_eq!(ledger.bytes(), 0);
    }

    #[test]
    fn a_table_of_any_number_of_sources_dies_with_them() {
        let mut ledger = ledger();
        let accounts: Vec<Account> = (0..1000)
            .filter_map(|last| ledger.enter(Table::Parked, stranger(last), 0, LIMIT).ok())
            .collect();
        assert_eq!((accounts.len(), ledger.stats().sources), (1000, 1000));
        for account in accounts {
            ledger.leave(Table::Parked, account);
        }
        assert_eq!((ledger.stats().sources, ledger.by_key.len()), (0, 0));
    }
}
