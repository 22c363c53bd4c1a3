//! The path of a message through a worker. It begins in [`receive`]; [`request`] shows the order of the phases.
//!
//! ```text
//! datagram → banned? → keep-alive? → parse → ACK of a refusal? → sane? → stateless answer? → home?
//!   → transaction? (retransmission, ACK, CANCEL)
//!   → in a dialog of ours? its route set (another speaker? authenticate)
//!                        : routing rule → authenticate → { registrar | gateways | location | next hop } → limits → relay
//! response → ours? → home? → transaction → response context → upstream
//! ```
//!
//! A phase lets the request continue (`Ok`) or stops it. A stopped request is answered with a status, parked on a
//! question, or done.

use crate::identity::Identity;
use crate::metrics::{DropReason, Stage};
use crate::own_response::{
    Origin, Refusal, is_ack_of_ours, is_answerable, own_tag, respond, respond_to_truncated, send,
};
use crate::parked::ParkedRequest;
use crate::parking;
use crate::phase::policy::{self, Ruling};
use crate::phase::{
    Need, ResumeAt, Stop, authentication, blocklist, destination, edge, keep_alive, sanity,
    session_timer,
};
use crate::proxy::{Inbound, Onward};
use crate::registrar::Registration;
use crate::registrar::held::HeldAnswer;
use crate::routing::Routing;
use crate::worker::Worker;
use crate::{
    ControlMessage, DescribedId, Description, NotDescribed, Owner, ParkedId, description,
    named_servers, operator, probes, registrar, registrations,
};
use sip_message::{HeaderName, Message, Method, ParseError};
use sip_transaction::{ClientResponse, RequestMatch, ResponseMatch, Sender, ServerId};
use sip_transport::{Flow, Received, response_flow};

/// Receives a datagram, or one message of a stream.
pub(crate) fn receive(worker: &mut Worker<'_, '_>, received: Received<'_>) {
    let Received {
        flow,
        bytes,
        handed_over,
        ..
    } = received;
    if !handed_over && blocklist::is_banned(worker, flow) {
        return;
    }
    if keep_alive::is_empty(bytes) {
        worker.parts.metrics.dropped(DropReason::KeepAlive);
        return;
    }
    if keep_alive::is_stun(flow, bytes) {
        worker.parts.metrics.dropped(DropReason::KeepAlive);
        return keep_alive::answer_stun(&mut worker.parts, flow, bytes);
    }
    let parsed = Message::parse(bytes);
    let most_headers = worker.parts.settings.max_header_fields;
    let message = match &parsed {
        Ok(message) if message.header_count() <= most_headers => message,
        Ok(_) | Err(ParseError::TooManyHeaders) => {
            blocklist::note_malformed(&mut worker.parts, &received);
            worker.parts.metrics.dropped(DropReason::TooManyHeaders);
            let refusal = Refusal::Because(400, "Too many header fields");
            return respond_to_truncated(&mut worker.parts, flow, bytes, &refusal);
        }
        Err(_) => {
            blocklist::note_malformed(&mut worker.parts, &received);
            return worker.parts.metrics.dropped(DropReason::NotSip);
        }
    };
    if sanity::is_truncated(&worker.parts, message, flow) {
        let refusal = Refusal::Because(513, "Message Too Large");
        return respond_to_truncated(&mut worker.parts, flow, bytes, &refusal);
    }
    if !message.is_request() {
        return response(worker, flow, message, handed_over);
    }
    if blocklist::is_scanner(worker, message) {
        return;
    }
    let mut origin = Origin::of(&worker.parts, message, flow);
    if !handed_over && blocklist::is_client_banned(worker, &origin) {
        return;
    }
    count_request(worker, message, handed_over);
    let end = request(worker, message, &mut origin, handed_over);
    conclude(worker, message, &origin, end);
}

/// Handles a message that the worker sheds under overload.
///
/// A request of a new call gets the cheapest possible 503, even if it is malformed. A message of an existing transaction
/// is served as usual: it costs no more than a 503, and its sender must not get two different responses.
pub(crate) fn refuse(worker: &mut Worker<'_, '_>, received: Received<'_>) {
    let Received {
        flow,
        bytes,
        handed_over,
        ..
    } = received;
    if !handed_over && blocklist::is_banned(worker, flow) {
        return;
    }
    let parts = &worker.parts;
    let is_new = |request: &Message<'_>| {
        let key = parts.shared.hasher.server_transaction(request);
        key.is_some_and(|key| parts.transactions.find_server(key).is_none())
    };
    let request = Message::parse(bytes).ok().filter(|request| {
        is_answerable(request)
            && is_new(request)
            && (handed_over || worker.home_elsewhere(request).is_none())
    });
    let Some(request) = request else {
        return receive(worker, received);
    };
    if blocklist::is_scanner(worker, &request) {
        return;
    }
    let origin = Origin::of(&worker.parts, &request, flow);
    if !handed_over && blocklist::is_client_banned(worker, &origin) {
        return;
    }
    count_request(worker, &request, handed_over);
    respond(&mut worker.parts, &request, &origin, &Refusal::Overloaded);
}

fn count_request(worker: &Worker<'_, '_>, request: &Message<'_>, handed_over: bool) {
    let counters = &worker.parts.metrics.requests;
    if !handed_over && let Some(counter) = counters.get(request.method().label_index()) {
        counter.increment();
    }
}

/// The phases of a request, in order.
fn request(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    handed_over: bool,
) -> Result<(), Stop> {
    if is_ack_of_ours(&worker.parts, request) {
        // Only a transaction that sent the response statefully needs the ACK.
        hand_over_to_home(worker, request, origin.flow, handed_over)?;
        return match_transaction(worker, request, origin);
    }
    note_alias(worker, request, origin.flow);
    sanity::check(&worker.parts, request, origin.flow)?;
    edge::note_probe(&worker.parts, request, origin.flow);
    keep_alive::respond(&worker.parts, request, *worker.draining)?;
    hand_over_to_home(worker, request, origin.flow, handed_over)?;
    match_transaction(worker, request, origin)?;
    edge::leave_to_its_repetition(&worker.parts, request, origin.flow)?;
    let routing = worker.proxy.preprocess(request, &worker.parts);
    await_adoption(worker, request, origin.flow, &routing)?;
    if request.method() == Method::Ack {
        return forward_ack(worker, request, origin.flow, &routing);
    }
    if !routing.in_our_dialog() {
        refuse_while_draining(worker, request)?;
    }
    run_from(ResumeAt::Authenticate, worker, request, origin, &routing)
}

/// Drops a request over UDP whose dialog only another node can know: its target has changed since the dialog began. It is retransmitted, and the
/// dialog is adopted until then. If not, it gets a 481.
fn await_adoption(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    flow: Flow,
    routing: &Routing,
) -> Result<(), Stop> {
    let Some(call) = routing.unknown_target else {
        return Ok(());
    };
    let listener = worker
        .parts
        .settings
        .listeners
        .get(usize::from(flow.listener.0));
    let is_repeated = listener.is_some_and(|listener| !listener.protocol.is_reliable());
    let is_reported = worker.proxy.look_for(&mut worker.parts, request, call);
    if is_reported && is_repeated {
        return Err(Stop::Done);
    }
    Ok(())
}

/// Runs the stages that may need the control plane. A parked request resumes at the stage that parked it.
fn run_from(
    stage: ResumeAt,
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    routing: &Routing,
) -> Result<(), Stop> {
    match stage {
        ResumeAt::Authenticate if routing.in_our_dialog() => {
            relay_in_dialog(worker, request, origin, routing)
        }
        ResumeAt::Authenticate => {
            let ruling = Ruling::of(&worker.parts, request, origin, routing);
            authenticate_and_route(worker, request, origin, routing, ruling)
        }
        ResumeAt::Route(identity) => {
            let ruling = Ruling::of(&worker.parts, request, origin, routing);
            find_and_forward(worker, request, origin, routing, (&identity, ruling))
        }
        ResumeAt::Forward(onward, subscriber) => {
            forward(worker, request, origin, routing, onward, &subscriber)
        }
    }
}

/// Notes the port at which a peer wants to be called back over the connection that it opened (RFC 5923 section 8.1).
fn note_alias(worker: &mut Worker<'_, '_>, request: &Message<'_>, flow: Flow) {
    let is_ours = flow.connection.is_some() && flow.connection.worker() == worker.index;
    if let Some(via) = request.top_via().filter(|_| is_ours)
        && via.params.contains(b"alias")
    {
        let settings = worker.parts.settings;
        let listener = settings.listeners.get(usize::from(flow.listener.0));
        let default = listener.map_or(0, |listener| listener.protocol.default_port());
        let port = via.port.unwrap_or(default);
        worker.parts.output.alias(flow.connection, port);
    }
}

/// Handles a request outside dialogs, or one that does not prove its dialog. Routing rules, authentication and relay policy decide.
fn authenticate_and_route(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    routing: &Routing,
    ruling: Ruling<'_>,
) -> Result<(), Stop> {
    if authentication::is_registration(&worker.parts, request) {
        policy::admit_registration(&worker.parts, ruling)?;
        let address = authentication::registrant(&mut worker.parts, request, origin.from())?;
        worker.parts.output.proven(origin.flow.connection);
        register(worker, request, origin, &address);
        return Ok(());
    }
    if let Err(refusal) = policy::refuse(&worker.parts, ruling) {
        if !origin.is_stranger() {
            origin.server_transaction(&mut worker.parts, request)?;
        }
        return Err(refusal.into());
    }
    if !sanity::is_sip(request) && !ruling.leads_away() {
        return Err(Refusal::Status(416).into());
    }
    let client = origin.from();
    let identity =
        authentication::authenticate(&mut worker.parts, request, client, routing, ruling)?;
    if matches!(identity, Identity::Subscriber(_)) {
        worker.parts.output.proven(origin.flow.connection);
    }
    if routing.is_unproven {
        worker.parts.metrics.unproven.increment();
        return Err(Refusal::Status(481).into());
    }
    if matches!(identity, Identity::Subscriber(_) | Identity::Peer) {
        origin.prove(&mut worker.parts, Sender::Known)?;
    }
    let needs_no_state = ruling.is_stateless() && identity == Identity::Peer;
    if !origin.is_stranger() && !needs_no_state {
        // A refusal needs the transaction too. Otherwise a retransmission is judged again and might be accepted after its
        // sender was told that the request failed. Strangers are refused without a transaction, because they could fill
        // the table.
        origin.server_transaction(&mut worker.parts, request)?;
    }
    policy::redirect(request, origin, ruling)?;
    find_and_forward(worker, request, origin, routing, (&identity, ruling))
}

/// Looks up where a request outside dialogs goes, and forwards the request if the limits admit it.
fn find_and_forward(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    routing: &Routing,
    (identity, ruling): (&Identity, Ruling<'_>),
) -> Result<(), Stop> {
    if ruling.is_stateless() {
        return forward_without_state(worker, request, origin, routing, (identity, ruling));
    }
    let mut onward = policy::find(&worker.parts, request, routing, identity, ruling)?;
    if policy::claims_dialog(&worker.parts, request, &onward) {
        worker.parts.metrics.unproven.increment();
        return Err(Refusal::Status(481).into());
    }
    check_session_interval(worker, request, origin)?;
    let permits = policy::admit(&worker.parts, request, origin.from(), identity, ruling)?;
    if let Some(permits) = permits {
        onward = onward.with_permits(permits);
    }
    let subscriber: &[u8] = match identity {
        Identity::Subscriber(address) => address,
        _ => b"",
    };
    describe_and_forward(worker, request, origin, routing, onward, subscriber)?;
    if request.method() == Method::Invite && matches!(identity, Identity::Subscriber(_)) {
        worker.parts.record(Stage::Invite);
    }
    Ok(())
}

/// Forwards a request without a transaction, as its rule says. Only trusted peers need none: an unproven sender could make the next hop
/// answer a forged address, and the CANCEL of a subscriber proves nothing. Their requests get a transaction, but no dialog. So does a
/// request to a server whose address is not known yet.
fn forward_without_state(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    routing: &Routing,
    (identity, ruling): (&Identity, Ruling<'_>),
) -> Result<(), Stop> {
    let onward = policy::find(&worker.parts, request, routing, identity, ruling)?;
    if request.method() == Method::Invite {
        policy::charge(&worker.parts, ruling)?;
    }
    if *identity == Identity::Peer && origin.server.is_none() {
        let inbound = Inbound::new(request, origin.flow).from_client(origin.client);
        let sent = worker.proxy.forward_statelessly(
            &mut worker.parts,
            inbound,
            routing,
            &onward,
            worker.servers,
        );
        if sent.map_err(|failure| Refusal::Because(failure.status(), failure.reason()))? {
            return Ok(());
        }
    }
    forward(worker, request, origin, routing, onward, b"")
}

/// Forwards a CANCEL, or an ACK that belongs to no transaction and no dialog, if its rule forwarded the INVITE without a transaction
/// (section 16.11). Returns whether it was sent.
fn follow_invite(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    flow: Flow,
    routing: &Routing,
) -> bool {
    let parts = &mut worker.parts;
    if !parts.settings.policy.rules.forward_statelessly() {
        return false;
    }
    let ruling = Ruling::of_follower(parts, request, flow, routing);
    if !ruling.is_stateless() || !ruling.trusts(parts.settings, flow) {
        return false;
    }
    let Ok(onward) = policy::find(parts, request, routing, &Identity::Peer, ruling) else {
        return false;
    };
    let inbound = Inbound::new(request, flow);
    let sent = worker
        .proxy
        .forward_statelessly(parts, inbound, routing, &onward, worker.servers);
    sent == Ok(true)
}

/// Forwards a CANCEL, or the ACK of a failure, to the targets that its INVITE must have had, if another node may have forwarded that. It
/// proves nothing about its sender, so it reaches no gateway and no other domain, unless its address is trusted. Returns whether it was sent.
fn follow_lost_invite(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    flow: Flow,
    routing: &Routing,
) -> bool {
    let parts = &mut worker.parts;
    if !parts.settings.dialogs.adopts {
        return false;
    }
    let onward = if routing.in_our_dialog() {
        vec![destination::in_dialog(request, routing)].into()
    } else {
        let ruling = Ruling::of_follower(parts, request, flow, routing);
        if ruling.is_answered() || ruling.is_stateless() {
            return false;
        }
        let identity = if ruling.trusts(parts.settings, flow) {
            Identity::Peer
        } else {
            Identity::Unproven
        };
        let Ok(onward) = policy::find(parts, request, routing, &identity, ruling) else {
            return false;
        };
        onward
    };
    let inbound = Inbound::new(request, flow);
    worker
        .proxy
        .follow_lost_invite(parts, inbound, routing, onward)
}

/// Rejects a request with a session interval that is too small.
fn check_session_interval(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
) -> Result<(), Stop> {
    if let Err(refusal) = session_timer::check(worker.parts.settings, request) {
        if !origin.is_stranger() {
            // In a dialog, the ACK of a refusal without a transaction would be forwarded to the peer.
            origin.server_transaction(&mut worker.parts, request)?;
        }
        return Err(refusal.into());
    }
    Ok(())
}

/// Forwards a request. Before that, the control plane sees the session description if it wants to.
fn describe_and_forward(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    routing: &Routing,
    onward: Onward,
    subscriber: &[u8],
) -> Result<(), Stop> {
    if description::is_asked_for(worker.parts.settings, request) {
        let resume_at = ResumeAt::Forward(onward, subscriber.into());
        return Err(Stop::Ask(Need::Description, resume_at));
    }
    forward(worker, request, origin, routing, onward, subscriber)
}

/// Forwards a request. From here on, the response context acts.
fn forward(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    routing: &Routing,
    onward: Onward,
    subscriber: &[u8],
) -> Result<(), Stop> {
    let server = origin.server_transaction(&mut worker.parts, request)?;
    let inbound = Inbound::new(request, origin.flow)
        .from_client(origin.client)
        .of(subscriber);
    worker
        .proxy
        .forward(&mut worker.parts, inbound, server, routing, onward);
    Ok(())
}

/// Turns the result of the phases into what the peer and the control plane see.
fn conclude(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &Origin,
    end: Result<(), Stop>,
) {
    match end {
        Ok(()) | Err(Stop::Done) => {}
        Err(Stop::Refuse(refusal)) => respond(&mut worker.parts, request, origin, &refusal),
        Err(Stop::Ask(need, resume_at)) => {
            if let Err(refusal) = parking::park(worker, request, *origin, need, resume_at) {
                respond(&mut worker.parts, request, origin, &refusal);
            }
        }
    }
}

/// Passes a message to the home of its call, the worker that its Call-ID selects. REGISTER belongs to no call and is
/// served where it arrives.
fn hand_over_to_home(
    worker: &mut Worker<'_, '_>,
    message: &Message<'_>,
    flow: Flow,
    handed_over: bool,
) -> Result<(), Stop> {
    if handed_over || authentication::is_registration(&worker.parts, message) {
        return Ok(());
    }
    let Some(home) = worker.home_elsewhere(message) else {
        return Ok(());
    };
    let arrived = worker.parts.arrived;
    worker
        .parts
        .output
        .hand_over(home, arrived, flow, message.bytes());
    Err(Stop::Done)
}

/// Matches a request to its transaction. Retransmissions and the ACK of a non-2xx end here. So does CANCEL, which acts on
/// the transaction of its INVITE.
fn match_transaction(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
) -> Result<(), Stop> {
    let parts = &mut worker.parts;
    let key = parts
        .shared
        .hasher
        .server_transaction(request)
        .ok_or(Refusal::Because(400, "Bad Via"))?;
    origin.key = Some(key);
    match parts.transactions.receive_request(
        parts.now,
        key,
        request.method(),
        request.bytes().len(),
        parts.output,
    ) {
        RequestMatch::Absorbed => Err(Stop::Done),
        RequestMatch::New if request.method() == Method::Cancel => {
            Err(cancel(worker, request, origin.flow))
        }
        RequestMatch::New => Ok(()),
    }
}

/// Section 16.10: only the sender of an INVITE may cancel it. A CANCEL cannot be challenged, so its source address must
/// be the same.
fn cancel(worker: &mut Worker<'_, '_>, request: &Message<'_>, flow: Flow) -> Stop {
    let transactions = &worker.parts.transactions;
    let invite = worker.parts.shared.hasher.cancelled_transaction(request);
    let server = invite.and_then(|key| transactions.find_server(key));
    if server.is_none() {
        let routing = worker.proxy.preprocess(request, &worker.parts);
        if follow_invite(worker, request, flow, &routing)
            || follow_lost_invite(worker, request, flow, &routing)
        {
            return Stop::Done;
        }
        return Refusal::Status(481).into();
    }
    let same_source = |server: &ServerId| {
        transactions
            .server_flow(*server)
            .is_some_and(|known| known.remote.ip() == flow.remote.ip())
    };
    let Some(server) = server.filter(same_source) else {
        return Refusal::Status(481).into();
    };
    match worker
        .parked
        .give_up(server, worker.parts.transactions.ledger())
    {
        Some(parked) => parking::refuse(worker, &parked, &Refusal::Status(487)),
        None => worker.proxy.cancel(&mut worker.parts, server, request),
    }
    Refusal::Okay.into()
}

/// Forwards an ACK that no transaction absorbed and that does not belong to a stateless response. It belongs to a 2xx and
/// follows the dialog, or it is dropped.
fn forward_ack(
    worker: &mut Worker<'_, '_>,
    ack: &Message<'_>,
    flow: Flow,
    routing: &Routing,
) -> Result<(), Stop> {
    let parts = &mut worker.parts;
    let is_impostor =
        has_other_identity(routing) && authentication::local_sender(parts.settings, ack).is_some();
    if !routing.in_our_dialog() && follow_invite(worker, ack, flow, routing) {
        return Err(Stop::Done);
    }
    let may_be_of_failure = ack.to().is_some_and(|to| to.tag().is_some());
    if !routing.in_our_dialog()
        && may_be_of_failure
        && follow_lost_invite(worker, ack, flow, routing)
    {
        return Err(Stop::Done);
    }
    let parts = &mut worker.parts;
    if !routing.in_our_dialog() || is_impostor {
        parts.metrics.dropped(DropReason::StrayAck);
        return Err(Stop::Done);
    }
    parts.output.proven(flow.connection);
    let target = destination::in_dialog(ack, routing);
    worker
        .proxy
        .forward_ack(parts, Inbound::new(ack, flow), routing, Some(target));
    Ok(())
}

/// Relays a request inside a dialog that this server record-routed. It follows the route set of the dialog.
///
/// The proof in the Route vouches for the request, and for its sender. But if From names another of our subscribers (RFC
/// 4916), that subscriber must authenticate. After a redirection from one subscriber to another, the callee speaks as the
/// first one and cannot authenticate as such. It can at least hang up.
fn relay_in_dialog(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    routing: &Routing,
) -> Result<(), Stop> {
    if has_other_identity(routing) && request.method() != Method::Bye {
        authentication::authenticate_sender(&mut worker.parts, request, origin.from())?;
    }
    destination::refuse_foreign_notify(&worker.parts, request, origin.from(), routing)?;
    worker.parts.output.proven(origin.flow.connection);
    let is_brief = request.method() == Method::Bye || request.body().is_empty();
    let sender = if is_brief {
        Sender::Brief
    } else {
        Sender::Established
    };
    origin.prove(&mut worker.parts, sender)?;
    let target = destination::in_dialog(request, routing);
    check_session_interval(worker, request, origin)?;
    let onward = vec![target].into();
    describe_and_forward(worker, request, origin, routing, onward, b"")
}

/// Whether the proof of a request belongs to a party other than the one in From.
fn has_other_identity(routing: &Routing) -> bool {
    routing
        .dialog
        .is_some_and(|dialog| dialog.has_other_identity)
}

/// Rejects new calls while the node drains. Existing calls continue, and so does what an edge of the fleet still sends: the 503 to its next
/// probe tells the edge to send new calls elsewhere, and the other nodes continue those that are in progress at the end.
fn refuse_while_draining(worker: &Worker<'_, '_>, request: &Message<'_>) -> Result<(), Stop> {
    if !*worker.draining {
        return Ok(());
    }
    let in_dialog = request.to().and_then(|to| to.tag()).is_some();
    if !in_dialog && !edge::has_forwarded(worker.parts.settings, request) {
        return Err(Refusal::Busy(keep_alive::GOING_DOWN).into());
    }
    Ok(())
}

fn register(worker: &mut Worker<'_, '_>, request: &Message<'_>, origin: &Origin, address: &[u8]) {
    let parts = &mut worker.parts;
    let rules = &parts.settings.registrar;
    let holds = rules.answer_when_saved
        || parts
            .shared
            .locations
            .is_behind(rules.longest_unsaved, parts.now);
    if holds && worker.held.is_full() {
        let refusal = Refusal::Busy("Registrations cannot be saved fast enough");
        return respond(parts, request, origin, &refusal);
    }
    let tag = own_tag(parts, request);
    worker.scratch.clear();
    let registration = Registration {
        request,
        flow: origin.flow,
        address,
        to_tag: &tag,
    };
    let status = registrar::register(&registration, parts.view(), worker.scratch);
    if status == 200 && origin.flow.connection.worker() == worker.index {
        worker
            .registered
            .note_binding(parts.shared, origin.flow, address);
    }
    let changes = request.values(HeaderName::Contact).next().is_some();
    if holds && changes && status == 200 {
        let via = request.top_via();
        let flow = via.map_or(origin.flow, |via| response_flow(origin.flow, &via));
        return worker.held.hold(HeldAnswer {
            save: parts.shared.locations.next_save(),
            flow,
            server: origin.server,
            received: origin.received,
            arrived: parts.arrived,
            bytes: worker.scratch.as_slice().into(),
        });
    }
    send(parts, request, origin, status, |into| {
        into.extend_from_slice(worker.scratch);
    });
    parts.record(Stage::Registration);
}

/// Handles a message of the control plane. A reply resumes what waited for it.
pub(crate) fn control(worker: &mut Worker<'_, '_>, message: ControlMessage) {
    match message {
        ControlMessage::Credentials { ticket, result } => {
            let ledger = worker.parts.transactions.ledger();
            let Some(parked) = worker.parked.take(ticket, ledger) else {
                return;
            };
            match result {
                Ok(_) => resume(worker, parked),
                Err(_) => parking::refuse(
                    worker,
                    &parked,
                    &Refusal::Because(500, "Subscriber data is not available"),
                ),
            }
        }
        ControlMessage::Resolved { ticket, result } if probes::is_of_probe(ticket) => {
            probes::resolved(worker, ticket, result);
        }
        ControlMessage::Resolved { ticket, result } if named_servers::is_of_server(ticket) => {
            named_servers::resolved(worker.servers, ticket, result);
        }
        ControlMessage::Resolved { ticket, result }
            if registrations::is_of_registration(ticket) =>
        {
            registrations::resolved(worker, ticket, result);
        }
        ControlMessage::Resolved { ticket, result } => {
            worker.proxy.resolved(&mut worker.parts, ticket, result);
        }
        ControlMessage::Described {
            ticket: DescribedId::Request(ticket),
            result,
        } => described(worker, ticket, result),
        ControlMessage::Described {
            ticket: DescribedId::Response(ticket),
            result,
        } => worker.proxy.described(&mut worker.parts, ticket, result),
        ControlMessage::Saved => worker.held.release(&mut worker.parts),
        ControlMessage::Drain(drain) => {
            *worker.draining = drain;
            worker.proxy.drain(drain);
            registrations::drain(worker, drain);
        }
        ControlMessage::Adopt { state } => {
            worker.adopt(&state);
        }
        ControlMessage::Disown { id, key } => {
            worker.proxy.disown(&mut worker.parts, id, key);
        }
        ControlMessage::Dialogs(request) => operator::answer(worker, &request),
        // The exchange has already replaced them.
        ControlMessage::Settings(_) | ControlMessage::Trace(_) => {}
    }
}

/// Continues a parked request with the session description that the control plane chose.
fn described(
    worker: &mut Worker<'_, '_>,
    ticket: ParkedId,
    result: Result<Description, NotDescribed>,
) {
    let ledger = worker.parts.transactions.ledger();
    let Some(mut parked) = worker.parked.take(ticket, ledger) else {
        return;
    };
    match result {
        Ok(Description::Keep) => {}
        Ok(Description::Replace(body)) if parked.replace_body(&body) => {}
        Ok(Description::Replace(_)) => {
            let refusal = Refusal::Because(500, "Session description is too long");
            return parking::refuse(worker, &parked, &refusal);
        }
        Err(NotDescribed) => {
            let refusal = Refusal::Because(503, "Media control is not available");
            return parking::refuse(worker, &parked, &refusal);
        }
    }
    resume(worker, parked);
}

/// Continues a parked request where it stopped. Subscriber data that it asked for is now in the cache.
fn resume(worker: &mut Worker<'_, '_>, parked: ParkedRequest) {
    let Ok(request) = Message::parse(&parked.bytes) else {
        return;
    };
    let mut origin = parked.origin;
    worker.parts.arrived = origin.received;
    let routing = worker.proxy.preprocess(&request, &worker.parts);
    let mut resume_at = parked.resume_at;
    if let ResumeAt::Forward(onward, subscriber) = &mut resume_at
        && request.method() == Method::Invite
        && !routing.in_our_dialog()
    {
        // The limits may have changed while it waited.
        onward.recount(&worker.parts, origin.client, subscriber);
    }
    let end = run_from(resume_at, worker, &request, &mut origin, &routing);
    conclude(worker, &request, &origin, end);
}

/// The phases of a response, in order.
fn response(worker: &mut Worker<'_, '_>, flow: Flow, response: &Message<'_>, handed_over: bool) {
    let parts = &mut worker.parts;
    if sanity::validate(parts, response, flow).is_err() {
        return parts.metrics.dropped(DropReason::MalformedResponse);
    }
    if hand_over_to_home(worker, response, flow, handed_over).is_err() {
        return;
    }
    let parts = &mut worker.parts;
    let class = usize::from(response.status() / 100).saturating_sub(1);
    parts
        .metrics
        .responses_received
        .get(class)
        .inspect(|counter| counter.increment());
    match parts
        .transactions
        .receive_response(parts.now, flow, response, parts.output)
    {
        ResponseMatch::Told(ClientResponse {
            owner: Owner::Probe(probe),
            ..
        }) => probes::answered(worker, probe, response),
        ResponseMatch::Told(ClientResponse {
            owner: Owner::Registration(registration),
            id,
        }) => registrations::answered(worker, registration, id, response),
        ResponseMatch::Told(event) => {
            worker
                .proxy
                .receive_response(parts, event, response, flow.remote.ip());
            let is_answer = matches!(response.status(), 200..300);
            if is_answer && response.method() == Method::Invite {
                parts.record(Stage::Answer);
            }
        }
        ResponseMatch::Absorbed => {
            worker
                .proxy
                .receive_absorbed(parts, response, flow.remote.ip());
        }
        ResponseMatch::Stray => {
            worker
                .proxy
                .receive_stray(parts, response, flow.remote.ip());
        }
        ResponseMatch::Forged => parts.metrics.dropped(DropReason::ForgedResponse),
    }
}
