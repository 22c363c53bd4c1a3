//! The controller of a fleet: it knows which nodes there are, tells the edges, and is one interface to all nodes.
//!
//! ```text
//! source: static, DNS, EndpointSlices, API ─▶ Membership ─▶ MemberSet ─▶ edges (GET /v1/members/watch)
//!                     operators, hooks ─▶ api ─┘   └─▶ state file
//!                                         api ─▶ nodes: registrations, histograms, calls ─▶ custom metrics of Kubernetes
//! ```
//!
//! No call waits for a controller. Edges keep the last set when it is away, and a controller that starts knows nothing but what its source
//! says and what its state file holds.
//!
//! [`members`] is what edges share with it. Without the feature `controller`, the crate has only that module, and no tokio.

#![forbid(unsafe_code)]

pub mod members;

#[cfg(feature = "controller")]
mod api;
#[cfg(feature = "controller")]
pub mod client;
#[cfg(feature = "controller")]
mod controller;
#[cfg(feature = "controller")]
pub mod custom_metrics;
#[cfg(feature = "controller")]
mod histograms;
#[cfg(feature = "controller")]
mod load;
#[cfg(feature = "controller")]
pub mod membership;
#[cfg(feature = "controller")]
mod metrics;
#[cfg(feature = "controller")]
mod nodes;
#[cfg(feature = "controller")]
mod pod_costs;
#[cfg(feature = "controller")]
mod registrations;
#[cfg(feature = "controller")]
pub mod source;
#[cfg(feature = "controller")]
mod state_file;
#[cfg(feature = "controller")]
mod tls;
#[cfg(feature = "controller")]
mod users;

#[cfg(feature = "controller")]
pub use controller::{Controller, Options};
#[cfg(feature = "controller")]
pub use nodes::NodeAccess;
#[cfg(feature = "controller")]
pub use users::{HashPassword, UserDatabase};
