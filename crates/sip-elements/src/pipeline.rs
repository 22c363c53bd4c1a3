//! The path of a message through a worker. It begins in [`receive`]; [`request`] shows the order of the phases.
//!
//! ```text
//! datagram → banned? → keep-alive? → parse → ACK of a refusal? → sane? → stateless answer? → home?
//!   → transaction? (retransmission, ACK, CANCEL)
//!   → in a dialog of ours? its route set (another speaker? authenticate) : authenticate → { registrar | location | next hop } → relay
//! response → ours? → home? → transaction → response context → upstream
//! ```
//!
//! A phase lets the request continue (`Ok`) or stops it. A stopped request is answered with a status, parked on a
//! question, or done.

use crate::answer::{
    Origin, Refusal, answer, answer_beginning, is_ack_of_ours, is_answerable, own_tag, send,
    send_trying,
};
use crate::exchange::Worker;
use crate::location::Binding;
use crate::metrics::{Drop, Stage};
use crate::parked::ParkedRequest;
use crate::phase::identity::Identity;
use crate::phase::{Need, Stop, destination, identity, keep_alive, kept_off, sanity};
use crate::proxy::Routing;
use crate::registered::Registered;
use crate::registrar::held::HeldAnswer;
use crate::{Answer, Question, Round, Shared, registrar};
use sip_message::{HeaderName, Host, Message, Method, ParseError, worker_hash};
use sip_transaction::{
    Account, Admission, Branch, Kind, RequestMatch, ResponseMatch, ServerId, Standing, Table,
};
use sip_transport::{Flow, Protocol, Received, response_flow};
use std::net::SocketAddr;

/// The maximum number of questions for one request: about the credentials, and whether the callee exists.
const MOST_QUESTIONS: u8 = 3;

/// Receives a datagram, or one message of a stream.
pub(crate) fn receive(worker: &mut Worker<'_, '_>, received: Received<'_>) {
    let Received {
        flow,
        bytes,
        handed_over,
        ..
    } = received;
    if !handed_over && kept_off::is_banned(worker, flow) {
        return;
    }
    if keep_alive::is_empty(bytes) {
        worker.round.metrics.dropped(Drop::KeepAlive);
        return;
    }
    if keep_alive::is_stun(flow, bytes) {
        worker.round.metrics.dropped(Drop::KeepAlive);
        return keep_alive::answer_stun(&mut worker.round, flow, bytes);
    }
    let parsed = Message::parse(bytes);
    let most_headers = worker.round.settings.max_header_fields;
    let message = match &parsed {
        Ok(message) if message.header_count() <= most_headers => message,
        Ok(_) | Err(ParseError::TooManyHeaders) => {
            kept_off::note_malformed(&worker.round, &received);
            worker.round.metrics.dropped(Drop::TooManyHeaders);
            let refusal = Refusal::Because(400, "Too many header fields");
            return answer_beginning(&mut worker.round, flow, bytes, &refusal);
        }
        Err(_) => {
            kept_off::note_malformed(&worker.round, &received);
            return worker.round.metrics.dropped(Drop::NotSip);
        }
    };
    if sanity::is_beginning(&worker.round, message, flow) {
        let refusal = Refusal::Because(513, "Message Too Large");
        return answer_beginning(&mut worker.round, flow, bytes, &refusal);
    }
    if !message.is_request() {
        return response(worker, flow, message, handed_over);
    }
    if kept_off::is_scanner(&worker.round, message) {
        return;
    }
    count_request(worker, message, handed_over);
    let mut origin = Origin::new(&worker.round, flow);
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
    if !handed_over && kept_off::is_banned(worker, flow) {
        return;
    }
    let round = &worker.round;
    let is_new = |request: &Message<'_>| {
        let key = round.shared.hasher.server_transaction(request);
        key.is_some_and(|key| round.transactions.find_server(key).is_none())
    };
    let request = Message::parse(bytes).ok().filter(|request| {
        is_answerable(request)
            && is_new(request)
            && (handed_over || home_elsewhere(worker, request).is_none())
    });
    let Some(request) = request else {
        return receive(worker, received);
    };
    if kept_off::is_scanner(&worker.round, &request) {
        return;
    }
    count_request(worker, &request, handed_over);
    let origin = Origin::new(&worker.round, flow);
    answer(&mut worker.round, &request, &origin, &Refusal::Overloaded);
}

fn count_request(worker: &Worker<'_, '_>, request: &Message<'_>, handed_over: bool) {
    let counters = &worker.round.metrics.requests;
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
    if is_ack_of_ours(&worker.round, request) {
        // Only a transaction that sent the response statefully needs the ACK.
        hand_over_to_home(worker, request, origin.flow, handed_over)?;
        return match_transaction(worker, request, origin);
    }
    note_alias(worker, request, origin.flow);
    sanity::check(&worker.round, request, origin.flow)?;
    keep_alive::answer(&worker.round, request)?;
    hand_over_to_home(worker, request, origin.flow, handed_over)?;
    match_transaction(worker, request, origin)?;
    let routing = worker.proxy.preprocess(request, &worker.round);
    if request.method() == Method::Ack {
        return forward_ack(worker, request, origin.flow, &routing);
    }
    if !routing.in_our_dialog() {
        refuse_while_draining(worker, request)?;
    }
    route(worker, request, origin, &routing)
}

/// Finds where the request goes. This part may need the control plane. It starts over when the answer arrives.
fn route(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    routing: &Routing,
) -> Result<(), Stop> {
    if routing.in_our_dialog() {
        relay_in_dialog(worker, request, origin, routing)
    } else {
        authenticate_and_route(worker, request, origin, routing)
    }
}

/// Notes the port at which a peer wants to be called back over the connection that it opened (RFC 5923 section 8.1).
fn note_alias(worker: &mut Worker<'_, '_>, request: &Message<'_>, flow: Flow) {
    let is_ours = flow.connection.is_some() && flow.connection.worker() == worker.index;
    if let Some(via) = request.top_via().filter(|_| is_ours)
        && via.params.contains(b"alias")
    {
        let settings = worker.round.settings;
        let listener = settings.listeners.get(usize::from(flow.listener.0));
        let default = listener.map_or(0, |listener| listener.protocol.default_port());
        let port = via.port.unwrap_or(default);
        worker.round.output.alias(flow.connection, port);
    }
}

/// Handles a request outside dialogs, or one that does not prove its dialog. Authentication and relay policy decide.
fn authenticate_and_route(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    routing: &Routing,
) -> Result<(), Stop> {
    if identity::is_registration(&worker.round, request) {
        let address = identity::registrant(&worker.round, request, origin.flow)?;
        worker.round.output.proven(origin.flow.connection);
        register(worker, request, origin, &address);
        return Ok(());
    }
    let identity = identity::authenticate(&worker.round, request, origin.flow, routing)?;
    if matches!(identity, Identity::Subscriber(_)) {
        worker.round.output.proven(origin.flow.connection);
    }
    if routing.is_unproven {
        worker.round.metrics.unproven.increment();
        return Err(Refusal::Status(481).into());
    }
    if matches!(identity, Identity::Subscriber(_) | Identity::Peer) {
        origin.prove(&mut worker.round, Standing::Known)?;
    }
    if !origin.is_stranger() {
        // A refusal needs the transaction too. Otherwise a retransmission is judged again and might be accepted after its
        // sender was told that the request failed. Strangers are refused without a transaction, because they could fill
        // the table.
        server_transaction(worker, request, origin)?;
    }
    let targets = destination::find(&worker.round, request, routing, &identity)?;
    let server = server_transaction(worker, request, origin)?;
    worker.proxy.forward(
        &mut worker.round,
        request,
        origin.flow,
        server,
        routing,
        targets,
    );
    if request.method() == Method::Invite && matches!(identity, Identity::Subscriber(_)) {
        worker.round.record(Stage::Invite);
    }
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
        Err(Stop::Refuse(refusal)) => answer(&mut worker.round, request, origin, &refusal),
        Err(Stop::Ask(need)) => {
            if let Err(refusal) = park(worker, request, *origin, need) {
                answer(&mut worker.round, request, origin, &refusal);
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
    if handed_over || identity::is_registration(&worker.round, message) {
        return Ok(());
    }
    let Some(home) = home_elsewhere(worker, message) else {
        return Ok(());
    };
    let arrived = worker.round.arrived;
    worker
        .round
        .output
        .hand_over(home, arrived, flow, message.bytes());
    Err(Stop::Done)
}

/// The home of a message's call, if that is another worker.
fn home_elsewhere(worker: &Worker<'_, '_>, message: &Message<'_>) -> Option<u16> {
    if worker.workers < 2 {
        return None;
    }
    let home = worker_hash(message.call_id().unwrap_or_default()) % u32::from(worker.workers);
    (home != u32::from(worker.index)).then_some(home as u16)
}

/// Matches a request to its transaction. Retransmissions and the ACK of a non-2xx end here. So does CANCEL, which acts on
/// the transaction of its INVITE.
fn match_transaction(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
) -> Result<(), Stop> {
    let round = &mut worker.round;
    let key = round
        .shared
        .hasher
        .server_transaction(request)
        .ok_or(Refusal::Because(400, "Bad Via"))?;
    origin.key = Some(key);
    match round.transactions.receive_request(
        round.now,
        key,
        request.method(),
        request.bytes().len(),
        round.output,
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
    let transactions = &worker.round.transactions;
    let invite = worker.round.shared.hasher.cancelled_transaction(request);
    let server = invite.and_then(|key| transactions.find_server(key));
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
        .give_up(server, worker.round.transactions.ledger())
    {
        Some(parked) => refuse_parked(worker, &parked, &Refusal::Status(487)),
        None => worker.proxy.cancel(&mut worker.round, server, request),
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
    let round = &mut worker.round;
    let is_impostor =
        speaks_for_another(routing) && identity::local_speaker(round.settings, ack).is_some();
    if !routing.in_our_dialog() || is_impostor {
        round.metrics.dropped(Drop::StrayAck);
        return Err(Stop::Done);
    }
    round.output.proven(flow.connection);
    let target = destination::in_dialog(ack, routing);
    worker
        .proxy
        .forward_ack(round, ack, flow, routing, Some(target));
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
    if speaks_for_another(routing) && request.method() != Method::Bye {
        identity::authenticate_speaker(&worker.round, request, origin.flow)?;
    }
    destination::refuse_foreign_notify(&worker.round, request, origin.flow, routing)?;
    worker.round.output.proven(origin.flow.connection);
    let is_brief = request.method() == Method::Bye || request.body().is_empty();
    let standing = if is_brief {
        Standing::Brief
    } else {
        Standing::Established
    };
    origin.prove(&mut worker.round, standing)?;
    let target = destination::in_dialog(request, routing);
    let server = server_transaction(worker, request, origin)?;
    worker.proxy.forward(
        &mut worker.round,
        request,
        origin.flow,
        server,
        routing,
        vec![target],
    );
    Ok(())
}

/// Whether the proof of a request belongs to a party other than the one in From.
fn speaks_for_another(routing: &Routing) -> bool {
    routing
        .dialog
        .is_some_and(|dialog| dialog.speaks_for_another)
}

/// Rejects new calls while the node drains. Existing calls continue.
fn refuse_while_draining(worker: &Worker<'_, '_>, request: &Message<'_>) -> Result<(), Stop> {
    let in_dialog = request.to().and_then(|to| to.tag()).is_some();
    if *worker.draining && !in_dialog {
        return Err(Refusal::Busy("Server is going down").into());
    }
    Ok(())
}

fn register(worker: &mut Worker<'_, '_>, request: &Message<'_>, origin: &Origin, address: &[u8]) {
    let round = &mut worker.round;
    let rules = &round.settings.registrar;
    let holds = rules.answer_when_saved
        || round
            .shared
            .locations
            .is_behind(rules.longest_unsaved, round.now);
    if holds && worker.held.is_full() {
        let refusal = Refusal::Busy("Registrations cannot be saved fast enough");
        return answer(round, request, origin, &refusal);
    }
    let tag = own_tag(round, request);
    worker.scratch.clear();
    let status = registrar::register(
        request,
        address,
        origin.flow,
        &tag,
        round.shared,
        round.settings,
        round.now,
        worker.scratch,
    );
    if status == 200 && origin.flow.connection.worker() == worker.index {
        note_registered(worker.registered, round.shared, origin.flow, address);
    }
    let changes = request.values(HeaderName::Contact).next().is_some();
    if holds && changes && status == 200 {
        let via = request.top_via();
        let flow = via.map_or(origin.flow, |via| response_flow(origin.flow, &via));
        return worker.held.hold(HeldAnswer {
            save: round.shared.locations.next_save(),
            flow,
            server: origin.server,
            received: origin.received,
            arrived: round.arrived,
            bytes: worker.scratch.as_slice().into(),
        });
    }
    send(round, request, origin, status, |into| {
        into.extend_from_slice(worker.scratch);
    });
    round.record(Stage::Registration);
}

/// Notes that a binding was made over a connection. The binding ends with the connection unless the phone is reachable in
/// another way.
fn note_registered(registered: &mut Registered, shared: &Shared, flow: Flow, address: &[u8]) {
    if flow.connection.is_some() {
        let locations = &shared.locations;
        registered.note(flow.connection, locations.key(address), locations.most());
    }
}

/// Ends the bindings that depended on a connection of this worker, after the connection has ended.
pub(crate) fn connection_ended(worker: &mut Worker<'_, '_>, flow: Flow) {
    let round = &mut worker.round;
    for key in worker.registered.take(flow.connection) {
        let settings = round.settings;
        let outlives = |binding: &Binding<'_>| destination::outlives_connection(settings, binding);
        let locations = &round.shared.locations;
        let ended = locations.end_connection(key, flow, round.now, outlives);
        round.metrics.bindings_disconnected.add(ended as u64);
    }
}

/// The request's server transaction. It is created now, unless the request got one when it was parked.
fn server_transaction(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
) -> Result<ServerId, Refusal> {
    if let Some(server) = origin.server {
        return Ok(server);
    }
    let round = &mut worker.round;
    let key = origin
        .key
        .or_else(|| round.shared.hasher.server_transaction(request))
        .ok_or(Refusal::Because(400, "Bad Via"))?;
    let kind = if request.method() == Method::Invite {
        Kind::Invite
    } else {
        Kind::NonInvite
    };
    let flow = request
        .top_via()
        .map_or(origin.flow, |via| response_flow(origin.flow, &via));
    let listener = round.settings.listeners.get(usize::from(flow.listener.0));
    let reliable = listener.is_some_and(|listener| listener.protocol.is_reliable());
    let server = round.transactions.admit_server(&Admission {
        key,
        kind,
        flow,
        reliable,
        standing: origin.standing,
        size: request.bytes().len(),
    })?;
    origin.server = Some(server);
    Ok(server)
}

/// Parks a request on a question. From now on it has a transaction, so that its retransmissions are absorbed.
fn park(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    mut origin: Origin,
    need: Need,
) -> Result<(), Refusal> {
    if origin.questions_asked >= MOST_QUESTIONS {
        return Err(Refusal::Because(500, "Subscriber data is not consistent"));
    }
    let is_new = origin.server.is_none();
    let server = server_transaction(worker, request, &mut origin)?;
    let round = &mut worker.round;
    let account = round.transactions.server_account(server);
    let account = account.unwrap_or(Account::KNOWN);
    let (live, limit) = (worker.parked.len(), round.settings.limits.parked_requests);
    let ledger = round.transactions.ledger();
    if ledger.join(Table::Parked, account, live, limit).is_err() {
        if is_new {
            round.transactions.abandon_server(server);
        }
        return Err(Refusal::Busy("Too many requests wait for subscriber data"));
    }
    if request.method() == Method::Invite {
        send_trying(round, request, origin.flow, server);
    }
    origin.questions_asked += 1;
    let parked = ParkedRequest {
        origin,
        bytes: request.bytes().into(),
        account,
    };
    let deadline = round.now + round.settings.question_deadline;
    let ticket = worker
        .parked
        .park(parked, deadline, round.transactions.ledger());
    let Need::Credentials { username, domain } = need;
    round.metrics.questions.increment();
    round.output.ask(Question::Credentials {
        ticket,
        username,
        domain,
    });
    Ok(())
}

/// Handles one of our own messages that could not be sent (section 18.4).
pub(crate) fn undeliverable(
    worker: &mut Worker<'_, '_>,
    flow: Flow,
    bytes: &[u8],
    handed_over: bool,
) {
    let listener = worker
        .round
        .settings
        .listeners
        .get(usize::from(flow.listener.0));
    if listener.is_some_and(|listener| listener.protocol == Protocol::Udp) {
        return returned(worker, flow, bytes, handed_over);
    }
    let Ok(message) = Message::parse(bytes) else {
        return;
    };
    if !handed_over && let Some(home) = home_elsewhere(worker, &message) {
        return worker.round.output.give_back(home, flow, bytes);
    }
    let round = &mut worker.round;
    if !message.is_request() {
        return answer_on_another_flow(round, flow, &message);
    }
    if let Some(failed) = round.transactions.client_that_sent(bytes) {
        worker
            .proxy
            .client_unreachable(round, failed.id, failed.owner);
    }
}

/// Handles an ICMP error for a datagram that this server sent (section 18.4). The error quotes the beginning of the datagram.
///
/// Any worker's socket may get the error. If the quote includes the Call-ID, it goes to the home of the call. Otherwise
/// the request waits for its timers. Only a quote with a genuine branch is passed to another worker.
fn returned(worker: &mut Worker<'_, '_>, flow: Flow, quote: &[u8], handed_over: bool) {
    let found = worker
        .round
        .transactions
        .client_unreached(flow.remote, quote);
    if let Some(failed) = found {
        let round = &mut worker.round;
        return worker
            .proxy
            .client_unreachable(round, failed.id, failed.owner);
    }
    if handed_over || worker.workers < 2 {
        return;
    }
    let Some(last_line) = quote.windows(2).rposition(|window| window == b"\r\n") else {
        return;
    };
    let lines = quote.get(..last_line).unwrap_or_default();
    let whole = [lines, b"\r\n\r\n"].concat();
    if let Ok(message) = Message::parse(&whole)
        && has_branch_of_ours(worker.round.shared, &message)
        && let Some(home) = home_elsewhere(worker, &message)
    {
        worker.round.output.give_back(home, flow, quote);
    }
}

/// Whether a message is a request that this server sent in this call. Its branch proves this.
fn has_branch_of_ours(shared: &Shared, message: &Message<'_>) -> bool {
    let branch = message
        .top_via()
        .and_then(|via| Branch::parse(via.branch()?));
    message.is_request()
        && message.call_id().is_some_and(|call_id| {
            branch.is_some_and(|branch| branch.is_genuine(&shared.hasher, call_id))
        })
}

/// Section 18.2.2: when the connection of a request is gone, the response goes to the address in its Via, unless the
/// sender is behind NAT.
fn answer_on_another_flow(round: &mut Round<'_>, flow: Flow, response: &Message<'_>) {
    let Some(via) = response.top_via() else {
        return;
    };
    let listener = round.settings.listeners.get(usize::from(flow.listener.0));
    let default_port = listener.map_or(0, |listener| listener.protocol.default_port());
    let remote = SocketAddr::new(flow.remote.ip(), via.port.unwrap_or(default_port));
    let is_open = matches!(via.host, Host::Address(ip) if ip == flow.remote.ip().to_canonical());
    if is_open && remote != flow.remote {
        round.output.send(Flow::to(flow.listener, remote), |into| {
            into.extend_from_slice(response.bytes());
        });
    }
}

/// Handles an answer of the control plane and resumes what waited for it.
pub(crate) fn answered(worker: &mut Worker<'_, '_>, answer: Answer) {
    match answer {
        Answer::Credentials { ticket, result } => {
            let ledger = worker.round.transactions.ledger();
            let Some(parked) = worker.parked.take(ticket, ledger) else {
                return;
            };
            match result {
                Ok(_) => resume(worker, &parked),
                Err(_) => refuse_parked(
                    worker,
                    &parked,
                    &Refusal::Because(500, "Subscriber data is not available"),
                ),
            }
        }
        Answer::Resolved { ticket, result } => {
            worker.proxy.resolved(&mut worker.round, ticket, result);
        }
        Answer::Saved => worker.held.release(&mut worker.round),
        Answer::Drain(drain) => {
            *worker.draining = drain;
            worker.proxy.drain(drain);
        }
        Answer::Settings(_) => {} // The exchange has already replaced its settings.
    }
}

/// Continues a parked request where it stopped. The data that it asked for is now in the cache.
fn resume(worker: &mut Worker<'_, '_>, parked: &ParkedRequest) {
    let Ok(request) = Message::parse(&parked.bytes) else {
        return;
    };
    let mut origin = parked.origin;
    worker.round.arrived = origin.received;
    let routing = worker.proxy.preprocess(&request, &worker.round);
    let end = route(worker, &request, &mut origin, &routing);
    conclude(worker, &request, &origin, end);
}

/// Refuses the parked requests whose deadline has passed.
pub(crate) fn expire_parked(worker: &mut Worker<'_, '_>) {
    while let Some(parked) = worker
        .parked
        .pop_expired(worker.round.now, worker.round.transactions.ledger())
    {
        worker.round.metrics.questions_expired.increment();
        refuse_parked(
            worker,
            &parked,
            &Refusal::Because(500, "Subscriber data did not arrive in time"),
        );
    }
}

fn refuse_parked(worker: &mut Worker<'_, '_>, parked: &ParkedRequest, refusal: &Refusal) {
    if let Ok(request) = Message::parse(&parked.bytes) {
        answer(&mut worker.round, &request, &parked.origin, refusal);
    }
}

/// The phases of a response, in order.
fn response(worker: &mut Worker<'_, '_>, flow: Flow, response: &Message<'_>, handed_over: bool) {
    let round = &mut worker.round;
    if sanity::validate(round, response, flow).is_err() {
        return round.metrics.dropped(Drop::MalformedResponse);
    }
    if hand_over_to_home(worker, response, flow, handed_over).is_err() {
        return;
    }
    let round = &mut worker.round;
    let class = usize::from(response.status() / 100).saturating_sub(1);
    round
        .metrics
        .responses_received
        .get(class)
        .inspect(|counter| counter.increment());
    match round
        .transactions
        .receive_response(round.now, flow, response, round.output)
    {
        ResponseMatch::Told(event) => {
            worker
                .proxy
                .receive_response(round, event, response, flow.remote.ip());
            let is_answer = matches!(response.status(), 200..300);
            if is_answer && response.method() == Method::Invite {
                round.record(Stage::Answer);
            }
        }
        ResponseMatch::Absorbed | ResponseMatch::Stray => {
            worker
                .proxy
                .receive_stray(round, response, flow.remote.ip());
        }
        ResponseMatch::Forged => round.metrics.dropped(Drop::ForgedResponse),
    }
}
