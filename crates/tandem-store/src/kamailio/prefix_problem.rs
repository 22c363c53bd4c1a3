//! What cannot be carried over from a row of `mtree` or `pdt`.

use super::prefixes::MAX_VALUES;

/// Why a row is left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixProblem {
    /// No prefix. Kamailio leaves such rows out, too.
    #[error("left out: its prefix is absent or empty")]
    NoPrefix,
    /// No value. Kamailio leaves such rows out, too.
    #[error("left out: its value is absent or empty")]
    NoValue,
    /// A tree or domain that cannot be the name of a table.
    #[error(
        "left out: the name of its tree or domain cannot be that of a table, which has 1 to 64 of a-z, A-Z, 0-9, -, _ and dots, which become _"
    )]
    NoTableName,
    /// No list of sets.
    #[error(
        "left out: its value is no set of dispatcher; write one or several numbers, separated by semicolons or commas"
    )]
    NoSet,
    /// A value of `mt_tree_type` 1.
    #[error(
        "left out: its value has a weight, as with mt_tree_type 1; write the sets of a prefix in the order in which they are to be tried"
    )]
    Weighted,
    /// No destination.
    #[error("left out: its value is no domain, address or SIP URI of a transport that Tandem has")]
    NoSipUri,
    /// Too many gateways or groups.
    #[error("left out: with its gateway, there would be too many gateways or groups")]
    TooManyGateways,
    /// Too many values.
    #[error("left out: there are more than {MAX_VALUES} different values")]
    TooManyValues,
    /// Too many trees or domains.
    #[error("left out: there are more than {MAX_VALUES} trees or domains")]
    TooManyTables,
}
