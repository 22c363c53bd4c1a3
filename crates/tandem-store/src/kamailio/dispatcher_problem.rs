//! What cannot be carried over from a row of `dispatcher`.

use sip_routing::gateway::{MAX_GATEWAYS, MAX_GROUPS, MAX_MEMBERS};

/// What cannot be carried over from a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum DispatcherProblem {
    /// No set.
    #[error("left out: its set id is absent, or not from 0 to 2147483647")]
    NoSet,
    /// No destination that Tandem could send to.
    #[error("left out: its destination is no SIP URI of a transport that Tandem has")]
    NoSipUri,
    /// No name.
    #[error(
        "left out: its gateway would have a name of more than 128 characters, or of others than visible ASCII; give it a duid"
    )]
    NoName,
    /// The flag 4.
    #[error("left out: flag 4 disables it")]
    Disabled,
    /// The flag 1 without probes.
    #[error("left out: flag 1 makes it inactive, and no probe would make it active")]
    Inactive,
    /// The destination is in the set already.
    #[error("left out: another row of the set has the same destination")]
    Repeated,
    /// The set is too large.
    #[error("left out: a group has at most {MAX_MEMBERS} members")]
    TooManyMembers,
    /// Too many gateways.
    #[error("left out: there are at most {MAX_GATEWAYS} gateways")]
    TooManyGateways,
    /// Too many sets.
    #[error("left out: there are at most {MAX_GROUPS} groups")]
    TooManyGroups,
    /// All rows of a set are left out.
    #[error("all destinations of its set are left out, so there is no group")]
    NoMembers,
    /// The flag 1 with probes.
    #[error("flag 1 makes it inactive; with Tandem, it gets calls until probes fail")]
    StartsInactive,
    /// Bits without a meaning.
    #[error("the flags {flags} are unknown")]
    UnknownFlags {
        /// The unknown bits.
        flags: i64,
    },
    /// No weight, with an algorithm of weights.
    #[error(
        "it has no weight from 1 to 100, and gets a call only if no other member of the group takes it"
    )]
    NoWeight,
    /// Weights that Kamailio does not follow.
    #[error(
        "the weights of its set add up to {sum} instead of 100: Tandem follows their proportion; Kamailio gives one destination the rest, or \
         ignores what is more"
    )]
    WeightSum {
        /// The sum.
        sum: u32,
    },
    /// A maximum that the algorithm does not follow.
    #[error("maxload is not used, as in Kamailio: the algorithm of the set is not 10")]
    UnusedMaximum,
    /// Two maxima for one gateway.
    #[error("another row of this destination has another maxload, and the smaller one counts")]
    OtherMaximum,
    /// Two ids for one gateway.
    #[error("another row of this destination has another duid, which is the name of the gateway")]
    OtherId,
    /// One id for two gateways.
    #[error("another destination has this duid; the gateway has the name of its destination")]
    RepeatedId,
    /// An id that cannot be a name.
    #[error(
        "the duid is no name, which has 1 to 128 visible ASCII characters; the gateway has the name of its destination"
    )]
    BadId,
    /// An attribute that Tandem has no use for.
    #[error("the attribute {attribute} is not used: {because}")]
    Unused {
        /// Its name.
        attribute: Box<str>,
        /// The reason.
        because: &'static str,
    },
    /// An attribute that is out of range.
    #[error(
        "the attribute {attribute}={value} is not used: it must be a whole number, and a weight one from 1 to 100"
    )]
    BadValue {
        /// Its name.
        attribute: &'static str,
        /// Its value.
        value: Box<str>,
    },
}

impl DispatcherProblem {
    /// Whether the row is not used. Otherwise it is, although not in every respect.
    pub const fn leaves_out(&self) -> bool {
        matches!(
            self,
            Self::NoSet
                | Self::NoSipUri
                | Self::NoName
                | Self::Disabled
                | Self::Inactive
                | Self::Repeated
                | Self::TooManyMembers
                | Self::TooManyGateways
                | Self::TooManyGroups
                | Self::NoMembers
        )
    }
}

/// The beginning of a text that another program wrote, without control characters.
pub(super) fn excerpt(text: &str) -> Box<str> {
    let start: String = text.chars().take(64).collect();
    start.escape_debug().to_string().into()
}
