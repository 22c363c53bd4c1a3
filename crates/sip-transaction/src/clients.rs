//! Client transactions: matching of responses (RFC 3261 section 17.1.3), sending, and their CANCELs (section 9.1).

use crate::branch::{Branch, ClientKey, leading_branch};
use crate::client_invite::State as Invite;
use crate::client_non_invite::State as NonInvite;
use crate::client_table::{Client, Machine};
use crate::schedule::{Place, Side};
use crate::step::{Class, Keep, Step, Tell, Transmit};
use crate::timer::{Timer, Timing};
use crate::{Account, ClientResponse, Event, Full, Kind, ResponseMatch, Table, Transactions};
use sip_message::{HeaderName, Message, Method, write_cancel};
use sip_transport::{Flow, Output, SlabId, Time};
use std::net::SocketAddr;

/// The beginning of the topmost Via in our requests.
const VIA: &[u8] = b"\r\nVia: ";

/// The result of matching: a transaction and the class of the response, or why there is none.
type Found<O> = Result<(ClientId, Class), ResponseMatch<O>>;

/// Identifies a client transaction. A stale id is recognised by its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(pub(crate) SlabId);

impl ClientId {
    /// Identifies no transaction: no slab grows to this index.
    pub(crate) const NONE: Self = Self(SlabId::NONE);
}

/// How the request of a client transaction is sent.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions<'d> {
    /// Which of the two client machines applies.
    pub kind: Kind,
    /// The flow that the request leaves on.
    pub flow: Flow,
    /// Whether the transport of the flow is reliable, so that nothing is retransmitted.
    pub reliable: bool,
    /// The domain that the peer must prove to be over TLS, if the URI of the next hop names one (RFC 5922 section 7.3).
    pub domain: Option<&'d [u8]>,
}

impl ClientOptions<'_> {
    /// A request to a peer that needs to prove no domain.
    pub const fn new(kind: Kind, flow: Flow, reliable: bool) -> Self {
        Self {
            kind,
            flow,
            reliable,
            domain: None,
        }
    }
}

impl<O: Copy> Transactions<O> {
    /// Reserves a client transaction, so that its id can go into the branch of the request. Call `start_client` in the same round, or
    /// `abandon_client`.
    pub fn reserve_client(&mut self, owner: O) -> Result<ClientId, Full> {
        if self.clients.len() >= self.limits.clients {
            self.stats.full += 1;
            return Err(Full);
        }
        Ok(self.insert_client(owner, Account::KNOWN, None))
    }

    /// Like [`Transactions::reserve_client`], charged to the account of a forwarded request, within its share of the table. The transaction is
    /// named by `key`.
    pub fn reserve_client_for(
        &mut self,
        account: Account,
        owner: O,
        key: ClientKey,
    ) -> Result<ClientId, Full> {
        self.join_clients(account)?;
        Ok(self.insert_client(owner, account, Some(key)))
    }

    fn join_clients(&mut self, account: Account) -> Result<(), Full> {
        let (live, limit) = (self.clients.len(), self.limits.clients);
        self.ledger.join(Table::Clients, account, live, limit)
    }

    fn insert_client(&mut self, owner: O, account: Account, key: Option<ClientKey>) -> ClientId {
        self.stats.clients_created += 1;
        self.clients.insert(owner, account, key)
    }

    /// Sends the request and starts the machine. Does nothing if the id is not, or no longer, reserved.
    pub fn start_client<Q, R>(
        &mut self,
        now: Time,
        id: ClientId,
        options: &ClientOptions<'_>,
        output: &mut Output<Q, R>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let timing = self.timing(options.reliable);
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if !matches!(client.machine, Machine::Reserved) {
            return;
        }
        let step = match options.kind {
            Kind::Invite => Invite::start(timing).map(Machine::Invite),
            Kind::NonInvite => NonInvite::start(timing).map(Machine::NonInvite),
        };
        client.flow = Some(options.flow);
        client.schedule.reliable = options.reliable;
        client.send(output, options.domain, step.keep, write);
        self.follow_client(now, id.0.index, step);
    }

    /// Drops a client transaction and its CANCEL. Later responses to them are stray.
    pub fn abandon_client(&mut self, id: ClientId) {
        if self.clients.get(id).is_some() {
            self.end_client(id.0.index);
        }
    }

    /// Matches a response (section 17.1.3) and drives the machine, which acknowledges non-2xx final responses and absorbs retransmissions.
    /// A response matches by the branch of its topmost Via, which proves that we sent the request, by its source address, and by its `CSeq`
    /// method.
    pub fn receive_response<Q, R>(
        &mut self,
        now: Time,
        flow: Flow,
        response: &Message<'_>,
        output: &mut Output<Q, R>,
    ) -> ResponseMatch<O> {
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

    /// Passes a response to its machine and executes the step.
    fn drive_client<Q, R>(
        &mut self,
        now: Time,
        id: ClientId,
        class: Class,
        response: &Message<'_>,
        output: &mut Output<Q, R>,
    ) -> ResponseMatch<O> {
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
            Transmit::Ack => client.send_ack(output, step.keep, response),
            Transmit::Kept => client.send_again(output),
            Transmit::Nothing | Transmit::Given | Transmit::Cancel => {}
        }
        let owner = client.owner;
        let told = step.tell == Tell::Message && !client.internal;
        if step.send == Transmit::Cancel {
            self.send_cancel(now, id.0.index, b"", output);
        }
        self.follow_client(now, id.0.index, step);
        if told {
            ResponseMatch::Told(ClientResponse { id, owner })
        } else {
            ResponseMatch::Absorbed
        }
    }

    /// Cancels an INVITE (section 9.1). The CANCEL is sent at once after a provisional response, or otherwise with the first one, and never
    /// after a final response. `ClientTimeout` follows after 64*T1 without a final response. `reason` is the value of the CANCEL's Reason
    /// header field (RFC 3326); if it is empty, the CANCEL has none.
    pub fn cancel_client<Q, R>(
        &mut self,
        now: Time,
        id: ClientId,
        reason: &[u8],
        output: &mut Output<Q, R>,
    ) {
        self.withdraw_client(now, id, reason, output, Invite::cancel);
    }

    /// As [`Self::cancel_client`], for a server without a response: the INVITE is not retransmitted either. When the server returns, it
    /// would otherwise answer a call that has gone elsewhere.
    pub fn give_up_client<Q, R>(
        &mut self,
        now: Time,
        id: ClientId,
        reason: &[u8],
        output: &mut Output<Q, R>,
    ) {
        self.withdraw_client(now, id, reason, output, Invite::give_up);
    }

    fn withdraw_client<Q, R>(
        &mut self,
        now: Time,
        id: ClientId,
        reason: &[u8],
        output: &mut Output<Q, R>,
        event: fn(Invite, Timing) -> Step<Invite>,
    ) {
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let Machine::Invite(state) = client.machine else {
            return;
        };
        let step = event(state, self.timing(client.schedule.reliable)).map(Machine::Invite);
        if step.send == Transmit::Cancel {
            self.send_cancel(now, id.0.index, reason, output);
        } else if matches!(state, Invite::Calling) && !reason.is_empty() {
            self.prepare_cancel(id.0.index, reason);
        }
        self.follow_client(now, id.0.index, step);
    }

    /// Whether the transaction with this branch, of a forwarded request, has ended here. Only the last few thousand are remembered.
    pub fn client_has_ended(&self, branch: &Branch) -> bool {
        self.clients.has_ended(branch)
    }

    /// Whether the transaction with this branch is here, or has [ended](Self::client_has_ended) here.
    pub fn knows_client(&self, branch: &Branch) -> bool {
        self.client_has_ended(branch) || self.clients.find(branch, |_| true).is_some()
    }

    /// The request as sent, as long as the machine keeps it.
    pub fn client_request(&self, id: ClientId) -> Option<&[u8]> {
        let client = self.clients.get(id)?;
        // A completed INVITE keeps the ACK instead.
        let is_request = !matches!(client.machine, Machine::Invite(Invite::Completed));
        client.kept.as_deref().filter(|_| is_request)
    }

    /// The transaction that sent these bytes, or a request that begins with them: networks often quote only the beginning. `None` if no
    /// transaction waits for a response to such a request. ACK and CANCEL carry the branch of their INVITE, but do not count. The bytes
    /// must be equal to those sent, because an error that a network reports is as easy to forge as a response.
    pub fn client_that_sent(&self, bytes: &[u8]) -> Option<ClientResponse<O>> {
        let via = bytes.windows(VIA.len()).position(|window| window == VIA)?;
        let branch = leading_branch(bytes.get(via + VIA.len()..)?)?;
        let has_sent = |client: &Client<O>| {
            let request = client.kept.as_deref().filter(|_| !client.internal);
            let waits = !matches!(client.machine, Machine::Invite(Invite::Completed));
            // Only the header may be left of a request that will not be sent again.
            let same = |request: &[u8]| request.starts_with(bytes) || bytes.starts_with(request);
            waits && request.is_some_and(same)
        };
        let id = self.clients.find(&branch, has_sent)?;
        let owner = self.clients.get(id)?.owner;
        Some(ClientResponse { id, owner })
    }

    /// The transaction of a request that a network could not deliver. The error quotes the bytes of the request, or their beginning, and
    /// says where they were sent. Such errors can be forged. Therefore the bytes and the address must be those of the request, whose branch
    /// an attacker cannot guess. The result is `None` if the transaction has had a response, because then its peer is reachable.
    pub fn client_unreached(&self, to: SocketAddr, bytes: &[u8]) -> Option<ClientResponse<O>> {
        let found = self.client_that_sent(bytes)?;
        let client = self.clients.get(found.id)?;
        let is_unheard = matches!(
            client.machine,
            Machine::Invite(Invite::Calling) | Machine::NonInvite(NonInvite::Trying)
        );
        let sent_to = client.flow?.remote;
        // The kernel may omit the zone of a link-local address.
        let same = (sent_to.ip(), sent_to.port()) == (to.ip(), to.port());
        (is_unheard && same).then_some(found)
    }

    /// The flow that the request was sent on.
    pub fn client_flow(&self, id: ClientId) -> Option<Flow> {
        self.clients.get(id)?.flow
    }

    /// Handles a timer of a client transaction that has fired.
    pub(crate) fn client_timer<Q, R>(
        &mut self,
        now: Time,
        index: u32,
        timer: Timer,
        output: &mut Output<Q, R>,
    ) -> Option<Event<O>> {
        let client = self.clients.slab.at_mut(index)?;
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
        if step.send == Transmit::Kept {
            client.send_again(output);
            self.stats.requests_retransmitted += 1;
            self.stats.invites_retransmitted += u64::from(timer == Timer::A);
        }
        let event = Event::ClientTimeout {
            id: client.id(index),
            owner: client.owner,
        };
        let told = (step.tell == Tell::Timeout && !client.internal).then_some(event);
        self.follow_client(now, index, step);
        told
    }

    /// The transaction that a response belongs to. A request never matches, because it has no status code.
    fn match_response(&self, flow: Flow, response: &Message<'_>) -> Found<O> {
        let stray = ResponseMatch::Stray;
        let class = Class::of(response.status()).ok_or(stray)?;
        let branch = branch_of(response).ok_or(stray)?;
        if !branch.is_genuine(&self.hasher, response.call_id().unwrap_or_default()) {
            return Err(ResponseMatch::Forged);
        }
        let method = response.cseq().ok_or(stray)?.method;
        // A CANCEL has the branch of its INVITE.
        let is_of_invite = matches!(method, Method::Invite | Method::Cancel);
        let is_asked = |client: &Client<O>| match client.machine {
            Machine::Invite(_) => is_of_invite,
            Machine::NonInvite(_) => !client.internal && client.sent(method),
            Machine::Reserved => false,
        };
        let id = self.clients.find(&branch, is_asked).ok_or(stray)?;
        let client = self.clients.get(id).ok_or(stray)?;
        if !client.flow.is_some_and(|sent| is_from_peer(sent, flow)) {
            return Err(ResponseMatch::Forged);
        }
        let matched = match (client.machine, method) {
            (Machine::Invite(_), Method::Cancel) => client.cancel,
            _ => id,
        };
        self.clients.get(matched).ok_or(stray)?;
        Ok((matched, class))
    }

    /// Sends the CANCEL of an INVITE, in a transaction of its own if there is room for one. It sends the prepared CANCEL if there is one,
    /// otherwise one with this reason.
    fn send_cancel<Q, R>(
        &mut self,
        now: Time,
        index: u32,
        reason: &[u8],
        output: &mut Output<Q, R>,
    ) {
        let Some(client) = self.clients.slab.at(index) else {
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
        self.follow_client(now, id.0.index, step);
    }

    /// Writes the CANCEL of an INVITE into a transaction of its own, which starts when the CANCEL may leave.
    fn prepare_cancel(&mut self, index: u32, reason: &[u8]) -> Option<ClientId> {
        let client = self.clients.slab.at(index)?;
        let invite = Message::parse(client.kept.as_deref()?).ok()?;
        let mut written = Vec::new();
        write_cancel(&mut written, &invite, reason);
        let (account, owner) = (client.account, client.owner);
        self.join_clients(account).ok()?;
        let id = self.insert_client(owner, account, None);
        if let Some(cancel) = self.clients.get_mut(id) {
            cancel.kept = Some(written.into());
            cancel.count(&mut self.ledger);
            cancel.internal = true;
        }
        if let Some(client) = self.clients.slab.at_mut(index) {
            client.cancel = id;
        }
        Some(id)
    }

    /// Sends the CANCEL without a transaction. If it is lost, it is not retransmitted.
    fn send_cancel_once<Q, R>(&self, index: u32, reason: &[u8], output: &mut Output<Q, R>) {
        let client = self.clients.slab.at(index);
        if let Some(client) = client
            && let (Some(flow), Some(kept)) = (client.flow, client.kept.as_deref())
            && let Ok(invite) = Message::parse(kept)
        {
            output.send(flow, |into| write_cancel(into, &invite, reason));
        }
    }

    /// Applies the new state of a client transaction: its timers and what it keeps.
    fn follow_client(&mut self, now: Time, index: u32, step: Step<Machine>) {
        let Some(machine) = step.next else {
            self.end_client(index);
            return;
        };
        let Some(client) = self.clients.slab.at_mut(index) else {
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
            Place {
                side: Side::Client,
                index,
            },
        );
    }

    /// Ends a client transaction and that of its CANCEL, because responses to the CANCEL could no longer find it.
    fn end_client(&mut self, index: u32) {
        let mut next = Some(index);
        while let Some(mut client) = next.and_then(|index| self.clients.remove_at(index)) {
            client.schedule.stop(&mut self.wheel);
            client.kept = None;
            client.count(&mut self.ledger);
            self.ledger.leave(Table::Clients, client.account);
            self.stats.clients_ended += 1;
            next = self
                .clients
                .get(client.cancel)
                .map(|_| client.cancel.0.index);
        }
    }
}

/// The branch of the topmost Via, if it can be ours. The quick look saves nearly every response a parse of its Via.
fn branch_of(response: &Message<'_>) -> Option<Branch> {
    let seen = response.header(HeaderName::Via).and_then(leading_branch);
    seen.or_else(|| Branch::parse(response.top_via()?.branch()?))
}

/// Whether a message received on one flow can be the response to a request sent on another: it comes from the same address, or over the
/// same connection.
///
/// Ports may differ. Section 18.2.2 says where a server sends a response to, not which port it sends from. If the connection of the request
/// is gone, the peer opens another one for the response, with a port of its own. The address check stops off-path senders. The seal of the
/// branch distinguishes the peer from other senders at its address.
fn is_from_peer(sent: Flow, received: Flow) -> bool {
    let same_connection = sent.connection.is_some() && sent.connection == received.connection;
    same_connection || sent.remote.ip().to_canonical() == received.remote.ip().to_canonical()
}
