//! The order in which a call meets the members of its groups. A call enters the first member that takes it; others only look.

use super::algorithm::Draw;
use super::choose::Skip;
use super::description::AllInactive;
use super::group::{Group, Tier};
use super::server::{Gateway, Standing};
use super::tried::{Members, TriedSet};
use sip_transport::Time;
use std::sync::Arc;

/// A call that looks for a gateway in groups, in their order. Each group comes with its members that the call has tried, as members of any
/// group ([`Group::those`]).
///
/// The members that are up come first, over all groups: the call does not wait for a dead gateway while another one answers. Only if no
/// member of any group is up, the others are tried, in those groups whose [`AllInactive`] allows it. A member that is up but full, over its
/// rate or tried is up: the overflow of a healthy gateway does not help a sick one.
#[derive(Clone, Debug)]
pub struct Search<I> {
    groups: I,
    call_hash: u64,
    pub(super) now: Time,
}

/// A member that a call may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'g> {
    pub(super) group: &'g Group,
    /// Its number in the group.
    pub(super) number: usize,
    pub(super) gateway: &'g Arc<Gateway>,
    /// It is inactive and gets one call as a trial.
    pub(super) is_trial: bool,
    /// No member of any group is up.
    pub(super) is_last_resort: bool,
}

/// What meets the members.
pub(super) trait Visitor<'g> {
    type Taken;

    /// Whether it takes a turn of the round robin.
    const TAKES_TURN: bool;

    /// Takes this member, or goes on to the next one.
    fn meet(&mut self, candidate: Candidate<'g>) -> Option<Self::Taken>;

    /// Notes a member that no call may take now. It may still be met as the last resort.
    fn pass(&mut self, _gateway: &Gateway, _why: Skip) {}
}

/// The members of a tier that a call may take.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    members: Members,
    /// Those of them that are inactive and get one call as a trial.
    trials: Members,
    /// Whether a member of the tier is up, full or not, tried or not.
    any_ready: bool,
    is_last_resort: bool,
}

impl<'g, I> Search<I>
where
    I: Iterator<Item = (&'g Group, TriedSet)> + Clone,
{
    /// A search through these groups. `call_hash` is a hash of the Call-ID, such as [`sip_message::home_hash`].
    pub const fn new(groups: I, call_hash: u64, now: Time) -> Self {
        Self {
            groups,
            call_hash,
            now,
        }
    }

    /// Meets the members in their order until the visitor takes one.
    pub(super) fn walk<V: Visitor<'g>>(self, visitor: &mut V) -> Option<V::Taken> {
        let mut any_ready = false;
        for (group, tried) in self.groups.clone() {
            let mut draw = Draw::new(self.call_hash, tried, V::TAKES_TURN);
            for tier in &group.tiers {
                let open = group.open(tier, tried, self.now, visitor);
                any_ready |= open.any_ready;
                let taken = group.meet(tier, open, &mut draw, visitor);
                if taken.is_some() {
                    return taken;
                }
            }
        }
        if any_ready {
            return None;
        }
        let may_try = |group: &Group| group.all_inactive == AllInactive::Try;
        let mut groups = self.groups.filter(|(group, _)| may_try(group));
        groups.find_map(|(group, tried)| {
            let mut draw = Draw::new(self.call_hash, tried, V::TAKES_TURN);
            group.tiers.iter().find_map(|tier| {
                let open = group.last_resort(tier, tried);
                group.meet(tier, open, &mut draw, visitor)
            })
        })
    }
}

impl Group {
    /// The members whose gateways satisfy a condition.
    pub fn those(&self, condition: impl Fn(&Arc<Gateway>) -> bool) -> TriedSet {
        let mut found = TriedSet::default();
        for (member, number) in self.members.iter().zip(0..) {
            if condition(&member.gateway) {
                found.insert(number);
            }
        }
        found
    }

    /// The members of a tier that take calls and that the call has not tried.
    fn open<'g>(
        &self,
        tier: &Tier,
        tried: TriedSet,
        now: Time,
        visitor: &mut impl Visitor<'g>,
    ) -> Open {
        let mut open = Open::default();
        for (number, member) in self.numbered(tier.members) {
            let standing = member.gateway.standing(now);
            open.any_ready |= standing == Standing::Ready;
            let skip = match standing {
                Standing::Disabled => Some(Skip::Disabled),
                _ if tried.contains(number as u8) => Some(Skip::Tried),
                Standing::Inactive => Some(Skip::Inactive),
                Standing::Resting => Some(Skip::Resting),
                Standing::Ready | Standing::Trial => None,
            };
            if let Some(why) = skip {
                visitor.pass(&member.gateway, why);
                continue;
            }
            open.members.insert(number);
            if standing == Standing::Trial {
                open.trials.insert(number);
            }
        }
        open
    }

    /// The members of a tier that may be tried if no member takes calls.
    fn last_resort(&self, tier: &Tier, tried: TriedSet) -> Open {
        let mut open = Open {
            is_last_resort: true,
            ..Open::default()
        };
        for (number, member) in self.numbered(tier.members) {
            if !tried.contains(number as u8) && !member.gateway.is_disabled() {
                open.members.insert(number);
            }
        }
        open
    }

    /// Meets the open members of a tier, best first.
    fn meet<'g, V: Visitor<'g>>(
        &'g self,
        tier: &Tier,
        mut open: Open,
        draw: &mut Draw,
        visitor: &mut V,
    ) -> Option<V::Taken> {
        while let Some(number) = self.pick(tier, open.members, draw) {
            open.members.remove(number);
            let taken = visitor.meet(Candidate {
                group: self,
                number,
                gateway: &self.members.get(number)?.gateway,
                is_trial: open.trials.contains(number),
                is_last_resort: open.is_last_resort,
            });
            if taken.is_some() {
                return taken;
            }
        }
        None
    }
}
