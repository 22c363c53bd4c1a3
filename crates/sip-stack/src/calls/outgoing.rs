//! Our INVITE: sent, challenged, failed over, ringing, answered, cancelled (RFC 3261 sections 9.1, 13.2 and 22, RFC 3263 section 4.3).

use super::call::{Call, Field, Outgoing, Stage};
use super::dialog::{Ack, Dialog};
use super::event::{CallEnd, CallEvent, CallNumber, ReceivedMessage, Session};
use super::fields::Fields;
use super::route::{Hops, Work};
use super::settings::sip_uri;
use super::table::Calls;
use crate::{Failure, NextHop, Stack};
use sip_message::{HeaderName, Message, Method, RequestWriter};
use sip_transaction::ClientId;
use sip_transport::Flow;
use sip_transport::selection::{Candidate, Reach, prefers_stream, streams_first};
use std::fmt;

/// The most branches of a forked INVITE that may form a dialog.
const MOST_DIALOGS: usize = 16;
/// How often a request is sent again with credentials: for several realms, one after the other, and stale nonces.
pub(super) const MOST_CHALLENGES: u8 = 5;
/// The length of an INVITE without its body, in bytes, at most: an estimate for the choice of the transport.
const HEADER: usize = 800;

/// A call to make.
#[derive(Clone, Debug)]
pub struct Invitation {
    uri: String,
    session: Session,
    fields: Vec<Field>,
}

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotSent {
    /// Not a SIP or SIPS URI.
    BadUri,
    /// The name of an additional header field is not a token, or is that of a header field that the user agent writes.
    BadField,
    /// The bound on calls is reached ([`Bounds::calls`](crate::Bounds::calls)).
    TooMany,
    /// No listener speaks the transport of the URI, or its name cannot be resolved: there is no resolver, or too many lookups are in progress.
    NoRoute,
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadUri => "not a URI like sip:bob@example.org",
            Self::BadField => "an additional header field has a bad name, or one that the user agent uses itself",
            Self::TooMany => "too many calls or transactions exist already",
            Self::NoRoute => {
                "no listener reaches the URI's transport and address, or no resolver is free for its name"
            }
        })
    }
}

impl std::error::Error for NotSent {}

impl Invitation {
    /// A call to this URI, without a session description.
    pub fn new(uri: &str) -> Self {
        Self {
            uri: uri.to_owned(),
            session: Session::none(),
            fields: Vec::new(),
        }
    }

    /// Sets the session description: the offer.
    #[must_use]
    pub fn session(mut self, session: impl Into<Session>) -> Self {
        self.session = session.into();
        self
    }

    /// Adds a header field to the INVITE. Line ends in the value become spaces. The user agent's own header fields (From, Contact and so
    /// on) cannot be added.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }
}

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

    /// Handles a 2xx: the first one, a retransmission, or that of another branch, whose dialog ends at once (section 13.2.2.4).
    fn accepted(&mut self, stack: &mut Stack<'_>, number: CallNumber, response: &Message<'_>) {
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
            && outgoing.challenges < MOST_CHALLENGES
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

/// Whether a program may add a header field with this name.
fn may_be_added(name: &str) -> bool {
    use HeaderName as Name;
    let own = [
        Name::Via,
        Name::From,
        Name::To,
        Name::CallId,
        Name::CSeq,
        Name::Contact,
        Name::MaxForwards,
        Name::Route,
        Name::RecordRoute,
        Name::Authorization,
        Name::ProxyAuthorization,
        Name::Allow,
        Name::ContentType,
        Name::ContentLength,
        Name::Invalid,
    ];
    !own.contains(&Name::from_bytes(name.as_bytes()))
}

/// The dialog that a response belongs to, created if it is new.
fn dialog_of(call: &mut Call, response: &Message<'_>) -> Option<usize> {
    let tag = response.to()?.tag().unwrap_or_default();
    let known = call.dialog_with(tag);
    if known.is_some() || call.dialogs.len() >= MOST_DIALOGS {
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

/// A URI as a name-addr.
pub(super) fn bracketed(uri: &str) -> Box<[u8]> {
    format!("<{uri}>").into_bytes().into()
}
