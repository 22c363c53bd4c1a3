//! The records that the data plane gives to the control plane. They wait for no answer, and the runtime counts those that are lost.
use crate::bans::Notice;
use crate::operator::DialogAnswer;
use crate::trace::Traced;
use sip_dialog::CallEvent;
use sip_transport::Time;

/// A dialog that another node may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedDialog {
    /// One of them is the key of the dialog ([`Exchange::key_of_dialog`](crate::Exchange::key_of_dialog)): the first one if the caller has
    /// sent the request, else the second one. If there is a dialog with either key, it is the one.
    pub keys: [u64; 2],
    /// The number of the call: the lower 32 bits of the id of the dialog.
    pub call: u32,
    /// The Call-ID. It names the worker that must adopt the dialog ([`home_of`](crate::home_of)).
    pub call_id: Box<[u8]>,
}

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
    /// A request has proven that it belongs to a dialog which is not here. Only with
    /// [`DialogSettings::adopts`](crate::DialogSettings::adopts), and once in five seconds for each dialog at most.
    Missed(MissedDialog),
    /// The answer to [`ControlMessage::Dialogs`](crate::ControlMessage::Dialogs).
    Dialogs(Box<DialogAnswer>),
    /// A copy of a message, for those who trace it.
    Traced(Traced),
}
