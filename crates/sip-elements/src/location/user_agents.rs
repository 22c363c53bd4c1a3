//! User-Agent values, each stored once. A million phones have only a few hundred different values, and the values are long.
//!
//! A name is never removed, so it can be borrowed without a guard. That is why their number is bounded. Names beyond the
//! bound, such as a different one in every request, are stored with their bindings.

use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::sync::OnceLock;

/// The maximum length of a stored User-Agent value, in bytes.
const MAX_OCTETS: usize = 64;
/// The number of slots for names.
const PLACES: usize = 1_024;
/// The number of slots that are tried for one name.
const PROBES: usize = 8;

/// The part of a User-Agent value that is stored.
pub(super) fn kept(user_agent: &[u8]) -> &[u8] {
    user_agent.get(..MAX_OCTETS).unwrap_or(user_agent)
}

/// Names of user agents, found by number.
#[derive(Debug)]
pub(super) struct UserAgents {
    names: Box<[OnceLock<Box<[u8]>>]>,
}

impl UserAgents {
    pub(super) fn new() -> Self {
        Self {
            names: (0..PLACES).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Stores a name if it is new and returns its number. `None` if there is no slot for it. Two workers with the same
    /// new name may wait for each other, but only as long as it takes to store a pointer.
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

    /// The name with this number, or an empty string.
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
