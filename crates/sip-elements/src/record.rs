//! The records that the data plane gives to the control plane. They wait for no answer, and the runtime counts those that are lost.
use crate::bans::Notice;
use crate::operator::DialogAnswer;
use crate::trace::Traced;
use sip_dialog::CallEvent;
use sip_transport::Time;

/// A fact for the control plane to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A line for the operator's log.
    Notice(Notice),
    /// A change in the life of a call, if [`DialogSettings`](crate::DialogSettings) ask for it.
    Call(CallEvent),
    /// The state of a confirmed dialog, when it has changed. Only with [`DialogSettings::persist`](crate::DialogSettings::persist).
    Dialog {
        /// Identifies the dialog among those of all nodes.
        id: u128,
        /// What [`Exchange::restore`](crate::Exchange::restore) reads; `None` if the dialog has ended.
        state: Option<Box<[u8]>>,
        /// When the dialog ends unless it is refreshed.
        expires: Time,
    },
    /// The answer to [`ControlMessage::Dialogs`](crate::ControlMessage::Dialogs).
    Dialogs(Box<DialogAnswer>),
    /// A copy of a message, for those who trace it.
    Traced(Traced),
}
