//! SIP elements, sans-IO: the registrar (RFC 3261 section 10), digest authentication (section 22), the proxy (section
//! 16), and [`Exchange`], the node that joins them.
//!
//! `pipeline.rs` shows the complete path of a request in one function.

pub mod auth;
pub mod bans;
pub mod location;
pub mod metrics;
pub mod proxy;
pub mod registrar;
pub mod routing;
pub mod services;
pub mod trace;

mod classify;
mod description;
mod domains;
mod edges;
mod exchange;
pub mod explain;
mod identity;
mod named_servers;
mod operator;
mod own_request;
mod own_response;
mod owner;
mod parked;
mod parking;
mod phase;
mod pipeline;
mod probes;
mod question;
mod record;
mod registered;
mod registrations;
mod settings;
mod shared;
mod undeliverable;
mod view;
mod worker;
mod worker_parts;

pub use domains::Domains;
pub use edges::Edges;
pub use exchange::{Exchange, ExchangeOptions};
pub use operator::{
    DialogAction, DialogAnswer, DialogFilter, DialogOutcome, DialogRequest, EndOutcome, FoundDialog,
};
pub use owner::{
    BranchId, ContextId, DescribedId, Owner, ParkedId, ProbeId, RegistrationId, ResponseId,
};
pub use proxy::HungUp;
pub use question::{
    ControlMessage, Description, NameServersFailed, NotDescribed, Question, StoreFailed,
};
pub use record::{MissedDialog, Record};
pub use registrations::{RegistrationChange, RegistrationNotice};
pub use routing::dead_targets::{DeadTargetStats, DeadTargets, TargetFailure};
pub use settings::{
    ChallengedMethods, DialogSettings, DiversionHeaders, DiversionSettings, Foreign, ProxySettings,
    Redirects, RegistrarSettings, SessionDescriptions, Settings, Strangers, TableLimits,
};
pub use shared::Shared;
pub use sip_dialog::SessionTimerSettings;
pub use view::View;
pub use worker::home_of;
pub use worker_parts::WorkerParts;
