//! Compares all records of the store with those of this node. Each side gets what is newer on the other. A new node has no records, so this
//! is also how it gets its bindings; and an empty store has none, so this is also how it gets them back.

use super::layout::{BUCKETS, BUCKETS_PER_SHARD, SHARDS};
use super::ledger::{Key, Place};
use super::locations::{BATCH, FleetLocations};
use super::outbox::Outgoing;
use super::received::Received;
use super::session::{Position, Session};
use std::collections::{HashMap, HashSet};
use tandem_store::fleet::Version;
use tokio::task::yield_now;

/// Buckets that are scanned at once.
const WIDTH: u16 = 8;

/// What a comparison found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Compared {
    /// Records in the store.
    pub(super) found: u64,
    /// Records that the store lacked.
    pub(super) written: u64,
}

/// Compares all buckets. Nodes begin at different ones, so that they do not all write the same records to an empty store.
pub(super) async fn compare(
    fleet: &FleetLocations,
    session: &mut Session,
    position: &Position,
) -> anyhow::Result<Compared> {
    fleet.counters.resynchronisations.inc();
    // What overflows from now on is noted again.
    fleet.outbox.note_comparison();
    let mut compared = Compared::default();
    let mut missing = HashSet::new();
    let first = fleet.address_place(fleet.instance.as_bytes()).0 / WIDTH;
    let parts = BUCKETS / WIDTH;
    for part in (first..parts).chain(0..first) {
        let buckets = part * WIDTH..(part + 1) * WIDTH;
        let mut cursors: Vec<(u16, u64)> = buckets.clone().map(|bucket| (bucket, 0)).collect();
        let mut seen: HashMap<u16, HashMap<Key, Version>> =
            buckets.map(|bucket| (bucket, HashMap::new())).collect();
        while !cursors.is_empty() {
            let scanned = session.scan(&cursors).await?;
            let mut next = Vec::new();
            for ((bucket, _), (cursor, records)) in cursors.into_iter().zip(scanned) {
                for received in receive_all(fleet, bucket, &records) {
                    compared.found += 1;
                    let (key, version) = (received.place.1, received.version);
                    seen.entry(bucket).or_default().insert(key, version);
                }
                if cursor != 0 {
                    next.push((bucket, cursor));
                }
                yield_now().await;
            }
            cursors = next;
        }
        for (bucket, seen) in seen {
            note_missing(fleet, bucket, &seen, &mut missing);
        }
        fleet.locations().make_room();
    }
    compared.written = write_missing(fleet, session, position, missing).await?;
    Ok(compared)
}

/// Takes over the records of a bucket. Returns those that could be read.
pub(super) fn receive_all(
    fleet: &FleetLocations,
    bucket: u16,
    records: &[Vec<u8>],
) -> Vec<Received> {
    let now = fleet.now();
    let pairs = records.chunks_exact(2).filter_map(|pair| match pair {
        [field, value] => fleet.receive(field, value, now, |found| found == bucket),
        _ => None,
    });
    pairs.collect()
}

fn note_missing(
    fleet: &FleetLocations,
    bucket: u16,
    seen: &HashMap<Key, Version>,
    missing: &mut HashSet<Place>,
) {
    let newer = fleet.ledger().newer_than(bucket, seen);
    missing.extend(newer.into_iter().map(|(key, _)| (bucket, key)));
}

/// Writes the records of these places. A binding that a worker has changed since is left to the next stamp.
async fn write_missing(
    fleet: &FleetLocations,
    session: &mut Session,
    position: &Position,
    missing: HashSet<Place>,
) -> anyhow::Result<u64> {
    if missing.is_empty() {
        return Ok(0);
    }
    let mut written = 0;
    let removals = removals(fleet, &missing);
    for batch in removals.chunks(BATCH) {
        written += session.write(batch, position, &fleet.origin).await?;
    }
    let mut addresses = fleet.all_addresses();
    addresses.retain(|address| {
        let (bucket, hash) = fleet.address_place(address);
        let ledger = fleet.ledger();
        let mut entries = ledger.of_address(bucket, hash);
        entries.any(|(key, _)| missing.contains(&(bucket, key)))
    });
    // The script writes a batch shard by shard.
    addresses.sort_by_cached_key(|address| fleet.address_place(address));
    for batch in addresses.chunks(BATCH) {
        let records = bindings(fleet, batch, &missing);
        written += session.write(&records, position, &fleet.origin).await?;
    }
    fleet.counters.sent.inc_by(written);
    Ok(written)
}

fn removals(fleet: &FleetLocations, missing: &HashSet<Place>) -> Vec<Outgoing> {
    let ledger = fleet.ledger();
    let mut places: Vec<Place> = missing.iter().copied().collect();
    places.sort_unstable();
    let record = |place: Place| {
        let entry = ledger.known(place).filter(|entry| entry.is_removed())?;
        let address = ledger.removed_address(place)?;
        fleet.record(&ledger, place, *entry, address, None)
    };
    places.into_iter().filter_map(record).collect()
}

fn bindings(
    fleet: &FleetLocations,
    addresses: &[Box<[u8]>],
    missing: &HashSet<Place>,
) -> Vec<Outgoing> {
    let (ledger, now) = (fleet.ledger(), fleet.now());
    let mut records = Vec::new();
    for address in addresses {
        fleet.locations().visit(address, now, |binding| {
            let place = fleet.place(address, binding);
            let known = ledger.known(place).copied();
            let is_stamped = |known: &super::ledger::Entry| {
                !known.is_removed() && known.fingerprint == fleet.fingerprint(binding)
            };
            if let Some(known) = known
                .filter(is_stamped)
                .filter(|_| missing.contains(&place))
            {
                records.extend(fleet.record(&ledger, place, known, address, Some(binding)));
            }
        });
    }
    records.sort_by_key(|record| record.place);
    records
}

const _: () = assert!(
    BUCKETS == SHARDS * BUCKETS_PER_SHARD && BUCKETS.is_multiple_of(WIDTH),
    "every bucket belongs to a part"
);
