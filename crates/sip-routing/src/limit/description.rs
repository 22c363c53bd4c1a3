//! Limits as an operator declares them, and what is wrong with a declaration.

use super::networks::canonical;
use super::rate::{MAX_BURST, MAX_RATE, MIN_RATE};
use super::{Bounds, Rate, Scope};
use sip_transport::IpNet;
use std::collections::{HashMap, HashSet};

/// The maximum number of source addresses or subscribers that may have counts of their own.
pub const MAX_KEYS: usize = 16_777_216;
/// Stands in a rule for no limit: its calls pass all limits and count for none, also those of their network, their subscriber and all calls.
pub const EXEMPT: &str = "none";

/// All limits of a configuration. By default there are none.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// The limit of all calls together. They are counted without a limit, too.
    pub overall: Declared,
    /// The limits of networks. A call counts towards the smallest network that contains its source address.
    pub networks: Vec<NetworkLimit>,
    /// The limit of each source: an IPv4 address or an IPv6 /64 network.
    pub each_source: Option<DeclaredEach>,
    /// The limit of each subscriber.
    pub each_subscriber: Option<DeclaredEach>,
    /// The limits that rules refer to.
    pub named: Vec<NamedLimit>,
}

/// The bounds of a limit, as declared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Declared {
    /// New calls per second: 0, or from [`MIN_RATE`] to [`MAX_RATE`]. `None`: no limit.
    pub calls_per_second: Option<f64>,
    /// New calls that may arrive at once, from 1 to [`MAX_BURST`]. `None`: as many as the rate brings in a second, and at least one.
    pub burst: Option<u32>,
    /// Calls at the same time. 0: none. `None`: no limit.
    pub max_calls: Option<u32>,
}

/// A limit that applies to each source or each subscriber.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeclaredEach {
    /// The bounds of each.
    pub bounds: Declared,
    /// How many have counts of their own, from 1 to [`MAX_KEYS`]. Further ones share counts.
    pub max_keys: usize,
}

/// The limit of one or more networks, such as a trunk.
#[derive(Clone, Debug)]
pub struct NetworkLimit {
    /// The name. No other limit has it.
    pub name: String,
    /// The networks, at least one. They may lie in networks of other limits.
    pub networks: Vec<IpNet>,
    /// The bounds of all these networks together.
    pub bounds: Declared,
}

/// A limit that a rule refers to.
#[derive(Clone, Debug)]
pub struct NamedLimit {
    /// The name. No other limit has it.
    pub name: String,
    /// The bounds of all calls of the rules that refer to the limit.
    pub bounds: Declared,
}

/// What is wrong with a description.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields mean")]
pub enum InvalidLimit {
    /// A rate is negative, not a number, or outside the range.
    #[error(
        "limit {limit:?}: {calls_per_second} calls per second is not possible; allowed are 0 (no calls) and {MIN_RATE} to {MAX_RATE}"
    )]
    Rate {
        limit: String,
        calls_per_second: f64,
    },
    /// A burst is outside the range.
    #[error(
        "limit {limit:?}: a burst of {burst} calls is not possible; allowed are 1 to {MAX_BURST}"
    )]
    Burst { limit: String, burst: u32 },
    /// A burst without a rate has no meaning.
    #[error("limit {limit:?} has a burst but no calls per second; set both, or remove the burst")]
    BurstWithoutRate { limit: String },
    /// The table of a limit is too small or too large.
    #[error(
        "limit {limit:?}: a table of {max_keys} entries is not possible; allowed are 1 to {MAX_KEYS}"
    )]
    MaxKeys { limit: String, max_keys: usize },
    /// A limit has no name.
    #[error("limit {number} of the {kind} has no name; give it one")]
    NoName { kind: &'static str, number: usize },
    /// Two limits have the same name.
    #[error("two limits have the name {limit:?}; rename one of them")]
    SameName { limit: String },
    /// A name is used for a limit that always exists.
    #[error(
        "the name {limit:?} is reserved for {}; choose another name",
        meaning(limit)
    )]
    ReservedName { limit: String },
    /// The limit of a network has no network.
    #[error("limit {limit:?} has no network; list at least one, such as 192.0.2.0/24")]
    NoNetwork { limit: String },
    /// A network is listed twice.
    #[error(
        "limit {limit:?}: network {network} is already in limit {other:?}; remove it from one of them"
    )]
    SameNetwork {
        limit: String,
        network: IpNet,
        other: String,
    },
}

impl Declared {
    /// Parses the bounds of the limit `name`.
    pub(super) fn parse(&self, name: &str) -> Result<Bounds, InvalidLimit> {
        let limit = || name.to_owned();
        if let Some(burst) = self.burst.filter(|burst| !(1..=MAX_BURST).contains(burst)) {
            let limit = limit();
            return Err(InvalidLimit::Burst { limit, burst });
        }
        let rate = match (self.calls_per_second, self.burst) {
            (None, None) => None,
            (None, Some(_)) => return Err(InvalidLimit::BurstWithoutRate { limit: limit() }),
            (Some(calls_per_second), burst) => {
                let burst = burst.unwrap_or_else(|| one_second(calls_per_second));
                let rate = Rate::new(calls_per_second, burst);
                Some(rate.ok_or_else(|| InvalidLimit::Rate {
                    limit: limit(),
                    calls_per_second,
                })?)
            }
        };
        Ok(Bounds {
            rate,
            max_calls: self.max_calls,
        })
    }
}

/// The calls of a second, rounded up; at least one.
#[expect(
    clippy::cast_sign_loss,
    reason = "clamped, and a number that is not a number becomes 0"
)]
fn one_second(calls_per_second: f64) -> u32 {
    (calls_per_second.clamp(1.0, MAX_RATE).ceil() as u32).max(1)
}

impl DeclaredEach {
    /// Parses the bounds of each key. Also returns the size of the table.
    pub(super) fn parse(&self, scope: Scope) -> Result<(Bounds, usize), InvalidLimit> {
        let name = scope.label();
        if !(1..=MAX_KEYS).contains(&self.max_keys) {
            return Err(InvalidLimit::MaxKeys {
                limit: name.to_owned(),
                max_keys: self.max_keys,
            });
        }
        Ok((self.bounds.parse(name)?, self.max_keys))
    }
}

impl Description {
    /// Checks what concerns several limits: names and networks.
    pub(super) fn check(&self) -> Result<(), InvalidLimit> {
        let networks = self.networks.iter().map(|limit| limit.name.as_str());
        let named = self.named.iter().map(|limit| limit.name.as_str());
        let networks = networks
            .zip(1..)
            .map(|(name, number)| ("networks", number, name));
        let named = named.zip(1..).map(|(name, number)| ("rules", number, name));
        check_names(networks.chain(named))?;
        self.check_networks()
    }

    fn check_networks(&self) -> Result<(), InvalidLimit> {
        let mut known: HashMap<IpNet, &str> = HashMap::new();
        for NetworkLimit { name, networks, .. } in &self.networks {
            if networks.is_empty() {
                let limit = name.clone();
                return Err(InvalidLimit::NoNetwork { limit });
            }
            for network in networks {
                if let Some(other) = known.insert(canonical(*network), name) {
                    return Err(InvalidLimit::SameNetwork {
                        limit: name.clone(),
                        network: *network,
                        other: other.to_owned(),
                    });
                }
            }
        }
        Ok(())
    }
}

fn check_names<'n>(
    names: impl Iterator<Item = (&'static str, usize, &'n str)>,
) -> Result<(), InvalidLimit> {
    let mut known = HashSet::new();
    for (kind, number, name) in names {
        let limit = || name.to_owned();
        if name.trim().is_empty() {
            return Err(InvalidLimit::NoName { kind, number });
        }
        if reserved(name).is_some() || name == EXEMPT {
            return Err(InvalidLimit::ReservedName { limit: limit() });
        }
        if !known.insert(name) {
            return Err(InvalidLimit::SameName { limit: limit() });
        }
    }
    Ok(())
}

/// The limit that always has this name.
fn reserved(name: &str) -> Option<Scope> {
    let scopes = [Scope::Source, Scope::Subscriber, Scope::Overall];
    scopes.into_iter().find(|scope| scope.label() == name)
}

fn meaning(name: &str) -> &'static str {
    match reserved(name) {
        Some(Scope::Source) => "the limit of each source address",
        Some(Scope::Subscriber) => "the limit of each subscriber",
        Some(_) => "the limit of all calls",
        None => "rules whose calls pass all limits",
    }
}
