//! What a call would meet in its groups, without taking anything.

use super::choose::Skip;
#[cfg(doc)]
use super::description::Algorithm;
use super::group::Group;
use super::search::{Candidate, Search, Visitor};
use super::server::{Gateway, Standing};
use super::tried::TriedSet;
use sip_transport::Time;
use std::sync::Arc;

/// What a call would do with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It would try it, after those before it have failed.
    Try,
    /// It would try it, although it is inactive or rests, because no gateway of any of the groups is up.
    LastResort,
    /// It would not.
    Skip(Skip),
}

/// Visits each member of these groups once, with the index of its group: first those that the call would try, in this order, then the
/// others with the reason. It takes no place, no turn of the round robin and no share of a rate, and it does not ask rates.
pub fn explain<'g>(
    groups: &[&'g Group],
    call_hash: u64,
    now: Time,
    mut visit: impl FnMut(usize, &Arc<Gateway>, Verdict),
) {
    let mut met: Vec<(usize, Candidate<'g>)> = Vec::new();
    while let Some(next) = next(groups, call_hash, now, &met) {
        let is_of = |group: &&Group| std::ptr::eq(*group, next.group);
        let Some(index) = groups.iter().position(is_of) else {
            return;
        };
        visit(index, next.gateway, next.verdict());
        met.push((index, next));
    }
    for (index, group) in groups.iter().enumerate() {
        for (gateway, ..) in group.members() {
            let mut met = met.iter();
            match met.find(|(_, it)| Arc::ptr_eq(it.gateway, gateway)) {
                Some((of, _)) if *of == index => {}
                Some(_) => visit(index, gateway, Verdict::Skip(Skip::Tried)),
                None => visit(index, gateway, Verdict::Skip(why(gateway, now))),
            }
        }
    }
}

/// The member that the call would choose after it has tried some.
fn next<'g>(
    groups: &[&'g Group],
    call_hash: u64,
    now: Time,
    met: &[(usize, Candidate<'g>)],
) -> Option<Candidate<'g>> {
    let is_met =
        |gateway: &Arc<Gateway>| met.iter().any(|(_, it)| Arc::ptr_eq(it.gateway, gateway));
    let groups = groups.iter().map(|group| (*group, group.those(is_met)));
    Search::new(groups, call_hash, now).walk(&mut WithRoom)
}

impl<'g, I> Search<I>
where
    I: Iterator<Item = (&'g Group, TriedSet)> + Clone,
{
    /// The gateway that a request goes to which is no call. It takes no place and counts nothing, and rates are not asked. Copies of a
    /// request go to the same gateway while the states of the gateways are the same, if the algorithm chooses by the call alone
    /// ([`Algorithm::is_by_call`]).
    pub fn first(self) -> Option<&'g Arc<Gateway>> {
        self.walk(&mut WithRoom).map(|found| found.gateway)
    }
}

impl Group {
    /// The member that a request goes to which is no call, after it has tried some: its number, and the gateway. [`Search::first`] says
    /// more.
    pub fn first(&self, call_hash: u64, tried: TriedSet, now: Time) -> Option<(u8, &Arc<Gateway>)> {
        let only = std::iter::once((self, tried));
        let found = Search::new(only, call_hash, now).walk(&mut WithRoom)?;
        Some((found.number as u8, found.gateway))
    }
}

/// Takes the first member that has room, and changes nothing.
struct WithRoom;

impl<'g> Visitor<'g> for WithRoom {
    type Taken = Candidate<'g>;

    const TAKES_TURN: bool = false;

    fn meet(&mut self, candidate: Candidate<'g>) -> Option<Candidate<'g>> {
        (!candidate.gateway.is_full()).then_some(candidate)
    }
}

impl Candidate<'_> {
    const fn verdict(&self) -> Verdict {
        if self.is_last_resort {
            Verdict::LastResort
        } else {
            Verdict::Try
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
