//! Dialogs that the nodes of a fleet share through Redis or Valkey (`dialogs.store`).
//!
//! A dialog belongs to one node, its owner, which alone keeps it in memory and writes it. Another node reads the store only if it gets a
//! request of a dialog that it does not have: it claims the dialog. The claim has a number, and the highest one counts.
//!
//! ```text
//! workers ── DialogNews ──▶ Intake ── ledger ──▶ DialogLink ──▶ store: a key for each dialog, an index and news for each node
//!    ▲                        │                     │
//!    └─ Adopt, Disown ────────┴─────── claimed, lost┘
//! ```
//! If the store is away, calls go on. Changes wait in the ledger, which has one entry for each dialog of this node. When the store
//! returns, the node learns what it has lost and writes everything again, so a store that has lost its data gets it back.

mod counters;
mod intake;
mod ledger;
mod link;
mod record;
mod session;

pub use counters::{FleetDialogCounters, Origin, Search};
pub(crate) use intake::{DialogNews, DialogOutlet, IntakeOptions, Pulse};
pub(crate) use link::{DialogLink, DialogLinkOptions};
