//! Client transactions: matching (RFC 3261 section 17.1.3), what they send, and the CANCELs that belong to them (section 9.1).

use crate::branch::{leading_branch, parse_branch};
use crate::client_invite::State as Invite;
use crate::client_non_invite::State as NonInvite;
use crate::client_table::{Client, Machine};
use crate::schedule::{Owner, Side};
use crate::step::{Class, Keep, Send, Step, Tell};
use crate::timer::{Timer, Timing};
use crate::{ClientResponse, Event, Full, Kind, Transactions};
use sip_message::{HeaderName, Message, Method, write_cancel};
use sip_transport::{Flow, Output, Time};

/// How the topmost Via begins in what we write.
const VIA: &[u8] = b"\r\nVia: ";

/// Names a client transaction; stale ids are recognised. It travels in the branch, so that a response finds its transaction
/// without a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ClientId {
    /// Names no transaction: no slab grows so far.
    pub(crate) const NONE: Self = Self {
        index: u32::MAX,
        generation: 0,
    };
}

impl Transactions {
    /// Takes a place for a client transaction, so that its id can go into the branch of the request. Follow with
    /// `start_client` in the same round, or `abandon_client`.
    pub fn reserve_client(&mut self, owner: u64) -> Result<ClientId, Full> {
        if self.clients.len() >= self.limits.clients {
            self.stats.full += 1;
            return Err(Full);
        }
        let generation = self.next_generation();
        let index = self
            .clients
            .slab
            .insert(Client::reserved(owner, generation));
        self.stats.clients_created += 1;
        Ok(ClientId { index, generation })
    }

    /// Sends the request and starts the machine. Does nothing when the place is not, or no longer, reserved.
    #[expect(
        clippy::too_many_arguments,
        reason = "where and how to send, beside the usual three"
    )]
    pub fn start_client<Q>(
        &mut self,
        now: Time,
        id: ClientId,
        kind: Kind,
        flow: Flow,
        reliable: bool,
        output: &mut Output<Q>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let timing = self.timing(reliable);
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if !matches!(client.machine, Machine::Reserved) {
            return;
        }
        let step = match kind {
            Kind::Invite => Invite::start(timing).map(Machine::Invite),
            Kind::NonInvite => NonInvite::start(timing).map(Machine::NonInvite),
        };
        client.flow = Some(flow);
        client.schedule.reliable = reliable;
        client.send(output, step.keep, write);
        self.follow_client(now, id.index, step);
    }

    /// Forgets a client transaction, and the CANCEL that belongs to it; later responses to them are stray.
    pub fn abandon_client(&mut self, id: ClientId) {
        if self.clients.get(id).is_some() {
            self.end_client(id.index);
        }
    }

    /// Matches a response by the branch of its topmost Via and `CSeq` method (section 17.1.3) and drives the machine: acknowledges
    /// non-2xx finals, absorbs retransmissions. `None`: nothing for the transaction user (stray responses are counted).
    pub fn receive_response<Q>(
        &mut self,
        now: Time,
        response: &Message<'_>,
        output: &mut Output<Q>,
    ) -> Option<ClientResponse> {
        let Some((id, class)) = self.match_response(response) else {
            self.stats.responses_stray += 1;
            return None;
        };
        let client = self.clients.get_mut(id)?;
        let timing = Timing {
            settings: self.settings,
            reliable: client.schedule.reliable,
        };
        let step = match (client.machine, class) {
            (Machine::Reserved, _) => return None,
            (Machine::Invite(state), Class::Provisional) => {
                state.provisional(timing).map(Machine::Invite)
            }
            (Machine::Invite(state), Class::Success) => state.success(timing).map(Machine::Invite),
            (Machine::Invite(state), Class::Failure) => state.failure(timing).map(Machine::Invite),
            (Machine::NonInvite(state), Class::Provisional) => {
                state.provisional().map(Machine::NonInvite)
            }
            (Machine::NonInvite(state), _) => state.final_response(timing).map(Machine::NonInvite),
        };
        match step.send {
            Send::Ack => client.send_ack(output, step.keep, response),
            Send::Kept => client.send_again(output),
            Send::Nothing | Send::Given | Send::Cancel => {}
        }
        let told = (step.tell == Tell::Message && !client.internal).then_some(ClientResponse {
            id,
            owner: client.owner,
        });
        if step.send == Send::Cancel {
            self.send_cancel(now, id.index, output);
        }
        self.follow_client(now, id.index, step);
        told
    }

    /// Cancels an INVITE (section 9.1): now when a provisional response has come, as soon as one comes otherwise, never once a final
    /// one has. `ClientTimeout` follows after 64*T1 when no final response comes.
    pub fn cancel_client<Q>(&mut self, now: Time, id: ClientId, output: &mut Output<Q>) {
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let Machine::Invite(state) = client.machine else {
            return;
        };
        let step = state
            .cancel(self.timing(client.schedule.reliable))
            .map(Machine::Invite);
        if step.send == Send::Cancel {
            self.send_cancel(now, id.index, output);
        }
        self.follow_client(now, id.index, step);
    }

    /// The request as sent, while the machine keeps it.
    pub fn client_request(&self, id: ClientId) -> Option<&[u8]> {
        let client = self.clients.get(id)?;
        // What an INVITE keeps once it is completed is the ACK.
        let is_request = !matches!(client.machine, Machine::Invite(Invite::Completed));
        client.kept.as_deref().filter(|_| is_request)
    }

    /// The transaction whose request these bytes are, or begin: what a network gives back is often cut off. `None`: not a request that one
    /// of ours waits for an answer to; ACK and CANCEL carry the branch of their INVITE, but are none.
    pub fn client_that_sent(&self, bytes: &[u8]) -> Option<ClientResponse> {
        let via = bytes.windows(VIA.len()).position(|window| window == VIA)?;
        let id = leading_branch(bytes.get(via + VIA.len()..)?)?.0;
        let client = self.clients.get(id)?;
        let method = bytes.split(|octet| *octet == b' ').next()?;
        let sent = match client.machine {
            Machine::Invite(Invite::Completed) | Machine::Reserved => false,
            Machine::Invite(_) => method == b"INVITE",
            Machine::NonInvite(_) => method != b"CANCEL" && method != b"SIP/2.0",
        };
        sent.then_some(ClientResponse {
            id,
            owner: client.owner,
        })
    }

    /// Where it was sent.
    pub fn client_flow(&self, id: ClientId) -> Option<Flow> {
        self.clients.get(id)?.flow
    }

    /// A timer of a client transaction has fired.
    pub(crate) fn client_timer<Q>(
        &mut self,
        now: Time,
        index: u32,
        timer: Timer,
        output: &mut Output<Q>,
    ) -> Option<Event> {
        let client = self.clients.slab.get_mut(index)?;
        let timing = Timing {
            settings: self.settings,
            reliable: client.schedule.reliable,
        };
        let retransmissions = client.schedule.fired();
        let step = match (client.machine, timer) {
            (Machine::Invite(state), Timer::A) => {
                state.timer_a(timing, retransmissions).map(Machine::Invite)
            }
            (Machine::Invite(state), Timer::B) => state.timer_b().map(Machine::Invite),
            (Machine::Invite(state), Timer::CancelWait) => state.cancel_wait().map(Machine::Invite),
            (Machine::Invite(state), Timer::D) => state.timer_d().map(Machine::Invite),
            (Machine::Invite(state), Timer::M) => state.timer_m().map(Machine::Invite),
            (Machine::NonInvite(state), Timer::E) => state
                .timer_e(timing, retransmissions)
                .map(Machine::NonInvite),
            (Machine::NonInvite(state), Timer::F) => state.timer_f().map(Machine::NonInvite),
            (Machine::NonInvite(state), Timer::K) => state.timer_k().map(Machine::NonInvite),
            _ => return None,
        };
        if step.send == Send::Kept {
            client.send_again(output);
            self.stats.requests_retransmitted += 1;
        }
        let event = Event::ClientTimeout {
            id: client.id(index),
            owner: client.owner,
        };
        let told = (step.tell == Tell::Timeout && !client.internal).then_some(event);
        self.follow_client(now, index, step);
        told
    }

    /// The transaction that a response belongs to. A request has no status code.
    fn match_response(&self, response: &Message<'_>) -> Option<(ClientId, Class)> {
        let class = Class::of(response.status())?;
        let id = client_named_by(response)?;
        let client = self.clients.get(id)?;
        let matched = match (client.machine, response.cseq()?.method) {
            (Machine::Invite(_), Method::Invite) => id,
            // A CANCEL has the branch of its INVITE.
            (Machine::Invite(_), Method::Cancel) => client.cancel,
            (Machine::NonInvite(_), method) if !client.internal && client.sent(method) => id,
            _ => return None,
        };
        self.clients.get(matched).map(|_| (matched, class))
    }

    /// Sends the CANCEL of an INVITE, in a transaction of its own when there is room for one.
    fn send_cancel<Q>(&mut self, now: Time, index: u32, output: &mut Output<Q>) {
        let Some(client) = self.clients.slab.get(index) else {
            return;
        };
        let (Some(flow), Some(kept)) = (client.flow, client.kept.as_deref()) else {
            return;
        };
        let Ok(invite) = Message::parse(kept) else {
            return;
        };
        let (owner, reliable) = (client.owner, client.schedule.reliable);
        let range = output.send(flow, |into| write_cancel(into, &invite));
        let Ok(id) = self.reserve_client(owner) else {
            return;
        };
        let step = NonInvite::start(self.timing(reliable)).map(Machine::NonInvite);
        if let Some(cancel) = self.clients.get_mut(id) {
            cancel.flow = Some(flow);
            cancel.kept = Some(output.written(range).into());
            cancel.schedule.reliable = reliable;
            cancel.internal = true;
        }
        if let Some(client) = self.clients.slab.get_mut(index) {
            client.cancel = id;
        }
        self.follow_client(now, id.index, step);
    }

    /// The new state of a client transaction, its timers and what it forgets.
    fn follow_client(&mut self, now: Time, index: u32, step: Step<Machine>) {
        let Some(machine) = step.next else {
            self.end_client(index);
            return;
        };
        let Some(client) = self.clients.slab.get_mut(index) else {
            return;
        };
        client.machine = machine;
        if step.keep == Keep::Nothing {
            client.kept = None;
        }
        client.schedule.follow(
            step.timers,
            now,
            &mut self.wheel,
            Owner {
                side: Side::Client,
                index,
            },
        );
    }

    /// The end of a client transaction, and of its CANCEL's, whose responses would find nobody.
    fn end_client(&mut self, index: u32) {
        let mut next = Some(index);
        while let Some(mut client) = next.and_then(|index| self.clients.slab.remove(index)) {
            client.schedule.stop(&mut self.wheel);
            self.stats.clients_ended += 1;
            next = self.clients.get(client.cancel).map(|_| client.cancel.index);
        }
    }
}

/// The transaction that the branch of the topmost Via names. The glance spares nearly every response the parse of its Via.
fn client_named_by(response: &Message<'_>) -> Option<ClientId> {
    let seen = response.header(HeaderName::Via).and_then(leading_branch);
    let (id, _) = seen.or_else(|| parse_branch(response.top_via()?.branch()?))?;
    Some(id)
}
