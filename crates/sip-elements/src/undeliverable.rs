//! Messages of ours that did not reach their peer: connections that broke, and ICMP errors (RFC 3261 section 18.4).

use crate::worker::Worker;
use crate::{Owner, Shared, WorkerParts, probes, registrations};
use sip_message::{Host, Message};
use sip_routing::gateway::Outcome;
use sip_transaction::{Branch, ClientResponse};
use sip_transport::{Flow, Protocol, Undelivered};
use std::net::SocketAddr;

/// Handles one of our own messages that could not be sent (section 18.4).
pub(crate) fn receive(worker: &mut Worker<'_, '_>, message: &Undelivered<'_>) {
    let Undelivered {
        flow,
        bytes,
        handed_over,
    } = *message;
    let listener = worker
        .parts
        .settings
        .listeners
        .get(usize::from(flow.listener.0));
    if listener.is_some_and(|listener| listener.protocol == Protocol::Udp) {
        return returned(worker, message);
    }
    let Ok(message) = Message::parse(bytes) else {
        return;
    };
    if !handed_over && let Some(home) = worker.home_elsewhere(&message) {
        return worker.parts.output.return_undeliverable(home, flow, bytes);
    }
    let parts = &mut worker.parts;
    if !message.is_request() {
        return answer_on_another_flow(parts, flow, &message);
    }
    if let Some(failed) = parts.transactions.client_that_sent(bytes) {
        client_failed(worker, &failed);
    }
}

/// Reports a request that was not delivered to the owner of its transaction.
fn client_failed(worker: &mut Worker<'_, '_>, failed: &ClientResponse<Owner>) {
    if let Owner::Probe(probe) = failed.owner {
        return probes::failed(worker, probe, Outcome::TransportError);
    }
    if let Owner::Registration(registration) = failed.owner {
        return registrations::failed(worker, registration);
    }
    worker
        .proxy
        .client_unreachable(&mut worker.parts, failed.id, failed.owner);
}

/// Handles an ICMP error for a datagram that this server sent (section 18.4). The error quotes the beginning of the datagram.
///
/// Any worker's socket may get the error. If the quote includes the Call-ID, it goes to the home of the call. Otherwise
/// the request waits for its timers. Only a quote with a genuine branch is passed to another worker.
fn returned(worker: &mut Worker<'_, '_>, message: &Undelivered<'_>) {
    let Undelivered {
        flow,
        bytes: quote,
        handed_over,
    } = *message;
    let found = worker
        .parts
        .transactions
        .client_unreached(flow.remote, quote);
    if let Some(failed) = found {
        return client_failed(worker, &failed);
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
        && has_branch_of_ours(worker.parts.shared, &message)
        && let Some(home) = worker.home_elsewhere(&message)
    {
        worker.parts.output.return_undeliverable(home, flow, quote);
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
fn answer_on_another_flow(parts: &mut WorkerParts<'_>, flow: Flow, response: &Message<'_>) {
    let Some(via) = response.top_via() else {
        return;
    };
    let listener = parts.settings.listeners.get(usize::from(flow.listener.0));
    let default_port = listener.map_or(0, |listener| listener.protocol.default_port());
    let remote = SocketAddr::new(flow.remote.ip(), via.port.unwrap_or(default_port));
    let is_open = matches!(via.host, Host::Address(ip) if ip == flow.remote.ip().to_canonical());
    if is_open && remote != flow.remote {
        parts.output.send(Flow::to(flow.listener, remote), |into| {
            into.extend_from_slice(response.bytes());
        });
    }
}
