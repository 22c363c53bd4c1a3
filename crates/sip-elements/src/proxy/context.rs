//! A response context (RFC 3261 section 16.2): one request on its way to its targets, from the first branch to the
//! final response.

use super::Inbound;
use super::call_policy::CallPolicy;
use super::calls::Calls;
use super::cursor::{Cursor, is_long};
use super::dialog::Relation;
use super::forward::{self, RequestCopy};
use super::gateway_credentials;
use super::response::Best;
use super::timer::Deadline;
use super::waiting::Waiting;
use crate::WorkerParts;
use crate::owner::{BranchId, ContextId, Owner};
use crate::routing::breadth;
use crate::routing::client_key::CopyHash;
use crate::routing::failure::Failure;
use crate::routing::refreshed::Refreshed;
use crate::routing::route::RouteSet;
use crate::routing::target::{Hop, Target, Way};
use sip_dialog::Ended;
use sip_message::{Message, TransactionKey};
use sip_transaction::{Account, ClientId, Kind, ServerId, TimerId, TimerWheel};
use sip_transport::selection::{Candidate, Destination, Reach, streams_first};
use sip_transport::{Flow, Protocol, Time};
use smallvec::SmallVec;
use std::net::{IpAddr, SocketAddr};

/// What a context can access while it handles an event.
pub(super) struct ContextScope<'t, 'r> {
    pub(super) parts: &'t mut WorkerParts<'r>,
    /// Timer C and the other deadlines.
    pub(super) wheel: &'t mut TimerWheel<Deadline>,
    /// Buffer for patches.
    pub(super) scratch: &'t mut Vec<u8>,
    /// Remote targets that have changed.
    pub(super) refreshed: &'t mut Refreshed,
    /// The dialogs of calls.
    pub(super) calls: &'t mut Calls,
    /// The context.
    pub(super) key: ContextId,
}

impl ContextScope<'_, '_> {
    /// Identifies a branch of the context.
    pub(super) const fn branch(&self, place: u8) -> BranchId {
        BranchId {
            context: self.key,
            place,
        }
    }
}

/// One request that is being proxied.
#[derive(Debug)]
pub(super) struct Context {
    /// Server transaction of the request; `None` for an ACK, which gets no response.
    pub(super) server: Option<ServerId>,
    /// The ledger account that the context is charged to.
    pub(super) account: Account,
    /// The bytes that the ledger has counted for this context.
    pub(super) counted: u32,
    /// Where the request came from.
    pub(super) source: Flow,
    /// The address of the client of the request, which may be behind an edge of the fleet.
    pub(super) client: IpAddr,
    /// When the request arrived.
    pub(super) received: Time,
    /// The request as received, while another target or a response of our own may need it.
    pub(super) request: Option<Box<[u8]>>,
    pub(super) routes: RouteSet,
    pub(super) dialog: Relation,
    /// Suffix of the branch parameters: loop detection, and the proof that a response belongs to this request.
    pub(super) suffix: u64,
    /// Incoming Max-Breadth: how many concurrent branches the request may have, here and downstream.
    pub(super) breadth: u8,
    pub(super) branches: SmallVec<[Branch; 1]>,
    /// Targets that have not been tried, best last.
    pub(super) targets: Vec<Target>,
    /// What the policy says about the request, and the gateways that it may go to.
    pub(super) policy: Option<Box<CallPolicy>>,
    /// What replaces a branch that has failed.
    pub(super) retry: Option<Retry>,
    /// The best final response so far that was not forwarded at once.
    pub(super) best: Option<Box<Best>>,
    /// Responses that wait for the control plane. `None`: none does.
    pub(super) waiting: Option<Box<Waiting>>,
    /// How many questions it has asked about responses, modulo 2^16.
    pub(super) questions: u16,
    /// Index of the method in the metrics.
    pub(super) method: u8,
    pub(super) is_invite: bool,
    /// Who has cancelled the request.
    pub(super) cancelled_by: Option<Ended>,
    /// A final response has gone upstream, or none will.
    pub(super) is_concluded: bool,
}

/// What is tried at once when a branch has failed.
#[derive(Debug)]
pub(super) enum Retry {
    /// The next candidate of the same target.
    Candidate(Box<Cursor>),
    /// The same candidate, with credentials.
    SameCandidate(Box<Cursor>),
    /// The same target, with credentials, with its share of the Max-Breadth.
    SameTarget(Box<Target>, u8),
    /// Another flow to the same phone, with its share of the Max-Breadth.
    Flow(Box<Target>, u8),
}

/// One copy of the request and its client transaction (section 16.6).
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) client: Option<ClientId>,
    /// What was sent where ([`CopyHash::short`]). 0 until the copy is sent.
    pub(super) copy: u32,
    pub(super) deadline: Option<TimerId>,
    /// When Timer C fires. Each provisional response moves it.
    pub(super) timer_c: Time,
    /// Keyed hash of the remote target in the last provisional response; 0 if there was none.
    pub(super) early_target: u64,
    /// The target and its candidates, while the branch waits to be sent or can be tried again.
    pub(super) cursor: Option<Box<Cursor>>,
    /// Same as [`Target::instance`].
    pub(super) instance: u64,
    /// Share of the Max-Breadth.
    pub(super) breadth: u8,
    pub(super) state: BranchState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BranchState {
    /// The name of the next hop is being resolved.
    Resolving,
    /// Sent, without a response so far.
    Calling,
    /// Only 100 has been received: the next hop has the request, or had it.
    Trying,
    /// A provisional response from beyond the next hop has been received.
    Proceeding,
    /// Being cancelled, and still waiting for the final response. `late`: because Timer C fired.
    Cancelling { late: bool },
    /// The final response has been received, or none will be.
    Ended,
}

/// A copy to send.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'t> {
    pub(super) target: &'t Target,
    /// Share of the Max-Breadth.
    pub(super) breadth: u8,
    /// The branch that sends it; `None` for a new branch.
    pub(super) place: Option<u8>,
    /// Where it goes, if the target has been located.
    pub(super) candidate: Option<Candidate>,
}

/// Result of sending a copy.
pub(super) enum Launch {
    /// The copy was sent in this branch.
    Sent(u8),
    /// The name of the next hop must be resolved first.
    Unresolved(Destination),
    /// There is more than one way to reach the address of the next hop, best first.
    Either(Vec<Candidate>),
}

impl<'t> Attempt<'t> {
    /// A copy in a new branch, to a target that may have to be located first.
    const fn new(target: &'t Target, breadth: u8) -> Self {
        Self {
            target,
            breadth,
            place: None,
            candidate: None,
        }
    }
}

impl Context {
    /// Whether any branch may still receive a final response, or a response waits.
    pub(super) fn is_pending(&self) -> bool {
        self.has_waiting_responses()
            || self
                .branches
                .iter()
                .any(|branch| branch.state != BranchState::Ended)
    }

    /// Returns the state of a branch, if this is its client transaction.
    pub(super) fn state_of(&self, place: u8, client: ClientId) -> Option<BranchState> {
        let branch = self.branches.get(usize::from(place))?;
        (branch.client == Some(client)).then_some(branch.state)
    }

    /// Bytes of messages that the context holds.
    pub(super) fn bytes(&self) -> usize {
        let request = self.request.as_deref().map_or(0, <[u8]>::len);
        let waiting = self.waiting.as_deref().map_or(0, Waiting::bytes);
        request + waiting + self.best.as_deref().map_or(0, Best::bytes)
    }

    /// Returns what to keep of the request: all of it while another copy may be sent, else only the header, which is
    /// enough for a response of our own. The client transaction holds the bytes for retransmissions.
    pub(super) fn keep(&self, request: &Message<'_>) -> Box<[u8]> {
        let may_leave =
            |branch: &Branch| branch.cursor.is_some() || branch.state == BranchState::Resolving;
        let bytes = request.bytes();
        let header = bytes.len() - request.body().len();
        let is_last = self.targets.is_empty() && self.retry.is_none();
        let may_repeat =
            self.may_repeat_to_gateway() || self.may_divert() || self.authorization().is_some();
        if is_last && !may_repeat && !self.branches.iter().any(may_leave) {
            bytes.get(..header).unwrap_or(bytes).into()
        } else {
            bytes.into()
        }
    }

    /// Whether the context is finished and can be removed.
    pub(super) fn is_over(&self) -> bool {
        self.is_concluded && self.retry.is_none() && !self.is_pending() && self.waiting.is_none()
    }

    /// Whether there is something to do that needs the request.
    pub(super) fn wants_request(&self) -> bool {
        !self.is_concluded && (self.retry.is_some() || !self.is_pending())
    }

    /// Proceeds as far as possible: the next candidate of a failed target, the next group of targets, the next gateway,
    /// what the callee wants to happen then, the final response.
    pub(super) fn proceed(&mut self, scope: &mut ContextScope<'_, '_>, request: &Message<'_>) {
        self.start_retry(scope, request);
        while !self.is_pending()
            && (!self.targets.is_empty()
                || self.choose_gateway(scope)
                || self.divert(scope, request))
        {
            self.start_group(scope, request);
        }
        if !self.is_pending() && !self.is_concluded {
            self.conclude(scope, request);
        }
    }

    /// Starts the replacement of a failed branch, and the next replacement if that one fails at once.
    fn start_retry(&mut self, scope: &mut ContextScope<'_, '_>, request: &Message<'_>) {
        while let Some(retry) = self.retry.take() {
            if matches!(retry, Retry::Candidate(_) | Retry::Flow(..)) {
                scope.parts.metrics.failovers.increment();
            }
            match retry {
                Retry::Candidate(cursor) => self.try_candidates(scope, request, None, cursor),
                Retry::SameCandidate(cursor) => self.try_same_candidate(scope, request, cursor),
                Retry::SameTarget(target, breadth) | Retry::Flow(target, breadth) => {
                    self.start_branch(scope, request, *target, breadth);
                }
            }
        }
    }

    /// Forwards to all targets with the highest q at once (section 16.6: parallel among equals, serial otherwise). If
    /// the Max-Breadth does not suffice, the other targets wait until these branches have ended.
    fn start_group(&mut self, scope: &mut ContextScope<'_, '_>, request: &Message<'_>) {
        let group = self.next_group();
        let branches = group.len() as u8;
        for (target, place) in group.into_iter().zip(0..) {
            let share = breadth::share(self.breadth, branches, place);
            self.start_branch(scope, request, target, share);
            self.start_retry(scope, request);
        }
        self.arm_no_answer(scope);
    }

    /// Removes and returns the next targets. Of several flows to one phone, only the best is among them and the others
    /// stay.
    fn next_group(&mut self) -> SmallVec<[Target; 1]> {
        let q = self.targets.last().map(|target| target.q);
        let most = usize::from(self.breadth).max(1);
        let mut group: SmallVec<[Target; 1]> = SmallVec::new();
        let mut others: SmallVec<[Target; 1]> = SmallVec::new();
        while group.len() < most
            && let Some(target) = self.targets.pop_if(|target| Some(target.q) == q)
        {
            let is_of_one_phone = |other: &Target| other.instance == target.instance;
            if target.instance != 0 && group.iter().any(is_of_one_phone) {
                others.push(target);
            } else {
                group.push(target);
            }
        }
        self.targets.extend(others.into_iter().rev());
        group
    }

    fn start_branch(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        request: &Message<'_>,
        target: Target,
        breadth: u8,
    ) {
        let instance = target.instance;
        let started = self
            .launch(scope, request, Attempt::new(&target, breadth))
            .and_then(|launch| match launch {
                Launch::Sent(_) => Ok(()),
                Launch::Unresolved(destination) => {
                    self.resolve(scope, request, destination, target, breadth)
                }
                Launch::Either(candidates) => {
                    let cursor = Box::new(Cursor::new(target, breadth, candidates));
                    self.try_candidates(scope, request, None, cursor);
                    Ok(())
                }
            });
        if let Err(failure) = started {
            self.note_failure(failure);
            self.gateway_failed(scope, None, failure);
            self.try_other_flow(instance, breadth);
        }
    }

    /// Sends a copy.
    pub(super) fn launch(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        request: &Message<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Launch, Failure> {
        let Attempt {
            target,
            breadth,
            place,
            candidate,
        } = attempt;
        let listeners = &scope.parts.settings.listeners;
        let mut hop = target.hop(&self.routes, listeners)?;
        let remote = match (candidate, &hop.way) {
            (Some(candidate), _) => {
                hop.protocol = Some(candidate.protocol);
                candidate.address
            }
            (None, Way::Name(name)) => {
                return Ok(Launch::Unresolved((*name).into()));
            }
            (None, Way::Address(remote)) => {
                let ways = self.ways(scope.parts, request, &hop, *remote);
                if ways.len() > 1 {
                    return Ok(Launch::Either(ways));
                }
                *remote
            }
        };
        let inbound = Inbound {
            is_diverted: self.is_diverted(),
            client: self.client,
            ..Inbound::new(request, self.source)
        };
        let copy = RequestCopy::new(scope.parts, inbound, target, &self.routes, &hop, remote)?;
        if self.server.is_none() {
            forward::send_ack(scope.parts, scope.scratch, &copy);
            self.branches.clear();
            self.is_concluded = true;
            return Ok(Launch::Sent(0));
        }
        let number = place.map_or_else(|| self.next_place(), Ok)?;
        let uri = hop.strict.map_or(target.request_uri(), |it| it.uri);
        let sent = self.copy_hash(scope.parts, (target, uri), remote);
        let owner = Owner::Branch(scope.key, number);
        let Ok(client) = scope.parts.transactions.reserve_client_for(
            self.account,
            owner,
            sent.key(&scope.parts.shared.hasher, self.attempts(sent)),
        ) else {
            scope.parts.metrics.refused_full.increment();
            return Err(Failure::Overloaded);
        };
        let asked = (request.method().as_bytes(), uri);
        gateway_credentials::prepare(self.policy.as_deref_mut(), scope.parts, asked);
        let policy = self.policy.as_deref();
        let copy = copy.with_breadth(breadth).under(policy, self.trust_ahead());
        let flow = copy.flow();
        let kind = self.kind();
        forward::send(scope.parts, scope.scratch, &copy, client, kind, self.suffix);
        scope.calls.attempted(scope.parts, self.dialog.call(), flow);
        if place.is_none() {
            self.add_branch(target, breadth, BranchState::Calling)?;
        }
        if let Some(branch) = self.branches.get_mut(usize::from(number)) {
            branch.client = Some(client);
            branch.copy = sent.short();
            branch.state = BranchState::Calling;
        }
        if self.is_invite {
            self.arm_invite(scope, number);
        } else if self.may_repeat_to_gateway() {
            self.arm_other(scope, number);
        }
        Ok(Launch::Sent(number))
    }

    /// Identifies a copy of the request among those to all targets.
    fn copy_hash(
        &self,
        parts: &WorkerParts<'_>,
        target: (&Target, &[u8]),
        remote: SocketAddr,
    ) -> CopyHash {
        let server = self.server.and_then(|it| parts.transactions.server_key(it));
        // A context with branches has a server transaction.
        let server = server.unwrap_or(TransactionKey(0));
        CopyHash::new(&parts.shared.hasher, server, target, remote)
    }

    /// How often the same copy has been sent.
    fn attempts(&self, copy: CopyHash) -> usize {
        let is_same = |branch: &&Branch| branch.copy == copy.short();
        self.branches.iter().filter(is_same).count()
    }

    const fn kind(&self) -> Kind {
        if self.is_invite {
            Kind::Invite
        } else {
            Kind::NonInvite
        }
    }

    /// Returns the ways to reach an address (section 18.1.1). A long request uses a stream if possible. It uses a
    /// datagram if the peer accepts no stream, or recently did not. Inside a dialog it stays with the transport over
    /// which the INVITE reached the peer.
    fn ways(
        &self,
        parts: &WorkerParts<'_>,
        request: &Message<'_>,
        hop: &Hop<'_>,
        remote: SocketAddr,
    ) -> Vec<Candidate> {
        let mut ways = Vec::new();
        if hop.is_open
            && self.server.is_some()
            && is_long(request)
            && !self.routes.is_recorded_over_udp(request)
        {
            let datagrams = Candidate {
                protocol: Protocol::Udp,
                address: remote,
            };
            ways.push(datagrams);
            streams_first(&mut ways, Reach::of(&parts.settings.listeners));
            let lifetime = parts.settings.proxy.dead_target_lifetime;
            let dead = &parts.shared.dead_targets;
            ways.retain(|way| *way == datagrams || dead.admits(*way, parts.now, lifetime));
        }
        ways
    }

    /// Returns the number of the next branch. Fails if an owner number cannot tell more branches apart.
    fn next_place(&self) -> Result<u8, Failure> {
        let place = u8::try_from(self.branches.len())
            .ok()
            .filter(|place| *place < BranchId::SERVER);
        place.ok_or(Failure::Overloaded)
    }

    pub(super) fn add_branch(
        &mut self,
        target: &Target,
        breadth: u8,
        state: BranchState,
    ) -> Result<u8, Failure> {
        let place = self.next_place()?;
        self.branches.push(Branch {
            client: None,
            copy: 0,
            deadline: None,
            timer_c: Time::default(),
            early_target: 0,
            cursor: None,
            instance: target.instance,
            breadth,
            state,
        });
        Ok(place)
    }

    /// Cancels what is pending, after a CANCEL (section 16.10), a 2xx or a 6xx. No further target is tried. Ringing
    /// branches are cancelled with the reason.
    pub(super) fn cancel_pending(&mut self, scope: &mut ContextScope<'_, '_>, reason: &[u8]) {
        self.stop_diverting(scope);
        self.targets = Vec::new();
        self.retry = None;
        for place in 0..self.branches.len() as u8 {
            let Some(branch) = self.branches.get_mut(usize::from(place)) else {
                return;
            };
            branch.cursor = None;
            match (branch.state, branch.client) {
                (
                    BranchState::Calling | BranchState::Trying | BranchState::Proceeding,
                    Some(client),
                ) if self.is_invite => {
                    branch.state = BranchState::Cancelling { late: false };
                    scope.parts.transactions.cancel_client(
                        scope.parts.now,
                        client,
                        reason,
                        scope.parts.output,
                    );
                    self.disarm(scope, place);
                }
                (BranchState::Resolving, _) => {
                    branch.state = BranchState::Ended;
                    self.disarm(scope, place);
                }
                _ => {}
            }
        }
    }

    /// Ends a branch without a final response from downstream.
    pub(super) fn fail_branch(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        place: u8,
        failure: Failure,
    ) {
        self.disarm(scope, place);
        let Some(branch) = self.branches.get_mut(usize::from(place)) else {
            return;
        };
        let has_rung = matches!(
            branch.state,
            BranchState::Proceeding | BranchState::Cancelling { .. }
        );
        let (instance, breadth) = (branch.instance, branch.breadth);
        branch.state = BranchState::Ended;
        let cursor = branch.cursor.take();
        self.schedule_retry(cursor);
        // With a retry, the outcome of the next candidate is the outcome of the target.
        if self.retry.is_none() {
            self.note_failure(failure);
            self.gateway_failed(scope, Some(place), failure);
            if has_rung {
                self.forget_other_flows(instance);
            } else {
                self.try_other_flow(instance, breadth);
            }
        }
    }

    /// Retries at once over the next flow to a phone after one flow has failed (RFC 5626 section 7).
    pub(super) fn try_other_flow(&mut self, instance: u64, breadth: u8) {
        if instance == 0 || self.is_concluded || self.cancelled_by.is_some() {
            return;
        }
        let targets = &mut self.targets;
        let next = targets
            .iter()
            .rposition(|target| target.instance == instance);
        if let Some(place) = next {
            self.retry = Some(Retry::Flow(Box::new(targets.remove(place)), breadth));
        }
    }

    /// Retries at the contact of a phone whose connection was gone before the request was sent, if there is no other
    /// flow to it. The phone may accept a connection there (RFC 3261 section 16.6 step 7).
    pub(super) fn try_contact(&mut self, place: u8, contact: Option<Target>) {
        let Some(branch) = self.branches.get(usize::from(place)) else {
            return;
        };
        let is_last = self.retry.is_none() && !self.goes_to_gateways();
        if is_last && !self.is_concluded && self.cancelled_by.is_none() {
            let breadth = branch.breadth;
            self.retry = contact.map(|contact| Retry::Flow(Box::new(contact), breadth));
        }
    }

    /// Drops the other flows to a phone that has answered: they lead to the same answer (RFC 5626 section 7).
    pub(super) fn forget_other_flows(&mut self, instance: u64) {
        if instance != 0 {
            self.targets.retain(|target| target.instance != instance);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_small() {
        let size = size_of::<Context>();
        println!("response context: {size} bytes and its request");
        assert!(size <= 336, "{size} bytes");
    }
}
