//! A peer's INVITE: ringing, accepted, rejected, cancelled; our 2xx until its ACK (RFC 3261 sections 8.2, 9.2, 13.3).

use super::call::{Call, Incoming, Stage, Unacknowledged};
use super::dialog::Dialog;
use super::event::{CallEnd, CallEvent, CallNumber, ReceivedMessage, Session};
use super::fields::ALLOW;
use super::table::Calls;
use crate::stack::end;
use crate::{Request, Stack};
use sip_message::{HeaderName, Message};
use sip_transaction::ServerId;
use std::time::Duration;

impl Calls {
    /// Handles an INVITE outside dialogs.
    pub(crate) fn incoming(&mut self, stack: &mut Stack<'_>, request: &Request<'_, '_>) {
        let invite = request.message;
        let (Some(server), Some(call_id)) = (request.server, invite.call_id()) else {
            return;
        };
        if refuse_extensions(stack, request) {
            return;
        }
        let Some(dialog) = Dialog::of_invite(invite) else {
            return stack.respond(request, 400, "Missing Contact");
        };
        if self.is_merged(call_id, &dialog) {
            return stack.respond(request, 482, "");
        }
        if !self.has_room(call_id) {
            return stack.respond_with(request, 503, "", |response| {
                response.header(HeaderName::RetryAfter, b"5").finish();
            });
        }
        let tag = stack.tag(invite);
        let to = invite.header(HeaderName::To).unwrap_or_default();
        let local = [to, b";tag=", &tag].concat().into();
        let stage = Stage::Ringing(Box::new(Incoming {
            server,
            flow: request.flow,
            invite: invite.bytes().into(),
        }));
        let mut call = Call::new(call_id.into(), (local, tag.into()), stage);
        call.dialogs.push(dialog);
        call.until = Some(stack.now() + self.settings.bounds.ringing);
        let number = self.insert(call);
        self.invites.insert(server, number);
        stack.respond(request, 100, "");
        self.tell(number, CallEvent::Incoming(ReceivedMessage::of(invite)));
        self.settle(stack, number);
    }

    /// Whether the INVITE has arrived before on another path (section 8.2.2.2).
    fn is_merged(&self, call_id: &[u8], new: &Dialog) -> bool {
        let mut calls = self.with_call_id(call_id);
        calls.any(|(_, call)| {
            let mut dialogs = call.dialogs.iter();
            dialogs.any(|known| {
                known.remote_tag == new.remote_tag && known.remote_cseq >= new.remote_cseq
            })
        })
    }

    /// Sends 180 or another provisional response, with a session description for early media. Returns whether the call still rings.
    pub(crate) fn ring(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        status: u16,
        session: &Session,
    ) -> bool {
        let status = status.clamp(101, 199);
        self.respond(stack, number, status, session).is_some()
    }

    /// Accepts a call. Returns whether it still rang.
    pub(crate) fn accept(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        session: Session,
    ) -> bool {
        let Some((server, response)) = self.respond(stack, number, 200, &session) else {
            return false;
        };
        self.invites.remove(&server);
        if let Some(call) = self.by_number.get_mut(&number) {
            let cseq = call.dialogs.first().and_then(|dialog| dialog.remote_cseq);
            let cseq = cseq.unwrap_or_default();
            call.unacknowledged = Some(Unacknowledged::new(stack, server, cseq, response));
            (call.stage, call.current, call.until) = (Stage::Up, Some(0), None);
            call.session = session;
        }
        self.settle(stack, number);
        true
    }

    /// Rejects a call, and ends it for this reason. Returns whether it still rang.
    pub(crate) fn reject(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        status: u16,
        end: CallEnd,
    ) -> bool {
        let status = status.clamp(300, 699);
        let Some((server, _)) = self.respond(stack, number, status, &Session::none()) else {
            return false;
        };
        self.invites.remove(&server);
        self.end(stack, number, end);
        true
    }

    /// Handles the CANCEL of an INVITE that has no final response.
    pub(crate) fn cancelled(&mut self, stack: &mut Stack<'_>, server: ServerId) {
        if let Some(number) = self.invites.get(&server).copied() {
            self.reject(stack, number, 487, CallEnd::ByPeer);
        }
    }

    /// Sends a response to the INVITE of a call that rings, and returns it.
    fn respond(
        &self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        status: u16,
        session: &Session,
    ) -> Option<(ServerId, Vec<u8>)> {
        let Stage::Ringing(incoming) = &self.by_number.get(&number)?.stage else {
            return None;
        };
        let invite = Message::parse(&incoming.invite).ok()?;
        let request = Request {
            message: &invite,
            flow: incoming.flow,
            server: Some(incoming.server),
        };
        // A Contact in a response from 300 on would lead the caller elsewhere.
        let response = if status < 300 {
            self.write_success(stack, &request, status, session)
        } else {
            stack.write_response(&request, status, "", end)
        };
        stack.respond_raw(incoming.server, status, &response);
        Some((incoming.server, response))
    }

    /// Writes a response that forms or refreshes a dialog (section 12.1.1).
    pub(crate) fn write_success(
        &self,
        stack: &Stack<'_>,
        request: &Request<'_, '_>,
        status: u16,
        session: &Session,
    ) -> Vec<u8> {
        let uri = request.message.request_uri();
        let contact = self.settings.contact(stack.listeners(), request.flow, uri);
        stack.write_response(request, status, "", |mut response| {
            let headers = request.message.headers();
            for route in headers.filter(|header| header.name == HeaderName::RecordRoute) {
                response = response.header(HeaderName::RecordRoute, route.value);
            }
            let response = response
                .header(HeaderName::Contact, &contact)
                .header(HeaderName::Allow, ALLOW);
            session.finish_response(response);
        })
    }

    /// Sends our 2xx again, or ends the call if its ACK is overdue.
    pub(crate) fn repeat_success(&mut self, stack: &mut Stack<'_>, number: CallNumber) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        let (now, longest) = (stack.now(), stack.timers().t2);
        let Some(success) = &mut call.unacknowledged else {
            return;
        };
        if success.until <= now {
            call.unacknowledged = None;
            return self.leave(stack, number, CallEnd::NoAck);
        }
        if success.again <= now {
            success.interval = (success.interval * 2).min(longest.max(success.interval));
            success.again = now + success.interval;
            stack.respond_raw(success.server, 200, &success.response);
        }
    }
}

impl Unacknowledged {
    /// A 2xx that has just been sent.
    pub(crate) fn new(stack: &Stack<'_>, server: ServerId, cseq: u32, response: Vec<u8>) -> Self {
        let interval = stack.timers().t1.max(Duration::from_millis(1));
        Self {
            server,
            cseq,
            response: response.into(),
            again: stack.now() + interval,
            interval,
            until: stack.now() + interval * 64,
        }
    }
}

/// Rejects a request that requires an extension, because the user agent has none (section 8.2.2.3). Returns whether it did.
pub(super) fn refuse_extensions(stack: &mut Stack<'_>, request: &Request<'_, '_>) -> bool {
    let required: Vec<&[u8]> = request.message.values(HeaderName::Require).collect();
    if required.is_empty() {
        return false;
    }
    let unsupported = required.join(&b", "[..]);
    stack.respond_with(request, 420, "", |response| {
        response
            .header(HeaderName::Unsupported, &unsupported)
            .finish();
    });
    true
}
