//! The choice of a member for a call.

use super::group::Group;
use super::place::Place;
use super::search::{Candidate, Search, Visitor};
use super::server::Gateway;
use super::statistics::count;
use super::tried::TriedSet;
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
    /// No gateway of any of the groups is up, so this one was chosen although it is inactive or rests.
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
    /// Whether the caller of [`Search::choose`] admits another call of the gateway. The choice asks this after all other conditions,
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

impl<'g, I> Search<I>
where
    I: Iterator<Item = (&'g Group, TriedSet)> + Clone,
{
    /// Chooses a gateway for a call, takes a place there, and counts the call as tried. It takes no lock and does not allocate. `None` if no
    /// gateway takes the call; [`Admission::skipped`] was called with the reasons.
    pub fn choose(self, admission: &mut impl Admission) -> Option<Choice<'g>> {
        let now = self.now;
        self.walk(&mut Call { now, admission })
    }
}

impl Group {
    /// Chooses a member for a call that goes to no other group: [`Search::choose`].
    pub fn choose(
        &self,
        call_hash: u64,
        tried: TriedSet,
        now: Time,
        admission: &mut impl Admission,
    ) -> Option<Choice<'_>> {
        let only = std::iter::once((self, tried));
        Search::new(only, call_hash, now).choose(admission)
    }
}

/// Enters the first gateway that takes it.
struct Call<'a, A> {
    now: Time,
    admission: &'a mut A,
}

impl<'g, A: Admission> Visitor<'g> for Call<'_, A> {
    type Taken = Choice<'g>;

    const TAKES_TURN: bool = true;

    fn meet(&mut self, candidate: Candidate<'g>) -> Option<Choice<'g>> {
        let gateway = candidate.gateway;
        match enter(gateway, candidate.is_trial, self.now, self.admission) {
            Ok(place) => Some(Choice {
                member: candidate.number as u8,
                gateway,
                place,
                last_resort: candidate.is_last_resort,
            }),
            Err(why) => {
                self.admission.skipped(gateway, why);
                None
            }
        }
    }

    fn pass(&mut self, gateway: &Gateway, why: Skip) {
        self.admission.skipped(gateway, why);
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
