//! What an operator does with calls: lists them, and ends them. Tables are searched in parts, so that no request delays the worker.

use super::calls::Calls;
use super::hang_up::{HungUp, hang_up};
use super::{Context, Proxy, Relation};
use crate::WorkerParts;
use crate::operator::{DialogFilter, EndOutcome, FoundDialog};
use sip_dialog::{Dialog, DialogId, Ended, Party, Text};
use std::ops::Range;

/// Response contexts that one request looks at.
const CONTEXTS: u32 = 4_096;
/// Dialogs that one request copies.
const MOST: usize = 128;

/// The next slots of a table to look at, at most `most`, and the first one after them; `None` if they are the last.
fn part(from: u32, most: u32, slots: u32) -> (Range<u32>, Option<u32>) {
    let end = from.saturating_add(most).min(slots);
    (from..end, (end < slots).then_some(end))
}

impl Calls {
    /// Copies dialogs, at most `most`, beginning with the slot `from`. Also returns where to continue; `None` if there are no more.
    fn show(
        &self,
        filter: &DialogFilter,
        from: u32,
        most: usize,
    ) -> (Vec<FoundDialog>, Option<u32>) {
        let (slots, next) = part(from, filter.slots(), self.dialogs.slots());
        let (mut found, mut scratch) = (Vec::new(), Vec::new());
        for (id, dialog) in self.dialogs.range(slots) {
            if !filter.admits(dialog, &mut scratch) {
                continue;
            }
            if found.len() == most.min(MOST) {
                return (found, Some(id.slot()));
            }
            let details = dialog.details();
            found.push(FoundDialog { id, details });
        }
        (found, next)
    }

    /// Ends a confirmed dialog at both parties. If neither can be sent a BYE, it stays.
    fn hang_up(
        &mut self,
        parts: &mut WorkerParts<'_>,
        id: DialogId,
        reason: &[u8],
    ) -> Option<HungUp> {
        let dialog = self.dialogs.get(id)?;
        let sent = hang_up(parts, id, dialog, &Party::ALL, reason);
        if sent == HungUp::default() {
            return None;
        }
        self.set_text(parts, id, (Text::Reason, reason));
        self.end(parts, id, Ended::ByOperator, parts.now);
        Some(sent)
    }

    /// Ends a dialog whose callee has answered although the operator had cancelled the INVITE. The reason is that of the CANCEL.
    pub(super) fn hang_up_cancelled(&mut self, parts: &mut WorkerParts<'_>, id: DialogId) {
        let dialog = self.dialogs.get(id);
        let Some(dialog) = dialog.filter(|dialog| dialog.is_confirmed()) else {
            return;
        };
        let reason: Box<[u8]> = dialog.text(Text::Reason).into();
        self.hang_up(parts, id, &reason);
    }
}

impl Proxy {
    /// Copies dialogs, at most `most`, beginning with the slot `from`. Also returns where to continue; `None` if there are no more.
    pub(crate) fn show_dialogs(
        &self,
        filter: &DialogFilter,
        from: u32,
        most: usize,
    ) -> (Vec<FoundDialog>, Option<u32>) {
        self.calls.show(filter, from, most)
    }

    /// Ends a dialog with this Reason. A confirmed one ends at once, with a BYE to both parties. The INVITE of an early one is cancelled.
    /// Its response context is searched from the slot `from`.
    pub(crate) fn end_dialog(
        &mut self,
        parts: &mut WorkerParts<'_>,
        id: DialogId,
        from: u32,
        reason: &[u8],
    ) -> EndOutcome {
        match self.calls.dialogs.get(id).map(Dialog::is_confirmed) {
            None => EndOutcome::Gone,
            Some(true) => match self.calls.hang_up(parts, id, reason) {
                Some(sent) => EndOutcome::HungUp(sent),
                None => EndOutcome::Unreachable,
            },
            Some(false) => self.cancel_call(parts, id, from, reason),
        }
    }

    /// Cancels the INVITE of an early dialog. Its final response ends the dialog.
    fn cancel_call(
        &mut self,
        parts: &mut WorkerParts<'_>,
        id: DialogId,
        from: u32,
        reason: &[u8],
    ) -> EndOutcome {
        let (slots, next) = part(from, CONTEXTS, self.contexts.slots());
        let creates =
            |context: &Context| matches!(context.dialog, Relation::Creates(call) if call == id);
        let Some(key) = self.contexts.find(slots, creates) else {
            return next.map_or(EndOutcome::Gone, EndOutcome::Continue);
        };
        let Some(mut context) = self.contexts.take(key) else {
            return EndOutcome::Gone;
        };
        let is_first = context.cancelled_by.is_none();
        if is_first {
            context.cancelled_by = Some(Ended::ByOperator);
            self.calls.set_text(parts, id, (Text::Reason, reason));
            context.cancel_pending(&mut self.scope(parts, key), reason);
        }
        self.settle(parts, key, context);
        if is_first {
            EndOutcome::Cancelled
        } else {
            EndOutcome::AlreadyCancelled
        }
    }
}
