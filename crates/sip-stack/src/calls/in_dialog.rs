//! Requests inside dialogs (RFC 3261 sections 12.2, 14, 15; RFC 3311): ACK, BYE, re-INVITE and UPDATE of the peer, and our BYE.

use super::call::{Stage, Unacknowledged};
use super::event::{CallEnd, CallEvent, CallNumber, ReceivedMessage, Session};
use super::fields::{ALLOW, Fields};
use super::incoming::refuse_extensions;
use super::outgoing::MAX_CHALLENGES;
use super::route::{Hops, Work};
use super::table::Calls;
use crate::{Request, Stack};
use sip_message::{HeaderName, Message, Method, RequestWriter};
use sip_transaction::ClientId;

/// Asks the program for the answer to a changed session.
pub(crate) type Renegotiate<'r> =
    dyn FnMut(CallNumber, &Message<'_>, &Session) -> Option<Session> + 'r;

impl Calls {
    /// Handles a request with a To tag. Without a dialog, it is rejected with 481.
    pub(crate) fn in_dialog(
        &mut self,
        stack: &mut Stack<'_>,
        request: &Request<'_, '_>,
        renegotiate: &mut Renegotiate<'_>,
    ) {
        let message = request.message;
        let Some((number, place)) = self.dialog_of(message) else {
            // An ACK gets no response.
            return stack.respond(request, 481, "");
        };
        if message.method() == Method::Ack {
            return self.acknowledged(stack, number, place, message);
        }
        let cseq = message.cseq().map_or(0, |cseq| cseq.number);
        let call = self.by_number.get_mut(&number);
        let dialog = call.and_then(|call| call.dialogs.get_mut(place));
        let Some(dialog) = dialog.filter(|it| it.remote_cseq.is_none_or(|last| last < cseq)) else {
            return stack.respond(request, 500, "CSeq Out Of Order");
        };
        dialog.remote_cseq = Some(cseq);
        match message.method() {
            Method::Bye => self.hung_up(stack, request, number, place),
            Method::Invite | Method::Update => {
                self.renegotiate(stack, request, (number, place), renegotiate);
            }
            Method::Options => stack.respond_with(request, 200, "", |response| {
                response.header(HeaderName::Allow, ALLOW).finish();
            }),
            _ => stack.respond_with(request, 405, "", |response| {
                response.header(HeaderName::Allow, ALLOW).finish();
            }),
        }
    }

    /// The call that a request belongs to, unless it is over.
    fn dialog_of(&self, request: &Message<'_>) -> Option<(CallNumber, usize)> {
        let local = request.to()?.tag()?;
        let remote = request.from()?.tag().unwrap_or_default();
        let found = self.find(request.call_id()?, local, remote)?;
        let call = self.by_number.get(&found.0)?;
        (!matches!(call.stage, Stage::Over)).then_some(found)
    }

    /// Handles the ACK of our 2xx.
    fn acknowledged(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        place: usize,
        ack: &Message<'_>,
    ) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        let cseq = ack.cseq().map(|cseq| cseq.number);
        let waits = call.unacknowledged.as_ref().map(|success| success.cseq);
        if waits.is_none() || waits != cseq {
            return;
        }
        call.unacknowledged = None;
        let hangs_up = call.hangs_up;
        if let Some(dialog) = call.dialogs.get_mut(place)
            && !std::mem::replace(&mut dialog.is_confirmed, true)
            && !hangs_up
        {
            self.tell(number, CallEvent::Confirmed(ReceivedMessage::of(ack)));
        }
        if hangs_up {
            self.leave(stack, number, CallEnd::ByUs);
        }
        self.settle(stack, number);
    }

    /// Handles a BYE. It also ends an early dialog of a call that rings.
    fn hung_up(
        &mut self,
        stack: &mut Stack<'_>,
        request: &Request<'_, '_>,
        number: CallNumber,
        place: usize,
    ) {
        stack.respond(request, 200, "");
        let Some(call) = self.by_number.get(&number) else {
            return;
        };
        match &call.stage {
            Stage::Ringing(_) => {
                self.reject(stack, number, 487, CallEnd::ByPeer);
            }
            // Both hang up at the same time: the reason is ours.
            Stage::Ending(end) if call.current == Some(place) => {
                let end = end.clone();
                self.end(stack, number, end);
            }
            Stage::Up if call.current == Some(place) => {
                self.end(stack, number, CallEnd::ByPeer);
            }
            _ => {}
        }
    }

    /// Handles a re-INVITE or an UPDATE: the program decides about the session.
    fn renegotiate(
        &mut self,
        stack: &mut Stack<'_>,
        request: &Request<'_, '_>,
        (number, place): (CallNumber, usize),
        renegotiate: &mut Renegotiate<'_>,
    ) {
        let message = request.message;
        let is_invite = message.method() == Method::Invite;
        let (Some(server), Some(call)) = (request.server, self.by_number.get(&number)) else {
            return;
        };
        match call.stage {
            Stage::Up if call.current == Some(place) => {}
            // Our offer has no answer yet (RFC 3311 section 5.2).
            Stage::Calling(_) => return stack.respond(request, 491, ""),
            Stage::Ringing(_) => return busy(stack, request),
            _ => return stack.respond(request, 481, ""),
        }
        if is_invite && call.unacknowledged.is_some() {
            return busy(stack, request);
        }
        if refuse_extensions(stack, request) {
            return;
        }
        let Some(session) = renegotiate(number, message, &call.session) else {
            return stack.respond(request, 488, "");
        };
        // An UPDATE without an offer refreshes the target only.
        let is_answer = is_invite || !message.body().is_empty();
        let none = Session::none();
        let body = if is_answer { &session } else { &none };
        let response = self.write_success(stack, request, 200, body);
        stack.respond_raw(server, 200, &response);
        let cseq = message.cseq().map_or(0, |cseq| cseq.number);
        if let Some(call) = self.by_number.get_mut(&number) {
            if let Some(dialog) = call.dialogs.get_mut(place) {
                dialog.refresh(message);
            }
            call.session = session;
            if is_invite {
                call.unacknowledged = Some(Unacknowledged::new(stack, server, cseq, response));
            }
        }
        let message = ReceivedMessage::of(message);
        self.tell(number, CallEvent::Renegotiated(message));
        self.settle(stack, number);
    }

    /// Ends a call in any stage: CANCEL, 480 or BYE.
    pub(crate) fn hang_up(&mut self, stack: &mut Stack<'_>, number: CallNumber) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        match call.stage {
            Stage::Calling(_) => self.cancel(stack, number, CallEnd::ByUs),
            Stage::Ringing(_) => {
                self.reject(stack, number, 480, CallEnd::ByUs);
            }
            // A callee sends no BYE before the ACK (section 15).
            Stage::Up if call.unacknowledged.is_some() && !is_confirmed(call) => {
                call.hangs_up = true;
            }
            Stage::Up => self.leave(stack, number, CallEnd::ByUs),
            Stage::Ending(_) | Stage::Over => {}
        }
    }

    /// Sends the BYE of a call that is up.
    pub(crate) fn leave(&mut self, stack: &mut Stack<'_>, number: CallNumber, end: CallEnd) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        let (Stage::Up, Some(place)) = (&call.stage, call.current) else {
            return;
        };
        call.stage = Stage::Ending(end);
        call.unacknowledged = None;
        // The BYE has 64*T1 for its response, once its next hop is known.
        call.until = Some(stack.now() + stack.timers().t1 * 128);
        self.begin_bye(stack, number, place);
        self.settle(stack, number);
    }

    /// Finds the next hop of a BYE.
    pub(crate) fn begin_bye(&mut self, stack: &mut Stack<'_>, number: CallNumber, place: usize) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        let Some(dialog) = call.dialogs.get_mut(place) else {
            return;
        };
        let (uri, call_id) = (dialog.next_hop().to_vec(), call.call_id.clone());
        let routed = self.route(stack, &uri, &call_id, Work::Bye(number, place));
        if routed.is_err() {
            self.bye_ended(stack, number, place);
        }
    }

    pub(crate) fn send_bye(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        place: usize,
        mut hops: Hops,
    ) {
        let credentials = &self.settings.credentials;
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        if let Some(candidate) = call.hop {
            hops.prefer(candidate);
        }
        let next = hops.take(stack.listeners());
        let (Some((_, flow)), Some(dialog)) = (next, call.dialogs.get_mut(place)) else {
            return self.bye_ended(stack, number, place);
        };
        dialog.local_cseq += 1;
        dialog.byes += 1;
        let routes = dialog.routes();
        let asked = (&b"BYE"[..], dialog.request_uri());
        let authorization = call.wallet.authorize(credentials, asked, stack.token());
        let fields = Fields {
            routes: &routes,
            from: &call.local,
            to: &dialog.remote,
            cseq: (dialog.local_cseq, Method::Bye),
            contact: None,
            authorization: &authorization,
        };
        let finish = |request: RequestWriter<'_>| fields.write(request).finish();
        let uri = dialog.request_uri();
        match stack.request(hops.hop(flow), Method::Bye, uri, &call.call_id, finish) {
            Ok(client) => {
                self.clients.insert(client, Work::Bye(number, place));
            }
            Err(_) => self.bye_ended(stack, number, place),
        }
    }

    /// Handles a response to our BYE. Whatever the final response is, the dialog is over (section 15.1.1), unless it is a challenge.
    pub(crate) fn bye_response(
        &mut self,
        stack: &mut Stack<'_>,
        client: ClientId,
        (number, place): (CallNumber, usize),
        response: &Message<'_>,
    ) {
        if response.status() < 200 {
            return;
        }
        self.clients.remove(&client);
        let credentials = &self.settings.credentials;
        let call = self.by_number.get_mut(&number);
        let is_challenged = call.is_some_and(|call| {
            let byes = call.dialogs.get(place).map_or(0, |dialog| dialog.byes);
            matches!(response.status(), 401 | 407)
                && byes <= MAX_CHALLENGES
                && call.wallet.take(response, credentials)
        });
        if is_challenged {
            self.begin_bye(stack, number, place);
        } else {
            self.bye_ended(stack, number, place);
        }
    }

    /// The BYE of a dialog has its final response, or gets none.
    pub(crate) fn bye_ended(&mut self, stack: &mut Stack<'_>, number: CallNumber, place: usize) {
        let Some(call) = self.by_number.get(&number) else {
            return;
        };
        if let Stage::Ending(end) = &call.stage
            && call.current == Some(place)
        {
            let end = end.clone();
            self.end(stack, number, end);
        }
    }
}

/// Whether the ACK of the first 2xx has arrived or has been sent.
fn is_confirmed(call: &super::call::Call) -> bool {
    let current = call.current.and_then(|place| call.dialogs.get(place));
    current.is_some_and(|dialog| dialog.is_confirmed)
}

/// Another offer is in progress (section 14.2).
fn busy(stack: &mut Stack<'_>, request: &Request<'_, '_>) {
    stack.respond_with(request, 500, "", |response| {
        response.header(HeaderName::RetryAfter, b"1").finish();
    });
}
