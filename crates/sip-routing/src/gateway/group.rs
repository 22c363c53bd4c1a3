//! Groups of gateways, as calls see them.

use super::algorithm::{mix, name_hash};
use super::description::{Algorithm, AllInactive};
use super::server::Gateway;
use super::tried::Members;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The maximum number of members of a group.
pub const MAX_MEMBERS: usize = 64;

/// A group of gateways.
#[derive(Debug)]
pub struct Group {
    pub(super) name: Box<str>,
    pub(super) algorithm: Algorithm,
    pub(super) all_inactive: AllInactive,
    /// By priority, then as declared.
    pub(super) members: Box<[Member]>,
    pub(super) tiers: Box<[Tier]>,
    /// The number of the next call, for round robin. It belongs to the name of the group over all configurations.
    pub(super) turn: Arc<AtomicU64>,
    pub(super) sends_identity: bool,
}

/// A member of a group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) gateway: Arc<Gateway>,
    pub(super) weight: u16,
    pub(super) priority: u16,
    /// The hash of the name: what rendezvous draws with.
    pub(super) seed: u64,
}

/// The members of one priority.
#[derive(Debug)]
pub(super) struct Tier {
    pub(super) members: Members,
    /// Whether all weights are equal.
    pub(super) is_even: bool,
    /// The sum of the weights, divided by their greatest common divisor.
    pub(super) round: u64,
    /// How far round robin steps in a round, so that the turns of a heavy member do not follow each other.
    pub(super) step: u64,
    /// The greatest common divisor of the weights.
    pub(super) unit: u64,
}

impl Member {
    pub(super) fn new(gateway: Arc<Gateway>, weight: u16, priority: u16) -> Self {
        Self {
            seed: mix(name_hash(gateway.name())),
            gateway,
            weight,
            priority,
        }
    }
}

impl Group {
    /// Its name, which is its identity.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How a call chooses among members of one priority.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Whether any member gets an identity of the caller.
    pub const fn sends_identity(&self) -> bool {
        self.sends_identity
    }

    /// The members with weight and priority, in the order of their numbers: by priority, then as declared.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&Arc<Gateway>, u16, u16)> {
        let all = self.members.iter();
        all.map(|it| (&it.gateway, it.weight, it.priority))
    }

    pub(super) fn numbered(&self, members: Members) -> impl Iterator<Item = (usize, &Member)> {
        let all = members.iter();
        all.filter_map(|number| Some((number, self.members.get(number)?)))
    }
}

/// The tiers of members that are sorted by priority.
pub(super) fn tiers(members: &[Member]) -> Box<[Tier]> {
    let mut first = 0;
    let parts = members.chunk_by(|a, b| a.priority == b.priority);
    let tiers = parts.map(|part| {
        let range = first..first + part.len();
        first = range.end;
        Tier::new(range, part)
    });
    tiers.collect()
}

impl Tier {
    fn new(range: Range<usize>, part: &[Member]) -> Self {
        let weights = || part.iter().map(|member| u64::from(member.weight));
        let unit = weights().fold(0, greatest_common_divisor).max(1);
        let round = weights().sum::<u64>() / unit;
        let is_even = weights().all(|weight| weight == unit);
        let mut members = Members::default();
        range.for_each(|member| members.insert(member));
        Self {
            members,
            is_even,
            round,
            step: if is_even { 1 } else { step(round) },
            unit,
        }
    }
}

/// The number next to the golden section of a round that has no common divisor with it. Multiples of it visit every position of the round
/// once, and any few of them in a row lie far apart.
fn step(round: u64) -> u64 {
    let golden = (round * 618 / 1_000).max(1);
    let candidates = (golden..round).chain(1..golden);
    let mut coprime = candidates.filter(|step| greatest_common_divisor(*step, round) == 1);
    coprime.next().unwrap_or(1)
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_visits_every_position_of_a_round() {
        for round in 2..3_000 {
            assert_eq!(
                greatest_common_divisor(step(round), round),
                1,
                "a round of {round}"
            );
        }
        assert_eq!(step(1), 1);
    }
}
