//! Our INVITE until its answer: sent, challenged, failed over, ringing, refused, cancelled (RFC 3261 sections 9.1, 13.2 and 22, RFC 3263
//! section 4.3).

use super::answered::dialog_of;
use super::call::{Call, Outgoing, Stage};
use super::event::{CallEnd, CallEvent, CallNumber, ReceivedMessage};
use super::fields::Fields;
use super::invitation::{Invitation, NotSent, may_be_added};
use super::route::{Hops, Work};
use super::settings::sip_uri;
use super::table::Calls;
use crate::{Failure, Stack};
use sip_message::{Message, Method, RequestWriter};
use sip_transaction::ClientId;
use sip_transport::Flow;
use sip_transport::selection::{Candidate, Reach, prefers_stream, streams_first};

/// How often a request is sent again with credentials: for several realms, one after the other, and stale nonces.
pub(super) const MAX_CHALLENGES: u8 = 5;
/// The length of an INVITE without its body, in bytes, at most: an estimate for the choice of the transport.
const HEADER: usize = 800;

impl Calls {
    /// Makes a call.
    pub(crate) fn invite(
        &mut self,
        stack: &mut Stack<'_>,
        invitation: Invitation,
    ) -> Result<CallNumber, NotSent> {
        let uri = invitation.uri;
        if sip_uri(&uri).is_none() {
            return Err(NotSent::BadUri);
        }
        if !invitation.fields.iter().all(|(name, _)| may_be_added(name)) {
            return Err(NotSent::BadField);
        }
        let call_id = format!("{:016x}", stack.token()).into_bytes();
        if !self.has_room(&call_id) {
            return Err(NotSent::TooMany);
        }
        let tag = format!("{:016x}", stack.token());
        let proxy = self.settings.proxy.clone();
        let outgoing = Outgoing {
            uri: uri.as_bytes().into(),
            routes: proxy.iter().map(|it| bracketed(it)).collect(),
            to: bracketed(&uri),
            fields: invitation.fields,
            hops: Hops::default(),
            challenges: 0,
            gives_up: None,
        };
        let local = (self.settings.local(&tag), tag.into_bytes().into());
        let stage = Stage::Calling(Box::new(outgoing));
        let mut call = Call::new(call_id.clone().into(), local, stage);
        call.session = invitation.session;
        call.until = Some(stack.now() + self.settings.bounds.ringing);
        let number = self.insert(call);
        let next_hop = proxy.as_deref().unwrap_or(&uri).as_bytes();
        let routed = self.route(stack, next_hop, &call_id, Work::Invite(number));
        // The caller gets the error instead of an event.
        let refused = routed.map_err(|_| NotSent::NoRoute);
        if refused.is_err() {
            self.discard(stack, number);
        }
        self.settle(stack, number);
        refused.map(|()| number)
    }

    /// Forgets a call that the program does not know yet.
    fn discard(&mut self, stack: &mut Stack<'_>, number: CallNumber) {
        if let Some(call) = self.by_number.get_mut(&number) {
            call.stage = Stage::Over;
        }
        self.settle(stack, number);
    }

    /// Continues with the candidates for the INVITE.
    pub(crate) fn begin_invite(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        mut hops: Hops,
    ) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        let Stage::Calling(outgoing) = &mut call.stage else {
            return;
        };
        if prefers_stream(HEADER + call.session.body.len()) {
            let mut candidates: Vec<Candidate> = hops.candidates.into();
            streams_first(&mut candidates, Reach::of(stack.listeners()));
            hops.candidates = candidates.into();
        }
        outgoing.hops = hops;
        self.try_next(stack, number, CallEnd::Unreachable);
    }

    /// Sends the INVITE to the next candidate (RFC 3263 section 4.3). Without one, the call ends.
    fn try_next(&mut self, stack: &mut Stack<'_>, number: CallNumber, end: CallEnd) {
        let listeners = stack.listeners();
        let call = self.by_number.get_mut(&number);
        let next = call.and_then(|call| match &mut call.stage {
            Stage::Calling(outgoing) if outgoing.gives_up.is_none() => {
                let (candidate, flow) = outgoing.hops.take(listeners)?;
                call.hop = Some(candidate);
                Some(flow)
            }
            _ => None,
        });
        match next {
            Some(flow) => self.send_invite(stack, number, flow),
            None => self.end(stack, number, end),
        }
    }

    fn send_invite(&mut self, stack: &mut Stack<'_>, number: CallNumber, flow: Flow) {
        let settings = &self.settings;
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        let Stage::Calling(outgoing) = &call.stage else {
            return;
        };
        let asked = (&b"INVITE"[..], &*outgoing.uri);
        let cnonce = stack.token();
        call.authorization = call.wallet.authorize(&settings.credentials, asked, cnonce);
        let fields = Fields {
            routes: &outgoing.routes,
            from: &call.local,
            to: &outgoing.to,
            cseq: (call.cseq, Method::Invite),
            contact: Some(settings.contact(stack.listeners(), flow, &outgoing.uri)),
            authorization: &call.authorization,
        };
        let hop = outgoing.hops.hop(flow);
        let (session, own) = (&call.session, &outgoing.fields);
        let finish = |request: RequestWriter<'_>| {
            let mut request = fields.write(request);
            for (name, value) in own {
                request = request.raw_header(name.as_bytes(), value.as_bytes());
            }
            session.finish_request(request);
        };
        let sent = stack.request(hop, Method::Invite, &outgoing.uri, &call.call_id, finish);
        match sent {
            Ok(client) => {
                call.invite = Some(client);
                self.clients.insert(client, Work::Invite(number));
            }
            Err(_) => self.end(stack, number, CallEnd::Unreachable),
        }
    }

    /// Handles a response to an INVITE.
    pub(crate) fn invite_response(
        &mut self,
        stack: &mut Stack<'_>,
        (client, number): (ClientId, CallNumber),
        response: &Message<'_>,
    ) {
        match response.status() {
            ..=100 => {}
            101..200 => self.ringing(number, response),
            200..300 => self.accepted(stack, number, response),
            _ => {
                self.clients.remove(&client);
                self.refused(stack, number, response);
            }
        }
    }

    fn ringing(&mut self, number: CallNumber, response: &Message<'_>) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        if matches!(call.stage, Stage::Calling(_)) {
            // The dialog is of use only if the peer sends requests in it before the answer.
            dialog_of(call, response);
            self.tell(number, CallEvent::Ringing(ReceivedMessage::of(response)));
        }
    }

    /// Handles a final response other than 2xx.
    fn refused(&mut self, stack: &mut Stack<'_>, number: CallNumber, response: &Message<'_>) {
        let credentials = &self.settings.credentials;
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        let Stage::Calling(outgoing) = &mut call.stage else {
            return;
        };
        let status = response.status();
        if let Some(end) = outgoing.gives_up.clone() {
            return self.end(stack, number, end);
        }
        if matches!(status, 401 | 407)
            && outgoing.challenges < MAX_CHALLENGES
            && call.wallet.take(response, credentials)
        {
            outgoing.challenges += 1;
            call.cseq += 1;
            outgoing.hops.candidates.extend(call.hop);
            outgoing.hops.candidates.rotate_right(1);
            return self.try_next(stack, number, CallEnd::Unreachable);
        }
        let end = CallEnd::Rejected(ReceivedMessage::of(response));
        if status == 503 {
            return self.try_next(stack, number, end);
        }
        self.end(stack, number, end);
    }

    /// Handles an INVITE without a final response.
    pub(crate) fn invite_failed(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        failure: Failure,
    ) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        let Stage::Calling(outgoing) = &call.stage else {
            return;
        };
        let end = match (&outgoing.gives_up, failure) {
            (Some(end), _) => end.clone(),
            (None, Failure::Timeout) => CallEnd::NoAnswer,
            (None, Failure::Unreachable) => CallEnd::Unreachable,
        };
        self.try_next(stack, number, end);
    }

    /// Cancels our INVITE. The call ends with its final response, or now if the INVITE has not been sent.
    pub(crate) fn cancel(&mut self, stack: &mut Stack<'_>, number: CallNumber, end: CallEnd) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        let Stage::Calling(outgoing) = &mut call.stage else {
            return;
        };
        let Some(client) = call.invite else {
            return self.end(stack, number, end);
        };
        if outgoing.gives_up.is_none() {
            outgoing.gives_up = Some(end);
            call.until = None;
            stack.cancel(client);
            self.settle(stack, number);
        }
    }
}

/// A URI as a name-addr.
pub(super) fn bracketed(uri: &str) -> Box<[u8]> {
    format!("<{uri}>").into_bytes().into()
}
