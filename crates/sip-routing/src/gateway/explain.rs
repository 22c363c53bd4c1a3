//! What a call would meet in a group, without taking anything.

use super::algorithm::Draw;
use super::choose::Skip;
#[cfg(doc)]
use super::description::Algorithm;
use super::description::AllInactive;
use super::group::{Group, Tier};
use super::server::{Gateway, Standing};
use super::tried::{Members, TriedSet};
use sip_transport::Time;
use std::sync::Arc;

/// What a call would do with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It would try it, after those before it have failed.
    Try,
    /// It would try it, although it is inactive or rests, because no member is active.
    LastResort,
    /// It would not.
    Skip(Skip),
}

impl Group {
    /// Visits each member once: first those that the call would try, in this order, then the others with the reason. It takes no place, no
    /// turn of the round robin and no share of a rate, and it does not ask rates.
    pub fn explain(
        &self,
        call_hash: u64,
        now: Time,
        mut visit: impl FnMut(&Arc<Gateway>, Verdict),
    ) {
        let mut tried = TriedSet::default();
        while let Some((number, verdict)) = self.next(call_hash, tried, now) {
            let Some(member) = self.members.get(number) else {
                return;
            };
            tried.insert(number as u8);
            visit(&member.gateway, verdict);
        }
        for (number, member) in self.members.iter().enumerate() {
            if !tried.contains(number as u8) {
                visit(&member.gateway, Verdict::Skip(why(&member.gateway, now)));
            }
        }
    }

    /// The member that a request goes to which is no call, after it has tried some: its number, and the gateway. It takes no place and
    /// counts nothing. Copies of a request go to the same member while the states of the gateways are the same, if the algorithm chooses
    /// by the call alone ([`Algorithm::is_by_call`]).
    pub fn first(&self, call_hash: u64, tried: TriedSet, now: Time) -> Option<(u8, &Arc<Gateway>)> {
        let (number, _) = self.next(call_hash, tried, now)?;
        Some((number as u8, &self.members.get(number)?.gateway))
    }

    /// Whether the call would find a member after it has tried some. Rates are not asked.
    pub fn has_next(&self, call_hash: u64, tried: TriedSet, now: Time) -> bool {
        self.next(call_hash, tried, now).is_some()
    }

    /// The member that the call would choose after it has tried some.
    fn next(&self, call_hash: u64, tried: TriedSet, now: Time) -> Option<(usize, Verdict)> {
        let mut draw = Draw::peek(self, call_hash, tried);
        let mut any_ready = false;
        for tier in &self.tiers {
            let open = self.open(tier, tried, now, |_, _| {});
            any_ready |= open.any_ready;
            if let Some(number) = self.first_with_room(tier, open.members, &mut draw) {
                return Some((number, Verdict::Try));
            }
        }
        if any_ready || self.all_inactive == AllInactive::Refuse {
            return None;
        }
        self.tiers.iter().find_map(|tier| {
            let members = self.last_resort(tier, tried);
            let number = self.first_with_room(tier, members, &mut draw)?;
            Some((number, Verdict::LastResort))
        })
    }

    fn first_with_room(&self, tier: &Tier, mut among: Members, draw: &mut Draw) -> Option<usize> {
        loop {
            let number = self.pick(tier, among, draw)?;
            if !self.members.get(number)?.gateway.is_full() {
                return Some(number);
            }
            among.remove(number);
        }
    }
}

fn why(gateway: &Gateway, now: Time) -> Skip {
    match gateway.standing(now) {
        Standing::Disabled => Skip::Disabled,
        Standing::Inactive => Skip::Inactive,
        Standing::Resting => Skip::Resting,
        Standing::Ready | Standing::Trial => Skip::Full,
    }
}
