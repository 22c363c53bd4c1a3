//! The calls that a trace follows.

/// Calls of one trace that a worker remembers.
const CALLS: usize = 256;

/// Keyed hashes of Call-IDs. A new call replaces the oldest one, so peers cannot make it grow.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    hashes: [u64; CALLS],
    /// Where the next call goes.
    next: usize,
}

impl Followed {
    pub(super) const fn new() -> Self {
        Self {
            hashes: [0; CALLS],
            next: 0,
        }
    }

    pub(super) fn contains(&self, call: u64) -> bool {
        self.hashes.contains(&call)
    }

    pub(super) fn insert(&mut self, call: u64) {
        if let Some(oldest) = self.hashes.get_mut(self.next) {
            *oldest = call;
        }
        self.next = (self.next + 1) % CALLS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_call_replaces_the_oldest_one() {
        let mut followed = Followed::new();
        for call in 1..=CALLS as u64 + 1 {
            followed.insert(call);
        }
        assert!(!followed.contains(1));
        assert!((2..=CALLS as u64 + 1).all(|call| followed.contains(call)));
    }
}
