//! Picks the home worker of a call with arithmetic that the kernel can also do when it steers datagrams.
//!
//! The hash is 32-bit FNV-1a over the first bytes of the Call-ID, with a final mix. Without the mix, the lowest bit would be a
//! mere parity. It must differ from [`home_hash`](crate::home_hash), which distributes calls over nodes. With the same hash, a
//! node that gets every second call would use only every second worker.

/// Number of bytes of a Call-ID that are hashed. Call-IDs that differ only after them share a home.
pub const OCTETS: usize = 48;
/// The FNV offset basis.
pub const BASIS: u32 = 0x811c_9dc5;
/// The FNV prime.
pub const PRIME: u32 = 0x0100_0193;
/// The shifts of the final mix, before and after the multiplication.
pub const FINAL_SHIFTS: (u32, u32) = (16, 13);
/// The factor of the final mix.
pub const FINAL_FACTOR: u32 = 0x85eb_ca6b;

/// Unkeyed hash of a Call-ID. Modulo the number of workers, it picks the home worker of the call.
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
