//! What the nodes of a fleet share through Redis or Valkey: bindings (`location.store`), described here, [`dialogs`], and the uses of
//! [`nonces`].
//!
//! Every node has all bindings in memory and reads calls from there. [`FleetLocations`] gives the changes of this node versions, and takes
//! over those of others. It does no input or output. The [`Link`] moves records between it and the store.
//!
//! ```text
//! workers ── Locations ──▶ stamping ──▶ outbox ──▶ link ──▶ store: hashes (all records), streams (the latest changes)
//!                 ▲          ledger of versions      │
//!                 └───────── FleetLocations ◀────────┘
//! ```
//! If the store is away, the workers notice nothing: changes get versions and wait in the outbox. When it returns, the link compares all
//! records if anything could be missing on either side. Both sides keep the higher version, so the comparison may be repeated at will.

mod comparison;
mod counters;
mod dialogs;
mod layout;
mod ledger;
mod link;
mod locations;
mod nonces;
mod outbox;
mod received;
mod session;
mod stamping;
#[cfg(test)]
mod tests;

pub use counters::{FleetCounters, Ignored, RoundTrip};
pub(crate) use dialogs::{
    DialogLink, DialogLinkOptions, DialogNews, DialogOutlet, IntakeOptions, Pulse,
};
pub use dialogs::{FleetDialogCounters, Origin, Search};
pub(crate) use link::{Link, LinkOptions};
pub(crate) use locations::{FleetLocations, FleetOptions};
pub(crate) use nonces::{NonceLink, NonceLinkOptions};
pub(crate) use stamping::stamp_until;
