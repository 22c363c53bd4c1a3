//! The stateful proxy (RFC 3261 section 16): route preprocessing, target sets, forking, choice of the best response,
//! CANCEL and Timer C.
//!
//! Each proxied request has a response context. The context owns the server transaction and the client transactions of
//! the request, and its branches put questions to the control plane.

mod adoption;
mod call_events;
mod call_policy;
mod calls;
mod context;
mod cursor;
mod deadlines;
mod dialog;
mod diversion_headers;
mod diversions;
mod forward;
mod gateway_credentials;
mod gateway_identity;
mod gateways;
mod hang_up;
mod identity_headers;
mod keys;
mod lost_invite;
mod operator;
mod overdue;
mod places;
mod reason;
mod recount;
mod response;
mod session_timer;
mod stateless;
mod table;
mod timer;
mod unacknowledged;
mod upstream;
mod waiting;

use crate::metrics::DropReason;
use crate::own_response::{Origin, Refusal, respond, send_trying};
use crate::owner::{BranchId, ContextId, Owner, ResponseId};
use crate::phase::edge;
use crate::routing::breadth;
use crate::routing::dead_targets::TargetFailure;
use crate::routing::failure::Failure;
use crate::routing::refreshed::{Refreshed, RefreshedStats};
use crate::routing::return_path::{self, Forwarded};
use crate::routing::route::{self, RouteSet, Routing};
use crate::routing::target::{Target, Way};
use crate::{Description, NameServersFailed, NotDescribed, Settings, WorkerParts};
pub(crate) use call_policy::CallPolicy;
pub use call_policy::Onward;
pub(crate) use calls::key_of;
use calls::{Accepted, Calls};
use context::{BranchState, Context, ContextScope};
pub(crate) use cursor::retry_after;
use dialog::{InDialog, Relation};
pub(crate) use diversions::Callee;
use forward::RequestCopy;
pub(crate) use gateway_identity::Speaker;
pub(crate) use gateways::{GatewayRoute, request_uri_at};
pub use hang_up::HungUp;
use identity_headers::Party;
use keys::Keys;
use lost_invite::Allowance;
use recount::Recount;
use sip_dialog::{DialogId, DialogStats, Ended};
use sip_message::{Message, Method};
use sip_transaction::{Account, ClientId, ClientResponse, Sender, ServerId, Table, TimerWheel};
use sip_transport::selection::Candidate;
use sip_transport::{Flow, Time};
use smallvec::SmallVec;
use std::net::IpAddr;
use table::Contexts;
use timer::Deadline;
use unacknowledged::Unacknowledged;
use waiting::WaitingResponse;

/// Requests with more bytes than this may not fit into a datagram.
const LARGEST_DATAGRAM: usize = 60_000;

/// Counts of response contexts: `created == ended + live`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they count")]
pub struct ProxyStats {
    pub created: u64,
    pub ended: u64,
    pub live: u64,
}

/// A received request that is to be forwarded.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'c, 'm> {
    /// The request.
    pub request: &'c Message<'m>,
    /// The flow on which it was received.
    pub source: Flow,
    /// The address of its sender: behind an edge of the fleet, that of the client.
    pub client: IpAddr,
    /// The subscriber that authenticated (`user@domain`); empty if none did.
    pub subscriber: &'c [u8],
    /// A callee, not the sender, has chosen the target.
    pub is_diverted: bool,
}

impl<'c, 'm> Inbound<'c, 'm> {
    /// A request, and the flow on which it was received.
    pub const fn new(request: &'c Message<'m>, source: Flow) -> Self {
        Self {
            request,
            source,
            client: source.remote.ip(),
            subscriber: b"",
            is_diverted: false,
        }
    }

    /// The same request, from this client.
    #[must_use]
    pub const fn from_client(self, client: IpAddr) -> Self {
        Self { client, ..self }
    }

    /// The same request, of this subscriber (`user@domain`).
    #[must_use]
    pub const fn of(self, subscriber: &'c [u8]) -> Self {
        Self { subscriber, ..self }
    }
}

/// All response contexts of one worker.
#[derive(Debug)]
pub struct Proxy {
    contexts: Contexts,
    /// When the process started.
    since: Time,
    wheel: TimerWheel<Deadline>,
    stats: ProxyStats,
    unacknowledged: Unacknowledged,
    refreshed: Refreshed,
    calls: Calls,
    /// How many copies of CANCELs and ACKs may be sent to the targets of lost INVITEs.
    allowance: Allowance,
    /// `None`: all live calls count towards the limits that apply now.
    recount: Option<Recount>,
    /// Reused buffer for the text of patches.
    scratch: Vec<u8>,
}

impl Proxy {
    /// Creates a proxy without response contexts.
    pub fn new(now: Time) -> Self {
        Self {
            contexts: Contexts::new(),
            since: now,
            wheel: TimerWheel::new(now),
            stats: ProxyStats::default(),
            unacknowledged: Unacknowledged::default(),
            refreshed: Refreshed::default(),
            calls: Calls::new(now),
            allowance: Allowance::default(),
            recount: None,
            scratch: Vec::new(),
        }
    }

    /// Preprocesses the route of a request (section 16.4): which Route values are ours, what the effective Request-URI
    /// is, and whether the request belongs to a dialog that we record-routed.
    pub fn preprocess(&self, request: &Message<'_>, parts: &WorkerParts<'_>) -> Routing {
        let view = parts.view();
        let knows = |call, target| {
            let keys = Keys::of(request, call, &view.shared.hasher);
            self.refreshed.knows(keys.of_receiver, target, view.now)
                || self.calls.knows_target(keys, target, view)
        };
        route::preprocess(request, view, knows)
    }

    /// Creates a response context for a request with a server transaction, and forwards the request to the first group
    /// of targets. The context becomes the owner of the server transaction.
    ///
    /// An INVITE that has not had a 100 yet gets one first. If the table is full, the request gets 503. If its
    /// Max-Breadth is 0, it gets 440. `onward` must lead somewhere: without targets, the calling code answers 404 or 480.
    pub fn forward(
        &mut self,
        parts: &mut WorkerParts<'_>,
        inbound: Inbound<'_, '_>,
        server: ServerId,
        routing: &Routing,
        onward: impl Into<Onward>,
    ) {
        let onward = onward.into();
        let is_stateless = onward.is_stateless();
        let Onward { targets, policy } = onward;
        let Inbound {
            request, source, ..
        } = inbound;
        let account = parts.transactions.server_account(server);
        let account = account.unwrap_or(Account::KNOWN);
        let refuse = |parts: &mut WorkerParts<'_>, refusal| {
            let mut origin = Origin::new(parts, source);
            origin.server = Some(server);
            if !account.is_stranger() {
                origin.sender = Sender::Known(None);
            }
            respond(parts, request, &origin, &refusal);
        };
        if breadth::incoming(request) == 0 {
            return refuse(parts, Refusal::Status(440));
        }
        let Some(key) = self.reserve(parts, account) else {
            return refuse(parts, Refusal::Busy("Too many calls"));
        };
        let begun = if is_stateless {
            Ok(DialogId::NONE)
        } else {
            self.calls.begin(parts, inbound, (server, account), routing)
        };
        let Ok(call) = begun else {
            self.release_slot(parts, key, account);
            return refuse(parts, Refusal::Busy("Too many calls"));
        };
        if request.method() == Method::Invite {
            send_trying(parts, request, source, server);
        }
        let owner = Owner::Context(key);
        parts.transactions.set_server_owner(server, owner);
        let forwarded = forwarded(parts.settings, routing, (&targets, policy.as_deref()));
        let targets = (in_order(targets, parts.settings), forwarded);
        let held = (Some(server), account);
        let mut context = self.create(parts, inbound, held, routing, targets);
        context.policy = policy;
        if !routing.in_our_dialog() {
            context.dialog = Relation::Creates(call);
            context.routes.call = self.calls.number(call);
        }
        context.expect_challenge(parts, &self.calls);
        self.begin(parts, key, context, request);
    }

    /// Forwards an ACK to a 2xx, which has no transaction (section 16.6, last paragraphs). Without `target`, the ACK
    /// follows its Route or Request-URI. It gets a context only if it must wait for a name to be resolved.
    pub fn forward_ack(
        &mut self,
        parts: &mut WorkerParts<'_>,
        inbound: Inbound<'_, '_>,
        routing: &Routing,
        target: Option<Target>,
    ) {
        let ack = inbound.request;
        let target = target.unwrap_or_else(|| Target {
            uri: routing
                .request_uri
                .as_deref()
                .unwrap_or_else(|| ack.request_uri())
                .into(),
            q: 1000,
            route: Box::default(),
            next_hop: None,
            listener: None,
            flow: routing.flow,
            is_owned: false,
            instance: 0,
        });
        self.unacknowledged.acknowledged(ack);
        if let Some(dialog) = routing.dialog {
            let keys = Keys::of(ack, dialog.call, &parts.shared.hasher);
            if dialog.is_call {
                self.calls.look_for(parts, (keys, dialog.call), ack);
            }
            self.calls.acknowledged(keys);
        }
        let routes = RouteSet::new(routing, ack, &parts.settings.listeners);
        let listeners = &parts.settings.listeners;
        let sent = target
            .hop(&routes, listeners)
            .and_then(|hop| match hop.way {
                Way::Address(remote) => {
                    let copy = RequestCopy::new(parts, inbound, &target, &routes, &hop, remote)?;
                    forward::send_ack(parts, &mut self.scratch, &copy);
                    Ok(true)
                }
                Way::Name(_) => Ok(false),
            });
        match sent {
            Ok(true) => {}
            Ok(false) => self.park_ack(parts, inbound, routing, target),
            Err(_) => parts.metrics.dropped(DropReason::NoTarget),
        }
    }

    /// Creates a context for an ACK whose next hop is a name.
    fn park_ack(
        &mut self,
        parts: &mut WorkerParts<'_>,
        inbound: Inbound<'_, '_>,
        routing: &Routing,
        target: Target,
    ) {
        let origin = Origin::new(parts, inbound.source);
        let (live, limit) = (self.contexts.len(), parts.settings.limits.response_contexts);
        let sender = Sender::Established(origin.sender.source());
        let entered = parts
            .transactions
            .ledger()
            .enter(Table::Contexts, sender, live, limit);
        let Ok(account) = entered else {
            return parts.metrics.refused_full.increment();
        };
        let key = self.contexts.reserve();
        let held = (None, account);
        let targets = (vec![target], Forwarded::default());
        let context = self.create(parts, inbound, held, routing, targets);
        self.begin(parts, key, context, inbound.request);
    }

    /// Handles a response for one of our client transactions.
    pub fn receive_response(
        &mut self,
        parts: &mut WorkerParts<'_>,
        event: ClientResponse<Owner>,
        response: &Message<'_>,
        from: IpAddr,
    ) {
        if matches!(
            event.owner,
            Owner::Dialog(_) | Owner::Probe(_) | Owner::Registration(_)
        ) {
            return;
        }
        let Some((key, place, mut context)) = self.take(event.owner) else {
            return self.late_response(parts, event, response, from);
        };
        if context
            .branches
            .get(usize::from(place))
            .and_then(|branch| branch.client)
            == Some(event.id)
        {
            let scope = &mut self.scope(parts, key);
            if !context.take_to_wait(scope, place, (response, from)) {
                self.process(parts, key, &mut context, place, (response, from));
            }
        }
        self.settle(parts, key, context);
    }

    /// Processes a response that need not wait, or no longer.
    fn process(
        &mut self,
        parts: &mut WorkerParts<'_>,
        key: ContextId,
        context: &mut Context,
        place: u8,
        (response, from): (&Message<'_>, IpAddr),
    ) {
        let has_passed = context.receive(&mut self.scope(parts, key), place, (response, from));
        if has_passed && context.is_invite {
            context.note_success();
            self.unacknowledged.answered(parts, response);
            if context.cancelled_by == Some(Ended::ByOperator) {
                self.calls.hang_up_cancelled(parts, context.dialog.call());
            }
        }
    }

    /// Continues with a response that waited for its session description, and with those behind it.
    pub(crate) fn described(
        &mut self,
        parts: &mut WorkerParts<'_>,
        ticket: ResponseId,
        result: Result<Description, NotDescribed>,
    ) {
        let ResponseId {
            context: key,
            number,
        } = ticket;
        let Some(mut context) = self.contexts.take(key) else {
            return;
        };
        let body = match result {
            Ok(Description::Replace(body)) => Some(body),
            Ok(Description::Keep) | Err(NotDescribed) => None,
        };
        if let Some(response) = context.answered(&mut self.scope(parts, key), number) {
            let response = match body {
                Some(body) => response.with_body(&body),
                None => response,
            };
            self.release(parts, key, &mut context, response, true);
        }
        self.settle(parts, key, context);
    }

    /// Processes a response that has waited, and those behind it up to one that the control plane must see. Without `asks`, all of
    /// them: the control plane has just missed a deadline, and the callee repeats a 2xx for 64*T1 only.
    fn release(
        &mut self,
        parts: &mut WorkerParts<'_>,
        key: ContextId,
        context: &mut Context,
        response: WaitingResponse,
        asks: bool,
    ) {
        let mut next = Some(response);
        while let Some(WaitingResponse {
            place, from, bytes, ..
        }) = next
        {
            if let Ok(response) = Message::parse(&bytes) {
                self.process(parts, key, context, place, (&response, from));
            }
            self.proceed(parts, key, context);
            next = context.next_waiting(&mut self.scope(parts, key), asks);
        }
    }

    /// Handles a response that matches no client transaction. It is forwarded if its request had none, or if it proves that a node with our
    /// secret forwarded its request. Any other response is dropped and counted.
    pub fn receive_stray(
        &mut self,
        parts: &mut WorkerParts<'_>,
        response: &Message<'_>,
        from: IpAddr,
    ) {
        if !stateless::receive(parts, response, from) {
            self.receive_unknown(parts, response, from);
        }
    }

    /// Handles a response that its client transaction has absorbed: a retransmission, or a 2xx to an INVITE after a failure. Forwarded are the
    /// 2xx and, in a fleet, what may answer another node.
    pub fn receive_absorbed(
        &mut self,
        parts: &mut WorkerParts<'_>,
        response: &Message<'_>,
        from: IpAddr,
    ) {
        if upstream::is_acceptance(response)
            || upstream::is_answer_for_another_node(parts, response)
        {
            self.receive_unknown(parts, response, from);
        } else {
            parts.metrics.dropped(DropReason::StrayResponse);
        }
    }

    /// Handles a client transaction that ended without a final response: Timer B or Timer F fired, or a cancelled
    /// INVITE was not answered.
    pub fn client_timeout(&mut self, parts: &mut WorkerParts<'_>, id: ClientId, owner: Owner) {
        let Some((key, place, mut context)) = self.take(owner) else {
            return;
        };
        match context.state_of(place, id) {
            None | Some(BranchState::Ended) => {}
            Some(state) => {
                let scope = &mut self.scope(parts, key);
                if context.is_invite {
                    if state == BranchState::Calling {
                        context.mark_failed(scope, place, TargetFailure::Silent);
                    }
                } else {
                    if state != BranchState::Calling {
                        context.drop_other_candidates(place);
                    }
                    // The sender has given up, too. Another gateway would deliver what was delivered already.
                    context.leave_gateway(scope.parts.now);
                }
                context.fail_branch(scope, place, Failure::Timeout);
            }
        }
        self.settle(parts, key, context);
    }

    /// Handles a request of a client transaction that was not delivered: it could not be sent, an ICMP error came back,
    /// or its connection broke (sections 16.9 and 18.4). The branch fails as if the next hop had answered 503, and the
    /// transaction ends. If any response other than 100 has been received, the report is ignored.
    ///
    /// For a datagram, an ICMP error is only a hint (RFC 1122 section 3.2.2.1): a server that restarts is soon
    /// reachable again. If there is nothing else to try, a request other than INVITE is therefore still retransmitted.
    /// An INVITE fails, because its caller waits, unless its next hop is an edge that may restart: the phone may have had an earlier copy, and only
    /// this edge leads to it.
    pub fn client_unreachable(&mut self, parts: &mut WorkerParts<'_>, id: ClientId, owner: Owner) {
        let Some((key, place, mut context)) = self.take(owner) else {
            return;
        };
        let state = context.state_of(place, id);
        let flow = parts.transactions.client_flow(id);
        let failure = if flow.is_some_and(|flow| flow.connection.is_some()) {
            Failure::Gone
        } else {
            Failure::Unreachable
        };
        let is_unheard = match state {
            Some(BranchState::Calling | BranchState::Trying) => true,
            // The connection is gone, so the INVITE was never sent.
            Some(BranchState::Cancelling { .. }) => failure == Failure::Gone,
            _ => false,
        };
        if is_unheard {
            let contact = flow.and_then(|flow| {
                let request = parts.transactions.client_request(id)?;
                Target::without_flow(request, flow, &parts.settings.listeners)
            });
            let is_datagram = flow.is_some_and(|flow| {
                let listener = parts.settings.listeners.get(usize::from(flow.listener.0));
                listener.is_some_and(|listener| !listener.protocol.is_reliable())
            });
            let request = parts.transactions.client_request(id);
            let bytes = request.map_or(0, <[u8]>::len);
            let leads_to_edge = request.is_some_and(|it| edge::comes_next(parts.settings, it));
            let may_restart =
                flow.is_some_and(|flow| !parts.shared.edges.has_ended(flow.remote, parts.now));
            let scope = &mut self.scope(parts, key);
            context.mark_unreachable(scope, place, is_datagram);
            if is_datagram && bytes > LARGEST_DATAGRAM {
                context.excuse_gateway(scope.parts.now);
            }
            let must_fail = context.is_invite && !(leads_to_edge && may_restart);
            if !is_datagram || must_fail || context.has_other(scope, place) {
                scope.parts.transactions.abandon_client(id);
                context.fail_branch(scope, place, failure);
                context.try_contact(place, contact);
            }
        }
        self.settle(parts, key, context);
    }

    /// Handles a CANCEL that matched this server transaction: the caller gave up (section 16.10). The pipeline answers
    /// the CANCEL.
    pub fn cancel(&mut self, parts: &mut WorkerParts<'_>, server: ServerId, cancel: &Message<'_>) {
        let Some((key, _, mut context)) = parts
            .transactions
            .server_owner(server)
            .and_then(|owner| self.take(owner))
        else {
            return;
        };
        if context.is_invite && context.server == Some(server) {
            let reason = reason::of_request(cancel);
            if context.cancelled_by.is_none() {
                context.cancelled_by = Some(Ended::ByCaller);
                self.calls.note_reason(parts, context.dialog.call(), cancel);
            }
            context.cancel_pending(&mut self.scope(parts, key), &reason);
        }
        self.settle(parts, key, context);
    }

    /// Continues a branch that was parked on a name. `result` holds the candidates, best first.
    pub fn resolved(
        &mut self,
        parts: &mut WorkerParts<'_>,
        branch: BranchId,
        result: Result<Vec<Candidate>, NameServersFailed>,
    ) {
        let BranchId {
            context: key,
            place,
        } = branch;
        let Some(mut context) = self.contexts.take(key) else {
            return;
        };
        let is_waiting = context
            .branches
            .get(usize::from(place))
            .is_some_and(|branch| branch.state == BranchState::Resolving);
        if is_waiting && let Some(bytes) = context.request.take() {
            let scope = &mut self.scope(parts, key);
            match (Message::parse(&bytes), result) {
                (Ok(request), Ok(candidates)) => {
                    context.resolved(scope, &request, place, candidates);
                }
                _ => context.fail_branch(scope, place, Failure::Unresolved),
            }
            context.request = (!context.is_concluded).then_some(bytes);
        }
        self.settle(parts, key, context);
    }

    /// Handles Timer C and the other deadlines that are due.
    pub fn expire(&mut self, parts: &mut WorkerParts<'_>) {
        self.recount(parts);
        self.unacknowledged.expire(parts.now);
        self.calls.expire(parts);
        while let Some(deadline) = self.wheel.pop_due(parts.now) {
            let (Deadline::Branch(BranchId { context: key, .. })
            | Deadline::Waiting(key)
            | Deadline::NoAnswer(key)) = deadline;
            let Some(mut context) = self.contexts.take(key) else {
                continue;
            };
            let scope = &mut self.scope(parts, key);
            match deadline {
                Deadline::Branch(branch) => context.expire(scope, branch.place),
                Deadline::NoAnswer(_) => context.no_answer(scope),
                Deadline::Waiting(_) => {
                    if let Some(response) = context.waiting_timer(scope) {
                        self.release(parts, key, &mut context, response, false);
                    }
                }
            }
            self.settle(parts, key, context);
        }
    }

    /// Restores a dialog that an earlier run of the program has recorded, if `is_home` accepts its Call-ID and its life is not over.
    pub(crate) fn restore(
        &mut self,
        parts: &mut WorkerParts<'_>,
        state: &[u8],
        is_home: impl FnOnce(&[u8]) -> bool,
    ) -> bool {
        self.calls.restore(parts, state, is_home).is_some()
    }

    /// Installs a dialog that another node has recorded, if `is_home` accepts its Call-ID.
    pub(crate) fn adopt(
        &mut self,
        parts: &mut WorkerParts<'_>,
        state: &[u8],
        is_home: impl FnOnce(&[u8]) -> bool,
    ) -> bool {
        self.calls.adopt(parts, state, is_home)
    }

    /// Reports the dialog of a request to the control plane if it is not here. Returns whether it has just been reported.
    pub(crate) fn look_for(
        &mut self,
        parts: &mut WorkerParts<'_>,
        request: &Message<'_>,
        call: u32,
    ) -> bool {
        let keys = Keys::of(request, call, &parts.shared.hasher);
        self.calls.look_for(parts, (keys, call), request)
    }

    /// Drops a dialog that another node has adopted.
    pub(crate) fn disown(&mut self, parts: &mut WorkerParts<'_>, id: u128, key: u64) -> bool {
        self.calls.disown(parts, id, key)
    }

    /// Whether this process has run for longer than a request lasts.
    fn has_run_for_long(&self, parts: &WorkerParts<'_>) -> bool {
        let longest = parts.settings.proxy.timer_c + parts.settings.timers.t1 * 128;
        parts.now.saturating_since(self.since) > longest
    }

    /// Returns when to call `expire` next.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.wheel.next_deadline(),
            self.calls.next_deadline(),
            self.unacknowledged.next_deadline(),
            self.recount.map(|recount| recount.since),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Sets whether the node accepts no new calls. It then waits for the ACKs of the calls that are answered.
    pub fn drain(&mut self, drain: bool) {
        self.unacknowledged.drain(drain);
    }

    /// Number of calls that were answered while the node drains and still wait for their ACK.
    pub fn unacknowledged(&self) -> usize {
        self.unacknowledged.len()
    }

    /// Counts of response contexts.
    pub fn stats(&self) -> ProxyStats {
        self.stats
    }

    /// Counts of dialogs.
    pub fn dialog_stats(&self) -> DialogStats {
        self.calls.stats()
    }

    /// Counts of remote targets that have changed.
    pub fn refreshed_stats(&self) -> RefreshedStats {
        self.refreshed.stats()
    }

    /// Takes out the context that a transaction belongs to, and says for which branch; of a server transaction: the first.
    fn take(&mut self, owner: Owner) -> Option<(ContextId, u8, Box<Context>)> {
        let (key, place) = match owner {
            Owner::Context(key) => (key, 0),
            Owner::Branch(key, place) => (key, place),
            Owner::Dialog(_) | Owner::Probe(_) | Owner::Registration(_) => return None,
        };
        Some((key, place, self.contexts.take(key)?))
    }

    fn scope<'t, 'r>(
        &'t mut self,
        parts: &'t mut WorkerParts<'r>,
        key: ContextId,
    ) -> ContextScope<'t, 'r> {
        ContextScope {
            parts,
            wheel: &mut self.wheel,
            scratch: &mut self.scratch,
            refreshed: &mut self.refreshed,
            calls: &mut self.calls,
            key,
        }
    }

    fn create(
        &mut self,
        parts: &mut WorkerParts<'_>,
        Inbound {
            request,
            source,
            client,
            ..
        }: Inbound<'_, '_>,
        (server, account): (Option<ServerId>, Account),
        routing: &Routing,
        (targets, forwarded): (Vec<Target>, Forwarded),
    ) -> Box<Context> {
        self.stats.created += 1;
        self.stats.live += 1;
        parts.metrics.response_contexts_created.increment();
        let dialog = InDialog::new(request, routing, parts, &mut self.calls);
        Box::new(Context {
            server,
            account,
            counted: 0,
            source,
            client,
            received: parts.arrived,
            request: None,
            routes: RouteSet::new(routing, request, &parts.settings.listeners),
            dialog: dialog.map_or(Relation::Creates(DialogId::NONE), Relation::Inside),
            suffix: return_path::suffix(
                &parts.shared.hasher,
                request,
                source.remote,
                forwarded,
                &mut self.scratch,
            ),
            breadth: breadth::incoming(request),
            branches: SmallVec::new(),
            targets,
            policy: None,
            retry: None,
            best: None,
            waiting: None,
            questions: 0,
            method: request.method().label_index() as u8,
            is_invite: request.method() == Method::Invite,
            cancelled_by: None,
            is_concluded: false,
        })
    }

    /// Starts the first group of targets. The request is stored only if the context outlives this call.
    fn begin(
        &mut self,
        parts: &mut WorkerParts<'_>,
        key: ContextId,
        mut context: Box<Context>,
        request: &Message<'_>,
    ) {
        context.proceed(&mut self.scope(parts, key), request);
        if !context.is_concluded {
            context.request = Some(context.keep(request));
        }
        self.put_or_end(parts, key, context);
    }

    /// Continues a context after an event: takes the next steps that are possible, and ends a context that is finished.
    fn settle(&mut self, parts: &mut WorkerParts<'_>, key: ContextId, mut context: Box<Context>) {
        self.proceed(parts, key, &mut context);
        context.linger(&mut self.scope(parts, key));
        self.put_or_end(parts, key, context);
    }

    /// Takes the next steps of a context that are possible.
    fn proceed(&mut self, parts: &mut WorkerParts<'_>, key: ContextId, context: &mut Context) {
        if context.wants_request() {
            let bytes = context.request.take().unwrap_or_default();
            match Message::parse(&bytes) {
                Ok(request) => context.proceed(&mut self.scope(parts, key), &request),
                // The bytes parsed when they were received, so this never happens. If it did, the context must still
                // end.
                Err(_) => context.is_concluded = true,
            }
            context.request = (!context.is_concluded).then_some(bytes);
        }
    }

    /// Reserves a slot for a context and charges it to the account of its server transaction.
    fn reserve(&mut self, parts: &mut WorkerParts<'_>, account: Account) -> Option<ContextId> {
        let (live, limit) = (self.contexts.len(), parts.settings.limits.response_contexts);
        let ledger = parts.transactions.ledger();
        ledger.join(Table::Contexts, account, live, limit).ok()?;
        Some(self.contexts.reserve())
    }

    /// Frees the slot of a context.
    fn release_slot(&mut self, parts: &mut WorkerParts<'_>, key: ContextId, account: Account) {
        parts.transactions.ledger().leave(Table::Contexts, account);
        self.contexts.release(key);
    }

    /// Bytes that the contexts and the dialogs hold, counted one by one.
    pub fn count_bytes(&self) -> usize {
        let contexts: usize = self.contexts.iter().map(Context::bytes).sum();
        contexts + self.calls.count_bytes()
    }

    /// The calls that hold places in limits, counted one by one. All dialogs of a call share them.
    pub fn count_calls_with_places(&self) -> usize {
        let holds = |context: &&Context| {
            let policy = context.policy.as_deref();
            policy.is_some_and(CallPolicy::holds_places)
        };
        self.contexts.iter().filter(holds).count() + self.calls.count_places()
    }

    fn put_or_end(
        &mut self,
        parts: &mut WorkerParts<'_>,
        key: ContextId,
        mut context: Box<Context>,
    ) {
        let before = std::mem::take(&mut context.counted) as usize;
        let is_over = context.is_over();
        if is_over {
            context.leave_gateway(parts.now);
            self.leave_call(parts, &context);
        }
        let ledger = parts.transactions.ledger();
        if is_over {
            ledger.hold(context.account, before, 0);
            self.release_slot(parts, key, context.account);
            self.stats.ended += 1;
            self.stats.live -= 1;
            parts.metrics.response_contexts_ended.increment();
        } else {
            let bytes = context.bytes();
            ledger.hold(context.account, before, bytes);
            context.counted = bytes as u32;
            self.contexts.put(key, context);
        }
    }

    /// Leaves the dialog of an INVITE whose context ends. Further 2xx find it through the server transaction.
    fn leave_call(&mut self, parts: &mut WorkerParts<'_>, context: &Context) {
        let call = context.dialog.call();
        self.calls.failed(parts, call, 0, context.cancelled_by);
        if let Some(server) = context.server
            && self.calls.is_confirmed(call)
        {
            let owner = Owner::Dialog(call);
            parts.transactions.set_server_owner(server, owner);
        }
    }

    /// Handles a response from a client transaction whose context has ended. A 2xx to an INVITE is forwarded: it is a
    /// retransmission, or it comes late from a branch that was given up.
    fn late_response(
        &mut self,
        parts: &mut WorkerParts<'_>,
        event: ClientResponse<Owner>,
        response: &Message<'_>,
        from: IpAddr,
    ) {
        if !matches!(response.status(), 200..300) || response.method() != Method::Invite {
            return parts.metrics.dropped(DropReason::StrayResponse);
        }
        let passed = upstream::forward_statelessly(parts, response, Party::At(from));
        let Some((server, recorded)) = passed else {
            return;
        };
        if let Some(Owner::Dialog(call)) = parts.transactions.server_owner(server) {
            let accepted = Accepted {
                response,
                flow: parts.transactions.client_flow(event.id),
                recorded: Some(recorded),
                held: None,
            };
            self.calls.answered(parts, call, accepted);
        }
    }
}

/// What the branches of a request say about it. A challenge of a gateway in the middle of a dialog is not for the caller.
fn forwarded(
    settings: &Settings,
    routing: &Routing,
    (targets, policy): (&[Target], Option<&CallPolicy>),
) -> Forwarded {
    let is_inside = routing.in_our_dialog();
    let leads_on = policy.is_some_and(|it| it.route.is_some() || it.diversions.is_some());
    let may_be_challenged = is_inside && settings.policy.gateways.have_credentials();
    Forwarded {
        is_sole: targets.len() == 1 && !leads_on && !may_be_challenged,
        is_inside,
    }
}

/// The targets that a request is forwarded to, best last.
fn in_order(mut targets: Vec<Target>, settings: &Settings) -> Vec<Target> {
    targets.sort_by_key(|target| std::cmp::Reverse(target.q));
    targets.truncate(settings.proxy.max_targets.max(1));
    targets.reverse();
    targets
}
