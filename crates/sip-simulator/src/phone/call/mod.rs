//! A phone's calls: dialogs (RFC 3261 section 12) and their planned actions.
mod incoming;
mod outgoing;

use super::client::Purpose;
use super::compose::{Draft, text};
use super::session::Session;
use super::{Answering, CallPlan, Phone, PhoneOutput, earlier};
use sip_message::{HeaderName, Message, Method, NameAddr};
use sip_transport::Time;
use std::rc::Rc;
use std::time::Duration;

/// Identifies a call of one phone.
pub(crate) type CallId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Our INVITE is sent.
    Outgoing,
    /// Our INVITE is sent, and we want to cancel it as soon as a provisional response arrives.
    GivenUp,
    /// An INVITE has arrived, and we have not accepted it.
    Incoming,
    /// We have accepted, and wait for the ACK.
    Accepted,
    /// Both sides have accepted.
    Up,
    /// Our BYE is sent.
    Ending,
}

/// One call.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "Call-ID is the RFC's name")]
pub(crate) struct Call {
    pub(super) number: CallId,
    state: State,
    call_id: String,
    local_tag: String,
    remote_tag: String,
    /// From and To of our requests in this dialog, with tags.
    local: String,
    remote: String,
    remote_target: String,
    routes: Vec<String>,
    cseq: u32,
    plan: Option<CallPlan>,
    answering: Option<Answering>,
    /// The ACK of the last 2xx, sent again for each of its retransmissions.
    ack: Option<(u32, Rc<[u8]>)>,
    /// The next planned action: end of patience (Outgoing), answer (Incoming), end of talk (Up).
    act_at: Option<Time>,
    reinvite_at: Option<Time>,
    /// The number of the last `CSeq` in requests of the other phone; 0 if there was none.
    remote_cseq: u32,
    pub(super) session: Option<Session>,
}

impl Call {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let session = self.session.as_ref().and_then(Session::next_deadline);
        earlier(earlier(self.act_at, self.reinvite_at), session)
    }

    fn is_dialog_of(
        &self,
        message: &Message<'_>,
        local: Option<&[u8]>,
        remote: Option<&[u8]>,
    ) -> bool {
        Some(self.call_id.as_bytes()) == message.call_id()
            && Some(self.local_tag.as_bytes()) == local
            && Some(self.remote_tag.as_bytes()) == remote
    }

    /// Takes the remote target from a 2xx or an INVITE.
    fn learn_target(&mut self, message: &Message<'_>) {
        let contact = message
            .values(HeaderName::Contact)
            .next()
            .and_then(NameAddr::parse);
        if let Some(contact) = contact {
            self.remote_target = text(contact.uri_bytes);
        }
    }

    /// Notes the `CSeq` number of a request. Returns whether it is in order (section 12.2.2).
    fn is_in_order(&mut self, request: &Message<'_>) -> bool {
        let number = request.cseq().map_or(0, |cseq| cseq.number);
        let is_in_order = number >= self.remote_cseq;
        self.remote_cseq = self.remote_cseq.max(number);
        is_in_order
    }

    /// A request that belongs to the dialog except for its Request-URI; `None` if there is no route set yet.
    pub(crate) fn draft_elsewhere(
        &mut self,
        method: Method<'static>,
        uri: &str,
        contact: &str,
    ) -> Option<Draft> {
        if self.routes.is_empty() {
            return None;
        }
        let draft = self.draft(method, contact);
        Some(Draft {
            uri: uri.to_owned(),
            ..draft
        })
    }

    pub(super) fn draft(&mut self, method: Method<'static>, contact: &str) -> Draft {
        if method != Method::Ack {
            self.cseq += 1;
        }
        let offers = method == Method::Invite;
        let refreshes = offers || method == Method::Update;
        Draft {
            method,
            uri: self.remote_target.clone(),
            from: self.local.clone(),
            to: self.remote.clone(),
            call_id: self.call_id.clone(),
            cseq: self.cseq,
            routes: self.routes.clone(),
            contact: refreshes.then(|| format!("<{contact}>")),
            expires: None,
            session: None,
            with_body: offers,
        }
    }
}

impl Phone {
    pub(crate) fn wake_calls(&mut self, now: Time, output: &mut PhoneOutput) {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let waiting: Vec<_> = self
            .calls
            .iter()
            .filter(|call| due(call.next_deadline()))
            .map(|call| call.number)
            .collect();
        for number in waiting {
            let Some(call) = self.calls.iter_mut().find(|call| call.number == number) else {
                continue;
            };
            if due(call.reinvite_at) {
                call.reinvite_at = None;
                self.renegotiate(now, number, output);
            }
            self.watch_session(now, number, output);
            let Some(call) = self.calls.iter_mut().find(|call| call.number == number) else {
                continue;
            };
            if !due(call.act_at) {
                continue;
            }
            match call.state {
                State::Outgoing => self.give_up(now, number, output),
                State::Incoming => self.answer_call(now, number, output),
                State::Up => self.hang_up(now, number, output),
                State::Accepted | State::GivenUp | State::Ending => call.act_at = None,
            }
        }
    }

    /// Sends CANCEL, now or as soon as the INVITE has a provisional response (section 9.1).
    fn give_up(&mut self, now: Time, number: CallId, output: &mut PhoneOutput) {
        let proceeding = self
            .open_invite(number)
            .is_some_and(super::Client::is_proceeding);
        let Some(call) = self.calls.iter_mut().find(|call| call.number == number) else {
            return;
        };
        call.state = State::GivenUp;
        // A deadline in the far future marks that the CANCEL is not sent yet.
        call.act_at = (!proceeding).then_some(now + Duration::from_secs(3600));
        if proceeding {
            self.send_cancel(now, number, output);
        }
    }

    pub(crate) fn hang_up(&mut self, now: Time, number: CallId, output: &mut PhoneOutput) {
        let contact = self.contact();
        let Some(call) = self.calls.iter_mut().find(|call| call.number == number) else {
            return;
        };
        if call.state == State::Ending {
            return;
        }
        call.state = State::Ending;
        (call.act_at, call.reinvite_at, call.session) = (None, None, None);
        let draft = call.draft(Method::Bye, &contact);
        self.start_client(now, draft, Purpose::Bye(number), output);
    }

    pub(crate) fn hang_up_all(&mut self, now: Time, output: &mut PhoneOutput) {
        let calls: Vec<_> = self
            .calls
            .iter()
            .map(|call| (call.number, call.state))
            .collect();
        for (number, state) in calls {
            match state {
                State::Outgoing => self.give_up(now, number, output),
                State::Incoming => {
                    if let Some(call) = self.calls.iter_mut().find(|call| call.number == number) {
                        call.answering = Some(Answering::Refuse {
                            after: Duration::ZERO,
                            status: 480,
                        });
                    }
                    self.answer_call(now, number, output);
                }
                State::Up => self.hang_up(now, number, output),
                // A callee may not hang up before the ACK arrives or is overdue (section 15).
                State::Accepted | State::GivenUp | State::Ending => {}
            }
        }
    }
}
