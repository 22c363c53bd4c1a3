//! The 2xx to our INVITE, and its ACK (RFC 3261 section 13.2.2.4).

use super::call::{Call, Stage};
use super::dialog::{Ack, Dialog};
use super::event::{CallEnd, CallEvent, CallNumber, ReceivedMessage};
use super::fields::Fields;
use super::route::{Hops, Work};
use super::table::Calls;
use crate::{NextHop, Stack};
use sip_message::{Message, Method, RequestWriter};

/// The most branches of a forked INVITE that may form a dialog.
const MAX_DIALOGS: usize = 16;

impl Calls {
    /// Handles a 2xx: the first one, a retransmission, or that of another branch, whose dialog ends at once (section 13.2.2.4).
    pub(crate) fn accepted(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        response: &Message<'_>,
    ) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        let Some(place) = dialog_of(call, response) else {
            return;
        };
        let Some(dialog) = call.dialogs.get_mut(place) else {
            return;
        };
        if let Some(ack) = &dialog.ack {
            let domain = ack.domain.as_deref();
            let flow = ack.flow;
            return stack.send(NextHop { flow, domain }, |into| {
                into.extend_from_slice(&ack.bytes);
            });
        }
        if dialog.is_confirmed {
            // The ACK waits for its next hop.
            return;
        }
        dialog.is_confirmed = true;
        dialog.confirm(response, call.cseq);
        call.wallet.accepted();
        let lingers = stack.now() + stack.timers().t1 * 64;
        call.lingers.get_or_insert(lingers);
        let gives_up = match &call.stage {
            Stage::Calling(outgoing) => outgoing.gives_up.clone(),
            _ => None,
        };
        let is_first = matches!(call.stage, Stage::Calling(_));
        let (uri, call_id) = (dialog.next_hop().to_vec(), call.call_id.clone());
        if is_first {
            (call.stage, call.until) = (Stage::Up, None);
            call.current = Some(place);
        }
        let routed = self.route(stack, &uri, &call_id, Work::Ack(number, place));
        if routed.is_err() {
            return self.end(stack, number, CallEnd::Unreachable);
        }
        if !is_first {
            self.begin_bye(stack, number, place);
        } else if let Some(end) = gives_up {
            self.leave(stack, number, end);
        } else {
            let message = ReceivedMessage::of(response);
            self.tell(number, CallEvent::Answered(message));
        }
        self.settle(stack, number);
    }

    /// Sends the ACK of a 2xx, and keeps it for retransmissions of the 2xx.
    pub(crate) fn send_ack(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        place: usize,
        mut hops: Hops,
    ) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        if let Some(candidate) = call.hop {
            hops.prefer(candidate);
        }
        let next = hops.take(stack.listeners());
        let (Some((_, flow)), Some(dialog)) = (next, call.dialogs.get_mut(place)) else {
            return self.end(stack, number, CallEnd::Unreachable);
        };
        let routes = dialog.routes();
        let fields = Fields {
            routes: &routes,
            from: &call.local,
            to: &dialog.remote,
            cseq: (dialog.invite_cseq, Method::Ack),
            contact: None,
            authorization: &call.authorization,
        };
        let finish = |request: RequestWriter<'_>| fields.write(request).finish();
        let bytes = stack.write_ack(flow, dialog.request_uri(), &call.call_id, finish);
        stack.send(hops.hop(flow), |into| into.extend_from_slice(&bytes));
        dialog.ack = Some(Ack {
            flow,
            domain: hops.domain,
            bytes: bytes.into(),
        });
    }
}

/// The dialog that a response belongs to, created if it is new.
pub(super) fn dialog_of(call: &mut Call, response: &Message<'_>) -> Option<usize> {
    let tag = response.to()?.tag().unwrap_or_default();
    let known = call.dialog_with(tag);
    if known.is_some() || call.dialogs.len() >= MAX_DIALOGS {
        return known;
    }
    let uri = match &call.stage {
        Stage::Calling(outgoing) => &outgoing.uri[..],
        _ => b"",
    };
    let dialog = Dialog::of_response(response, uri, call.cseq)?;
    call.dialogs.push(dialog);
    Some(call.dialogs.len() - 1)
}
