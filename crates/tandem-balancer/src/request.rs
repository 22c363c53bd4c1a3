//! The path of a request through the edge. It begins in [`receive`].
//!
//! ```text
//! bytes → keep-alive? → parse → complete? → hops left? → from a client → keep-alive for the edge? → our Route values → node
//!                                                      → from a node   → our Route values → flow | next hop
//! ```

use crate::edge::{Edge, Question};
use crate::members::{Kind, Side, flow_to};
use crate::metrics::DropReason;
use crate::own_response::{is_acknowledged, respond};
use crate::response;
use crate::route_value::{self, OwnRoutes, RouteValue};
use sip_message::{
    HeaderName, Host, Message, Method, NameAddr, ParseError, Patch, Scheme, Uri, Via,
};
use sip_transport::edge_branch::{EdgeBranch, Upstream};
use sip_transport::selection::Candidate;
use sip_transport::stun::{self, BindingRequest};
use sip_transport::{Flow, Output, Protocol, Received, Time, flow_token, response_flow};
use std::net::{IpAddr, SocketAddr};

type Sent = Output<Question>;

/// Max-Forwards of the copy if the request has none (RFC 3261 section 16.6 step 3).
const MAX_FORWARDS: u8 = 70;
/// What the edge adds to a request, at most: Via, two Record-Route values, a completed Via.
const ADDED: usize = 400;

/// Receives a datagram, or one message of a stream.
pub(crate) fn receive(edge: &mut Edge, now: Time, received: &Received<'_>, output: &mut Sent) {
    let Received { flow, bytes, .. } = *received;
    if bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return edge.metrics.dropped(DropReason::KeepAlive);
    }
    if !flow.connection.is_some() && stun::is_stun(bytes) {
        if let Some(request) = BindingRequest::parse(bytes) {
            output.send(flow, |into| request.write_response(into, flow.remote));
        }
        return edge.metrics.dropped(DropReason::KeepAlive);
    }
    let message = match Message::parse(bytes) {
        Ok(message) if message.header_count() <= edge.settings.max_header_fields => message,
        Ok(_) | Err(ParseError::TooManyHeaders) => {
            return edge.metrics.dropped(DropReason::TooManyHeaders);
        }
        Err(_) => return edge.metrics.dropped(DropReason::NotSip),
    };
    if !message.is_request() {
        return response::receive(edge, now, flow, &message, output);
    }
    request(edge, now, flow, &message, output);
}

/// Sends a request again that no node has answered.
pub(crate) fn repeat(edge: &mut Edge, now: Time, flow: Flow, bytes: &[u8], output: &mut Sent) {
    if let Ok(message) = Message::parse(bytes) {
        request(edge, now, flow, &message, output);
    }
}

/// The phases of a request.
fn request(edge: &mut Edge, now: Time, flow: Flow, request: &Message<'_>, output: &mut Sent) {
    let (Some(via), Some(_), Some(_)) = (request.top_via(), request.call_id(), request.cseq())
    else {
        return edge.metrics.dropped(DropReason::Incomplete);
    };
    if is_acknowledged(edge, request) {
        return;
    }
    let hops = request.max_forwards().flatten().unwrap_or(MAX_FORWARDS);
    if hops == 0 {
        return respond(edge, request, flow, 483, "", output);
    }
    let hops = hops.saturating_sub(1);
    let routes = OwnRoutes::of(request, &edge.shared.hasher, |uri| edge.own.contains(uri));
    let inbound = Inbound {
        request,
        flow,
        via,
        hops,
        routes,
    };
    match edge
        .sending_node(request, flow)
        .map(|node| node.member.number)
    {
        Some(node) => from_node(edge, &inbound, node, output),
        None => from_client(edge, now, &inbound, output),
    }
}

/// A received request.
struct Inbound<'c, 'm> {
    request: &'c Message<'m>,
    flow: Flow,
    via: Via<'m>,
    /// Max-Forwards of the copy.
    hops: u8,
    routes: OwnRoutes,
}

impl Inbound<'_, '_> {
    /// Whether the request creates a dialog.
    fn creates_dialog(&self) -> bool {
        let method = self.request.method();
        matches!(method, Method::Invite | Method::Subscribe | Method::Refer)
            && self
                .request
                .to()
                .is_none_or(|to| to.tag().is_none_or(<[u8]>::is_empty))
    }

    /// The flow of the client, if later requests cannot reach it in another way.
    fn flow_only(&self, edge: &Edge) -> Option<Flow> {
        let listener = edge.listener(self.flow)?;
        flow_token::is_reached_by_flow_only(self.request, self.flow, listener).then_some(self.flow)
    }

    /// Removes our Route values, counts the hop, and adds our Via.
    fn patch(&self, edge: &Edge, patch: &mut Patch<'_, '_>, to: Flow, branch: &EdgeBranch) {
        patch.top_via_source(self.flow.remote);
        if let Some(listener) = edge.listener(to) {
            patch.prepend_with(HeaderName::Via, |into| {
                into.extend_from_slice(b"SIP/2.0/");
                into.extend_from_slice(listener.protocol.via_token().as_bytes());
                into.push(b' ');
                into.extend_from_slice(listener.advertised.as_bytes());
                into.extend_from_slice(b";branch=");
                branch.write(into);
                if listener.protocol == Protocol::Udp {
                    into.extend_from_slice(b";rport");
                }
            });
            if listener.protocol.is_reliable() {
                patch.complete_content_length();
            }
        }
        patch.max_forwards(self.hops);
        if self.routes.count > 0 {
            patch.remove_first_values(HeaderName::Route, self.routes.count);
        }
    }

    /// Adds our values to Record-Route: one, or two if the request leaves from another listener than it arrived on (RFC 5658).
    fn record(&self, edge: &Edge, patch: &mut Patch<'_, '_>, to: Flow, value: RouteValue) {
        let hasher = &edge.shared.hasher;
        let call_id = self.request.call_id().unwrap_or_default();
        let mut sides = [Some(self.flow), Some(to)];
        if self.flow.listener == to.listener {
            sides = [Some(to), None];
        }
        for listener in sides
            .into_iter()
            .flatten()
            .filter_map(|it| edge.listener(it))
        {
            patch.prepend_with(HeaderName::RecordRoute, |into| {
                value.write(into, listener, hasher, call_id);
            });
        }
    }
}

/// Forwards a request of a client to a node.
fn from_client(edge: &mut Edge, now: Time, inbound: &Inbound<'_, '_>, output: &mut Sent) {
    let Inbound { request, flow, .. } = *inbound;
    if inbound.routes.count == 0 && is_keep_alive(edge, request) {
        return respond(edge, request, flow, 200, "", output);
    }
    let method = request.method();
    let kind = match method {
        Method::Ack | Method::Cancel => Kind::Any,
        _ => Kind::New,
    };
    let dialog = inbound.routes.value;
    let hint = dialog
        .filter(|value| value.kind != route_value::Kind::Path)
        .map(|value| value.node);
    let call_id = request.call_id().unwrap_or_default();
    let Some((node, is_hinted)) = edge.node_for(hint, call_id, kind) else {
        return respond(edge, request, flow, 503, "No node available", output);
    };
    let size = request.bytes().len() + ADDED;
    let to = node.flow(size, edge.settings.largest_datagram);
    let number = node.member.number;
    node.health.count(edge.worker, is_hinted);
    let upstream = Upstream::Client(response_flow(flow, &inbound.via));
    let branch = EdgeBranch::new(&edge.shared.hasher, request, &inbound.via, upstream);
    if flow.connection.is_some() && method != Method::Ack {
        let entry = (request.bytes(), flow, method == Method::Invite);
        let shared = &edge.shared;
        let is_kept = shared
            .unanswered
            .insert(branch.transaction(), entry, now, &shared.hasher);
        if !is_kept {
            edge.metrics.not_remembered.increment();
        }
    }
    let mut patch = Patch::with_scratch(request, std::mem::take(&mut edge.scratch));
    inbound.patch(edge, &mut patch, to, &branch);
    if edge.settings.record_route {
        if method == Method::Register {
            push_path(edge, &mut patch, inbound, to);
        } else if inbound.creates_dialog() {
            let value = RouteValue {
                kind: route_value::Kind::FromClient,
                node: number,
                flow: inbound.flow_only(edge),
            };
            inbound.record(edge, &mut patch, to, value);
        }
    }
    output.send(to, |into| patch.write(into));
    edge.scratch = patch.into_scratch();
    edge.metrics.from_clients.increment();
}

/// Adds the Path, with the flow of the phone if its Contact does not lead to it (RFC 5626 section 5.1). The address is that of the side of
/// the nodes.
fn push_path(edge: &Edge, patch: &mut Patch<'_, '_>, inbound: &Inbound<'_, '_>, to: Flow) {
    let value = RouteValue {
        kind: route_value::Kind::Path,
        node: 0,
        flow: inbound.flow_only(edge),
    };
    let Some(listener) = edge.listener(to) else {
        return;
    };
    let is_first_hop = inbound.request.values(HeaderName::Via).nth(1).is_none();
    let supports_outbound = || {
        inbound
            .request
            .lists_token(HeaderName::Supported, b"outbound")
    };
    patch.prepend_with(HeaderName::Path, |into| {
        value.write(into, listener, &edge.shared.hasher, b"");
        if is_first_hop && supports_outbound() && into.pop().is_some() {
            into.extend_from_slice(b";ob>");
        }
    });
}

/// Whether the request only keeps the path to the edge open, or asks whether the edge is there.
fn is_keep_alive(edge: &Edge, request: &Message<'_>) -> bool {
    let is_for_us = || {
        request
            .uri()
            .is_some_and(|uri| uri.user.is_none() && edge.own.contains(uri))
    };
    match request.method() {
        Method::Options => is_for_us(),
        Method::Notify => {
            let event = request.header(HeaderName::Event).unwrap_or_default();
            event.eq_ignore_ascii_case(b"keep-alive") && is_for_us()
        }
        _ => false,
    }
}

/// Forwards a request of a node to a client, or to where its next Route value or Request-URI leads.
fn from_node(edge: &mut Edge, inbound: &Inbound<'_, '_>, node: u32, output: &mut Sent) {
    let Inbound {
        request,
        flow: source,
        ..
    } = *inbound;
    let named = inbound.routes.value.and_then(|value| value.flow);
    let to = match named {
        Some(flow) => Ok(flow),
        None => next_hop(edge, inbound),
    };
    match to {
        Ok(to) => to_client(edge, inbound, node, (to, named), output),
        Err(NextHop::Name(uri)) => output.ask(Question {
            uri: uri.into(),
            request: request.bytes().into(),
            flow: source,
        }),
        Err(NextHop::Unreachable) => {
            respond(edge, request, source, 478, "Unresolvable next hop", output);
        }
    }
}

/// Continues with the address of a name.
pub(crate) fn resolved(
    edge: &mut Edge,
    question: &Question,
    candidate: Option<Candidate>,
    output: &mut Sent,
) {
    let Ok(request) = Message::parse(&question.request) else {
        return;
    };
    let Some(via) = request.top_via() else {
        return;
    };
    let Some(node) = edge
        .sending_node(&request, question.flow)
        .map(|node| node.member.number)
    else {
        return;
    };
    let inbound = Inbound {
        request: &request,
        flow: question.flow,
        via,
        hops: request
            .max_forwards()
            .flatten()
            .unwrap_or(MAX_FORWARDS)
            .saturating_sub(1),
        routes: OwnRoutes::of(&request, &edge.shared.hasher, |uri| edge.own.contains(uri)),
    };
    let to = candidate.and_then(|candidate| {
        let Candidate { protocol, address } = candidate;
        flow_to(&edge.settings, Side::Clients, protocol, address)
    });
    match to {
        Some(to) => to_client(edge, &inbound, node, (to, None), output),
        None => respond(
            edge,
            &request,
            question.flow,
            478,
            "Unresolvable next hop",
            output,
        ),
    }
}

/// Sends a request of a node on a flow. `named` is the flow that our Route value named: the client has no other way.
fn to_client(
    edge: &mut Edge,
    inbound: &Inbound<'_, '_>,
    node: u32,
    (to, named): (Flow, Option<Flow>),
    output: &mut Sent,
) {
    let hasher = &edge.shared.hasher;
    let branch = EdgeBranch::new(hasher, inbound.request, &inbound.via, Upstream::Node);
    let mut patch = Patch::with_scratch(inbound.request, std::mem::take(&mut edge.scratch));
    inbound.patch(edge, &mut patch, to, &branch);
    if edge.settings.record_route && inbound.creates_dialog() {
        let value = RouteValue {
            kind: route_value::Kind::FromNode,
            node,
            flow: named,
        };
        inbound.record(edge, &mut patch, to, value);
    }
    output.send(to, |into| patch.write(into));
    edge.scratch = patch.into_scratch();
    edge.metrics.from_nodes.increment();
}

/// Why a next hop has no flow yet.
enum NextHop<'m> {
    /// It is a name.
    Name(&'m [u8]),
    /// It leads nowhere.
    Unreachable,
}

/// The flow to the next Route value that is not ours, or to the Request-URI.
fn next_hop<'m>(edge: &Edge, inbound: &Inbound<'_, 'm>) -> Result<Flow, NextHop<'m>> {
    let request = inbound.request;
    let route = request.values(HeaderName::Route).nth(inbound.routes.count);
    let uri = match route {
        Some(route) => NameAddr::parse(route).and_then(|route| route.uri()),
        None => request.uri().copied(),
    };
    let uri = uri.filter(|uri| matches!(uri.scheme, Scheme::Sip | Scheme::Sips));
    let uri = uri.ok_or(NextHop::Unreachable)?;
    let Host::Address(ip) = uri.host else {
        return Err(NextHop::Name(uri.bytes));
    };
    let protocol = protocol(&uri);
    let port = uri.port.unwrap_or_else(|| protocol.default_port());
    if port == 0 || is_many_or_none(ip) {
        return Err(NextHop::Unreachable);
    }
    let remote = SocketAddr::new(ip, port);
    flow_to(&edge.settings, Side::Clients, protocol, remote).ok_or(NextHop::Unreachable)
}

/// The protocol that a URI asks for.
fn protocol(uri: &Uri<'_>) -> Protocol {
    let named = uri
        .params
        .value(b"transport")
        .and_then(Protocol::from_token);
    match (uri.scheme, named) {
        (Scheme::Sips, None | Some(Protocol::Tcp)) => Protocol::Tls,
        (Scheme::Sips, Some(Protocol::Ws)) => Protocol::Wss,
        (_, named) => named.unwrap_or(Protocol::Udp),
    }
}

/// Whether the address is no single host's.
fn is_many_or_none(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_unspecified()
        || ip.is_multicast()
        || matches!(ip, IpAddr::V4(ip) if ip.is_broadcast() || ip.octets().first() == Some(&0))
}
