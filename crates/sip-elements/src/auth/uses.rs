//! How often the nonces of one process have been used (RFC 7616 section 3.3: `nc`).

use std::sync::atomic::{AtomicU64, Ordering};

/// How long the same request is accepted again. This is as long as any transaction would retransmit it (64·T1, RFC 3261
/// section 17.1).
const RETRANSMISSION_SECONDS: u32 = 32;

/// The uses of the latest nonces.
pub(super) struct UseTable(Box<[Uses]>);

/// The uses of one nonce. Its slot is its number modulo the number of slots.
struct Uses {
    /// The generation (32 bits) and the highest nonce-count accepted (32 bits). The generation is the nonce's number
    /// divided by the number of slots, plus one; 0 means never used.
    count: AtomicU64,
    /// The fingerprint of the request with that nonce-count (40 bits), and the second in which it was received (24 bits).
    last: AtomicU64,
}

/// The result of using a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A new use.
    New,
    /// The same request again.
    Again,
    /// Another request has used this nonce-count or a higher one, or newer nonces have taken the slot.
    Spent,
}

impl UseTable {
    pub(super) fn new(slots: usize) -> Self {
        // The system provides zeroed memory only when it is first touched, so unused slots cost nothing.
        let uses = vec![[0_u64; 2]; slots.max(1)];
        let uses = uses.into_iter().map(|[count, last]| Uses {
            count: AtomicU64::new(count),
            last: AtomicU64::new(last),
        });
        Self(uses.collect())
    }

    pub(super) fn slots(&self) -> usize {
        self.0.len()
    }

    fn of(&self, number: u64) -> Option<&Uses> {
        self.0.get((number % self.0.len() as u64) as usize)
    }

    fn generation(&self, number: u64) -> u32 {
        ((number / self.0.len() as u64) as u32)
            .wrapping_add(1)
            .max(1)
    }

    /// The content of a slot, for [`UseTable::spend`].
    pub(super) fn count(&self, number: u64) -> u64 {
        let uses = self.of(number);
        uses.map_or(0, |uses| uses.count.load(Ordering::Acquire))
    }

    /// Uses the nonce with this number. The same request is accepted again within the time of retransmissions, because it
    /// may be answered without a transaction. Any other request needs a higher count than all before, or it is a replay.
    /// `current` is the content of the slot, and `last` the fingerprint and the second of the request.
    pub(super) fn spend(
        &self,
        number: u64,
        mut current: u64,
        (nonce_count, last): (u32, u64),
    ) -> Use {
        let Some(uses) = self.of(number) else {
            return Use::Spent;
        };
        let generation = self.generation(number);
        let wanted = u64::from(generation) << 32 | u64::from(nonce_count);
        loop {
            let used_by = (current >> 32) as u32;
            if used_by == generation && current as u32 >= nonce_count {
                let again =
                    current == wanted && is_retransmission(uses.last.load(Ordering::Acquire), last);
                return if again { Use::Again } else { Use::Spent };
            }
            if used_by > generation {
                return Use::Spent;
            }
            match uses.count.compare_exchange_weak(
                current,
                wanted,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break,
                Err(changed) => current = changed,
            }
        }
        uses.last.store(last, Ordering::Release);
        Use::New
    }
}

/// Whether the fingerprints are equal and the time between them is short.
fn is_retransmission(before: u64, again: u64) -> bool {
    let age = (again.wrapping_sub(before)) & 0xff_ffff;
    before >> 24 == again >> 24 && age <= u64::from(RETRANSMISSION_SECONDS)
}
