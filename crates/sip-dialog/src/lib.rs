//! Dialogs as a stateful proxy sees them (RFC 3261 section 12): one for each INVITE that it record-routes, from the INVITE until the call
//! has ended on both sides.

mod record;
mod session_timer;

pub use record::{CallEvent, CallRecord, Change, Ended, LONGEST_TEXT};
pub use session_timer::{Agreed, Rejection, Requested, SessionTimerSettings};
