//! The values that a plain refresh changes: the end of a binding and the `CSeq` of its last REGISTER.
//!
//! Nearly every address of record has only one binding. Then these values are stored beside its packed record and updated
//! without packing a new one. A hash of everything that a refresh does not change is stored with them, so the record is
//! not even read. Most REGISTERs take this path, and with many bindings they mainly wait for memory.
//!
//! A refresh must not be lost if another worker replaces the record meanwhile. So a worker that computes a new version
//! first seals the old one, and then reads what it copies. A refresh that finds a seal takes the slow path. A seal is
//! never removed: if the new version is not swapped in after all, the next refresh swaps one in.

use super::Binding;
use super::user_agents::kept;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `CSeq` numbers are below 2³¹ (RFC 3261 section 8.1.1.5), so one bit is left for the seal.
const SEALED: u32 = 1 << 31;

/// The end of a binding and its `CSeq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    /// In Unix seconds.
    pub(super) expires_at: u32,
    /// The sequence number.
    pub(super) cseq: u32,
}

/// The values before a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    /// When the binding would have ended.
    pub(super) expires_at: u32,
    /// The end that was last announced.
    pub(super) saved_until: u32,
}

/// [`Moved`] beside a record, and the end that was last announced.
#[derive(Debug)]
pub(super) struct Times {
    /// `expires_at` (32 bits), seal (1 bit), `cseq` (31 bits). 0: not in use, and the packed bindings have their own values.
    moved: AtomicU64,
    /// The `expires_at` that was last announced. It is separate from the rest: at worst a change is announced twice.
    saved_until: AtomicU32,
    /// The hash of the binding as [`rest`] computes it.
    rest: u64,
}

impl Times {
    /// For a record with this one binding.
    pub(super) fn of(binding: &Binding<'_>, saved_until: u32) -> Self {
        let Binding {
            expires_at, cseq, ..
        } = *binding;
        let word = if cseq < SEALED {
            join(Moved { expires_at, cseq })
        } else {
            0
        };
        Self {
            moved: AtomicU64::new(word),
            saved_until: AtomicU32::new(saved_until),
            rest: rest(binding),
        }
    }

    /// For a record with several bindings: not in use.
    pub(super) fn unused() -> Self {
        Self {
            moved: AtomicU64::new(0),
            saved_until: AtomicU32::new(0),
            rest: 0,
        }
    }

    /// The present values, and the end that was last announced. `None`: not in use.
    pub(super) fn read(&self) -> Option<(Moved, u32)> {
        let word = self.moved.load(Ordering::Acquire);
        (word != 0).then(|| (split(word), self.saved_until.load(Ordering::Relaxed)))
    }

    /// Seals the values, so that they never change again.
    pub(super) fn seal(&self) {
        if self.moved.load(Ordering::Relaxed) != 0 {
            self.moved.fetch_or(u64::from(SEALED), Ordering::AcqRel);
        }
    }

    /// Applies a refresh and returns the values before it. `None` if the binding is not a later refresh of this one, if
    /// this one has expired at `now`, or if the values are sealed.
    pub(super) fn advance(&self, binding: &Binding<'_>, now: u32) -> Option<Before> {
        let word = self.moved.load(Ordering::Acquire);
        let (from, to) = (
            split(word),
            Moved {
                expires_at: binding.expires_at,
                cseq: binding.cseq,
            },
        );
        let is_later = from.cseq < to.cseq && to.cseq < SEALED && from.expires_at > now;
        if word & u64::from(SEALED) != 0 || !is_later || self.rest != rest(binding) {
            return None;
        }
        let before = Before {
            expires_at: from.expires_at,
            saved_until: self.saved_until.load(Ordering::Relaxed),
        };
        self.moved
            .compare_exchange(word, join(to), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
            .then_some(before)
    }

    /// Notes the end that was announced.
    pub(super) fn note_saved(&self, until: u32) {
        self.saved_until.store(until, Ordering::Relaxed);
    }
}

/// A hash of everything in a binding that a refresh does not change. It needs no secret: the subscriber of the address
/// provides both sides of the comparison.
fn rest(binding: &Binding<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    for string in [
        binding.contact,
        binding.call_id,
        binding.path,
        binding.instance,
        kept(binding.user_agent),
    ] {
        hasher.write_usize(string.len());
        hasher.write(string);
    }
    hasher.write_u16(binding.q);
    hasher.write_u16(binding.listener.0);
    binding.connection.hash(&mut hasher);
    binding.source.hash(&mut hasher);
    hasher.finish()
}

fn join(moved: Moved) -> u64 {
    u64::from(moved.expires_at) << 32 | u64::from(moved.cseq)
}

fn split(word: u64) -> Moved {
    Moved {
        expires_at: (word >> 32) as u32,
        cseq: word as u32 & !SEALED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(expires_at: u32, cseq: u32) -> Binding<'static> {
        Binding {
            contact: b"sip:a@192.0.2.1",
            q: 1000,
            expires_at,
            call_id: b"843817637684230@998sdasdh09",
            cseq,
            path: b"",
            instance: b"",
            user_agent: b"",
            source: "192.0.2.1:5062".parse().unwrap(),
            listener: sip_transport::ListenerId(0),
            connection: sip_transport::ConnectionId::NONE,
        }
    }

    const BEFORE: Before = Before {
        expires_at: 100,
        saved_until: 50,
    };

    #[test]
    fn a_later_refresh_moves_them_once() {
        let times = Times::of(&binding(100, 7), 50);
        assert_eq!(times.advance(&binding(200, 8), 60), Some(BEFORE));
        let second = Moved {
            expires_at: 200,
            cseq: 8,
        };
        assert_eq!(times.read(), Some((second, 50)));
        assert_eq!(times.advance(&binding(200, 8), 60), None, "that was before");
        times.note_saved(200);
        assert_eq!(times.read(), Some((second, 200)));
    }

    #[test]
    fn nothing_else_moves_them() {
        let refresh = binding(200, 8);
        let others = [
            Binding {
                contact: b"sip:b@192.0.2.1",
                ..refresh
            },
            Binding { q: 999, ..refresh },
            Binding {
                call_id: b"another",
                ..refresh
            },
            Binding { cseq: 7, ..refresh },
            Binding {
                cseq: SEALED,
                ..refresh
            },
            Binding {
                path: b"<sip:edge;lr>",
                ..refresh
            },
            Binding {
                instance: b"<sip:edge;lr>",
                ..refresh
            },
            Binding {
                user_agent: b"<sip:edge;lr>",
                ..refresh
            },
            Binding {
                source: "192.0.2.1:5063".parse().unwrap(),
                ..refresh
            },
            Binding {
                listener: sip_transport::ListenerId(1),
                ..refresh
            },
            Binding {
                connection: sip_transport::ConnectionId::new(0, 1),
                ..refresh
            },
        ];
        let times = Times::of(&binding(100, 7), 50);
        for other in &others {
            assert_eq!(times.advance(other, 60), None, "{other:?}");
        }
        assert_eq!(times.advance(&refresh, 100), None, "it has expired");
        assert_eq!(times.advance(&refresh, 99), Some(BEFORE));
    }

    #[test]
    fn nothing_moves_behind_a_seal() {
        let times = Times::of(&binding(100, 7), 50);
        times.seal();
        assert_eq!(times.advance(&binding(200, 8), 60), None);
        let first = Moved {
            expires_at: 100,
            cseq: 7,
        };
        assert_eq!(times.read(), Some((first, 50)), "but it can be read");
    }

    #[test]
    fn without_room_for_the_seal_they_are_not_in_use() {
        for times in [Times::unused(), Times::of(&binding(100, SEALED), 50)] {
            times.seal();
            assert_eq!(times.read(), None);
            assert_eq!(times.advance(&binding(200, 8), 60), None);
        }
    }
}
