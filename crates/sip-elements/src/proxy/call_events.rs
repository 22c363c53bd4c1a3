//! What leaves a worker about its calls: events, records, and states that survive a restart.

use crate::{Record, WorkerParts};
use sip_dialog::{CallEvent, Change, Dialog, Ended, Text};
use sip_transport::Time;
use std::sync::atomic::Ordering;

/// Whether the end of a call becomes a record or an event.
pub(super) fn is_end_wanted(parts: &WorkerParts<'_>) -> bool {
    parts.settings.dialogs.records || are_events_wanted(parts)
}

fn are_events_wanted(parts: &WorkerParts<'_>) -> bool {
    parts.settings.dialogs.events.load(Ordering::Relaxed)
}

/// Reports a change to the control plane, if it wants to know.
pub(super) fn report(parts: &mut WorkerParts<'_>, dialog: &Dialog, change: Change) {
    if are_events_wanted(parts) {
        send(parts, dialog, change, None);
    }
}

/// Reports the end of a call to the control plane, if it wants to know. `at` is when the call ended.
pub(super) fn report_end(parts: &mut WorkerParts<'_>, dialog: &Dialog, ended: Ended, at: Time) {
    if is_end_wanted(parts) {
        send(parts, dialog, Change::Ended(ended), Some(at));
    }
}

fn send(parts: &mut WorkerParts<'_>, dialog: &Dialog, change: Change, ended: Option<Time>) {
    let call = Box::new(dialog.record(ended));
    let event = CallEvent { change, call };
    parts.output.record(Record::Call(event));
}

/// Saves the state of a dialog, so that it survives a restart.
pub(super) fn save(parts: &mut WorkerParts<'_>, dialog: &Dialog) {
    // Without the tag, no request would find it after a restart.
    let has_tag = !dialog.text(Text::CalleeTag).is_empty();
    if parts.settings.dialogs.persist && has_tag {
        write(parts, dialog, Some(dialog.encode()));
    }
}

/// Removes the saved state of a dialog that has ended.
pub(super) fn remove(parts: &mut WorkerParts<'_>, dialog: &Dialog) {
    if parts.settings.dialogs.persist && dialog.is_confirmed() {
        write(parts, dialog, None);
    }
}

fn write(parts: &mut WorkerParts<'_>, dialog: &Dialog, state: Option<Box<[u8]>>) {
    parts.output.record(Record::Dialog {
        id: dialog.id(),
        state,
        expires: dialog.expires(),
    });
}
