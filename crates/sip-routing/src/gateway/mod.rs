//! Gateways: the servers that new calls go to, their health, and the groups that calls choose from.
//!
//! ```text
//! descriptions ── Gateways::new ──▶ Gateways ──▶ Search::choose ──▶ Choice: gateway, place
//!                     ▲ previous                                      │ call_ended
//!                     └──────── state by name ◀───────────────────────┘ probed ◀── due_probes
//! ```
//!
//! - **What the configuration says is immutable.** [`Gateways`] is replaced as a whole.
//! - **What happens to calls belongs to the name of a gateway**: live calls, statistics, and whether an operator disabled it. The next
//!   configuration takes it over.
//! - **Health belongs to the name and the destination.** A gateway whose destination changes keeps its statistics and starts unprobed.
//! - **Nonces and registrations belong to the name, the destination and the credentials.** All workers share the nonce that the gateway has
//!   accepted last.
//! - **All workers choose and report at once**, without a lock and without allocating. The control plane sends the probes.

mod algorithm;
mod cause;
mod check;
mod choose;
mod description;
mod error;
mod explain;
mod failover;
mod gateways;
mod group;
mod health;
mod identity;
mod nonce;
mod outcome;
mod place;
mod probing;
mod registration;
mod rewriting;
mod rewriting_problem;
mod search;
mod server;
mod statistics;
mod status_set;
mod tried;
mod view;
mod wait;
mod word;

pub use cause::Cause;
pub use choose::{Admission, Choice, NoRates, Skip};
pub use description::{
    Algorithm, AllInactive, GatewayDescription, GroupDescription, HealthRules, MemberDescription,
    MissWeights,
};
pub use error::GatewayError;
pub use explain::{Verdict, explain};
pub use failover::FailoverRules;
pub use gateways::{Descriptions, Gateways, MAX_GATEWAYS, MAX_GROUPS};
pub use group::{Group, MAX_MEMBERS};
pub use health::{Change, State};
pub use identity::{Caller, CallerIdentity, CallerSource, IdentityHeader};
pub use nonce::KnownNonce;
pub use outcome::Outcome;
pub use place::Place;
pub use registration::{RegistrationDescription, RegistrationState, RegistrationView};
pub use rewriting::{CalledNumber, Rewriting};
pub use rewriting_problem::RewritingProblem;
pub use search::Search;
pub use server::Gateway;
pub use statistics::Statistics;
pub use status_set::{BadStatusSet, StatusSet};
pub use tried::TriedSet;
pub use view::GatewayView;
pub use wait::WaitRules;
