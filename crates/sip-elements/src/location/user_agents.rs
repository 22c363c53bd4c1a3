//! User-Agent values, each kept once: a million phones are of a few hundred kinds, and the names of these are long.
//!
//! A name is never forgotten, so that it can be borrowed without a guard; so there is a bound on how many are kept. What does
//! not fit, such as a name made up for every request, is stored with its binding.

use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::sync::OnceLock;

/// User-Agent values are kept up to this length.
const MOST_OCTETS: usize = 64;
/// Places for names.
const PLACES: usize = 1_024;
/// Places that are looked at for one name.
const PROBES: usize = 8;

/// What of a User-Agent value is kept.
pub(super) fn kept(user_agent: &[u8]) -> &[u8] {
    user_agent.get(..MOST_OCTETS).unwrap_or(user_agent)
}

/// Names of user agents, found by number.
#[derive(Debug)]
pub(super) struct UserAgents {
    names: Box<[OnceLock<Box<[u8]>>]>,
}

impl UserAgents {
    /// None yet.
    pub(super) fn new() -> Self {
        Self {
            names: (0..PLACES).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The number of a name, which is kept from now on; `None` when there is no place for it. Two workers that see the same new
    /// name at once may wait for each other as long as it takes to store a pointer.
    pub(super) fn number(&self, name: &[u8]) -> Option<u16> {
        let mut hasher = FxHasher::default();
        hasher.write(name);
        let first = hasher.finish() as usize;
        (0..PROBES).find_map(|probe| {
            let place = first.wrapping_add(probe) % PLACES;
            let kept = self.names.get(place)?.get_or_init(|| name.into());
            (**kept == *name).then_some(place as u16)
        })
    }

    /// The name with that number; empty where there is none.
    pub(super) fn name(&self, number: u16) -> &[u8] {
        self.names
            .get(usize::from(number))
            .and_then(OnceLock::get)
            .map_or(&[], |name| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number() {
        let user_agents = UserAgents::new();
        let number = user_agents.number(b"Phone/1.0").unwrap();
        assert_eq!(user_agents.number(b"Phone/1.0"), Some(number));
        assert_ne!(user_agents.number(b"Phone/1.1"), Some(number));
        assert_eq!(user_agents.name(number), b"Phone/1.0");
        assert_eq!(user_agents.name(u16::MAX), b"");
    }

    #[test]
    fn names_without_end_find_no_place_but_the_first_ones_stay() {
        let user_agents = UserAgents::new();
        let first = user_agents.number(b"Phone/1.0").unwrap();
        let placed = (0..20_000_u32)
            .filter(|number| user_agents.number(&number.to_le_bytes()).is_some())
            .count();
        assert!((PLACES / 2..PLACES).contains(&placed), "{placed}");
        assert_eq!(user_agents.name(first), b"Phone/1.0");
    }
}
