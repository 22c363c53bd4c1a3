//! Incoming calls of a phone.
use super::{Call, CallId, State};
use crate::phone::compose::{text, values};
use crate::phone::{Answering, Phone, PhoneEvent, PhoneOutput};
use sip_message::{HeaderName, Message};
use sip_transport::Time;
use std::time::Duration;

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
            // No phone rings longer than this, cancelled or not.
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
            remote_cseq: invite.cseq().map_or(0, |cseq| cseq.number),
            session: None,
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

    pub(super) fn choose_answering(&mut self) -> Answering {
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

    /// Answers an incoming call after it has rung.
    pub(super) fn answer_call(&mut self, now: Time, number: CallId, output: &mut PhoneOutput) {
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

    /// Handles the ACK of our 2xx.
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

    /// Handles a 2xx of ours that was never acknowledged (section 13.3.1.4).
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

    /// Handles a re-INVITE or an UPDATE: accepts it at once, or responds with 491 while one of ours is open (section 14.2).
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
        if !self.calls[index].is_in_order(invite) {
            return self.respond(now, server, 500, "", output);
        }
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
        if !self.calls[index].is_in_order(bye) {
            return self.respond(now, server, 500, "", output);
        }
        self.calls.remove(index);
        self.respond(now, server, 200, "", output);
        output.events.push(PhoneEvent::CallEnded);
    }

    pub(super) fn dialog_of(&self, request: &Message<'_>) -> Option<usize> {
        let local = request.to().and_then(|to| to.tag());
        let remote = request.from().and_then(|from| from.tag());
        self.calls
            .iter()
            .position(|call| call.is_dialog_of(request, local, remote))
    }
}

/// Accepts an incoming call. Its server transaction retransmits the 2xx until the ACK arrives.
const fn accept(call: &mut Call) {
    call.state = State::Accepted;
    call.act_at = None;
}
