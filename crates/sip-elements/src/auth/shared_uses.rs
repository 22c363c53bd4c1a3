//! The uses of nonces that the nodes of a fleet tell each other.
//!
//! Each process has a number, its issuer number, which its nonces carry. A node keeps a table of uses for each process that it hears of. It
//! offers its own accepted uses in a queue, which the control plane empties, and takes over those of others.

use super::uses::UseTable;
use arc_swap::ArcSwapOption;
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Processes whose nonces are known. Issuer numbers are given in order, so these are the latest.
const ISSUERS: usize = 256;
/// Uses that wait for the control plane.
const WAITING: usize = 65_536;

/// The accepted use of a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonceUse {
    pub(super) issuer: u16,
    /// The number of the nonce, 40 bits.
    pub(super) number: u64,
    pub(super) nonce_count: u32,
    /// The fingerprint of the request (40 bits), and the second in which it was received (24 bits).
    pub(super) last: u64,
}

impl NonceUse {
    /// The length of its encoding in bytes.
    pub const LENGTH: usize = 19;

    /// Appends its encoding.
    pub fn write(&self, into: &mut Vec<u8>) {
        let [_, _, _, number @ ..] = self.number.to_be_bytes();
        into.extend_from_slice(&self.issuer.to_be_bytes());
        into.extend_from_slice(&number);
        into.extend_from_slice(&self.nonce_count.to_be_bytes());
        into.extend_from_slice(&self.last.to_be_bytes());
    }

    /// Reads its encoding. `None` if the length is another one.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (issuer, rest) = bytes.split_first_chunk::<2>()?;
        let (number, rest) = rest.split_first_chunk::<5>()?;
        let (nonce_count, rest) = rest.split_first_chunk::<4>()?;
        let number = number
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        Some(Self {
            issuer: u16::from_be_bytes(*issuer),
            number,
            nonce_count: u32::from_be_bytes(*nonce_count),
            last: u64::from_be_bytes(rest.try_into().ok()?),
        })
    }
}

/// What a process of a fleet knows of the others.
pub(super) struct SharedUses {
    pub(super) issuer: u16,
    others: Box<[ArcSwapOption<OfIssuer>]>,
    waiting: ArrayQueue<NonceUse>,
    lost: AtomicU64,
}

/// The uses of the nonces of another process.
pub(super) struct OfIssuer {
    issuer: u16,
    pub(super) uses: UseTable,
}

impl SharedUses {
    pub(super) fn new(issuer: u16) -> Self {
        Self {
            issuer,
            others: (0..ISSUERS).map(|_| ArcSwapOption::empty()).collect(),
            waiting: ArrayQueue::new(WAITING),
            lost: AtomicU64::new(0),
        }
    }

    /// The table of another process; `None` if later processes have taken its place.
    pub(super) fn of(&self, issuer: u16, slots: usize) -> Option<Arc<OfIssuer>> {
        let place = self.others.get(usize::from(issuer) % ISSUERS)?;
        let mut fresh = None;
        loop {
            let current = place.load_full();
            match &current {
                Some(known) if known.issuer == issuer => return current,
                Some(known) if is_later(known.issuer, issuer) => return None,
                _ => {}
            }
            let table = fresh.get_or_insert_with(|| {
                Arc::new(OfIssuer {
                    issuer,
                    uses: UseTable::new(slots),
                })
            });
            place.compare_and_swap(&current, Some(Arc::clone(table)));
        }
    }

    /// Offers a use to the control plane.
    pub(super) fn offer(&self, used: NonceUse) {
        if self.waiting.push(used).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn take(&self, most: usize) -> Vec<NonceUse> {
        std::iter::from_fn(|| self.waiting.pop())
            .take(most)
            .collect()
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Whether an issuer number was given after another one. They begin again after the last one.
fn is_later(number: u16, than: u16) -> bool {
    number != than && number.wrapping_sub(than) < u16::MAX / 2
}
