//! Route preprocessing (RFC 3261 section 16.4), Record-Route (section 16.6 step 4, RFC 5658), and the cookie in it.
//!
//! What we put into Record-Route is `<sip:ADVERTISED;lr;ck=HASH>`, with `;fl=TOKEN` where the party on that side is reached over
//! one flow only. The cookie is a keyed hash of the Call-ID and the token: a request that brings it back in its Route belongs to a
//! dialog that we record-routed.

use super::flow_token;
use super::target::protocol_of;
use crate::Round;
use crate::answer::hex;
use sip_message::{HeaderName, Host, KeyHasher, Message, Method, NameAddr, Scheme, Uri};
use sip_transport::{Flow, Listener, ListenerId, Protocol};

/// Name of the URI parameter that carries the cookie.
const COOKIE: &[u8] = b"ck";

/// What route preprocessing (section 16.4) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// The Request-URI after strict-route repair or maddr handling; `None`: as received.
    pub request_uri: Option<Box<[u8]>>,
    /// How many topmost Route values name us and go.
    pub own_routes: usize,
    /// The last Route value went into the Request-URI and must go (strict router upstream).
    pub drop_last_route: bool,
    /// The topmost remaining Route URI; `None`: the Request-URI decides.
    pub next_route: Option<Box<[u8]>>,
    /// A Route value of ours carried a valid cookie: this dialog was record-routed by us.
    pub in_our_dialog: bool,
    /// The flow that the last of our Route values names: the only way to the other party.
    pub flow: Option<Flow>,
}

/// What a response context keeps of the [`Routing`] for its later targets.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteSet {
    /// The topmost Route URI that is not ours.
    pub(super) next: Option<Box<[u8]>>,
    /// Topmost values to remove.
    pub(super) own: u16,
    /// The last value goes too.
    pub(super) drop_last: bool,
    /// The listener that the last of two own values names: the side of the other party (RFC 5658).
    pub(super) recorded: Option<ListenerId>,
}

/// Section 16.4 for a request: which Route values are ours, what the Request-URI really is.
pub fn preprocess(request: &Message<'_>, round: &Round<'_>) -> Routing {
    let mut routing = Routing::default();
    if request.header(HeaderName::Route).is_some() {
        repair_strict_route(&mut routing, request, round);
        pop_own_routes(&mut routing, request, round);
    }
    let written = routing
        .request_uri
        .as_deref()
        .unwrap_or_else(|| request.request_uri());
    if let Some(stripped) = strip_own_maddr(written, round) {
        routing.request_uri = Some(stripped);
    }
    routing
}

/// A strict router upstream put our Record-Route value into the Request-URI and the real one at the end of the Route.
fn repair_strict_route(routing: &mut Routing, request: &Message<'_>, round: &Round<'_>) {
    // Nearly every Request-URI names a user; what we put into Record-Route does not.
    let written = Some(request.request_uri()).filter(|uri| !uri.contains(&b'@'));
    let Some(uri) = written.and_then(Uri::parse) else {
        return;
    };
    let recorded = uri.scheme == Scheme::Sip
        && uri.user.is_none()
        && uri.params.contains(b"lr")
        && round.settings.domains.is_own_address(&uri);
    if !recorded {
        return;
    }
    if let Some(last) = request
        .values(HeaderName::Route)
        .last()
        .and_then(NameAddr::parse)
    {
        routing.request_uri = Some(last.uri_bytes.into());
        routing.drop_last_route = true;
        routing.in_our_dialog = has_cookie(&uri, request, &round.shared.hasher);
    }
}

/// Counts the topmost values that name us; the one below them is the next hop.
fn pop_own_routes(routing: &mut Routing, request: &Message<'_>, round: &Round<'_>) {
    let mut values = request.values(HeaderName::Route).peekable();
    while let Some(value) = values.next() {
        if routing.drop_last_route && values.peek().is_none() {
            return;
        }
        let uri = if routing.own_routes == 0 {
            request.top_route().copied()
        } else {
            NameAddr::parse(value).and_then(|route| route.uri())
        };
        if !uri.is_some_and(|uri| round.settings.domains.is_us(&uri)) {
            routing.next_route = Some(uri.map_or(value, |uri| uri.bytes).into());
            return;
        }
        routing.own_routes += 1;
        let recorded = uri.filter(|uri| has_cookie(uri, request, &round.shared.hasher));
        routing.in_our_dialog |= recorded.is_some();
        routing.flow = recorded
            .and_then(|uri| uri.params.value(flow_token::PARAMETER))
            .and_then(flow_token::read);
    }
}

/// A Request-URI whose `maddr` names us was meant for us to receive: `maddr` goes, and with it what only led here, a port or
/// transport that is not the default.
fn strip_own_maddr(written: &[u8], round: &Round<'_>) -> Option<Box<[u8]>> {
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
    if !round.settings.domains.is_us(&aimed_at) {
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

/// Whether a request belongs to a dialog, and the URI carries its cookie. Without a tag in To it would begin another dialog, to
/// which the cookie gives no right.
fn has_cookie(uri: &Uri<'_>, request: &Message<'_>, hasher: &KeyHasher) -> bool {
    let token = uri.params.value(flow_token::PARAMETER).unwrap_or_default();
    uri.params
        .value(COOKIE)
        .is_some_and(|cookie| cookie == hex(cookie_of(request, token, hasher)).as_slice())
        && request.to().and_then(|to| to.tag()).is_some()
}

fn cookie_of(request: &Message<'_>, token: &[u8], hasher: &KeyHasher) -> u64 {
    let call_id = request.call_id().unwrap_or_default();
    match token {
        [] => hasher.hash(&[b"record-route", call_id]),
        token => hasher.hash(&[b"record-route", call_id, token]),
    }
}

/// Whether a request gets our Record-Route: INVITE, SUBSCRIBE, NOTIFY and REFER create dialogs or renew their route sets (RFC
/// 3261 section 16.6 step 4, RFC 6665 section 4.3), so may a method that we do not know when it is outside a dialog.
/// All others never make a dialog.
pub(super) fn is_record_routed(request: &Message<'_>) -> bool {
    match request.method() {
        Method::Invite | Method::Subscribe | Method::Notify | Method::Refer => true,
        Method::Other(_) => request.to().and_then(|to| to.tag()).is_none(),
        _ => false,
    }
}

/// Appends our Record-Route value for the side of one listener, and of one flow where that is the only way.
pub(super) fn write_record_route(
    into: &mut Vec<u8>,
    listener: &Listener,
    flow: Option<Flow>,
    request: &Message<'_>,
    hasher: &KeyHasher,
) {
    into.extend_from_slice(b"<sip:");
    into.extend_from_slice(listener.advertised.as_bytes());
    if listener.protocol != Protocol::Udp {
        into.extend_from_slice(b";transport=");
        into.extend(
            listener
                .protocol
                .via_token()
                .bytes()
                .map(|octet| octet.to_ascii_lowercase()),
        );
    }
    into.extend_from_slice(b";lr;");
    let mut token = Vec::new();
    if let Some(flow) = flow {
        flow_token::write(&mut token, flow);
        into.extend_from_slice(flow_token::PARAMETER);
        into.push(b'=');
        into.extend_from_slice(&token);
        into.push(b';');
    }
    into.extend_from_slice(COOKIE);
    into.push(b'=');
    into.extend_from_slice(&hex(cookie_of(request, &token, hasher)));
    into.push(b'>');
}

impl RouteSet {
    /// What later targets need.
    pub(super) fn new(routing: &Routing, request: &Message<'_>, listeners: &[Listener]) -> Self {
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
        }
    }
}

/// The listener whose Record-Route value a URI is.
fn listener_of(uri: &Uri<'_>, listeners: &[Listener]) -> Option<ListenerId> {
    let protocol = uri
        .params
        .value(b"transport")
        .map_or(Some(Protocol::Udp), protocol_of)?;
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
