//! The records that the data plane gives to the control plane. They wait for no answer, and the runtime counts those that are lost.
use crate::bans::Notice;
use sip_dialog::CallEvent;

/// A fact for the control plane to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A line for the operator's log.
    Notice(Notice),
    /// A change in the life of a call. Only with [`DialogSettings::events`](crate::DialogSettings::events).
    Call(CallEvent),
}
