//! The algorithms of Kamailio's module `dispatcher`: the second argument of `ds_select_dst()`.

use super::attributes::Attributes;
use sip_routing::gateway::Algorithm;

/// How a call chooses among the destinations of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatcherAlgorithm {
    /// 0: by the hash of the Call-ID.
    #[default]
    CallId,
    /// 4: in turn.
    RoundRobin,
    /// 6: randomly.
    Random,
    /// 8: one after the other, by priority.
    Serial,
    /// 9: by the attribute `weight`.
    Weight,
    /// 10: the destination with the fewest calls, up to the attribute `maxload`.
    CallLoad,
    /// 11: by the attribute `rweight`.
    RelativeWeight,
}

/// An algorithm that has no counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("algorithm {number} of dispatcher ({what}) is not supported; {instead}")]
pub struct UnsupportedAlgorithm {
    /// Its number.
    pub number: u32,
    /// What it does.
    pub what: &'static str,
    /// What to use.
    pub instead: &'static str,
}

impl TryFrom<u32> for DispatcherAlgorithm {
    type Error = UnsupportedAlgorithm;

    fn try_from(number: u32) -> Result<Self, UnsupportedAlgorithm> {
        const BY_CALL: &str = "use 0, the hash of the Call-ID: it spreads the calls as evenly, but those of one user go to several gateways";
        let (what, instead) = match number {
            0 => return Ok(Self::CallId),
            4 => return Ok(Self::RoundRobin),
            6 => return Ok(Self::Random),
            8 => return Ok(Self::Serial),
            9 => return Ok(Self::Weight),
            10 => return Ok(Self::CallLoad),
            11 => return Ok(Self::RelativeWeight),
            1 => ("hash of the From URI", BY_CALL),
            2 => ("hash of the To URI", BY_CALL),
            3 => ("hash of the Request-URI", BY_CALL),
            5 => ("hash of the user name of the credentials", BY_CALL),
            7 => ("hash of a variable of the script", BY_CALL),
            12 => (
                "all destinations at once",
                "use 8, one destination after the other",
            ),
            13 => (
                "the lowest latency",
                "use 10, the fewest calls: a slow gateway holds more of them and gets fewer",
            ),
            64 => (
                "overload control",
                "use 10, the fewest calls: a gateway that answers 503 with Retry-After rests",
            ),
            _ => ("unknown", "use 0, 4, 6, 8, 9, 10 or 11"),
        };
        Err(UnsupportedAlgorithm {
            number,
            what,
            instead,
        })
    }
}

impl DispatcherAlgorithm {
    /// The algorithm of the group.
    pub(super) const fn of_group(self) -> Algorithm {
        match self {
            Self::CallId | Self::Serial => Algorithm::Rendezvous,
            Self::RoundRobin | Self::Weight | Self::RelativeWeight => Algorithm::RoundRobin,
            Self::Random => Algorithm::Random,
            Self::CallLoad => Algorithm::LeastCalls,
        }
    }

    /// The weight of a member; `None` if it should have one.
    pub(super) const fn weight(self, attributes: &Attributes<'_>) -> Option<u16> {
        match self {
            Self::Weight => attributes.weight,
            Self::RelativeWeight => attributes.relative_weight,
            Self::CallId | Self::RoundRobin | Self::Random | Self::Serial | Self::CallLoad => {
                Some(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_without_counterpart_is_refused_with_the_one_to_use() {
        let supported: Vec<u32> = (0..100)
            .filter(|number| DispatcherAlgorithm::try_from(*number).is_ok())
            .collect();
        assert_eq!(supported, [0, 4, 6, 8, 9, 10, 11]);
        for (number, word) in [
            (1, "From"),
            (12, "at once"),
            (13, "latency"),
            (99, "unknown"),
        ] {
            let error = DispatcherAlgorithm::try_from(number).expect_err("unsupported");
            let message = error.to_string();
            assert!(
                message.contains(word) && message.contains("; use "),
                "{message}"
            );
        }
    }
}
