//! Client transactions: matching (RFC 3261 section 17.1.3), what they send, and the CANCELs that belong to them (section 9.1).

use crate::branch::{Branch, leading_branch};
use crate::client_invite::State as Invite;
use crate::client_non_invite::State as NonInvite;
use crate::client_table::{Client, Machine};
use crate::schedule::{Owner, Side};
use crate::step::{Class, Keep, Send, Step, Tell};
use crate::timer::{Timer, Timing};
use crate::{Account, ClientResponse, Event, Full, Kind, ResponseMatch, Table, Transactions};
use sip_message::{HeaderName, Message, Method, write_cancel};
use sip_transport::{Flow, Output, Time};
use std::net::SocketAddr;

/// How the topmost Via begins in what we write.
const VIA: &[u8] = b"\r\nVia: ";

/// What matching found: a transaction and the class of the response, or why there is none.
type Found = Result<(ClientId, Class), ResponseMatch>;

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
        Ok(self.insert_client(owner, Account::KNOWN))
    }

    /// The same for an account, within its share and its part of the table: that of the request which is forwarded.
    pub fn reserve_client_for(&mut self, account: Account, owner: u64) -> Result<ClientId, Full> {
        let (live, limit) = (self.clients.len(), self.limits.clients);
        self.ledger.join(Table::Clients, account, live, limit)?;
        Ok(self.insert_client(owner, account))
    }

    fn insert_client(&mut self, owner: u64, account: Account) -> ClientId {
        let generation = self.next_generation();
        let client = Client::reserved(owner, generation, account);
        let index = self.clients.slab.insert(client);
        self.stats.clients_created += 1;
        ClientId { index, generation }
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

    /// Matches a response (section 17.1.3) and drives the machine: acknowledges non-2xx finals, absorbs retransmissions. It matches by the
    /// branch of its topmost Via, which proves that we sent the request, by the address that it comes from, and by its `CSeq` method.
    pub fn receive_response<Q>(
        &mut self,
        now: Time,
        flow: Flow,
        response: &Message<'_>,
        output: &mut Output<Q>,
    ) -> ResponseMatch {
        let matched = match self.match_response(flow, response) {
            Ok((id, class)) => self.drive_client(now, id, class, response, output),
            Err(matched) => matched,
        };
        match matched {
            ResponseMatch::Stray => self.stats.responses_stray += 1,
            ResponseMatch::Forged => self.stats.responses_forged += 1,
            ResponseMatch::Told(_) | ResponseMatch::Absorbed => {}
        }
        matched
    }

    /// Gives a response to its machine and does what that says.
    fn drive_client<Q>(
        &mut self,
        now: Time,
        id: ClientId,
        class: Class,
        response: &Message<'_>,
        output: &mut Output<Q>,
    ) -> ResponseMatch {
        let Some(client) = self.clients.get_mut(id) else {
            return ResponseMatch::Stray;
        };
        let timing = Timing {
            settings: self.settings,
            reliable: client.schedule.reliable,
        };
        let step = match (client.machine, class) {
            (Machine::Reserved, _) => return ResponseMatch::Stray,
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
        let owner = client.owner;
        let told = step.tell == Tell::Message && !client.internal;
        if step.send == Send::Cancel {
            self.send_cancel(now, id.index, b"", output);
        }
        self.follow_client(now, id.index, step);
        if told {
            ResponseMatch::Told(ClientResponse { id, owner })
        } else {
            ResponseMatch::Absorbed
        }
    }

    /// Cancels an INVITE (section 9.1): now when a provisional response has come, as soon as one comes otherwise, never once a final
    /// one has. `ClientTimeout` follows after 64*T1 when no final response comes. `reason` is the value of the CANCEL's Reason header
    /// field (RFC 3326); empty: it has none.
    pub fn cancel_client<Q>(
        &mut self,
        now: Time,
        id: ClientId,
        reason: &[u8],
        output: &mut Output<Q>,
    ) {
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
            self.send_cancel(now, id.index, reason, output);
        } else if matches!(state, Invite::Calling) && !reason.is_empty() {
            self.prepare_cancel(id.index, reason);
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
    /// of ours waits for an answer to. ACK and CANCEL carry the branch of their INVITE, but are none. The bytes must be those that were
    /// sent: an error that a network reports is as easily forged as a response.
    pub fn client_that_sent(&self, bytes: &[u8]) -> Option<ClientResponse> {
        let via = bytes.windows(VIA.len()).position(|window| window == VIA)?;
        let id = leading_branch(bytes.get(via + VIA.len()..)?)?.id;
        let client = self.clients.get(id)?;
        let request = client.kept.as_deref().filter(|_| !client.internal)?;
        let waits = !matches!(client.machine, Machine::Invite(Invite::Completed));
        // Of a request that will not be sent again only the header may be left.
        let same = request.starts_with(bytes) || bytes.starts_with(request);
        (waits && same).then_some(ClientResponse {
            id,
            owner: client.owner,
        })
    }

    /// The transaction of the request that a network could not deliver: the error quotes its bytes, or how they begin, and says where
    /// they were sent. Such errors can be forged. So the bytes must be those that were sent, with the branch that nobody can guess, and
    /// to that address; and a transaction that has had a response is `None`: its peer is there.
    pub fn client_unreached(&self, to: SocketAddr, bytes: &[u8]) -> Option<ClientResponse> {
        let found = self.client_that_sent(bytes)?;
        let client = self.clients.get(found.id)?;
        let is_unheard = matches!(
            client.machine,
            Machine::Invite(Invite::Calling) | Machine::NonInvite(NonInvite::Trying)
        );
        let sent_to = client.flow?.remote;
        // The kernel may leave the zone of a link-local address out.
        let same = (sent_to.ip(), sent_to.port()) == (to.ip(), to.port());
        (is_unheard && same).then_some(found)
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
    fn match_response(&self, flow: Flow, response: &Message<'_>) -> Found {
        let stray = ResponseMatch::Stray;
        let class = Class::of(response.status()).ok_or(stray)?;
        let branch = branch_of(response).ok_or(stray)?;
        if !branch.is_genuine(&self.hasher, response.call_id().unwrap_or_default()) {
            return Err(ResponseMatch::Forged);
        }
        let id = branch.id;
        let client = self.clients.get(id).ok_or(stray)?;
        if !client.flow.is_some_and(|sent| is_from_peer(sent, flow)) {
            return Err(ResponseMatch::Forged);
        }
        let matched = match (client.machine, response.cseq().ok_or(stray)?.method) {
            (Machine::Invite(_), Method::Invite) => id,
            // A CANCEL has the branch of its INVITE.
            (Machine::Invite(_), Method::Cancel) => client.cancel,
            (Machine::NonInvite(_), method) if !client.internal && client.sent(method) => id,
            _ => return Err(stray),
        };
        self.clients.get(matched).ok_or(stray)?;
        Ok((matched, class))
    }

    /// Sends the CANCEL of an INVITE, in a transaction of its own when there is room for one: that which was prepared, else one with
    /// this reason.
    fn send_cancel<Q>(&mut self, now: Time, index: u32, reason: &[u8], output: &mut Output<Q>) {
        let Some(client) = self.clients.slab.get(index) else {
            return;
        };
        let (flow, reliable) = (client.flow, client.schedule.reliable);
        let prepared = Some(client.cancel).filter(|cancel| self.clients.get(*cancel).is_some());
        let Some(id) = prepared.or_else(|| self.prepare_cancel(index, reason)) else {
            return self.send_cancel_once(index, reason, output);
        };
        let step = NonInvite::start(self.timing(reliable)).map(Machine::NonInvite);
        if let Some(cancel) = self.clients.get_mut(id) {
            cancel.flow = flow;
            cancel.schedule.reliable = reliable;
            cancel.send_again(output);
        }
        self.follow_client(now, id.index, step);
    }

    /// Writes the CANCEL of an INVITE into a transaction of its own, which is started when the CANCEL may leave.
    fn prepare_cancel(&mut self, index: u32, reason: &[u8]) -> Option<ClientId> {
        let client = self.clients.slab.get(index)?;
        let invite = Message::parse(client.kept.as_deref()?).ok()?;
        let mut written = Vec::new();
        write_cancel(&mut written, &invite, reason);
        let (account, owner) = (client.account, client.owner);
        let id = self.reserve_client_for(account, owner).ok()?;
        if let Some(cancel) = self.clients.get_mut(id) {
            cancel.kept = Some(written.into());
            cancel.count(&mut self.ledger);
            cancel.internal = true;
        }
        if let Some(client) = self.clients.slab.get_mut(index) {
            client.cancel = id;
        }
        Some(id)
    }

    /// Without a transaction, nothing sends the CANCEL again when it is lost.
    fn send_cancel_once<Q>(&self, index: u32, reason: &[u8], output: &mut Output<Q>) {
        let client = self.clients.slab.get(index);
        if let Some(client) = client
            && let (Some(flow), Some(kept)) = (client.flow, client.kept.as_deref())
            && let Ok(invite) = Message::parse(kept)
        {
            output.send(flow, |into| write_cancel(into, &invite, reason));
        }
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
        match (step.keep, machine) {
            (Keep::Nothing, _) => client.kept = None,
            (Keep::AsIs, Machine::Invite(Invite::Proceeding | Invite::Cancelling)) => {
                client.forget_body();
            }
            (Keep::Sent, _) if client.schedule.reliable => client.forget_body(),
            _ => {}
        }
        client.count(&mut self.ledger);
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
            client.kept = None;
            client.count(&mut self.ledger);
            self.ledger.leave(Table::Clients, client.account);
            self.stats.clients_ended += 1;
            next = self.clients.get(client.cancel).map(|_| client.cancel.index);
        }
    }
}

/// The branch of the topmost Via, where it can be ours. The glance spares nearly every response the parse of its Via.
fn branch_of(response: &Message<'_>) -> Option<Branch> {
    let seen = response.header(HeaderName::Via).and_then(leading_branch);
    seen.or_else(|| Branch::parse(response.top_via()?.branch()?))
}

/// Whether what came on a flow can be the answer to what was sent on another: it is from the same address, or over the same connection.
///
/// Ports may differ: section 18.2.2 says where a server sends a response to, not the port that it sends from, and a stream that the peer opens
/// for a response (the connection of the request is gone) has a port of its own. An address is as much as an off-path sender lacks; the
/// seal of the branch tells those apart that share one.
fn is_from_peer(sent: Flow, received: Flow) -> bool {
    let same_connection = sent.connection.is_some() && sent.connection == received.connection;
    same_connection || sent.remote.ip().to_canonical() == received.remote.ip().to_canonical()
}
