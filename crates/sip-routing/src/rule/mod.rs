//! Routing rules: conditions on a request outside dialogs, and what happens to it. The first rule whose conditions hold decides.
//!
//! # How values are compared
//!
//! Users (of the Request-URI, From and To) are compared with case, after unescaping: `%61lice` is `alice`. All escapes count as the
//! character, also of reserved characters, as in the key of an address of record. Otherwise, a caller could evade a rule by an escape.
//!
//! A user that is a dialled number (see `number.rs`, which prefixes share) is a telephone number, in a `tel` URI and in any other. RFC
//! 3261 section 19.1.1 allows that without `user=phone`. Numbers are compared without visual separators (`-`, `.`, `(`, `)`; RFC 3966
//! section 5), without the parameters after `;`, and with the letters A to D in upper case. Patterns match those letters in either case.
//!
//! What only looks like a number is compared like one, because a gateway may take it for one: without spaces, `/`, and any `+` behind the
//! beginning. If something else follows the digits, such as in `+49-30x`, it is compared as it is: `+4930x`.
//!
//! A URI that is neither `sip`, `sips` nor `tel` has no domain; its user is the whole URI in lower case, such as `urn:service:sos`.
//!
//! Domains are compared without case and without a trailing dot. Addresses have one spelling: that of RFC 5952, without brackets.
//!
//! Values of header fields are compared with case, each value of a comma list on its own.

mod action;
mod compile;
mod condition;
mod conditions;
mod covers;
mod description;
mod explain;
mod facts;
mod field_name;
mod glob;
mod header_edits;
mod index;
mod methods;
mod mistake;
mod number_edit;
mod pattern;
mod ranges;
mod set;
mod sources;
mod text;
mod text_set;

pub use action::{Authentication, Decision, Reference, Refusal};
pub use condition::Condition;
pub use description::{
    FieldDescription, HeaderDescription, KnownNames, RefusalDescription, RuleDescription,
};
pub use explain::{Outcome, Step};
pub use facts::{Arrival, Facts};
pub use field_name::FieldName;
pub use header_edits::{HeaderEdit, HeaderEdits};
pub use mistake::{PatternProblem, Problem, RuleMistake};
pub use number_edit::NumberEdit;
pub(crate) use number_edit::{around_user, is_prefix};
pub use set::{MAX_RULES, Rule, RuleSet};
