//! Dialogs as a stateful proxy sees them (RFC 3261 section 12): one for each INVITE that it record-routes, from the INVITE until the call
//! has ended on both sides.
//!
//! [`Dialogs`] owns the dialogs of one worker. A [`Dialog`] is early until a 2xx confirms it, and then lives until a BYE or a deadline
//! ends it. The caller passes in what messages say, and the time.

#![forbid(unsafe_code)]

mod bye;
mod details;
mod dialog;
mod encoding;
mod party;
mod record;
mod session_timer;
mod table;
mod texts;

pub use details::{DialogDetails, PartyDetails};
pub use dialog::{Answer, Dialog, Held, Invitation};
pub use party::{Leg, Party};
pub use record::{CallEvent, CallRecord, Change, Ended, LONGEST_TEXT};
pub use session_timer::{Agreed, Rejection, Requested, SessionTimerSettings};
pub use table::{DialogId, DialogStats, Dialogs};
pub use texts::{MAX_BYTES, Text};
