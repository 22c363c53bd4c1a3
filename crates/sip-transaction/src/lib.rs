//! SIP transactions (RFC 3261 section 17, RFC 6026), sans-IO: the four machines, matching, and the timer wheel.
//!
//! [`Transactions`] owns every transaction of one worker. The caller passes in messages and the time. Retransmissions, ACKs and CANCELs go
//! out through [`sip_transport::Output`]. Return values and [`Event`]s report what the transaction user must know.
//!
//! The machines are pure: they respond to an event with a state and a few values that say what to do (`step`). `docs/transactions.md`
//! holds their tables. `src/snapshots/` records the whole state × event matrix.
//!
//! Deliberately absent: dialogs (the ACK of a 2xx and the retransmissions of the 2xx belong to the transaction user), routing, DNS, clocks,
//! randomness, locks. Transactions of different workers share no state.

#![forbid(unsafe_code)]

mod branch;
mod client_invite;
mod client_non_invite;
mod client_table;
mod clients;
mod credit;
mod ledger;
mod outcome;
mod places;
mod schedule;
mod server_invite;
mod server_non_invite;
mod server_table;
mod servers;
mod settings;
mod step;
mod timer;
mod transactions;
mod wheel;

#[cfg(test)]
mod matrix;

pub use branch::{Branch, ClientKey};
pub use clients::{ClientId, ClientOptions};
pub use ledger::{Account, Ledger, LedgerStats, Sender, Table};
pub use outcome::{ClientResponse, Event, Full, RequestMatch, ResponseMatch, Stats};
pub use servers::{Admission, ServerId};
pub use settings::{Kind, Limits, TimerSettings};
pub use transactions::Transactions;
pub use wheel::{TimerId, TimerWheel};
