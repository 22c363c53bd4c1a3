//! Who calls whom.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The phones that there are, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phones {
    /// The first.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Phones {
    /// The last.
    pub const fn last(self) -> u32 {
        self.first.saturating_add(self.count.saturating_sub(1))
    }

    /// Whether there is one of that number.
    pub const fn contain(self, number: u32) -> bool {
        self.first <= number && number <= self.last()
    }

    /// Digits that each number is written with: as many as the last one has, and no fewer than four.
    pub fn digits(self) -> usize {
        self.last().to_string().len().max(4)
    }
}

/// A convention of who calls whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Anybody calls anybody else.
    Any,
    /// Phones live in pods of so many each: phone 4607 is number 7 of pod 46. A phone of a pod with an even number calls its like
    /// in the next pod.
    EvenPodCallsOdd {
        /// Phones of a pod.
        pod: u32,
    },
}

impl Pairing {
    /// Whom a caller may call, where the convention says so.
    ///
    /// # Errors
    /// The number of the caller's pod, which may not call.
    pub const fn callee(self, caller: u32) -> Result<Option<u32>, u32> {
        match self {
            Self::Any => Ok(None),
            Self::EvenPodCallsOdd { pod } => {
                let of = caller / pod;
                if of.is_multiple_of(2) {
                    Ok(Some(caller.saturating_add(pod)))
                } else {
                    Err(of)
                }
            }
        }
    }

    /// Whether such phones can call by it.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn check(self, phones: Phones) -> Result<(), String> {
        let Phones { first, count } = phones;
        if first.checked_add(count).is_none() {
            return Err(format!(
                "{count} phones from {first} on: numbers end at 4294967295"
            ));
        }
        match self {
            Self::Any if count < 2 => Err("one phone has nobody to call: there must be two".into()),
            Self::EvenPodCallsOdd { pod }
                if pod == 0
                    || !first.is_multiple_of(pod * 2)
                    || !count.is_multiple_of(pod * 2)
                    || count == 0 =>
            {
                Err(format!(
                    "phones {first} to {} are no pairs of pods with {pod} phones each: the first number and how many there are must be multiples of {}",
                    phones.last(),
                    u64::from(pod) * 2
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Draws callers and callees.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    phones: Phones,
    pairing: Pairing,
    random: ChaCha8Rng,
}

impl Draw {
    /// The phones can call by the convention ([`Pairing::check`]).
    pub(super) fn new(phones: Phones, pairing: Pairing, seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self {
            phones,
            pairing,
            random,
        }
    }

    /// A caller and whom it calls.
    pub(super) fn pair(&mut self) -> (u32, u32) {
        let Phones { first, count } = self.phones;
        match self.pairing {
            Pairing::Any => {
                let caller = self.below(count);
                // Every other one with the same chance.
                let further = 1 + self.below(count - 1);
                let callee = (u64::from(caller) + u64::from(further)) % u64::from(count);
                (first + caller, first + callee as u32)
            }
            Pairing::EvenPodCallsOdd { pod } => {
                let place = self.below(count / 2);
                let caller = first + place / pod * pod * 2 + place % pod;
                (caller, caller + pod)
            }
        }
    }

    fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.random.next_u32()) * u64::from(limit)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn anybody_calls_anybody_else() {
        let phones = Phones { first: 7, count: 4 };
        let mut draw = Draw::new(phones, Pairing::Any, 1);
        let pairs: BTreeSet<_> = (0..1_000).map(|_| draw.pair()).collect();
        assert_eq!(pairs.len(), 4 * 3);
        for (caller, callee) in pairs {
            assert!(phones.contain(caller) && phones.contain(callee) && caller != callee);
        }
    }

    #[test]
    fn phones_of_even_pods_call_their_like_in_the_next() {
        let phones = Phones {
            first: 400,
            count: 400,
        };
        let pairing = Pairing::EvenPodCallsOdd { pod: 100 };
        assert_eq!(pairing.check(phones), Ok(()));
        let mut draw = Draw::new(phones, pairing, 1);
        let pairs: BTreeSet<_> = (0..10_000).map(|_| draw.pair()).collect();
        let expected = (400..500)
            .chain(600..700)
            .map(|caller| (caller, caller + 100));
        assert_eq!(pairs, expected.collect());
    }

    #[test]
    fn phones_that_are_no_pairs_of_pods_are_refused() {
        let pairing = Pairing::EvenPodCallsOdd { pod: 100 };
        for (first, count) in [(0, 300), (100, 200), (0, 0), (50, 200)] {
            assert!(
                pairing.check(Phones { first, count }).is_err(),
                "{first} {count}"
            );
        }
        assert!(Pairing::Any.check(Phones { first: 0, count: 1 }).is_err());
        assert!(
            Pairing::Any
                .check(Phones {
                    first: u32::MAX,
                    count: 2
                })
                .is_err()
        );
    }

    #[test]
    fn numbers_are_written_with_four_digits_or_as_many_as_the_last_needs() {
        assert_eq!(
            Phones {
                first: 0,
                count: 100
            }
            .digits(),
            4
        );
        assert_eq!(
            Phones {
                first: 0,
                count: 10_000
            }
            .digits(),
            4
        );
        assert_eq!(
            Phones {
                first: 1,
                count: 10_000
            }
            .digits(),
            5
        );
    }
}
