//! A phone's calls: dialogs (RFC 3261 section 12) and what is planned for them.
use super::client::Purpose;
use super::compose::{Draft, text, values};
use super::{Answering, CallPlan, Phone, PhoneEvent, PhoneOutput, earlier};
use sip_message::{HeaderName, Message, Method, NameAddr};
use sip_transport::Time;
use std::rc::Rc;
use std::time::Duration;

/// Names a call of one phone.
pub(crate) type CallId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Our INVITE is out.
    Outgoing,
    /// Our INVITE is out, and we want it no more: CANCEL as soon as a provisional response is there.
    GivenUp,
    /// An INVITE came; we have not accepted it.
    Incoming,
    /// We accepted; the ACK is missing.
    Accepted,
    /// Both sides agree.
    Up,
    /// Our BYE is out.
    Ending,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    number: CallId,
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
    /// Patience (Outgoing), answer (Incoming), end of talk (Up).
    act_at: Option<Time>,
    reinvite_at: Option<Time>,
}

impl Call {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        earlier(self.act_at, self.reinvite_at)
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

    /// Takes over what a 2xx or an INVITE says of the other side.
    fn learn_target(&mut self, message: &Message<'_>) {
        let contact = message
            .values(HeaderName::Contact)
            .next()
            .and_then(NameAddr::parse);
        if let Some(contact) = contact {
            self.remote_target = text(contact.uri_bytes);
        }
    }

    fn draft(&mut self, method: Method<'static>, contact: &str) -> Draft {
        if method != Method::Ack {
            self.cseq += 1;
        }
        let offers = method == Method::Invite;
        Draft {
            method,
            uri: self.remote_target.clone(),
            from: self.local.clone(),
            to: self.remote.clone(),
            call_id: self.call_id.clone(),
            cseq: self.cseq,
            routes: self.routes.clone(),
            contact: offers.then(|| format!("<{contact}>")),
            expires: None,
            with_body: offers,
        }
    }
}

/// Placing calls.
impl Phone {
    pub(crate) fn place_call(&mut self, now: Time, plan: CallPlan, output: &mut PhoneOutput) {
        let number = self.number();
        let local_tag = self.dice.token();
        let mut call = Call {
            number,
            state: State::Outgoing,
            call_id: self.new_call_id(),
            local: self.own_from(&local_tag),
            local_tag,
            remote_tag: String::new(),
            remote: format!("<{}>", plan.to),
            remote_target: plan.to.clone(),
            routes: Vec::new(),
            cseq: 0,
            act_at: Some(now + plan.patience),
            plan: Some(plan),
            answering: None,
            ack: None,
            reinvite_at: None,
        };
        let draft = call.draft(Method::Invite, &self.contact());
        self.calls.push(call);
        self.start_client(now, draft, Purpose::Invite(number), output);
    }

    /// The next `CSeq` of a call's dialog.
    pub(crate) fn next_cseq(&mut self, number: CallId) -> u32 {
        self.calls
            .iter_mut()
            .find(|call| call.number == number)
            .map_or(1, |call| {
                call.cseq += 1;
                call.cseq
            })
    }

    pub(crate) fn provisional(
        &mut self,
        now: Time,
        client: usize,
        _response: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        let Purpose::Invite(number) = self.clients[client].purpose else {
            return;
        };
        let given_up = self
            .calls
            .iter_mut()
            .find(|call| call.number == number && call.state == State::GivenUp);
        if let Some(call) = given_up {
            // The CANCEL goes out once; repeating it is its transaction's business.
            if call.act_at.take().is_some() {
                self.send_cancel(now, number, output);
            }
        }
    }

    /// A 2xx to an INVITE of ours: of the call itself, of another branch of a fork, or again.
    pub(crate) fn invite_accepted(
        &mut self,
        now: Time,
        purpose: &Purpose,
        response: &Message<'_>,
        first: bool,
        output: &mut PhoneOutput,
    ) {
        let (Purpose::Invite(number) | Purpose::Reinvite(number)) = *purpose else {
            return;
        };
        let remote_tag = response.to().and_then(|to| to.tag());
        let local_tag = response.from().and_then(|from| from.tag());
        let known = self
            .calls
            .iter()
            .position(|call| call.is_dialog_of(response, local_tag, remote_tag));
        let index = match (known, first && matches!(purpose, Purpose::Invite(_))) {
            (Some(index), _) => index,
            (None, true) => {
                let Some(index) = self.calls.iter().position(|call| call.number == number) else {
                    return;
                };
                self.confirm(now, index, response, output);
                index
            }
            // A second callee accepted (section 13.2.2.4): acknowledge and hang up.
            (None, false) => {
                let Some(index) = self.fork_call(number, response) else {
                    return;
                };
                index
            }
        };
        self.acknowledge(index, response, output);
        let unwanted = matches!(self.calls[index].state, State::GivenUp | State::Outgoing);
        if unwanted {
            let number = self.calls[index].number;
            self.hang_up(now, number, output);
        }
    }

    /// The dialog of our INVITE begins.
    fn confirm(
        &mut self,
        now: Time,
        index: usize,
        response: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        let resting = self.resting;
        let call = &mut self.calls[index];
        adopt_dialog(call, response);
        output.events.push(PhoneEvent::CallAnswered);
        if call.state == State::Outgoing && !resting {
            call.state = State::Up;
            let talk = call
                .plan
                .as_ref()
                .map_or(Duration::from_secs(1), |plan| plan.talk);
            call.act_at = Some(now + talk);
            let renegotiates = call.plan.as_ref().is_some_and(|plan| plan.renegotiates);
            call.reinvite_at = renegotiates.then(|| now + talk / 2);
        }
    }

    /// The dialog of another branch of our forked INVITE.
    fn fork_call(&mut self, number: CallId, response: &Message<'_>) -> Option<usize> {
        let new = self.number();
        let parent = self.calls.iter().find(|call| call.number == number)?;
        let mut call = Call {
            number: new,
            state: State::GivenUp,
            call_id: parent.call_id.clone(),
            local_tag: parent.local_tag.clone(),
            remote_tag: String::new(),
            local: parent.local.clone(),
            remote: String::new(),
            remote_target: String::new(),
            routes: Vec::new(),
            cseq: parent.cseq,
            plan: None,
            answering: None,
            ack: None,
            act_at: None,
            reinvite_at: None,
        };
        adopt_dialog(&mut call, response);
        self.calls.push(call);
        Some(self.calls.len() - 1)
    }

    /// Sends the ACK of a 2xx (section 13.2.2.4), the same one for each retransmission.
    fn acknowledge(&mut self, index: usize, response: &Message<'_>, output: &mut PhoneOutput) {
        let number = response.cseq().map_or(0, |cseq| cseq.number);
        let contact = self.contact();
        let draft = Draft {
            cseq: number,
            ..self.calls[index].draft(Method::Ack, &contact)
        };
        let destination = draft.next_hop(self.profile.server);
        let known = self.calls[index]
            .ack
            .as_ref()
            .filter(|(cseq, _)| *cseq == number)
            .cloned();
        let (_, bytes) = known.unwrap_or_else(|| {
            let (via, _) = self.new_via();
            (number, draft.write(&via, None))
        });
        output.send(destination, &bytes);
        self.calls[index].ack = Some((number, bytes));
    }

    /// Our INVITE was refused or never answered.
    pub(crate) fn invite_refused(&mut self, number: CallId, status: u16, output: &mut PhoneOutput) {
        self.calls.retain(|call| call.number != number);
        output.events.push(PhoneEvent::CallFailed(status));
    }

    /// Section 12.2.1.2: a dialog that the other side does not know, or does not answer in, is over.
    pub(crate) fn reinvite_refused(
        &mut self,
        now: Time,
        number: CallId,
        status: u16,
        output: &mut PhoneOutput,
    ) {
        if matches!(status, 408 | 481) {
            self.hang_up(now, number, output);
        }
    }

    pub(crate) fn bye_ended(&mut self, number: CallId, output: &mut PhoneOutput) {
        self.calls.retain(|call| call.number != number);
        output.events.push(PhoneEvent::CallEnded);
    }
}

/// The dialog that a 2xx creates at the caller (section 12.1.2): the route set is its Record-Route, reversed.
fn adopt_dialog(call: &mut Call, response: &Message<'_>) {
    call.remote_tag = text(response.to().and_then(|to| to.tag()).unwrap_or_default());
    call.remote = text(response.header(HeaderName::To).unwrap_or_default());
    call.routes = values(response, HeaderName::RecordRoute);
    call.routes.reverse();
    call.learn_target(response);
}

/// Taking calls.
impl Phone {
    pub(crate) fn receive_invite(
        &mut self,
        now: Time,
        server: usize,
        invite: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        if self.is_merged(server, invite) {
            return self.respond(now, server, 482, "", output);
        }
        if self.resting {
            return self.respond(now, server, 480, "", output);
        }
        let answering = self.choose_answering();
        if answering == Answering::Silent {
            return self.ignore(now, server);
        }
        let number = self.number();
        let local_tag = self.dice.token();
        let header = |name| text(invite.header(name).unwrap_or_default());
        let after = match answering {
            Answering::Accept { after } | Answering::Refuse { after, .. } => Some(after),
            // Nobody rings longer than this, cancelled or not.
            Answering::RingForEver | Answering::AcceptWhenCancelled | Answering::Silent => {
                Some(Duration::from_secs(400))
            }
        };
        let mut call = Call {
            number,
            state: State::Incoming,
            call_id: text(invite.call_id().unwrap_or_default()),
            local: format!("{};tag={local_tag}", header(HeaderName::To)),
            local_tag,
            remote_tag: text(
                invite
                    .from()
                    .and_then(|from| from.tag())
                    .unwrap_or_default(),
            ),
            remote: header(HeaderName::From),
            remote_target: String::new(),
            routes: values(invite, HeaderName::RecordRoute),
            cseq: 0,
            plan: None,
            answering: Some(answering),
            ack: None,
            act_at: after.map(|after| now + after),
            reinvite_at: None,
        };
        call.learn_target(invite);
        self.servers[server].call = Some(number);
        let tag = call.local_tag.clone();
        self.calls.push(call);
        if after.is_some_and(|after| !after.is_zero()) {
            self.respond(now, server, 180, &tag, output);
        } else {
            self.answer_call(now, number, output);
        }
    }

    fn choose_answering(&mut self) -> Answering {
        let total = self
            .profile
            .answering
            .iter()
            .map(|(weight, _)| u64::from(*weight))
            .sum();
        let mut drawn = self.dice.below(total);
        for (weight, answering) in &self.profile.answering {
            match drawn.checked_sub(u64::from(*weight)) {
                Some(rest) => drawn = rest,
                None => return *answering,
            }
        }
        Answering::Accept {
            after: Duration::ZERO,
        }
    }

    /// An incoming call has rung long enough.
    fn answer_call(&mut self, now: Time, number: CallId, output: &mut PhoneOutput) {
        let Some(server) = self
            .servers
            .iter()
            .position(|server| server.call == Some(number))
        else {
            return;
        };
        let Some(index) = self.calls.iter().position(|call| call.number == number) else {
            return;
        };
        let call = &mut self.calls[index];
        let tag = call.local_tag.clone();
        let status = match call.answering {
            Some(Answering::Refuse { status, .. }) => status,
            Some(Answering::RingForEver | Answering::AcceptWhenCancelled) => 480,
            Some(Answering::Accept { .. } | Answering::Silent) | None => 200,
        };
        if status == 200 {
            accept(call);
        } else {
            self.calls.remove(index);
        }
        self.respond(now, server, status, &tag, output);
    }

    pub(crate) fn call_cancelled(&mut self, now: Time, server: usize, output: &mut PhoneOutput) {
        let number = self.servers[server].call;
        let index = self
            .calls
            .iter()
            .position(|call| Some(call.number) == number);
        let Some(index) = index else {
            return self.respond(now, server, 487, "", output);
        };
        let call = &mut self.calls[index];
        let tag = call.local_tag.clone();
        if call.answering == Some(Answering::AcceptWhenCancelled) {
            accept(call);
            return self.respond(now, server, 200, &tag, output);
        }
        self.calls.remove(index);
        self.respond(now, server, 487, &tag, output);
    }

    /// The ACK of our 2xx came.
    pub(crate) fn call_acknowledged(
        &mut self,
        now: Time,
        ack: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        let Some(index) = self.dialog_of(ack) else {
            return;
        };
        let hangs_up_after = self.profile.hangs_up_after;
        let resting = self.resting;
        let call = &mut self.calls[index];
        if call.state != State::Accepted {
            return;
        }
        call.state = State::Up;
        call.act_at = hangs_up_after.map(|after| now + after);
        let number = call.number;
        output.events.push(PhoneEvent::CallAcknowledged);
        if resting {
            self.hang_up(now, number, output);
        }
    }

    /// The ACK of our 2xx never came (section 13.3.1.4).
    pub(crate) fn call_unacknowledged(
        &mut self,
        now: Time,
        number: CallId,
        output: &mut PhoneOutput,
    ) {
        let known = self
            .calls
            .iter()
            .any(|call| call.number == number && call.state != State::Ending);
        if known {
            output.events.push(PhoneEvent::CallUnacknowledged);
            self.hang_up(now, number, output);
        }
    }

    /// A re-INVITE: accepted at once, or 491 while one of ours is open (section 14.2).
    pub(crate) fn receive_reinvite(
        &mut self,
        now: Time,
        server: usize,
        invite: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        let Some(index) = self.dialog_of(invite) else {
            return self.respond(now, server, 481, "", output);
        };
        let number = self.calls[index].number;
        if self.has_open_reinvite(number) {
            return self.respond(now, server, 491, "", output);
        }
        self.calls[index].learn_target(invite);
        let tag = self.calls[index].local_tag.clone();
        self.servers[server].call = Some(number);
        self.respond(now, server, 200, &tag, output);
    }

    pub(crate) fn receive_bye(
        &mut self,
        now: Time,
        server: usize,
        bye: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        let Some(index) = self.dialog_of(bye) else {
            return self.respond(now, server, 481, "", output);
        };
        self.calls.remove(index);
        self.respond(now, server, 200, "", output);
        output.events.push(PhoneEvent::CallEnded);
    }

    fn dialog_of(&self, request: &Message<'_>) -> Option<usize> {
        let local = request.to().and_then(|to| to.tag());
        let remote = request.from().and_then(|from| from.tag());
        self.calls
            .iter()
            .position(|call| call.is_dialog_of(request, local, remote))
    }
}

/// We accept an incoming call; its server transaction repeats the 2xx until the ACK comes.
const fn accept(call: &mut Call) {
    call.state = State::Accepted;
    call.act_at = None;
}

/// Time, and the end.
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
                let contact = format!("sip:{}@{}", self.profile.user, self.address);
                let draft = call.draft(Method::Invite, &contact);
                self.start_client(now, draft, Purpose::Reinvite(number), output);
            }
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

    /// CANCEL, now or as soon as the INVITE has a provisional response (section 9.1).
    fn give_up(&mut self, now: Time, number: CallId, output: &mut PhoneOutput) {
        let proceeding = self
            .open_invite(number)
            .is_some_and(super::Client::is_proceeding);
        let Some(call) = self.calls.iter_mut().find(|call| call.number == number) else {
            return;
        };
        call.state = State::GivenUp;
        // A deadline in the far future marks that the CANCEL is still to come.
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
        (call.act_at, call.reinvite_at) = (None, None);
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
                // A callee may not hang up before the ACK or its absence (section 15).
                State::Accepted | State::GivenUp | State::Ending => {}
            }
        }
    }
}
