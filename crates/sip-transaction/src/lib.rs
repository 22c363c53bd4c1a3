//! SIP transactions (RFC 3261 section 17, RFC 6026), sans-IO: the four machines, matching, and the timer wheel.
//!
//! [`Transactions`] owns every transaction of one worker. Messages and time go in; retransmissions, ACKs and CANCELs go out
//! through [`sip_transport::Output`]; what the transaction user must know comes back as return values and [`Event`]s.
//!
//! The machines are pure: they answer an event with a state and a few values that say what to do ([`step`]). `docs/transactions.md`
//! holds their tables, `src/snapshots/` the whole state × event matrix as it is.
//!
//! What is deliberately absent: dialogs (an ACK of a 2xx and its retransmissions belong to the transaction user), routing, DNS,
//! clocks, randomness, locks. Transactions of different workers never meet.

#![forbid(unsafe_code)]

mod branch;
mod client_invite;
mod client_non_invite;
mod client_table;
mod clients;
mod credit;
mod ledger;
mod outcome;
mod schedule;
mod server_invite;
mod server_non_invite;
mod server_table;
mod servers;
mod settings;
mod slab;
mod step;
mod timer;
mod transactions;
mod wheel;

#[cfg(test)]
mod matrix;

pub use branch::Branch;
pub use clients::ClientId;
pub use ledger::{Account, Ledger, LedgerStats, Standing, Table};
pub use outcome::{ClientResponse, Event, Full, RequestMatch, ResponseMatch, Stats};
pub use servers::{Admission, ServerId};
pub use settings::{Kind, Limits, TimerSettings};
pub use transactions::Transactions;
pub use wheel::{TimerId, TimerWheel};
