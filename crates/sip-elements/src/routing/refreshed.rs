//! Remote targets that a target refresh has changed (RFC 3261 section 12.2). The route set of a dialog never changes,
//! so its proofs name the targets that the dialog began with. The home worker of the call remembers the current targets
//! here.
//!
//! An entry keeps a dialog alive beyond the expiry of its proofs: each refresh renews its lifetime.

use sip_transport::Time;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// One source may use at most the table's limit divided by this.
const SHARE: usize = 4;

/// Counts of refreshed targets: `recorded == ended + live`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefreshedStats {
    /// Targets that were recorded.
    pub recorded: u64,
    /// Targets that were forgotten: with their dialog, at their expiry, or to make room.
    pub ended: u64,
    /// Targets that are remembered now.
    pub live: u64,
    /// Targets that were forgotten to make room, or never recorded because their source has used its share.
    pub evicted: u64,
}

/// The current targets of one worker's dialogs.
#[derive(Debug, Default)]
pub(crate) struct Refreshed {
    entries: HashMap<u64, Entry>,
    /// Keys and serial numbers in order of insertion. An entry that has ended since then is missing from `entries`, or
    /// has another serial number there.
    order: VecDeque<(u64, u64)>,
    sources: HashMap<IpAddr, usize>,
    serial: u64,
    stats: RefreshedStats,
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    target: u64,
    /// The previous target: requests to it may be under way.
    previous: u64,
    expires: Time,
    source: IpAddr,
}

/// A target that a 2xx has confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refresh {
    /// [`target_key`](super::proof::target_key).
    pub(crate) key: u64,
    /// [`target_hash`](super::proof::target_hash).
    pub(crate) target: u64,
    /// Source address of the request that belongs to the dialog.
    pub(crate) source: IpAddr,
    /// Whether that source may use more than its share.
    pub(crate) is_trusted: bool,
}

impl Refreshed {
    /// Whether this is the current or the previous target of a dialog.
    pub(crate) fn knows(&self, key: u64, target: u64, now: Time) -> bool {
        self.entries.get(&key).is_some_and(|entry| {
            entry.expires > now && (entry.target == target || entry.previous == target)
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Records a target for `lifetime`. If the table has `most` entries, the oldest one is evicted.
    pub(crate) fn record(&mut self, refresh: Refresh, now: Time, lifetime: Duration, most: usize) {
        let expires = now + lifetime;
        if let Some(entry) = self.entries.get_mut(&refresh.key) {
            if entry.target != refresh.target {
                entry.previous = entry.target;
                entry.target = refresh.target;
            }
            entry.expires = expires;
            return;
        }
        let source = network_of(refresh.source);
        let has = self.sources.get(&source).copied().unwrap_or(0);
        if most == 0 || (!refresh.is_trusted && has >= most.div_ceil(SHARE)) {
            self.stats.evicted += 1;
            return;
        }
        self.make_room(now, most);
        self.serial += 1;
        self.order.push_back((refresh.key, self.serial));
        *self.sources.entry(source).or_default() += 1;
        self.entries.insert(
            refresh.key,
            Entry {
                serial: self.serial,
                target: refresh.target,
                previous: refresh.target,
                expires,
                source,
            },
        );
        self.stats.recorded += 1;
    }

    /// Removes an entry, for example because its dialog has ended.
    pub(crate) fn forget(&mut self, key: u64) {
        if let Some(entry) = self.entries.remove(&key) {
            self.stats.ended += 1;
            if let Some(has) = self.sources.get_mut(&entry.source) {
                *has -= 1;
                if *has == 0 {
                    self.sources.remove(&entry.source);
                }
            }
        }
    }

    pub(crate) fn stats(&self) -> RefreshedStats {
        RefreshedStats {
            live: self.entries.len() as u64,
            ..self.stats
        }
    }

    /// Removes expired entries at the old end, and the oldest entry if the table is full.
    fn make_room(&mut self, now: Time, most: usize) {
        while let Some(&(key, serial)) = self.order.front() {
            let entry = self.entries.get(&key);
            let entry = entry.filter(|entry| entry.serial == serial);
            let is_over = entry.is_none_or(|entry| entry.expires <= now);
            if !is_over && self.entries.len() < most {
                break;
            }
            self.order.pop_front();
            if entry.is_some() {
                self.stats.evicted += u64::from(!is_over);
                self.forget(key);
            }
        }
        // Entries that have ended may stay in the order as long as they are not in the majority.
        if self.order.len() > 2 * self.entries.len() + 16 {
            let entries = &self.entries;
            let is_live = |key: &u64, serial: &u64| {
                entries
                    .get(key)
                    .is_some_and(|entry| entry.serial == *serial)
            };
            self.order.retain(|(key, serial)| is_live(key, serial));
        }
    }
}

/// Owner of a share: an IPv4 address, or the upper 64 bits of an IPv6 address, which name a network.
fn network_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        ip @ IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> Time {
        Time::from_unix_seconds(seconds)
    }

    fn refresh(key: u64, target: u64, last: u8) -> Refresh {
        Refresh {
            key,
            target,
            source: [192, 0, 2, last].into(),
            is_trusted: false,
        }
    }

    fn assert_counts(table: &Refreshed) {
        let stats = table.stats();
        assert_eq!(stats.recorded, stats.ended + stats.live, "{stats:?}");
        let shares: usize = table.sources.values().sum();
        assert_eq!(shares as u64, stats.live);
    }

    #[test]
    fn the_present_target_and_the_one_before_are_known_until_the_dialog_ends() {
        let mut table = Refreshed::default();
        for target in [10, 11, 12] {
            table.record(refresh(1, target, 1), at(0), LIFETIME, 100);
        }
        assert!(table.knows(1, 12, at(1)) && table.knows(1, 11, at(1)));
        assert!(!table.knows(1, 10, at(1)) && !table.knows(2, 12, at(1)));
        assert!(!table.knows(1, 12, at(3600)), "its time is over");
        table.forget(1);
        assert!(!table.knows(1, 12, at(1)));
        assert_counts(&table);
    }

    #[test]
    fn a_refresh_renews_the_time() {
        let mut table = Refreshed::default();
        table.record(refresh(1, 10, 1), at(0), LIFETIME, 100);
        table.record(refresh(1, 10, 1), at(3000), LIFETIME, 100);
        assert!(table.knows(1, 10, at(6000)));
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut table = Refreshed::default();
        for key in 0..20 {
            table.record(refresh(key, key, key as u8), at(0), LIFETIME, 8);
            assert_counts(&table);
        }
        let known: Vec<u64> = (0..20)
            .filter(|key| table.knows(*key, *key, at(1)))
            .collect();
        assert_eq!(known, (12..20).collect::<Vec<_>>());
        assert_eq!(table.stats().evicted, 12);
    }

    #[test]
    fn one_source_has_no_more_than_its_share() {
        let mut table = Refreshed::default();
        for key in 0..20 {
            table.record(refresh(key, key, 1), at(0), LIFETIME, 8);
        }
        table.record(refresh(100, 1, 2), at(0), LIFETIME, 8);
        assert!(table.knows(100, 1, at(1)), "others have room");
        let known = (0..20).filter(|key| table.knows(*key, *key, at(1)));
        assert_eq!(known.count(), 2);
        let trusted = Refresh {
            is_trusted: true,
            ..refresh(50, 50, 1)
        };
        table.record(trusted, at(0), LIFETIME, 8);
        assert!(table.knows(50, 50, at(1)));
        assert_counts(&table);
    }

    #[test]
    fn dialogs_that_come_and_go_leave_nothing() {
        let mut table = Refreshed::default();
        table.record(refresh(u64::MAX, 1, 9), at(0), LIFETIME, 100);
        for key in 0..10_000 {
            table.record(refresh(key, 1, 1), at(0), LIFETIME, 100);
            table.forget(key);
        }
        assert_eq!((table.entries.len(), table.sources.len()), (1, 1));
        assert!(table.order.len() <= 20, "{}", table.order.len());
        assert_counts(&table);
    }

    #[test]
    fn an_entry_is_small() {
        // A hash table that grows by doubling is at least 7/16 full, and needs one extra byte for each slot.
        let place = size_of::<(u64, Entry)>() + 1;
        let source = size_of::<(IpAddr, usize)>() + 1;
        let order = 2 * size_of::<(u64, u64)>();
        let bytes = (place + source) * 16 / 7 + order;
        println!("refreshed target: at most {bytes} bytes");
        assert!(bytes <= 320, "{bytes}");
    }
}
