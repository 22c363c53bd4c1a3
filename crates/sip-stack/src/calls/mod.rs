//! Calls of a user agent (RFC 3261 sections 8, 9, 12 to 15, and 22) above the transactions: one state per call, and a [`CallHandler`] that
//! learns of its events.
//!
//! | file | subject |
//! | --- | --- |
//! | `settings.rs` | the account and the bounds |
//! | `event.rs` | what the program learns |
//! | `call.rs` | the state of one call |
//! | `dialog.rs` | a dialog: tags, route set, remote target, `CSeq` (section 12) |
//! | `table.rs` | all calls, by number and by dialog; their ends and timers |
//! | `lookup.rs` | lookups of names, answered from outside |
//! | `route.rs` | where a request goes, with RFC 3263 lookups |
//! | `invitation.rs`, `outgoing.rs`, `answered.rs` | our INVITE, its responses, the ACK |
//! | `incoming.rs` | the INVITE of a peer until its ACK |
//! | `in_dialog.rs` | requests inside dialogs, received and sent |
//! | `fields.rs` | the header fields of all requests |
//! | `registration.rs` | REGISTER, refreshed (section 10) |
//! | `control.rs`, `user_agent.rs` | what the program calls, and what calls the program |

mod answered;
mod call;
mod control;
mod dialog;
mod event;
mod fields;
mod in_dialog;
mod incoming;
mod invitation;
mod lookup;
mod outgoing;
mod registration;
mod route;
mod settings;
mod table;
mod user_agent;

pub use control::CallControl;
pub use event::{CallEnd, CallEvent, CallNumber, ReceivedMessage, RegistrationEvent, Session};
pub use invitation::{Invitation, NotSent};
pub use lookup::{Lookup, Resolve};
pub use settings::{AgentSettings, BadSettings, Bounds};
pub use user_agent::{CallHandler, UserAgent};
