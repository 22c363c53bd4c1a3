//! What a gateway does with requests.

use std::str::FromStr;

/// What a gateway does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// It answers calls and probes, and rejects a BYE for a call that it does not know.
    #[default]
    Answering,
    /// It ignores everything, as if its network were away. Its calls go on.
    Silent,
    /// Its port is closed, as if its process were away. Its calls go on.
    Closed,
    /// It answers 100 to a call and nothing more.
    Trying,
    /// It answers calls with this status.
    Refusing(u16),
    /// It answers probes with this status, and calls as usual.
    FailingProbes(u16),
    /// It answers 200 to every request, also to ACK and to requests for calls that it does not know.
    Agreeing,
}

impl Behaviour {
    /// Whether it neither receives nor sends.
    pub(super) const fn is_away(self) -> bool {
        matches!(self, Self::Silent | Self::Closed)
    }
}

/// A text that names no behaviour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no behaviour: use answering, silent, closed, trying, agreeing, `refusing STATUS` or `failing-probes STATUS`, with a status \
     from 300 to 699"
)]
pub struct UnknownBehaviour(String);

impl FromStr for Behaviour {
    type Err = UnknownBehaviour;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (word, status) = text.split_once(' ').unwrap_or((text, ""));
        let status = status.parse().ok().filter(|it| (300..700).contains(it));
        let behaviour = match (word, status) {
            ("answering", None) => Self::Answering,
            ("silent", None) => Self::Silent,
            ("closed", None) => Self::Closed,
            ("trying", None) => Self::Trying,
            ("agreeing", None) => Self::Agreeing,
            ("refusing", Some(status)) => Self::Refusing(status),
            ("failing-probes", Some(status)) => Self::FailingProbes(status),
            _ => return Err(UnknownBehaviour(text.to_owned())),
        };
        Ok(behaviour)
    }
}
