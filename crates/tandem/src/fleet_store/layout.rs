//! The keys in the store. All nodes of a fleet, of all versions, must agree on them.
//!
//! ```text
//! PREFIX:{l3}:state    hash: `epoch` (random, made when the shard is first used) and `number` (of the last change)
//! PREFIX:{l3}:changes  stream: the latest changes of the shard
//! PREFIX:{l3}:b17      hash: the records of one bucket of the shard
//! ```
//! The letter is the keyspace: `l` for locations. Another kind of state gets a letter, a stream and buckets of its own. The part in braces
//! is the hash tag of a cluster: all keys of a shard are on one server, as its scripts require.

/// Parts of a keyspace, each with a stream of changes.
pub(super) const SHARDS: u16 = 8;
/// Hashes in each part. With a million bindings each has about a thousand, which is one step of a scan.
pub(super) const BUCKETS_PER_SHARD: u16 = 128;
/// All buckets.
pub(super) const BUCKETS: u16 = SHARDS * BUCKETS_PER_SHARD;

/// The names of the keys of one keyspace.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    prefix: String,
    keyspace: char,
}

impl Layout {
    /// The keys of the bindings.
    pub(super) fn of_locations(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            keyspace: 'l',
        }
    }

    pub(super) fn state(&self, shard: u16) -> String {
        self.key(shard, "state")
    }

    pub(super) fn changes(&self, shard: u16) -> String {
        self.key(shard, "changes")
    }

    pub(super) fn bucket(&self, bucket: u16) -> String {
        self.key(shard(bucket), &format!("b{}", bucket % BUCKETS_PER_SHARD))
    }

    fn key(&self, shard: u16, name: &str) -> String {
        let Self { prefix, keyspace } = self;
        format!("{prefix}:{{{keyspace}{shard}}}:{name}")
    }
}

/// The shard of a bucket.
pub(super) const fn shard(bucket: u16) -> u16 {
    bucket / BUCKETS_PER_SHARD
}

/// The bucket of an address of record: its FNV-1a hash, with the upper half folded in.
pub(super) fn bucket_of(address: &[u8]) -> u16 {
    let hash = address.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    ((hash ^ hash >> 16) % u32::from(BUCKETS)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_buckets_stay_as_they_are() {
        let layout = Layout::of_locations("tandem");
        assert_eq!(bucket_of(b"alice@example.org"), 95);
        assert_eq!(layout.bucket(95), "tandem:{l0}:b95");
        assert_eq!(layout.changes(6), "tandem:{l6}:changes");
        assert_eq!(layout.state(6), "tandem:{l6}:state");
    }

    #[test]
    fn addresses_spread_over_the_buckets() {
        let mut buckets = vec![0_u32; usize::from(BUCKETS)];
        for number in 0..200_000 {
            let address = format!("user{number}@example.org");
            buckets[usize::from(bucket_of(address.as_bytes()))] += 1;
        }
        assert!(buckets.iter().all(|count| (100..300).contains(count)));
    }
}
