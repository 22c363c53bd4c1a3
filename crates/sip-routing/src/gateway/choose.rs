//! The choice of a member for a call.

use super::algorithm::Draw;
use super::description::AllInactive;
use super::group::{Group, Member, Tier};
use super::place::Place;
use super::server::{Gateway, Standing};
use super::statistics::count;
use super::tried::{Members, TriedSet};
use sip_transport::Time;
use std::sync::Arc;

/// A member that a call goes to.
#[derive(Debug)]
pub struct Choice<'g> {
    /// Its number in the group, for [`TriedSet::insert`].
    pub member: u8,
    /// The gateway.
    pub gateway: &'g Arc<Gateway>,
    /// The call's place there. The call holds it until it ends, or until it fails over.
    pub place: Place,
    /// No member is active, so this one was chosen although it is inactive or rests.
    pub last_resort: bool,
}

/// Why a member was not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// The call has tried it.
    Tried,
    /// An operator took it out.
    Disabled,
    /// It does not answer. It may still be chosen as the last resort.
    Inactive,
    /// It asked for a rest that is not over. It may still be chosen as the last resort.
    Resting,
    /// It has its maximum of calls.
    Full,
    /// It gets as many calls per second as it may.
    RateLimited,
}

impl Skip {
    /// The name for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tried => "tried",
            Self::Disabled => "disabled",
            Self::Inactive => "inactive",
            Self::Resting => "resting",
            Self::Full => "full",
            Self::RateLimited => "rate limited",
        }
    }
}

/// What a choice asks and reports, besides the state of the gateways.
pub trait Admission {
    /// Whether the caller of [`Group::choose`] admits another call of the gateway. The choice asks this after all other conditions,
    /// including the rate of the gateway itself, except that another worker may take the trial of an inactive gateway in the same moment.
    fn admits(&mut self, gateway: &Gateway, now: Time) -> bool;

    /// Called for each member that is not chosen. A member that is reported as inactive or resting may then be chosen as the last resort.
    fn skipped(&mut self, _gateway: &Gateway, _why: Skip) {}
}

/// Admits every call.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRates;

impl Admission for NoRates {
    fn admits(&mut self, _gateway: &Gateway, _now: Time) -> bool {
        true
    }
}

/// The members of a tier that a call may take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Open {
    pub(super) members: Members,
    /// Those of them that are inactive and get one call as a trial.
    pub(super) trials: Members,
    /// Whether a member of the tier takes calls, full or not, tried or not.
    pub(super) any_ready: bool,
}

impl Group {
    /// Chooses a member for a call, takes a place there, and counts the call as tried.
    ///
    /// `call_hash` is a hash of the Call-ID, such as [`sip_message::home_hash`]. It takes no lock and does not allocate. `None` if no
    /// member takes the call; [`Admission::skipped`] was called with the reasons.
    ///
    /// If some members are up but full, over their rate or tried, inactive ones get no call in their place: the overflow of a healthy
    /// gateway does not help a sick one. Only if no member is up at all, [`AllInactive`] decides.
    pub fn choose(
        &self,
        call_hash: u64,
        tried: TriedSet,
        now: Time,
        admission: &mut impl Admission,
    ) -> Option<Choice<'_>> {
        let mut draw = Draw::of_call(self, call_hash, tried);
        let mut any_ready = false;
        for tier in &self.tiers {
            let skipped = |gateway: &Gateway, why| admission.skipped(gateway, why);
            let open = self.open(tier, tried, now, skipped);
            any_ready |= open.any_ready;
            if let Some(choice) = self.take(tier, open, &mut draw, now, admission) {
                return Some(choice);
            }
        }
        if any_ready || self.all_inactive == AllInactive::Refuse {
            return None;
        }
        self.tiers.iter().find_map(|tier| {
            let open = Open {
                members: self.last_resort(tier, tried),
                ..Open::default()
            };
            let choice = self.take(tier, open, &mut draw, now, admission)?;
            Some(Choice {
                last_resort: true,
                ..choice
            })
        })
    }

    /// The members of a tier that take calls and that the call has not tried.
    pub(super) fn open(
        &self,
        tier: &Tier,
        tried: TriedSet,
        now: Time,
        mut skipped: impl FnMut(&Gateway, Skip),
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
                skipped(&member.gateway, why);
                continue;
            }
            open.members.insert(number);
            if standing == Standing::Trial {
                open.trials.insert(number);
            }
        }
        open
    }

    /// The members of a tier that may be tried if none takes calls.
    pub(super) fn last_resort(&self, tier: &Tier, tried: TriedSet) -> Members {
        let mut members = Members::default();
        for (number, member) in self.numbered(tier.members) {
            if !tried.contains(number as u8) && !member.gateway.is_disabled() {
                members.insert(number);
            }
        }
        members
    }

    /// Takes a place on one of the members, best first.
    fn take(
        &self,
        tier: &Tier,
        mut open: Open,
        draw: &mut Draw,
        now: Time,
        admission: &mut impl Admission,
    ) -> Option<Choice<'_>> {
        while let Some(number) = self.pick(tier, open.members, draw) {
            open.members.remove(number);
            let gateway = &self.members.get(number)?.gateway;
            let is_trial = open.trials.contains(number);
            match enter(gateway, is_trial, now, admission) {
                Ok(place) => {
                    return Some(Choice {
                        member: number as u8,
                        gateway,
                        place,
                        last_resort: false,
                    });
                }
                Err(why) => admission.skipped(gateway, why),
            }
        }
        None
    }

    pub(super) fn numbered(&self, members: Members) -> impl Iterator<Item = (usize, &Member)> {
        let all = members.iter();
        all.filter_map(|number| Some((number, self.members.get(number)?)))
    }
}

/// Takes a place. The place comes before the rate, so that a full gateway does not use up its rate.
fn enter(
    gateway: &Gateway,
    is_trial: bool,
    now: Time,
    admission: &mut impl Admission,
) -> Result<Place, Skip> {
    let counters = &gateway.state.calls.counters;
    let Some(place) = gateway.take_place() else {
        count(&counters.full);
        return Err(Skip::Full);
    };
    if !gateway.admits_rate(now) || !admission.admits(gateway, now) {
        count(&counters.rate_limited);
        return Err(Skip::RateLimited);
    }
    // Last, so that a call that is not sent does not use up the trial.
    if is_trial && !gateway.admits_trial(now) {
        return Err(Skip::Inactive);
    }
    count(&counters.tried);
    Ok(place)
}
