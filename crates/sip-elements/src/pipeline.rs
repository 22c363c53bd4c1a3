//! The whole way of a message through a worker. [`receive`] is where it begins, [`request`] shows the order of the phases.
//!
//! ```text
//! datagram → keep-alive? → parse → sane? → stateless answer? → home? → transaction? (retransmission, ACK, CANCEL)
//!   → in a dialog of ours? its route set : authenticate → { registrar | location | next hop } → relay
//! response → ours? → home? → transaction → response context → upstream
//! ```
//!
//! A phase goes on (`Ok`), or stops the request: answered with a status, parked on a question, or done with.

use crate::answer::{Origin, Refusal, answer, answer_beginning, own_tag, send, send_trying};
use crate::exchange::Worker;
use crate::metrics::Drop;
use crate::parked::ParkedRequest;
use crate::phase::identity::Identity;
use crate::phase::{Need, Stop, destination, identity, keep_alive, sanity};
use crate::proxy::{self, Routing};
use crate::{Answer, Question, Round, registrar};
use sip_message::{Host, Message, Method, ParseError, worker_hash};
use sip_transaction::{Kind, RequestMatch, ServerId};
use sip_transport::{Flow, response_flow};
use std::net::SocketAddr;

/// The most questions one request may cost: whose credentials are these, and does the callee exist.
const MOST_QUESTIONS: u8 = 3;

/// A datagram, or one message of a stream.
pub(crate) fn receive(worker: &mut Worker<'_, '_>, flow: Flow, bytes: &[u8], handed_over: bool) {
    if keep_alive::is_empty(bytes) {
        worker.round.metrics.dropped(Drop::KeepAlive);
        return;
    }
    if keep_alive::is_stun(flow, bytes) {
        worker.round.metrics.dropped(Drop::KeepAlive);
        return keep_alive::answer_stun(&mut worker.round, flow, bytes);
    }
    let parsed = Message::parse(bytes);
    let message = match &parsed {
        Ok(message) => message,
        Err(ParseError::TooManyHeaders) => {
            worker.round.metrics.dropped(Drop::TooManyHeaders);
            let refusal = Refusal::Because(400, "Too many header fields");
            return answer_beginning(&mut worker.round, flow, bytes, &refusal);
        }
        Err(_) => return worker.round.metrics.dropped(Drop::NotSip),
    };
    if sanity::is_beginning(&worker.round, message, flow) {
        let refusal = Refusal::Because(513, "Message Too Large");
        return answer_beginning(&mut worker.round, flow, bytes, &refusal);
    }
    if !message.is_request() {
        return response(worker, flow, message, handed_over);
    }
    if !handed_over {
        worker
            .round
            .metrics
            .requests
            .get(message.method().label_index())
            .inspect(|counter| counter.increment());
    }
    let mut origin = Origin {
        flow,
        key: None,
        server: None,
        received: worker.round.now,
        questions_asked: 0,
    };
    let end = request(worker, message, &mut origin, handed_over);
    conclude(worker, message, &origin, end);
}

/// The phases of a request, in order.
fn request(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    handed_over: bool,
) -> Result<(), Stop> {
    note_alias(worker, request, origin.flow);
    sanity::check(&worker.round, request, origin.flow)?;
    keep_alive::answer(&worker.round, request)?;
    hand_over_to_home(worker, request, origin.flow, handed_over)?;
    match_transaction(worker, request, origin)?;
    let routing = proxy::preprocess(request, &worker.round);
    if request.method() == Method::Ack {
        return forward_ack(worker, request, origin.flow, &routing);
    }
    if routing.in_our_dialog {
        return relay_in_dialog(worker, request, origin, &routing);
    }
    refuse_while_draining(worker, request)?;
    authenticate_and_route(worker, request, origin, &routing)
}

/// A peer that opened a connection may want to be called back over it (RFC 5923 section 8.1).
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

/// The part that may need the control plane, and begins again when the answer is there.
fn authenticate_and_route(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    routing: &Routing,
) -> Result<(), Stop> {
    let identity = identity::authenticate(&worker.round, request)?;
    if let Identity::Subscriber(address) = &identity
        && identity::is_registration(&worker.round, request)
    {
        register(worker, request, origin, address);
        return Ok(());
    }
    // A refusal needs the transaction too: judged anew, the retransmission of a refused request might get through, and its
    // sender would have been told that it had failed.
    let server = server_transaction(worker, request, origin)?;
    let targets = destination::find(&worker.round, request, routing, &identity)?;
    worker.proxy.forward(
        &mut worker.round,
        request,
        origin.flow,
        server,
        routing,
        targets,
    );
    Ok(())
}

/// Turns the end of a request's way into what the peer and the control plane see.
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

/// One call, one home: the worker that its Call-ID picks. REGISTER makes no call and is served where it arrives.
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
    worker.round.output.hand_over(home, flow, message.bytes());
    Err(Stop::Done)
}

/// The home of a message's call, where that is another worker.
fn home_elsewhere(worker: &Worker<'_, '_>, message: &Message<'_>) -> Option<u16> {
    if worker.workers < 2 {
        return None;
    }
    let home = worker_hash(message.call_id().unwrap_or_default()) % u32::from(worker.workers);
    (home != u32::from(worker.index)).then_some(home as u16)
}

/// Retransmissions and the ACK of a non-2xx end here; so does CANCEL, which acts on the transaction of its INVITE.
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
    match round
        .transactions
        .receive_request(round.now, key, request.method(), round.output)
    {
        RequestMatch::Absorbed => Err(Stop::Done),
        RequestMatch::New if request.method() == Method::Cancel => {
            Err(cancel(worker, request, origin.flow))
        }
        RequestMatch::New => Ok(()),
    }
}

/// Section 16.10. Only who sent the INVITE may cancel it; a CANCEL cannot be challenged, so its source must be the same.
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
    match worker.parked.give_up(server) {
        Some(parked) => refuse_parked(worker, &parked, &Refusal::Status(487)),
        None => worker.proxy.cancel(&mut worker.round, server),
    }
    Refusal::Okay.into()
}

/// An ACK that no transaction absorbed: it belongs to a 2xx and follows the dialog, or to a response that we gave
/// statelessly, or to nobody.
fn forward_ack(
    worker: &mut Worker<'_, '_>,
    ack: &Message<'_>,
    flow: Flow,
    routing: &Routing,
) -> Result<(), Stop> {
    let round = &mut worker.round;
    if !routing.in_our_dialog {
        let is_of_our_refusal = ack.to().and_then(|to| to.tag()) == Some(&own_tag(round, ack));
        if !is_of_our_refusal {
            round.metrics.dropped(Drop::StrayAck);
        }
        return Err(Stop::Done);
    }
    let target = destination::in_dialog(ack, routing);
    worker
        .proxy
        .forward_ack(round, ack, flow, routing, Some(target));
    Ok(())
}

/// A request inside a dialog that we record-routed follows its route set; the cookie in the Route vouches for it.
fn relay_in_dialog(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    origin: &mut Origin,
    routing: &Routing,
) -> Result<(), Stop> {
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

/// A draining node finishes its calls and takes no new ones.
fn refuse_while_draining(worker: &Worker<'_, '_>, request: &Message<'_>) -> Result<(), Stop> {
    let in_dialog = request.to().and_then(|to| to.tag()).is_some();
    if *worker.draining && !in_dialog {
        return Err(Refusal::Busy("Server is going down").into());
    }
    Ok(())
}

fn register(worker: &mut Worker<'_, '_>, request: &Message<'_>, origin: &Origin, address: &[u8]) {
    let round = &mut worker.round;
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
    send(round, request, origin, status, |into| {
        into.extend_from_slice(worker.scratch);
    });
}

/// The request's server transaction, begun now unless it has one from when it was parked.
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
    let server = round
        .transactions
        .create_server(round.now, key, kind, flow, reliable, 0)?;
    origin.server = Some(server);
    Ok(server)
}

/// Parks a request on a question. It has a transaction from now on, so that its retransmissions are absorbed.
fn park(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    mut origin: Origin,
    need: Need,
) -> Result<(), Refusal> {
    if origin.questions_asked >= MOST_QUESTIONS {
        return Err(Refusal::Because(500, "Subscriber data is not consistent"));
    }
    if worker.parked.len() >= worker.round.settings.limits.parked_requests {
        return Err(Refusal::Busy("Too many requests wait for subscriber data"));
    }
    let server = server_transaction(worker, request, &mut origin)?;
    let round = &mut worker.round;
    if request.method() == Method::Invite {
        send_trying(round, request, origin.flow, server);
    }
    origin.questions_asked += 1;
    let parked = ParkedRequest {
        origin,
        bytes: request.bytes().into(),
    };
    let deadline = round.now + round.settings.question_deadline;
    let ticket = worker
        .parked
        .park(parked, deadline, round.settings.limits.parked_requests)?;
    let Need::Credentials { username, domain } = need;
    round.metrics.questions.increment();
    round.output.ask(Question::Credentials {
        ticket,
        username,
        domain,
    });
    Ok(())
}

/// A message of ours that could not be sent (section 18.4).
pub(crate) fn undeliverable(
    worker: &mut Worker<'_, '_>,
    flow: Flow,
    bytes: &[u8],
    handed_over: bool,
) {
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

/// Section 18.2.2: where the connection of a request is gone, the response goes to where its Via says that the sender listens,
/// unless that is behind a translator.
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

/// An answer of the control plane: what waited for it goes on.
pub(crate) fn answered(worker: &mut Worker<'_, '_>, answer: Answer) {
    match answer {
        Answer::Credentials { ticket, result } => {
            let Some(parked) = worker.parked.take(ticket) else {
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
        Answer::Drain(drain) => {
            *worker.draining = drain;
            worker.proxy.drain(drain);
        }
        Answer::Settings(_) => {} // The exchange swaps them before it borrows itself apart.
    }
}

/// A parked request takes up its way where it stopped; what it asked for is in the cache now.
fn resume(worker: &mut Worker<'_, '_>, parked: &ParkedRequest) {
    let Ok(request) = Message::parse(&parked.bytes) else {
        return;
    };
    let mut origin = parked.origin;
    let routing = proxy::preprocess(&request, &worker.round);
    let end = authenticate_and_route(worker, &request, &mut origin, &routing);
    conclude(worker, &request, &origin, end);
}

/// The deadlines of parked requests.
pub(crate) fn expire_parked(worker: &mut Worker<'_, '_>) {
    while let Some(parked) = worker.parked.pop_expired(worker.round.now) {
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

/// The way of a response.
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
        .receive_response(round.now, response, round.output)
    {
        Some(event) => worker.proxy.receive_response(round, event, response),
        None => worker.proxy.receive_stray(round, response),
    }
}
