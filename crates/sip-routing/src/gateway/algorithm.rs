//! How a call chooses one of several members.

use super::description::Algorithm;
use super::group::{Group, Member, Tier};
use super::tried::{Members, TriedSet};
use std::sync::atomic::Ordering::Relaxed;

/// The golden section of 2^64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the choices of one call depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    /// The hash of the Call-ID, mixed: the hash that is passed also chooses the worker, so its remainders are not evenly distributed here.
    hash: u64,
    /// The number of the call, for round robin, once it is needed.
    turn: Option<u64>,
    takes_turn: bool,
    /// Choices so far, for draws that must differ.
    draws: u64,
}

impl Draw {
    /// The draw of a call that has tried some members of the group. Only its first choice in the group has a turn of the round robin: the
    /// calls of a gateway that died are spread over the others by their hash, and do not shift the turns of healthy calls. Without
    /// `takes_turn`, the turn remains for the next call.
    pub(super) fn new(call_hash: u64, tried: TriedSet, takes_turn: bool) -> Self {
        let hash = mix(call_hash);
        Self {
            hash,
            turn: (!tried.is_empty()).then_some(hash),
            takes_turn,
            draws: u64::from(tried.len()),
        }
    }

    /// The number of the call, for round robin. A call takes one only where it has a choice, so that a group whose members are all dead or
    /// tried costs it no turn.
    fn turn(&mut self, group: &Group) -> u64 {
        *self.turn.get_or_insert_with(|| {
            if self.takes_turn {
                group.turn.fetch_add(1, Relaxed)
            } else {
                group.turn.load(Relaxed)
            }
        })
    }
}

impl Group {
    /// Chooses one of these members, which are of this tier. `None` if there are none.
    pub(super) fn pick(&self, tier: &Tier, among: Members, draw: &mut Draw) -> Option<usize> {
        draw.draws += 1;
        if among.len() < 2 {
            return among.nth(0);
        }
        match self.algorithm {
            Algorithm::Rendezvous => self.rendezvous(tier, among, draw.hash),
            Algorithm::RoundRobin => self.in_turn(tier, among, draw.turn(self)),
            Algorithm::Random => {
                let number = mix(draw.hash.wrapping_add(draw.draws));
                self.by_weight(tier, among, number)
            }
            Algorithm::LeastCalls => self.fewest_calls(among, draw.hash),
        }
    }

    /// Weighted rendezvous: each member draws from the call and its own name; the largest draw wins. With unequal weights, each draw
    /// becomes an exponentially distributed waiting time with the weight as rate, and the shortest wins. Its order is that of the draws
    /// if the weights are equal.
    fn rendezvous(&self, tier: &Tier, among: Members, hash: u64) -> Option<usize> {
        let draw = |it: &Member| mix(it.seed.wrapping_add(hash));
        let all = self.numbered(among);
        let best = if tier.is_even {
            all.max_by_key(|(_, it)| draw(it))
        } else {
            let draws = all.map(|(number, it)| ((number, it), waiting_time(draw(it), it.weight)));
            let shortest = draws.min_by(|(_, a), (_, b)| a.total_cmp(b));
            shortest.map(|(best, _)| best)
        };
        best.map(|(number, _)| number)
    }

    /// Round robin. With all members of the tier, each gets exactly its weight in every round, because the steps of a round visit every
    /// position once. Without some of them, equal weights stay exact, and unequal ones follow a sequence that stays close.
    fn in_turn(&self, tier: &Tier, among: Members, turn: u64) -> Option<usize> {
        if tier.is_even {
            return among.nth(turn % u64::from(among.len()));
        }
        if among == tier.members {
            let position = turn % tier.round * tier.step % tier.round;
            return self.at(among, position * tier.unit);
        }
        self.by_weight(tier, among, turn.wrapping_mul(GOLDEN))
    }

    /// Chooses by weight, with a number from all of 64 bits.
    fn by_weight(&self, tier: &Tier, among: Members, number: u64) -> Option<usize> {
        if tier.is_even {
            return among.nth(scale(number, u64::from(among.len())));
        }
        let sum = self
            .numbered(among)
            .map(|(_, it)| u64::from(it.weight))
            .sum();
        self.at(among, scale(number, sum))
    }

    /// The member at a position, where each takes as many positions as it has weight.
    fn at(&self, among: Members, position: u64) -> Option<usize> {
        let mut end = 0;
        let mut all = self.numbered(among);
        let found = all.find(|(_, it)| {
            end += u64::from(it.weight);
            position < end
        });
        found.map(|(number, _)| number)
    }

    /// The member that has the fewest calls relative to its weight, this call included. Equal ones are chosen by the call.
    fn fewest_calls(&self, among: Members, hash: u64) -> Option<usize> {
        let first = among.nth(hash % u64::from(among.len()))?;
        let mut best: Option<(usize, u64, u64)> = None;
        for number in among.iter_from(first) {
            let member = self.members.get(number)?;
            let calls = member.gateway.live_calls() + 1;
            let weight = u64::from(member.weight);
            if best.is_none_or(|(_, least, of)| calls * of < least * weight) {
                best = Some((number, calls, weight));
            }
        }
        best.map(|(number, ..)| number)
    }
}

/// Exponentially distributed, with the weight as rate.
fn waiting_time(draw: u64, weight: u16) -> f64 {
    -unit(draw).ln() / f64::from(weight)
}

/// FNV-1a over a name. It need not withstand attacks: the names are those of the operator.
pub(super) fn name_hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// `SplitMix64`.
pub(super) const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(GOLDEN);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Maps 64 bits to a number below `limit`.
const fn scale(number: u64, limit: u64) -> u64 {
    ((number as u128 * limit as u128) >> 64) as u64
}

/// Maps 64 bits to a number above 0 and up to 1.
#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits are what a float has room for"
)]
fn unit(number: u64) -> f64 {
    ((number >> 11) + 1) as f64 / (1_u64 << 53) as f64
}
