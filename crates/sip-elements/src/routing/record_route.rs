//! Our values in Record-Route (RFC 3261 section 16.6 step 4, RFC 5658): which values a request gets on its way to the
//! callee, and how they change in the response on its way to the caller (section 16.7 step 8).
//!
//! A value is `<sip:ADVERTISED;lr;ck=PROOF>`. It has `;fl=TOKEN` if the party on that side is reached over one flow
//! only, and `sips` if the request asked for it (RFC 5630).

use super::flow_token;
use super::proof::{self, Dialog, Near, Proof, Side};
use super::route::{RouteSet, tags};
use crate::View;
use crate::domains::address_of_record;
use sip_message::{HeaderName, KeyHasher, Message, Method, NameAddr, Patch, Uri};
use sip_transport::{Flow, Listener, Protocol};
use smallvec::SmallVec;

/// The parts that all values for one request share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorder<'r, 'm> {
    hasher: &'r KeyHasher,
    dialog: Dialog<'m>,
    /// Each value gets its own side.
    proof: Proof,
    is_secure: bool,
}

/// Our topmost value in a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    /// Keyed hash of the response's Contact.
    pub(crate) contact: u64,
    /// The number of values above it: those of the proxies between us and the callee.
    pub(crate) above: usize,
    /// It names the flow that leads to the callee.
    pub(crate) is_by_flow: bool,
}

/// Whether a request gets our Record-Route. INVITE, SUBSCRIBE, NOTIFY and REFER create dialogs or renew their route
/// sets (RFC 3261 section 16.6 step 4, RFC 6665 section 4.3). An unknown method outside a dialog may create one too.
/// All others never create a dialog.
pub(crate) fn is_record_routed(request: &Message<'_>) -> bool {
    match request.method() {
        Method::Invite | Method::Subscribe | Method::Notify | Method::Refer => true,
        Method::Other(_) => tags(request).is_none(),
        _ => false,
    }
}

impl<'r, 'm> Recorder<'r, 'm> {
    /// Creates the recorder of a request that goes from one flow to another with a route set.
    pub(crate) fn new(
        view: View<'r>,
        request: &Message<'m>,
        (from, to): (Flow, Flow),
        routes: &RouteSet,
        is_secure: bool,
    ) -> Self {
        let hasher = &view.shared.hasher;
        Self {
            hasher,
            dialog: Dialog {
                call_id: request.call_id().unwrap_or_default(),
                caller_tag: request
                    .from()
                    .and_then(|from| from.tag())
                    .unwrap_or_default(),
                callee_tag: b"",
            },
            proof: Proof {
                side: Side::Sole,
                near: Near {
                    caller: super::off_limits::is_near(from.remote.ip()),
                    callee: super::off_limits::is_near(to.remote.ip()),
                },
                is_call: routes
                    .repeated
                    .map_or(request.method() == Method::Invite, |dialog| dialog.is_call),
                call: routes.call,
                expiry: Proof::expiry_after(view.now, view.settings.proxy.dialog_lifetime),
                speaker: routes
                    .repeated
                    .map_or_else(|| callee(view, request, from), |dialog| dialog.receiver),
                other: proof::speaker_hash(request.from_uri(), hasher),
                target: proof::contact_hash(request, hasher),
                routes: proof::routes_hash(request.values(HeaderName::RecordRoute), hasher),
            },
            is_secure,
        }
    }

    /// Appends the value for the side of one listener, and names the flow if that is the only way.
    pub(crate) fn write(
        &self,
        into: &mut Vec<u8>,
        side: Side,
        listener: &Listener,
        flow: Option<Flow>,
    ) {
        let is_secure = self.is_secure && listener.protocol.is_secure();
        into.extend_from_slice(if is_secure { b"<sips:" } else { b"<sip:" });
        into.extend_from_slice(listener.advertised.as_bytes());
        let transport: &[u8] = match listener.protocol {
            Protocol::Udp => b"",
            Protocol::Tls if is_secure => b"",
            Protocol::Wss if is_secure => b";transport=ws",
            Protocol::Tcp => b";transport=tcp",
            Protocol::Tls => b";transport=tls",
            Protocol::Ws => b";transport=ws",
            Protocol::Wss => b";transport=wss",
        };
        into.extend_from_slice(transport);
        into.extend_from_slice(b";lr;");
        let mut token = SmallVec::<[u8; flow_token::LONGEST]>::new();
        if let Some(flow) = flow {
            flow_token::write(&mut token, flow);
            into.extend_from_slice(flow_token::PARAMETER);
            into.push(b'=');
            into.extend_from_slice(&token);
            into.push(b';');
        }
        into.extend_from_slice(proof::PARAMETER);
        into.push(b'=');
        let proof = Proof { side, ..self.proof };
        proof.write(into, &self.dialog, &token, self.hasher);
        into.push(b'>');
    }
}

/// Identifies the callee for [`Proof::speaker`]: the party that To names. The caller chooses To. If an untrusted caller
/// names one of our subscribers there but calls another user, the Request-URI counts instead.
fn callee(view: View<'_>, request: &Message<'_>, from: Flow) -> u32 {
    let domains = &view.settings.domains;
    let is_trusted = view.settings.proxy.trusted_peers.contains(from.remote.ip());
    let subscriber = |uri: &Uri<'_>| address_of_record(uri, domains.claimed_name(uri)?);
    let named = request.to_uri().and_then(subscriber);
    let is_called = named.is_none() || request.uri().and_then(subscriber) == named;
    let uri = if is_trusted || is_called {
        request.to_uri()
    } else {
        request.uri()
    };
    proof::speaker_hash(uri, &view.shared.hasher)
}

/// Replaces the callee's proof by the caller's in a response that creates or refreshes a dialog: in the topmost of our
/// values that is not answered yet. Removes the proofs that only the callee needs: with them, the caller could send
/// requests in the name of the callee. The result depends only on the response, so retransmissions stay identical. Returns
/// what it has found if there is such a value.
pub(crate) fn answer(
    patch: &mut Patch<'_, '_>,
    response: &Message<'_>,
    view: View<'_>,
) -> Option<Recorded> {
    response.header(HeaderName::RecordRoute)?;
    let call = Dialog {
        call_id: response.call_id()?,
        caller_tag: response.from()?.tag().unwrap_or_default(),
        callee_tag: b"",
    };
    let tags = tags(response).filter(|_| matches!(response.status(), 101..300));
    let Some((_, to_tag)) = tags else {
        // It creates no dialog.
        let values = response.values(HeaderName::RecordRoute);
        values.for_each(|value| conceal(patch, value, &call, view));
        return None;
    };
    let dialog = Dialog {
        callee_tag: to_tag,
        ..call
    };
    let hasher = &view.shared.hasher;
    let mut above = SmallVec::<[&[u8]; 8]>::new();
    let mut values = response.values(HeaderName::RecordRoute);
    while let Some(value) = values.next() {
        let Some((text, token, proof)) = read(value, &call, view).filter(is_unanswered) else {
            above.push(value);
            continue;
        };
        let target = proof::contact_hash(response, hasher);
        let answered = Proof {
            side: Side::Callee,
            speaker: proof.other,
            other: proof.speaker,
            target,
            routes: proof::routes_hash(above.iter().rev().copied(), hasher),
            ..proof
        };
        patch.replace_part(HeaderName::RecordRoute, text, |into| {
            answered.write(into, &dialog, token, hasher);
        });
        if let Some(value) = values.next().filter(|_| proof.side == Side::Unanswered) {
            conceal(patch, value, &call, view);
        }
        return Some(Recorded {
            contact: target,
            above: above.len(),
            is_by_flow: !token.is_empty(),
        });
    }
    None
}

/// The number of the call that a response belongs to, from the topmost of our values that were written into its request.
pub(crate) fn call_of(response: &Message<'_>, view: View<'_>) -> Option<u32> {
    let call = Dialog {
        call_id: response.call_id()?,
        caller_tag: response.from()?.tag().unwrap_or_default(),
        callee_tag: b"",
    };
    let mut values = response.values(HeaderName::RecordRoute);
    values.find_map(|value| read(value, &call, view).map(|(.., proof)| proof.call))
}

/// Removes the proof from one of our values.
fn conceal(patch: &mut Patch<'_, '_>, value: &[u8], call: &Dialog<'_>, view: View<'_>) {
    if let Some((text, ..)) = read(value, call, view) {
        patch.replace_part(HeaderName::RecordRoute, text, |into| into.push(b'0'));
    }
}

fn is_unanswered((.., proof): &(&[u8], &[u8], Proof)) -> bool {
    matches!(proof.side, Side::Sole | Side::Unanswered)
}

/// Parses one of our values that was written into the request. Returns the text of the proof, the flow token and the
/// parsed proof.
fn read<'m>(
    value: &'m [u8],
    call: &Dialog<'_>,
    view: View<'_>,
) -> Option<(&'m [u8], &'m [u8], Proof)> {
    let uri = Uri::parse(NameAddr::parse(value)?.uri_bytes)?;
    let text = uri.params.value(proof::PARAMETER)?;
    let token = uri.params.value(flow_token::PARAMETER).unwrap_or_default();
    let proof = Proof::read(text, token, &view.shared.hasher, |side| match side {
        Side::Sole | Side::Caller | Side::Unanswered => Some(*call),
        Side::Callee => None,
    })?;
    Some((text, token, proof))
}
