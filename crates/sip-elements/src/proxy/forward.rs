//! The copy of a request that is sent (RFC 3261 section 16.6 steps 1 to 8): the received bytes, patched as they are
//! written.

use super::call_policy::CallPolicy;
use super::gateway_credentials::Authorization;
use super::identity_headers::{Party, Trust, remove_untrusted};
use super::{Inbound, diversion_headers, gateway_identity, session_timer};
use crate::own_response::hex;
use crate::phase::authentication;
use crate::routing::breadth;
use crate::routing::failure::Failure;
use crate::routing::flow_token::is_reached_by_flow_only;
use crate::routing::listener::{ListenerCriteria, flow_to};
use crate::routing::off_limits::{self, TargetSource};
use crate::routing::proof::Side;
use crate::routing::record_route::{Recorder, is_record_routed};
use crate::routing::route::RouteSet;
use crate::routing::target::{Hop, Strict, Target, Way};
use crate::{Settings, View, WorkerParts};
use sip_message::{Credentials, HeaderName, Message, Patch};
use sip_transaction::{ClientId, ClientOptions, Kind};
use sip_transport::{Flow, Listener, Networks, Protocol};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

/// Max-Forwards of the copy if the request has none (section 16.6 step 3).
const MAX_FORWARDS: u8 = 70;

/// One copy of a request and its destination.
#[derive(Debug)]
pub(super) struct RequestCopy<'c, 'm> {
    request: &'c Message<'m>,
    /// Where the request came from.
    source: Flow,
    /// Who sent it: behind an edge of the fleet, the client.
    client: IpAddr,
    target: &'c Target,
    /// The next hop, if it is a strict router.
    strict: Option<Strict<'c>>,
    routes: &'c RouteSet,
    /// Where the copy goes.
    flow: Flow,
    /// The listener that the copy leaves from.
    outgoing: &'c Listener,
    /// Max-Breadth of the copy; `None` if it stays as in the request.
    breadth: Option<u8>,
    /// The realm whose credentials were meant for us and are not forwarded.
    consumed: Option<&'c str>,
    /// The domain that the next hop belongs to; `None` if the next hop was named by its address.
    domain: Option<&'c [u8]>,
    /// The copy may leave over a secure transport only (RFC 5630).
    is_secure: bool,
    /// What the policy says about the request.
    policy: Option<&'c CallPolicy>,
    /// Who is trusted besides the trusted peers.
    trust: Trust,
}

/// Sends a copy through the client transaction that is reserved for it. `scratch` holds the text of the patch.
pub(super) fn send(
    parts: &mut WorkerParts<'_>,
    scratch: &mut Vec<u8>,
    copy: &RequestCopy<'_, '_>,
    client: ClientId,
    kind: Kind,
    suffix: u64,
) {
    let settings = parts.settings;
    let mut patch = Patch::with_scratch(copy.request, std::mem::take(scratch));
    let call_id = copy.request.call_id().unwrap_or_default();
    let branch = parts.transactions.branch(client, call_id, suffix);
    let session_timer = if copy.is_stateless() {
        None
    } else {
        session_timer::requested(settings, copy.request)
    };
    copy.push_via(&mut patch, |into| {
        branch.write(into);
        if let Some(timer) = &session_timer {
            timer.write_via_param(into);
        }
    });
    if let Some(timer) = &session_timer {
        timer.patch(&mut patch);
    }
    if settings.proxy.record_route && is_record_routed(copy.request) && !copy.is_stateless() {
        let (from, to) = (copy.source, copy.flow);
        let recorder = Recorder::new(
            parts.view(),
            copy.request,
            (from, to),
            copy.routes,
            copy.is_secure,
        );
        copy.push_record_routes(&mut patch, &settings.listeners, &recorder);
    }
    copy.push_common(&mut patch);
    copy.remove_untrusted(&mut patch, &settings.proxy.trusted_peers);
    copy.assert_identity(&mut patch, parts.view());
    copy.tell_diversions(&mut patch, settings);
    copy.edit_headers(&mut patch);
    copy.add_credentials(&mut patch);
    let options = ClientOptions {
        kind,
        flow: copy.flow,
        reliable: copy.outgoing.protocol.is_reliable(),
        domain: copy.domain_to_prove(),
    };
    parts
        .transactions
        .start_client(parts.now, client, &options, parts.output, |into| {
            patch.write(into);
        });
    *scratch = patch.into_scratch();
}

/// Sends a copy of an ACK. The branch is computed from the Via of the received ACK, so a retransmission gets the same
/// branch.
pub(super) fn send_ack(
    parts: &mut WorkerParts<'_>,
    scratch: &mut Vec<u8>,
    copy: &RequestCopy<'_, '_>,
) {
    let via = copy.request.top_via().map_or(&b""[..], |via| via.bytes);
    let branch = parts
        .shared
        .hasher
        .hash(&[b"ack", via, copy.target.request_uri()]);
    send_statelessly(parts, scratch, copy, |into| {
        into.extend_from_slice(b"z9hG4bK-");
        into.extend_from_slice(&hex(branch));
    });
}

/// Sends a copy without a transaction, with the branch that `write_branch` writes.
pub(super) fn send_statelessly(
    parts: &mut WorkerParts<'_>,
    scratch: &mut Vec<u8>,
    copy: &RequestCopy<'_, '_>,
    write_branch: impl FnOnce(&mut Vec<u8>),
) {
    let mut patch = Patch::with_scratch(copy.request, std::mem::take(scratch));
    copy.push_via(&mut patch, write_branch);
    copy.push_common(&mut patch);
    copy.remove_untrusted(&mut patch, &parts.settings.proxy.trusted_peers);
    copy.edit_headers(&mut patch);
    let domain = copy.domain_to_prove();
    parts
        .output
        .send_to(copy.flow, domain, |into| patch.write(into));
    *scratch = patch.into_scratch();
}

impl<'c, 'm> RequestCopy<'c, 'm> {
    /// Creates a copy to `remote`. Fails if no listener leads there, if the destination is off limits, or if a required
    /// secure transport is missing.
    pub(super) fn new(
        parts: &WorkerParts<'c>,
        inbound: Inbound<'c, 'm>,
        target: &'c Target,
        routes: &'c RouteSet,
        hop: &Hop<'c>,
        remote: SocketAddr,
    ) -> Result<Self, Failure> {
        let Inbound {
            request, source, ..
        } = inbound;
        let listeners: &'c [Listener] = &parts.settings.listeners;
        let wanted = ListenerCriteria {
            target: target.listener,
            recorded: routes.recorded,
            incoming: source.listener,
            protocol: hop.protocol,
        };
        let flow = match hop.flow {
            Some(flow) => flow,
            None => flow_to(listeners, wanted, remote).ok_or(Failure::Unreachable)?,
        };
        let outgoing = listeners
            .get(usize::from(flow.listener.0))
            .ok_or(Failure::Unreachable)?;
        let warrant = warrant(target, routes, hop);
        let chosen_from = (!inbound.is_diverted).then_some(inbound.client);
        if !off_limits::admits(parts.settings, chosen_from, flow.remote, warrant) {
            parts.metrics.off_limits.increment();
            return Err(Failure::OffLimits);
        }
        let is_secure = hop.is_secure || is_sips(target.request_uri());
        if is_secure && !outgoing.protocol.is_secure() {
            return Err(Failure::NotSecure);
        }
        let consumed = request
            .header(HeaderName::ProxyAuthorization)
            .and_then(|_| authentication::realm_of_ours(parts.settings, request));
        Ok(Self {
            request,
            source,
            client: inbound.client,
            target,
            strict: hop.strict,
            routes,
            flow,
            outgoing,
            breadth: None,
            consumed,
            domain: match hop.way {
                Way::Name(name) => Some(name.host.as_bytes()),
                Way::Address(_) => None,
            },
            is_secure,
            policy: None,
            trust: Trust::default(),
        })
    }

    /// The flow that the copy leaves on.
    pub(super) const fn flow(&self) -> Flow {
        self.flow
    }

    /// The domain that the next hop must prove to be over a new TLS connection: the one that the URI names.
    fn domain_to_prove(&self) -> Option<&'c [u8]> {
        let is_new_over_tls =
            self.outgoing.protocol == Protocol::Tls && !self.flow.connection.is_some();
        self.domain.filter(|_| is_new_over_tls)
    }

    /// Sets the share of the request's Max-Breadth.
    pub(super) fn with_breadth(self, breadth: u8) -> Self {
        Self {
            breadth: Some(breadth).filter(|breadth| !breadth::is_written(self.request, *breadth)),
            ..self
        }
    }

    /// The same copy, as the policy wants it, between parties of this trust.
    pub(super) const fn under(self, policy: Option<&'c CallPolicy>, trust: Trust) -> Self {
        Self {
            policy,
            trust,
            ..self
        }
    }

    /// Whether no state of the call is kept beyond its transactions.
    fn is_stateless(&self) -> bool {
        self.policy.is_some_and(|policy| policy.is_stateless)
    }

    /// Step 8: adds our Via on top, and completes the one below with the source of the request (section 18.2.1,
    /// RFC 3581).
    fn push_via(&self, patch: &mut Patch<'_, '_>, branch: impl FnOnce(&mut Vec<u8>)) {
        patch.top_via_source(self.source.remote);
        patch.prepend_with(HeaderName::Via, |into| {
            into.extend_from_slice(b"SIP/2.0/");
            into.extend_from_slice(self.outgoing.protocol.via_token().as_bytes());
            into.push(b' ');
            into.extend_from_slice(self.outgoing.advertised.as_bytes());
            into.extend_from_slice(b";branch=");
            branch(into);
            if self.outgoing.protocol == Protocol::Udp {
                into.extend_from_slice(b";rport");
            }
        });
    }

    /// Step 4. If the request leaves from another listener than it arrived on, both sides are recorded, so that each
    /// party gets an address that it can reach (RFC 5658). Both sides are also recorded if a party is reached over one
    /// flow only. The value of that side then names the flow.
    fn push_record_routes(
        &self,
        patch: &mut Patch<'_, '_>,
        listeners: &[Listener],
        recorder: &Recorder<'_, '_>,
    ) {
        let incoming = listeners.get(usize::from(self.source.listener.0));
        let upstream = incoming
            .filter(|incoming| is_reached_by_flow_only(self.request, self.source, incoming))
            .map(|_| self.source);
        let downstream = self.target.flow;
        let needs_both = self.source.listener != self.flow.listener
            || upstream.is_some()
            || downstream.is_some();
        let mut side = Side::Sole;
        if needs_both && let Some(incoming) = incoming {
            patch.prepend_with(HeaderName::RecordRoute, |into| {
                recorder.write(into, Side::Caller, incoming, upstream);
            });
            side = Side::Unanswered;
        }
        patch.prepend_with(HeaderName::RecordRoute, |into| {
            recorder.write(into, side, self.outgoing, downstream);
        });
    }

    /// Steps 2, 3 and 6: Request-URI, Max-Forwards and Route. Also sets Max-Breadth, and Content-Length for a stream.
    fn push_common(&self, patch: &mut Patch<'_, '_>) {
        if self.outgoing.protocol.is_reliable() {
            patch.complete_content_length();
        }
        let left = self
            .request
            .max_forwards()
            .flatten()
            .map_or(MAX_FORWARDS, |left| left.saturating_sub(1));
        patch.max_forwards(left);
        if let Some(breadth) = self.breadth {
            patch.remove(HeaderName::MaxBreadth);
            patch.append_with(HeaderName::MaxBreadth, |into| {
                // Writing to a vector cannot fail.
                let _ = write!(into, "{breadth}");
            });
        }
        self.remove_credentials(patch);
        let uri = self.target.request_uri();
        self.push_routes(patch, uri);
        let uri = self.strict.map_or(uri, |strict| strict.uri);
        if uri != self.request.request_uri() {
            patch.request_uri(uri);
        }
    }

    fn remove_untrusted(&self, patch: &mut Patch<'_, '_>, trusted: &Networks) {
        remove_untrusted(patch, self.request, trusted, self.sender(), self.receiver());
    }

    fn sender(&self) -> Party {
        Party::new(self.client, self.trust.sender)
    }

    fn receiver(&self) -> Party {
        Party::new(self.flow.remote.ip(), self.trust.receiver)
    }

    /// Says to a gateway who calls.
    fn assert_identity(&self, patch: &mut Patch<'_, '_>, view: View<'_>) {
        if let Some(policy) = self.policy
            && let Some(gateway) = policy.gateway()
        {
            let who = (&policy.speaker, gateway);
            let trusted = &view.settings.proxy.trusted_peers;
            let is_trusted = self.receiver().is_trusted(trusted);
            gateway_identity::assert(patch, self.request, view, who, is_trusted);
        }
    }

    /// Says who has diverted the call.
    fn tell_diversions(&self, patch: &mut Patch<'_, '_>, settings: &Settings) {
        let diversions = self.policy.and_then(|policy| policy.diversions.as_ref());
        if let Some(diversions) = diversions {
            let headers = settings.proxy.diversions.headers;
            // What an untrusted sender says about the history of the call is removed, and not continued.
            let is_believed = self.sender().is_trusted(&settings.proxy.trusted_peers);
            let path = diversions.path();
            diversion_headers::write(patch, self.request, path, headers, is_believed);
        }
    }

    /// Makes the changes of the routing rule.
    fn edit_headers(&self, patch: &mut Patch<'_, '_>) {
        if let Some(rule) = self.policy.and_then(CallPolicy::rule) {
            rule.header_edits().apply(patch);
        }
    }

    /// Adds the credentials for the gateway.
    fn add_credentials(&self, patch: &mut Patch<'_, '_>) {
        for (name, value) in self.authorization().map_or(&[][..], Authorization::lines) {
            patch.append(*name, value);
        }
    }

    fn authorization(&self) -> Option<&'c Authorization> {
        self.policy?.authorization.as_deref()
    }

    /// Removes the credentials for our realm, which have been checked, and those that ours for the gateway replace. Those for other realms
    /// stay (section 22.3).
    fn remove_credentials(&self, patch: &mut Patch<'_, '_>) {
        let replaced = self.authorization().filter(|it| !it.lines().is_empty());
        if self.consumed.is_some() || replaced.is_some() {
            self.remove_credentials_in(HeaderName::ProxyAuthorization, replaced, patch);
        }
        if replaced.is_some() {
            self.remove_credentials_in(HeaderName::Authorization, replaced, patch);
        }
    }

    fn remove_credentials_in(
        &self,
        name: HeaderName,
        replaced: Option<&Authorization>,
        patch: &mut Patch<'_, '_>,
    ) {
        let is_consumed = |credentials: &Credentials<'_>| {
            let is_for_us = |realm: &str| credentials.realm == realm.as_bytes();
            name == HeaderName::ProxyAuthorization && self.consumed.is_some_and(is_for_us)
        };
        let is_ours = |value| {
            Credentials::parse(value).is_some_and(|credentials| {
                is_consumed(&credentials)
                    || replaced.is_some_and(|it| it.replaces(name, &credentials))
            })
        };
        if !self.request.values(name).any(is_ours) {
            return;
        }
        patch.remove(name);
        if self.request.values(name).nth(1).is_some() {
            let others = self.request.headers().filter(|header| header.name == name);
            for other in others.filter(|header| !is_ours(header.value)) {
                patch.append_raw(other.name_bytes, other.value);
            }
        }
    }

    /// Removes our own Route values and puts those of the target on top. For a strict router, also removes its value
    /// and appends the Request-URI at the end.
    fn push_routes(&self, patch: &mut Patch<'_, '_>, request_uri: &[u8]) {
        let strict_in_request = self.strict.is_some_and(|strict| !strict.in_target);
        let off = usize::from(self.routes.own) + usize::from(strict_in_request);
        if off > 0 {
            patch.remove_first_values(HeaderName::Route, off);
        }
        if self.routes.drop_last {
            patch.remove_last_value(HeaderName::Route);
        }
        let route = match self.strict {
            Some(Strict {
                in_target: true, ..
            }) => self.target.split_route().1,
            _ => &self.target.route,
        };
        if !route.is_empty() {
            patch.prepend(HeaderName::Route, route);
        }
        if self.strict.is_some() {
            let value = [b"<", request_uri, b">"].concat();
            patch.append(HeaderName::Route, &value);
        }
    }
}

/// Returns why the address that a copy goes to is legitimate, if there is a reason.
fn warrant(target: &Target, routes: &RouteSet, hop: &Hop<'_>) -> TargetSource {
    let is_routed = routes.next.is_some() || !target.route.is_empty();
    let is_literal = matches!(hop.way, Way::Address(_));
    if target.next_hop.is_some() {
        TargetSource::Operator
    } else if hop.flow.is_some() || routes.is_near || (target.is_owned && is_literal && !is_routed)
    {
        TargetSource::Owner
    } else {
        TargetSource::None
    }
}

fn is_sips(uri: &[u8]) -> bool {
    uri.get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips:"))
}
