//! Sets of members of a group.

/// The members of a group that a call has tried. They are numbered by one [`Group`](super::Group): a call that fails over keeps the group
/// that it began with, also if the configuration changes meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriedSet(u64);

impl TriedSet {
    /// Adds a member. Numbers from 64 on do not exist and are ignored.
    pub const fn insert(&mut self, member: u8) {
        if member < 64 {
            self.0 |= 1 << member;
        }
    }

    /// Whether it contains the member.
    pub const fn contains(self, member: u8) -> bool {
        member < 64 && self.0 & (1 << member) != 0
    }

    /// How many members were tried.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether none was tried.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Members that a choice considers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Members(pub(super) u64);

impl Members {
    pub(super) const fn insert(&mut self, member: usize) {
        self.0 |= 1 << (member & 63);
    }

    pub(super) const fn remove(&mut self, member: usize) {
        self.0 &= !(1 << (member & 63));
    }

    pub(super) const fn contains(self, member: usize) -> bool {
        self.0 & (1 << (member & 63)) != 0
    }

    pub(super) const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The member after `rank` others; `None` if there are fewer.
    pub(super) fn nth(mut self, rank: u64) -> Option<usize> {
        for _ in 0..rank.min(64) {
            self.0 &= self.0.wrapping_sub(1);
        }
        self.iter().next()
    }

    /// All members in order.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let next = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            (next < 64).then_some(next)
        })
    }

    /// All members in order, beginning with `first`.
    pub(super) fn iter_from(self, first: usize) -> impl Iterator<Item = usize> {
        let before = (1_u64 << (first & 63)) - 1;
        let (head, tail) = (Self(self.0 & before), Self(self.0 & !before));
        tail.iter().chain(head.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_listed_in_order_and_by_rank() {
        let mut members = Members::default();
        for member in [63, 0, 5, 40] {
            members.insert(member);
        }
        members.remove(40);
        assert!(members.iter().eq([0, 5, 63]));
        assert!(members.iter_from(5).eq([5, 63, 0]));
        assert!(members.iter_from(63).eq([63, 0, 5]));
        let ranks = [0, 1, 2, 3, 64, u64::MAX].map(|rank| members.nth(rank));
        assert_eq!(ranks, [Some(0), Some(5), Some(63), None, None, None]);
    }

    #[test]
    fn a_member_that_does_not_exist_is_not_tried() {
        let mut tried = TriedSet::default();
        tried.insert(64);
        assert!(tried.is_empty() && !tried.contains(64));
        tried.insert(63);
        assert!(tried.contains(63) && tried.len() == 1);
    }
}
