//! Pairing of callers and callees.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A range of phone numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phones {
    /// The first number.
    pub first: u32,
    /// Number of phones.
    pub count: u32,
}

impl Phones {
    /// The last number.
    pub const fn last(self) -> u32 {
        self.first.saturating_add(self.count.saturating_sub(1))
    }

    /// Whether the range contains this number.
    pub const fn contain(self, number: u32) -> bool {
        self.first <= number && number <= self.last()
    }

    /// Digits of each number: as many as the last one has, and at least four.
    pub fn digits(self) -> usize {
        self.last().to_string().len().max(4)
    }
}

/// A convention for caller and callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Any phone calls any other.
    Any,
    /// Phones are grouped in pods of equal size: phone 4607 is number 7 of pod 46. A phone of an even pod calls its counterpart in the
    /// next pod.
    EvenPodCallsOdd {
        /// Phones per pod.
        pod: u32,
    },
}

impl Pairing {
    /// The callee of a caller, if the convention defines it.
    ///
    /// # Errors
    /// The caller's pod, if its phones may not call.
    pub const fn callee(self, caller: u32) -> Result<Option<u32>, u32> {
        match self {
            Self::Any => Ok(None),
            Self::EvenPodCallsOdd { pod } => {
                let Some(of) = caller.checked_div(pod) else {
                    return Ok(None);
                };
                if of.is_multiple_of(2) {
                    Ok(Some(caller.saturating_add(pod)))
                } else {
                    Err(of)
                }
            }
        }
    }

    /// Checks that these phones suit the convention.
    ///
    /// # Errors
    /// Why they do not.
    pub fn check(self, phones: Phones) -> Result<(), String> {
        let Phones { first, count } = phones;
        if first.checked_add(count).is_none() {
            return Err(format!(
                "{count} phones from number {first} exceed the largest number, 4294967295"
            ));
        }
        match self {
            Self::Any if count < 2 => Err("one phone cannot call itself: use at least two".into()),
            Self::EvenPodCallsOdd { pod } => {
                let pair = u64::from(pod) * 2;
                let are_pairs = [first, count]
                    .iter()
                    .all(|number| u64::from(*number).is_multiple_of(pair));
                if pod > 0 && count > 0 && are_pairs {
                    return Ok(());
                }
                Err(format!(
                    "phones {first} to {} do not form pairs of pods with {pod} phones each: the first number and the number of phones must be multiples of {pair}",
                    phones.last(),
                ))
            }
            Self::Any => Ok(()),
        }
    }
}

/// Chooses callers and callees at random.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    phones: Phones,
    pairing: Pairing,
    random: ChaCha8Rng,
}

impl Draw {
    /// The phones must suit the convention ([`Pairing::check`]).
    pub(super) fn new(phones: Phones, pairing: Pairing, seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self {
            phones,
            pairing,
            random,
        }
    }

    /// A caller and its callee.
    pub(super) fn pair(&mut self) -> (u32, u32) {
        let Phones { first, count } = self.phones;
        match self.pairing {
            Pairing::Any => {
                let caller = self.below(count);
                // All other phones are equally likely.
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
    fn any_phone_calls_any_other() {
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
