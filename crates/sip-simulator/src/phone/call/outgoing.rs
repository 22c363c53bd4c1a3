//! Outgoing calls of a phone.
use super::{Call, CallId, State};
use crate::phone::client::Purpose;
use crate::phone::compose::{Draft, text, values};
use crate::phone::session::Offer;
use crate::phone::{CallPlan, Phone, PhoneEvent, PhoneOutput};
use sip_message::{HeaderName, Message, Method};
use sip_transport::Time;
use std::time::Duration;

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
            remote_cseq: 0,
            session: None,
        };
        let mut draft = call.draft(Method::Invite, &self.contact());
        draft.session = self.profile.session.as_ref().map(Offer::new);
        self.calls.push(call);
        self.start_client(now, draft, Purpose::Invite(number), output);
    }

    /// Whether the caller has given up this call.
    pub(crate) fn has_given_up(&self, number: CallId) -> bool {
        self.calls
            .iter()
            .any(|call| call.number == number && call.state == State::GivenUp)
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
            // Send the CANCEL once. Its transaction retransmits it.
            if call.act_at.take().is_some() {
                self.send_cancel(now, number, output);
            }
        }
    }

    /// Handles a 2xx to one of our INVITEs: of the call itself, of another branch of a fork, or a retransmission.
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
        if first {
            let number = self.calls[index].number;
            self.session_agreed(now, number, response, output);
        }
        let unwanted = matches!(self.calls[index].state, State::GivenUp | State::Outgoing);
        if unwanted {
            let number = self.calls[index].number;
            self.hang_up(now, number, output);
        }
    }

    /// Begins the dialog of our INVITE.
    pub(super) fn confirm(
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

    /// Adds a call for another branch of our forked INVITE.
    pub(super) fn fork_call(&mut self, number: CallId, response: &Message<'_>) -> Option<usize> {
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
            remote_cseq: 0,
            session: None,
        };
        adopt_dialog(&mut call, response);
        self.calls.push(call);
        Some(self.calls.len() - 1)
    }

    /// Sends the ACK of a 2xx (section 13.2.2.4), the same one for each retransmission.
    pub(super) fn acknowledge(
        &mut self,
        index: usize,
        response: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
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

    /// Our INVITE was rejected or got no response.
    pub(crate) fn invite_refused(&mut self, number: CallId, status: u16, output: &mut PhoneOutput) {
        self.calls.retain(|call| call.number != number);
        output.events.push(PhoneEvent::CallFailed(status));
    }

    /// Section 12.2.1.2: a dialog ends if the other side does not know it, or does not respond in it.
    pub(crate) fn reinvite_refused(
        &mut self,
        now: Time,
        number: CallId,
        status: u16,
        output: &mut PhoneOutput,
    ) {
        if matches!(status, 408 | 481) {
            self.hang_up(now, number, output);
        } else {
            self.refresh_refused(now, number);
        }
    }

    pub(crate) fn bye_ended(&mut self, number: CallId, output: &mut PhoneOutput) {
        self.calls.retain(|call| call.number != number);
        output.events.push(PhoneEvent::CallEnded);
    }
}

/// Sets up the dialog that a 2xx creates at the caller (section 12.1.2). The route set is its Record-Route, reversed.
fn adopt_dialog(call: &mut Call, response: &Message<'_>) {
    call.remote_tag = text(response.to().and_then(|to| to.tag()).unwrap_or_default());
    call.remote = text(response.header(HeaderName::To).unwrap_or_default());
    call.routes = values(response, HeaderName::RecordRoute);
    call.routes.reverse();
    call.learn_target(response);
}
