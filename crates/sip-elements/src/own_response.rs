//! Responses that the server itself generates. This is the one place that turns a refusal into a status code.

use crate::WorkerParts;
use crate::auth::{self, Challenge, Challenger};
use crate::metrics::{Challenged, Stage};
use crate::phase::edge;
use rand_chacha::rand_core::Rng;
use sip_message::{
    Credentials, HeaderName, Message, Method, ResponseWriter, TransactionKey, digest, reason_phrase,
};
use sip_transaction::{Admission, Full, Kind, Sender, ServerId};
use sip_transport::{Flow, Time, response_flow};
use std::net::{IpAddr, SocketAddr};

/// The methods that the server handles as a user agent server or forwards with understanding (`Allow`).
pub(crate) const ALLOW: &[u8] =
    b"INVITE, ACK, CANCEL, BYE, REGISTER, OPTIONS, INFO, PRACK, UPDATE, MESSAGE, SUBSCRIBE, NOTIFY, REFER, PUBLISH";

/// The methods that the server answers itself, for requests to the server itself (section 8.2.1).
const ALLOW_HERE: &[u8] = b"ACK, CANCEL, OPTIONS, REGISTER";

/// The source of a request and, once it has one, its server transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The flow on which the request was received.
    pub(crate) flow: Flow,
    /// The address of the client: behind an edge of the fleet, not that of the flow.
    pub(crate) client: IpAddr,
    /// The key of the server transaction, once it has been looked up.
    pub(crate) key: Option<TransactionKey>,
    /// The server transaction. `None`: the request is answered statelessly.
    pub(crate) server: Option<ServerId>,
    /// When the request was received.
    pub(crate) received: Time,
    /// How often the request has waited for the control plane.
    pub(crate) questions_asked: u8,
    /// What the sender has proven so far.
    pub(crate) sender: Sender,
}

impl Origin {
    /// The origin of a new request. Trusted peers need no proof.
    pub(crate) fn new(parts: &WorkerParts<'_>, flow: Flow) -> Self {
        Self::from_client(parts, flow, flow.remote.ip())
    }

    /// The origin of a new request that an edge of the fleet may have forwarded.
    pub(crate) fn of(parts: &WorkerParts<'_>, request: &Message<'_>, flow: Flow) -> Self {
        Self::from_client(parts, flow, edge::client(parts.settings, request, flow))
    }

    fn from_client(parts: &WorkerParts<'_>, flow: Flow, address: IpAddr) -> Self {
        let sender = if parts.settings.proxy.trusted_peers.contains(address) {
            Sender::Known(None)
        } else {
            Sender::Stranger(address)
        };
        Self {
            flow,
            client: address,
            key: None,
            server: None,
            received: parts.arrived,
            questions_asked: 0,
            sender,
        }
    }

    /// The flow as policy sees it: from the client.
    pub(crate) const fn from(&self) -> Flow {
        let port = self.flow.remote.port();
        Flow {
            remote: SocketAddr::new(self.client, port),
            ..self.flow
        }
    }

    /// Records what the sender has proven.
    ///
    /// # Errors
    /// The limit for senders of this class is reached.
    pub(crate) fn prove(
        &mut self,
        parts: &mut WorkerParts<'_>,
        sender: fn(Option<IpAddr>) -> Sender,
    ) -> Result<(), Refusal> {
        let sender = sender(self.sender.source());
        if self.is_stranger()
            && let Some(server) = self.server
        {
            parts.transactions.know_server(server, sender)?;
        }
        self.sender = sender;
        Ok(())
    }

    /// The request's server transaction. It is created now, unless the request got one when it was parked.
    ///
    /// # Errors
    /// The request has no usable Via, or the table has no room for senders of this class.
    pub(crate) fn server_transaction(
        &mut self,
        parts: &mut WorkerParts<'_>,
        request: &Message<'_>,
    ) -> Result<ServerId, Refusal> {
        if let Some(server) = self.server {
            return Ok(server);
        }
        let key = self
            .key
            .or_else(|| parts.shared.hasher.server_transaction(request))
            .ok_or(Refusal::Because(400, "Bad Via"))?;
        let kind = if request.method() == Method::Invite {
            Kind::Invite
        } else {
            Kind::NonInvite
        };
        let flow = request
            .top_via()
            .map_or(self.flow, |via| response_flow(self.flow, &via));
        let listener = parts.settings.listeners.get(usize::from(flow.listener.0));
        let reliable = listener.is_some_and(|listener| listener.protocol.is_reliable());
        let server = parts.transactions.admit_server(&Admission {
            key,
            kind,
            flow,
            reliable,
            sender: self.sender,
            size: request.bytes().len(),
        })?;
        self.server = Some(server);
        Ok(server)
    }

    /// Whether the sender has proven nothing.
    pub(crate) const fn is_stranger(&self) -> bool {
        matches!(self.sender, Sender::Stranger(_))
    }
}

/// Why a request is not processed further. [`respond`] turns it into the response.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A status with its standard reason phrase.
    Status(u16),
    /// A status with a more specific reason phrase.
    Because(u16, &'static str),
    /// 401 or 407.
    Challenge {
        challenger: Challenger,
        realm: String,
        stale: bool,
    },
    /// 420, with the option tags that the server does not support (section 8.2.2.3).
    BadExtension(Vec<u8>),
    /// 422, with the shortest session interval that the server accepts, in seconds (RFC 4028 section 8.1).
    IntervalTooSmall { min_se: u32 },
    /// As a routing rule or a limit says.
    Rule {
        status: u16,
        /// `None`: that of the RFC.
        reason: Option<Box<str>>,
        /// In seconds.
        retry_after: Option<u32>,
    },
    /// 302 with these URIs, best first.
    Redirect(Box<[Box<str>]>),
    /// 405, with the methods that are allowed here.
    NotAllowed,
    /// 489, with an event package that phones can report (RFC 6665 section 8.2.2).
    BadEvent,
    /// 503 with Retry-After: a table is full, or the node drains.
    Busy(&'static str),
    /// 503 with Retry-After: the server is overloaded. The time varies, so that clients do not retry all at once.
    Overloaded,
    /// 200 to an OPTIONS or a keep-alive for this server.
    Okay,
}

impl From<Full> for Refusal {
    fn from(_: Full) -> Self {
        Self::Busy("Too many transactions")
    }
}

impl Refusal {
    const fn status(&self) -> u16 {
        match self {
            Self::Status(status) | Self::Because(status, _) | Self::Rule { status, .. } => *status,
            Self::Redirect(_) => 302,
            Self::Challenge {
                challenger: Challenger::Registrar,
                ..
            } => 401,
            Self::Challenge {
                challenger: Challenger::Proxy,
                ..
            } => 407,
            Self::BadExtension(_) => 420,
            Self::IntervalTooSmall { .. } => 422,
            Self::NotAllowed => 405,
            Self::BadEvent => 489,
            Self::Busy(_) | Self::Overloaded => 503,
            Self::Okay => 200,
        }
    }

    fn reason(&self) -> &str {
        match self {
            Self::Because(_, reason) | Self::Busy(reason) => reason,
            Self::Rule {
                reason: Some(reason),
                ..
            } => reason,
            other => reason_phrase(other.status()),
        }
    }
}

/// The length of [`own_tag`] in bytes.
const OWN_TAG_LENGTH: usize = 16;

/// The To tag of the server's own responses. It can be computed again from a retransmission, or from the ACK of a non-2xx
/// response. So the server recognizes requests that it answered statelessly (section 8.2.7).
pub(crate) fn own_tag(parts: &WorkerParts<'_>, request: &Message<'_>) -> [u8; OWN_TAG_LENGTH] {
    let branch = request
        .top_via()
        .and_then(|via| via.branch())
        .unwrap_or_default();
    let from_tag = request
        .from()
        .and_then(|from| from.tag())
        .unwrap_or_default();
    let call_id = request.call_id().unwrap_or_default();
    hex(parts
        .shared
        .hasher
        .hash(&[b"tag", call_id, from_tag, branch]))
}

/// Whether a request is the ACK of one of the server's own responses, by its To tag.
pub(crate) fn is_ack_of_ours(parts: &WorkerParts<'_>, request: &Message<'_>) -> bool {
    request.method() == Method::Ack
        && request
            .to()
            .and_then(|to| to.tag())
            .is_some_and(|tag| tag.len() == OWN_TAG_LENGTH && *tag == own_tag(parts, request))
}

/// Whether a request has all header fields that a response must copy (section 8.2.6.2). It may be malformed otherwise.
pub(crate) fn is_answerable(request: &Message<'_>) -> bool {
    request.is_request()
        && request.top_via().is_some()
        && request.from().is_some()
        && request.to().is_some()
        && request.call_id().is_some()
        && request.cseq().is_some()
}

/// Formats a number as sixteen lower-case hex digits.
pub(crate) fn hex(value: u64) -> [u8; 16] {
    digest::hex(&value.to_be_bytes())
}

/// Sends the final response for a refusal, through the server transaction if there is one.
///
/// A stranger is refused statelessly unless the request was parked, because its address may be forged. It gets one
/// response and no retransmissions, until it retransmits the request.
pub(crate) fn respond(
    parts: &mut WorkerParts<'_>,
    request: &Message<'_>,
    origin: &Origin,
    refusal: &Refusal,
) {
    if request.method() == Method::Ack {
        return; // An ACK is never answered (section 17).
    }
    if matches!(refusal, Refusal::Busy(_)) {
        parts.metrics.refused_full.increment();
    }
    if let Refusal::Challenge { realm, stale, .. } = refusal {
        count_challenge(parts, request, realm, *stale);
    }
    let mut origin = *origin;
    if origin.is_stranger()
        && origin.questions_asked == 0
        && let Some(server) = origin.server.take()
    {
        parts.transactions.abandon_server(server);
    }
    let tag = own_tag(parts, request);
    let retry_after = match refusal {
        Refusal::Overloaded => spread_retry_after(parts),
        _ => parts.settings.limits.retry_after,
    };
    let (shared, settings, now) = (parts.shared, parts.settings, parts.now);
    send(parts, request, &origin, refusal.status(), |into| {
        let begun = ResponseWriter::begin(
            into,
            request,
            origin.flow.remote,
            refusal.status(),
            refusal.reason(),
            Some(&tag),
        );
        let mut response = with_server_header(begun, &settings.server_header);
        response = match refusal {
            Refusal::Challenge {
                challenger,
                realm,
                stale,
            } => auth::add_challenges(
                response,
                &Challenge {
                    challenger: *challenger,
                    realm: realm.as_bytes(),
                    source: settings.source(origin.client),
                    stale: *stale,
                },
                &shared.nonces,
                settings,
                now,
            ),
            Refusal::BadExtension(tags) => response.header(HeaderName::Unsupported, tags),
            Refusal::IntervalTooSmall { min_se } => {
                response.header(HeaderName::MinSe, min_se.to_string().as_bytes())
            }
            Refusal::NotAllowed => response.header(HeaderName::Allow, ALLOW_HERE),
            Refusal::BadEvent => response.raw_header(b"Allow-Events", b"refer"),
            Refusal::Rule {
                retry_after: Some(seconds),
                ..
            } => response.header(HeaderName::RetryAfter, seconds.to_string().as_bytes()),
            Refusal::Redirect(uris) => with_contacts(response, uris),
            Refusal::Busy(_) => response.header(
                HeaderName::RetryAfter,
                settings.limits.retry_after.to_string().as_bytes(),
            ),
            Refusal::Okay if request.method() == Method::Options => response
                .header(HeaderName::Allow, ALLOW)
                .header(HeaderName::Accept, b"application/sdp")
                .header(HeaderName::Supported, b"path, outbound"),
            Refusal::Overloaded => {
                response.header(HeaderName::RetryAfter, retry_after.to_string().as_bytes())
            }
            _ => response,
        };
        response.finish();
    });
}

/// Adds the contacts of a redirection, best first: each has a lower `q` than the one before (RFC 3261 section 20.10).
fn with_contacts<'o>(response: ResponseWriter<'o>, uris: &[Box<str>]) -> ResponseWriter<'o> {
    let thousandths = (0..20).map(|place| 1000 - 50 * place);
    uris.iter()
        .zip(thousandths)
        .fold(response, |response, (uri, q)| {
            let contact = format!("<{uri}>;q={}.{:03}", q / 1000, q % 1000);
            response.header(HeaderName::Contact, contact.as_bytes())
        })
}

/// A random number of seconds for Retry-After, between the configured value and twice that value.
fn spread_retry_after(parts: &mut WorkerParts<'_>) -> u32 {
    let least = parts.settings.limits.retry_after;
    let spread = parts.random.next_u32() % least.saturating_add(1);
    least.saturating_add(spread)
}

/// Counts a challenge by its cause: no credentials for the realm, or credentials that prove nothing.
fn count_challenge(parts: &WorkerParts<'_>, request: &Message<'_>, realm: &str, stale: bool) {
    let for_realm = |name| {
        let mut credentials = request.values(name).filter_map(Credentials::parse);
        credentials.any(|credentials| credentials.realm == realm.as_bytes())
    };
    let cause = if stale {
        Challenged::Stale
    } else if for_realm(HeaderName::Authorization) || for_realm(HeaderName::ProxyAuthorization) {
        Challenged::Failed
    } else {
        Challenged::First
    };
    if let Some(counter) = parts.metrics.challenges.get(cause as usize) {
        counter.increment();
    }
    if request.method() == Method::Invite {
        parts.record(Stage::Challenge);
    }
}

/// How many lines of a message with too many header fields are examined. The parser reads no more than this either.
const MAX_LINES: usize = 512;

/// Refuses a request of which only the beginning was received or parsed. This works if the beginning has the header
/// fields that a response must copy (section 8.2.6.2). It nearly always has.
pub(crate) fn respond_to_truncated(
    parts: &mut WorkerParts<'_>,
    flow: Flow,
    bytes: &[u8],
    refusal: &Refusal,
) {
    let lines = bytes.split_inclusive(|octet| *octet == b'\n');
    let length = lines.take(MAX_LINES).map(<[u8]>::len).sum();
    let beginning = bytes.get(..length).unwrap_or_default();
    let Ok(request) = Message::parse(beginning) else {
        return;
    };
    if is_answerable(&request) {
        let origin = Origin::new(parts, flow);
        respond(parts, &request, &origin, refusal);
    }
}

/// Adds `Server` if the operator configured it.
pub(crate) fn with_server_header<'o>(
    response: ResponseWriter<'o>,
    value: &str,
) -> ResponseWriter<'o> {
    if value.is_empty() {
        response
    } else {
        response.header(HeaderName::Server, value.as_bytes())
    }
}

/// Sends the final response that `write` writes, statelessly or through the transaction, and counts it.
pub(crate) fn send(
    parts: &mut WorkerParts<'_>,
    request: &Message<'_>,
    origin: &Origin,
    status: u16,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let method = request.method().label_index();
    if let Some(latency) = parts.metrics.latency.get(method) {
        latency.record(parts.now - origin.received);
    }
    if let Some(server) = origin.server {
        parts
            .transactions
            .respond(parts.now, server, status, parts.output, write);
    } else {
        let flow = request
            .top_via()
            .map_or(origin.flow, |via| response_flow(origin.flow, &via));
        parts.output.send(flow, write);
    }
    parts.metrics.sent(method, status);
}

/// Sends `100 Trying` for an INVITE (section 17.2.1), so that the client does not retransmit it. It is sent once: a
/// parked request got it before it is forwarded.
pub(crate) fn send_trying(
    parts: &mut WorkerParts<'_>,
    request: &Message<'_>,
    source: Flow,
    server: ServerId,
) {
    if parts.transactions.server_has_responded(server) {
        return;
    }
    let written = parts
        .transactions
        .respond(parts.now, server, 100, parts.output, |into| {
            ResponseWriter::begin(into, request, source.remote, 100, reason_phrase(100), None)
                .finish();
        });
    // Without credit nothing is sent. The sender may have proven itself when the 100 is due again.
    if written.is_some_and(|range| !range.is_empty()) {
        parts.metrics.sent(request.method().label_index(), 100);
    }
}
