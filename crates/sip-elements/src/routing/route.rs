//! Route preprocessing (RFC 3261 section 16.4): which Route values are ours, and whether they prove that the request
//! belongs to a dialog that we record-routed ([`proof`](super::proof)).

use super::flow_token;
use super::listener::protocol_of;
use super::proof::{self, Dialog, Proof, Side};
use crate::View;
use sip_message::{HeaderName, Host, KeyHasher, Message, NameAddr, Scheme, Uri};
use sip_transport::{Flow, Listener, ListenerId, Protocol};

/// Result of route preprocessing (section 16.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// The Request-URI after strict-route repair or `maddr` handling; `None` if it stays as received.
    pub request_uri: Option<Box<[u8]>>,
    /// Number of topmost Route values that name us and are removed.
    pub own_routes: usize,
    /// The last Route value became the Request-URI and must be removed (strict router upstream).
    pub drop_last_route: bool,
    /// The topmost Route URI that remains; `None` if the Request-URI decides.
    pub next_route: Option<Box<[u8]>>,
    /// The dialog of the request, if we record-routed it and the last of our Route values proves this.
    pub dialog: Option<Proven>,
    /// One of our Route values carries a proof that is not valid for this request, or no longer valid.
    pub is_unproven: bool,
    /// The number of the call, if only the remote target is not the one of the proof, and no dialog here knows it. Another node may.
    pub(crate) unknown_target: Option<u32>,
    /// The flow that the last of our Route values names: the only way to the other party.
    pub flow: Option<Flow>,
}

/// What a proof says about the dialog of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says something else of the dialog"
)]
pub struct Proven {
    /// From names another party than the one that the proof belongs to.
    pub has_other_identity: bool,
    /// An INVITE created the dialog.
    pub(crate) is_call: bool,
    /// The other party was near when the dialog was created: its first target may be on a loopback or link-local
    /// address.
    pub(crate) is_near: bool,
    /// The proof expires soon, so a refresh is recorded even if it changes nothing.
    pub(crate) expires_soon: bool,
    /// The number of the call.
    pub(crate) call: u32,
    /// Keyed hash of the remote target.
    pub(crate) target: u64,
    /// Keyed hash of the address of record of the other party.
    pub(crate) other: u32,
}

impl Routing {
    /// Whether the request belongs to a dialog that we record-routed, and goes where that dialog leads.
    pub fn in_our_dialog(&self) -> bool {
        self.dialog.is_some()
    }
}

/// The part of the [`Routing`] that a response context keeps for later targets.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteSet {
    /// The topmost Route URI that is not ours.
    pub(crate) next: Option<Box<[u8]>>,
    /// Number of topmost values to remove.
    pub(crate) own: u16,
    /// Remove the last value too.
    pub(crate) drop_last: bool,
    /// The listener that the last of two own values names: the one on the side of the other party (RFC 5658).
    pub(crate) recorded: Option<ListenerId>,
    /// The other party may be on a loopback or link-local address.
    pub(crate) is_near: bool,
    /// What our new Record-Route values repeat, if the request is in a dialog of ours.
    pub(crate) repeated: Option<Repeated>,
    /// The number of the call that the request belongs to or will create; 0 outside calls.
    pub(crate) call: u32,
}

/// What all our Record-Route values of a dialog say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeated {
    /// An INVITE created the dialog.
    pub(crate) is_call: bool,
    /// Keyed hash of the address of record of the receiver.
    pub(crate) receiver: u32,
}

/// Preprocesses the route of a request (section 16.4): which Route values are ours, and what the effective Request-URI
/// is. `knows` says whether a keyed hash is that of the remote target in the live dialog of a call.
pub(crate) fn preprocess(
    request: &Message<'_>,
    view: View<'_>,
    knows: impl Fn(u32, u64) -> bool,
) -> Routing {
    let mut routing = Routing::default();
    if request.header(HeaderName::Route).is_some() {
        let strict = repair_strict_route(&mut routing, request, view);
        let last = pop_own_routes(&mut routing, request, view).or(strict);
        if let Some(last) = last {
            verify(&mut routing, request, &last, view, knows);
        }
    }
    let written = routing
        .request_uri
        .as_deref()
        .unwrap_or_else(|| request.request_uri());
    if let Some(stripped) = strip_own_maddr(written, view) {
        routing.request_uri = Some(stripped);
    }
    routing
}

/// Repairs a request from a strict router upstream. Such a router puts our Record-Route value into the Request-URI, and
/// the real Request-URI at the end of the Route.
fn repair_strict_route<'m>(
    routing: &mut Routing,
    request: &Message<'m>,
    view: View<'_>,
) -> Option<Uri<'m>> {
    // Nearly every Request-URI has a user part. The URIs in our Record-Route have none.
    let written = Some(request.request_uri()).filter(|uri| !uri.contains(&b'@'));
    let uri = written.and_then(Uri::parse)?;
    let recorded = matches!(uri.scheme, Scheme::Sip | Scheme::Sips)
        && uri.user.is_none()
        && uri.params.contains(b"lr")
        && view.settings.domains.is_own_address(&uri);
    if !recorded {
        return None;
    }
    let last = request.values(HeaderName::Route).last();
    let last = last.and_then(NameAddr::parse)?;
    routing.request_uri = Some(last.uri_bytes.into());
    routing.drop_last_route = true;
    Some(uri)
}

/// Whether another node of the fleet wrote this value. Its own proof says so. If the node recorded both of its sides, the value for the other
/// party has no proof for this one, but the value below it has, and names the same host.
fn is_of_fleet(uri: &Uri<'_>, below: Option<&[u8]>, request: &Message<'_>, view: View<'_>) -> bool {
    let hasher = &view.shared.hasher;
    let is_of_fleet = view.settings.fleet.is_some() || view.settings.dialogs.adopts;
    if !is_of_fleet || !uri.params.contains(proof::PARAMETER) {
        return false;
    }
    let is_proven = |uri: &Uri<'_>| proof_of(uri, request, hasher).is_some();
    let below = || NameAddr::parse(below?)?.uri();
    is_proven(uri)
        || below().is_some_and(|below| below.host_bytes == uri.host_bytes && is_proven(&below))
}

/// Counts the topmost values that name us. The value below them is the next hop. Returns the last of ours.
///
/// A value that another node of the fleet wrote names that node, but its proof says that it is ours, too.
fn pop_own_routes<'m>(
    routing: &mut Routing,
    request: &Message<'m>,
    view: View<'_>,
) -> Option<Uri<'m>> {
    let mut last = None;
    let mut values = request.values(HeaderName::Route).peekable();
    while let Some(value) = values.next() {
        if routing.drop_last_route && values.peek().is_none() {
            break;
        }
        let uri = if routing.own_routes == 0 {
            request.top_route().copied()
        } else {
            NameAddr::parse(value).and_then(|route| route.uri())
        };
        let below = values.peek().copied();
        let is_ours = |uri: &Uri<'_>| {
            view.settings.domains.is_us(uri) || is_of_fleet(uri, below, request, view)
        };
        if !uri.is_some_and(|uri| is_ours(&uri)) {
            routing.next_route = Some(uri.map_or(value, |uri| uri.bytes).into());
            break;
        }
        routing.own_routes += 1;
        last = uri;
    }
    last
}

/// Checks whether the last of our values proves that the request goes where its dialog leads. It must use the route set
/// of the dialog. Its target must be the one that the dialog began with, or one that a target refresh has set.
fn verify(
    routing: &mut Routing,
    request: &Message<'_>,
    last: &Uri<'_>,
    view: View<'_>,
    knows: impl Fn(u32, u64) -> bool,
) {
    let hasher = &view.shared.hasher;
    let Some((from_tag, to_tag)) = tags(request) else {
        return;
    };
    routing.is_unproven = last.params.contains(proof::PARAMETER);
    // The tags distinguish the parties, and thus which target belongs to which party.
    if from_tag == to_tag {
        return;
    }
    let Some(proof) = proof_of(last, request, hasher) else {
        return;
    };
    let dropped = usize::from(routing.drop_last_route);
    let kept = request.values(HeaderName::Route).count() - dropped;
    let remaining = request
        .values(HeaderName::Route)
        .take(kept)
        .skip(routing.own_routes);
    if proof::routes_hash(remaining, hasher) != proof.routes {
        return;
    }
    let written = routing.request_uri.as_deref();
    let target = proof::target_hash(written.unwrap_or_else(|| request.request_uri()), hasher);
    let is_first_target = target == proof.target && !proof.is_expired(view.now);
    if !is_first_target && !knows(proof.call, target) {
        routing.unknown_target = Some(proof.call).filter(|_| proof.is_call);
        return;
    }
    routing.is_unproven = false;
    routing.dialog = Some(Proven {
        has_other_identity: proof.speaker != proof::speaker_hash(request.from_uri(), hasher),
        is_call: proof.is_call,
        // A target that a response has set proves nothing about the sender of that response.
        is_near: target == proof.target
            && match proof.side {
                Side::Callee => proof.near.callee,
                _ => proof.near.caller,
            },
        expires_soon: proof.is_expired(view.now + view.settings.proxy.dialog_lifetime / 2),
        call: proof.call,
        target,
        other: proof.other,
    });
    routing.flow = last
        .params
        .value(flow_token::PARAMETER)
        .and_then(flow_token::read);
}

/// Removes an `maddr` that names us from the Request-URI, which was meant for us to receive. A port or transport that
/// is not the default only led here too, and is removed with it.
fn strip_own_maddr(written: &[u8], view: View<'_>) -> Option<Box<[u8]>> {
    if !written.contains(&b';') {
        return None;
    }
    let uri = Uri::parse(written).filter(|uri| matches!(uri.scheme, Scheme::Sip | Scheme::Sips))?;
    let maddr = uri.params.value(b"maddr")?;
    let aimed_at = Uri {
        host: Host::parse(maddr)?,
        host_bytes: maddr,
        ..uri
    };
    if !view.settings.domains.is_us(&aimed_at) {
        return None;
    }
    let mut stripped = Vec::with_capacity(written.len());
    let host = uri
        .host_bytes
        .as_ptr()
        .addr()
        .checked_sub(written.as_ptr().addr())?;
    stripped.extend_from_slice(written.get(..host + uri.host_bytes.len())?);
    if uri.port == Some(Protocol::Udp.default_port()) {
        stripped.extend_from_slice(b":5060");
    }
    for (name, value) in uri.params.iter() {
        let led_here =
            name.eq_ignore_ascii_case(b"maddr") || name.eq_ignore_ascii_case(b"transport");
        if !led_here {
            stripped.push(b';');
            stripped.extend_from_slice(name);
            if let Some(value) = value {
                stripped.push(b'=');
                stripped.extend_from_slice(value);
            }
        }
    }
    Some(stripped.into())
}

/// Reads the proof in our Record-Route value. Returns `None` if it is not valid for the dialog that the request claims
/// to belong to. A request without a tag in To begins another dialog, which no proof covers.
fn proof_of(uri: &Uri<'_>, request: &Message<'_>, hasher: &KeyHasher) -> Option<Proof> {
    let text = uri.params.value(proof::PARAMETER)?;
    let token = uri.params.value(flow_token::PARAMETER).unwrap_or_default();
    let (from_tag, to_tag) = tags(request)?;
    Proof::read(text, token, hasher, |side| {
        let call_id = request.call_id().unwrap_or_default();
        match side {
            // The callee is the sender. The proof was created before its tag was known.
            Side::Sole | Side::Caller => Some(Dialog {
                call_id,
                caller_tag: to_tag,
                callee_tag: b"",
            }),
            Side::Callee => Some(Dialog {
                call_id,
                caller_tag: from_tag,
                callee_tag: to_tag,
            }),
            Side::Unanswered => None,
        }
    })
}

/// Returns the tags of a request inside a dialog, From first; `None` outside a dialog. A caller that uses RFC 2543 has
/// no tag.
pub(crate) fn tags<'m>(message: &Message<'m>) -> Option<(&'m [u8], &'m [u8])> {
    let to = message.to()?.tag().filter(|tag| !tag.is_empty())?;
    Some((message.from()?.tag().unwrap_or_default(), to))
}

impl RouteSet {
    /// Extracts what later targets need.
    pub(crate) fn new(routing: &Routing, request: &Message<'_>, listeners: &[Listener]) -> Self {
        let recorded = (routing.own_routes > 1)
            .then(|| {
                request
                    .values(HeaderName::Route)
                    .nth(routing.own_routes - 1)
            })
            .flatten()
            .and_then(|value| listener_of(&NameAddr::parse(value)?.uri()?, listeners));
        Self {
            next: routing.next_route.clone(),
            own: u16::try_from(routing.own_routes).unwrap_or(u16::MAX),
            drop_last: routing.drop_last_route,
            recorded,
            is_near: routing.dialog.is_some_and(|dialog| dialog.is_near),
            repeated: routing.dialog.map(|dialog| Repeated {
                is_call: dialog.is_call,
                receiver: dialog.other,
            }),
            call: routing.dialog.map_or(0, |dialog| dialog.call),
        }
    }
}

impl RouteSet {
    /// Whether a request inside a dialog goes directly to the other party, and its INVITE reached that party, or came
    /// from it, over UDP. Our last value says so: it is the one for the side of the other party.
    pub(crate) fn is_recorded_over_udp(&self, request: &Message<'_>) -> bool {
        let Some(last) = usize::from(self.own).checked_sub(1) else {
            return false;
        };
        let recorded = request.values(HeaderName::Route).nth(last);
        let recorded = recorded.and_then(NameAddr::parse).and_then(|it| it.uri());
        let protocol_is_udp = |uri: &Uri<'_>| {
            let transport = uri.params.value(b"transport");
            uri.scheme == Scheme::Sip
                && transport.is_none_or(|token| protocol_of(token) == Some(Protocol::Udp))
        };
        self.next.is_none()
            && request.to().is_some_and(|to| to.tag().is_some())
            && recorded.is_some_and(|uri| protocol_is_udp(&uri))
    }
}

/// Returns the listener that this Record-Route URI belongs to.
fn listener_of(uri: &Uri<'_>, listeners: &[Listener]) -> Option<ListenerId> {
    let protocol = match (uri.scheme, uri.params.value(b"transport")) {
        (Scheme::Sips, None) => Protocol::Tls,
        (Scheme::Sips, Some(_)) => Protocol::Wss,
        (_, None) => Protocol::Udp,
        (_, Some(token)) => protocol_of(token)?,
    };
    let place = listeners.iter().position(|listener| {
        let advertised = listener.advertised.as_bytes();
        let (host, port) = advertised
            .split_at_checked(uri.host_bytes.len())
            .unwrap_or_default();
        let port = match port {
            [b':', digits @ ..] => std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse().ok()),
            _ => None,
        };
        listener.protocol == protocol
            && host.eq_ignore_ascii_case(uri.host_bytes)
            && port == uri.port
    })?;
    Some(ListenerId(place as u16))
}
