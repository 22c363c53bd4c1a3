//! Which worker of a process is the home of a call: arithmetic that the kernel can do as well, when it steers datagrams.
//!
//! FNV-1a in 32 bits over the first octets of the Call-ID, and a last mix without which the lowest bit would be a mere parity. It says
//! nothing about nodes ([`home_hash`](crate::home_hash) does): were it the same, a node that got every second call would use every
//! second worker.

/// How many octets of a Call-ID count. Call-IDs that differ only behind them share a home.
pub const OCTETS: usize = 48;
/// The hash of nothing, before the last mix.
pub const BASIS: u32 = 0x811c_9dc5;
/// What the hash is multiplied with after each octet.
pub const PRIME: u32 = 0x0100_0193;
/// By how many bits the hash is shifted before and after the last multiplication.
pub const FINAL_SHIFTS: (u32, u32) = (16, 13);
/// What it is multiplied with last.
pub const FINAL_FACTOR: u32 = 0x85eb_ca6b;

/// Unkeyed hash of a Call-ID; modulo the number of workers it picks the home of the call among them.
#[inline]
pub fn worker_hash(call_id: &[u8]) -> u32 {
    let hash = call_id.iter().take(OCTETS).fold(BASIS, |hash, &octet| {
        (hash ^ u32::from(octet)).wrapping_mul(PRIME)
    });
    ((hash >> FINAL_SHIFTS.0) ^ hash).wrapping_mul(FINAL_FACTOR) >> FINAL_SHIFTS.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_octets_count() {
        let long = [b'x'; OCTETS + 1];
        assert_eq!(worker_hash(&long), worker_hash(&long[..OCTETS]));
        assert_ne!(worker_hash(&long), worker_hash(&long[..OCTETS - 1]));
        assert_ne!(worker_hash(b"a"), worker_hash(b""));
    }

    #[test]
    fn call_ids_that_count_up_spread_over_any_number_of_workers() {
        let ids: Vec<String> = (0..12_000).map(|n| format!("{n}-4711@192.0.2.1")).collect();
        for workers in 2..=16 {
            let mut homes = vec![0; workers];
            for id in &ids {
                homes[worker_hash(id.as_bytes()) as usize % workers] += 1;
            }
            let fair = ids.len() / workers;
            assert!(
                homes
                    .iter()
                    .all(|&count| (fair * 8 / 10..=fair * 12 / 10).contains(&count)),
                "{homes:?}"
            );
        }
    }
}
