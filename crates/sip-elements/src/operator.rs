//! Requests of operators about the dialogs of one worker, and the answers. Each request takes well below a millisecond: it looks at a
//! part of a table, and its answer says where to continue.

use crate::trace::Selection;
use crate::worker::Worker;
use crate::{HungUp, Record};
use sip_dialog::{Dialog, DialogDetails, DialogId, Text};
use std::sync::Arc;

/// A request about dialogs, answered by [`Record::Dialogs`].
#[derive(Clone, Debug)]
pub struct DialogRequest {
    /// The answer has the same number.
    pub number: u64,
    /// Where to begin: 0, and then what the answer says.
    pub from: u32,
    /// What to do.
    pub action: DialogAction,
}

/// What a worker does with its dialogs.
#[derive(Clone, Debug)]
pub enum DialogAction {
    /// Copies dialogs.
    Show {
        /// Which dialogs.
        filter: Arc<DialogFilter>,
        /// The maximum number of copies. The answer may have fewer, although there are more.
        most: usize,
    },
    /// Ends a dialog.
    End {
        /// The dialog, as found by [`DialogAction::Show`].
        id: DialogId,
        /// The value of Reason (RFC 3326) in the messages to both parties.
        reason: Arc<[u8]>,
    },
}

/// Which dialogs to copy. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialogFilter {
    /// The identifier among those of all nodes.
    pub id: Option<u128>,
    /// The Call-ID, or a user that From, To, the Request-URI or the credentials of the INVITE name.
    pub about: Option<Selection>,
    /// Whether a 2xx has confirmed it.
    pub is_confirmed: Option<bool>,
}

/// The answer to a [`DialogRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialogAnswer {
    /// The number of the request.
    pub number: u64,
    /// What was done.
    pub outcome: DialogOutcome,
}

/// What a worker has done with its dialogs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialogOutcome {
    /// Copies of dialogs, ordered by their slot.
    Shown {
        /// The dialogs.
        found: Vec<FoundDialog>,
        /// Where to continue; `None` if there are no more dialogs.
        next: Option<u32>,
    },
    /// What came of [`DialogAction::End`].
    Ended(EndOutcome),
}

/// A copy of a dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDialog {
    /// Identifies the dialog in its worker.
    pub id: DialogId,
    /// What is known about it.
    pub details: DialogDetails,
}

/// What came of an order to end a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOutcome {
    /// It has ended.
    HungUp(HungUp),
    /// Its INVITE is cancelled: the callee gets CANCEL, and the caller 487. The dialog ends with the final response.
    Cancelled,
    /// Its INVITE had been cancelled before, and nothing was sent. The dialog ends with the final response.
    AlreadyCancelled,
    /// Neither party can be sent a BYE, so it has not ended.
    Unreachable,
    /// It had ended before.
    Gone,
    /// Nothing yet: repeat the request from here.
    Continue(u32),
}

impl DialogFilter {
    /// How many slots of a table one request looks at. A dialog is skipped by its state or its id without its texts, which are memory of
    /// their own, and a Call-ID without parsing URIs.
    pub(crate) const fn slots(&self) -> u32 {
        match (self.id, &self.about) {
            (Some(_), _) | (None, None) => 16_384,
            (None, Some(Selection::Call(_))) => 4_096,
            (None, Some(Selection::User { .. })) => 1_024,
        }
    }

    /// Whether it wants this dialog. `scratch` is a buffer.
    pub(crate) fn admits(&self, dialog: &Dialog, scratch: &mut Vec<u8>) -> bool {
        self.id.is_none_or(|id| id == dialog.id())
            && self
                .is_confirmed
                .is_none_or(|is_confirmed| is_confirmed == dialog.is_confirmed())
            && self
                .about
                .as_ref()
                .is_none_or(|about| is_about(dialog, about, scratch))
    }
}

fn is_about(dialog: &Dialog, about: &Selection, scratch: &mut Vec<u8>) -> bool {
    match about {
        Selection::Call(call_id) => dialog.text(Text::CallId) == &**call_id,
        Selection::User { .. } => {
            about.is_subscriber(dialog.text(Text::Identity))
                || [Text::From, Text::To, Text::RequestUri]
                    .into_iter()
                    .any(|uri| about.is_uri(dialog.text(uri), scratch))
        }
    }
}

/// Does what an operator requests.
pub(crate) fn answer(worker: &mut Worker<'_, '_>, request: &DialogRequest) {
    let DialogRequest {
        number,
        from,
        action,
    } = request;
    let outcome = match action {
        DialogAction::Show { filter, most } => {
            let (found, next) = worker.proxy.show_dialogs(filter, *from, *most);
            DialogOutcome::Shown { found, next }
        }
        DialogAction::End { id, reason } => {
            let parts = &mut worker.parts;
            DialogOutcome::Ended(worker.proxy.end_dialog(parts, *id, *from, reason))
        }
    };
    let number = *number;
    let answer = Box::new(DialogAnswer { number, outcome });
    worker.parts.output.record(Record::Dialogs(answer));
}
