//! What the operator decided, resolved and immutable. A reload builds a new one and hands it to every worker.
use crate::Domains;
use crate::bans::BanSettings;
use crate::proxy::NextHop;
use sip_message::Method;
use sip_message::digest::Algorithm;
use sip_transaction::TimerSettings;
use sip_transport::{Listener, Networks};
use std::time::Duration;

/// What to do with requests for domains that are not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// 403: no open relay. Where there is a next hop, subscribers and trusted peers still reach other domains through it.
    Refuse,
    /// Forward those of subscribers and trusted peers.
    Subscribers,
    /// Forward them: an operator's explicit choice.
    Relay,
}

/// What to do with requests for our subscribers from other domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strangers {
    /// Forward the methods of [`ProxySettings::stranger_methods`]: anyone can call.
    Accept,
    /// 403: only subscribers and trusted peers can call.
    Refuse,
}

/// Methods that are challenged when a request speaks for one of our subscribers (`REGISTER` gets 401, others 407). ACK and
/// CANCEL never are (RFC 3261 section 22.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChallengedMethods {
    /// Every method.
    All,
    /// These, in upper case. None: digest is off, the operator trusts the network.
    Listed(Vec<String>),
}

impl ChallengedMethods {
    /// Whether requests with this method are challenged.
    pub fn contains(&self, method: Method<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Listed(methods) => is_listed(methods, method),
        }
    }

    /// Whether digest is off.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Listed(methods) if methods.is_empty())
    }

    /// Turns digest off.
    pub fn clear(&mut self) {
        *self = Self::Listed(Vec::new());
    }
}

/// Whether a list of method names holds this method.
pub(crate) fn is_listed(methods: &[String], method: Method<'_>) -> bool {
    methods
        .iter()
        .any(|name| name.as_bytes() == method.as_bytes())
}

/// Bounds of the registrar (section 10.3).
#[derive(Clone, Debug)]
pub struct RegistrarSettings {
    /// Lifetime where the phone names none.
    pub default_expires: Duration,
    /// Shorter wishes get 423 with Min-Expires.
    pub min_expires: Duration,
    /// Longer wishes are shortened.
    pub max_expires: Duration,
    /// Contacts that one address of record may have; more get 403.
    pub max_contacts: usize,
    /// Whether a phone is reached at the host of its Contact where its REGISTER did not come from there. Otherwise it is reached
    /// where its REGISTER came from: a subscriber can't have calls sent to somebody else, and phones behind NAT are found.
    pub follow_contact: bool,
    /// Whether 200 is sent only once the bindings are in the database.
    pub answer_when_saved: bool,
    /// Age of the oldest change that is not in the database beyond which 200 is sent only then in any case.
    pub longest_unsaved: Duration,
}

/// Choices of the proxy (section 16).
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// Requests for other domains.
    pub foreign: Foreign,
    /// Requests for our subscribers from other domains.
    pub strangers: Strangers,
    /// Methods that other domains may send to our subscribers outside a dialog, in upper case.
    pub stranger_methods: Vec<String>,
    /// Next hop for all that we are not responsible for.
    pub outbound: Option<NextHop>,
    /// Peers whose requests are trusted: their identity header fields are kept (RFC 3325), and they may speak for our subscribers.
    pub trusted_peers: Networks,
    /// Edge proxies, whose Path is accepted (RFC 3327).
    pub edge_proxies: Networks,
    /// Networks that are never targets.
    pub off_limits: Networks,
    /// Whether dialogs stay on our path.
    pub record_route: bool,
    /// How long requests inside a dialog are relayed after the dialog began or its targets were refreshed.
    pub dialog_lifetime: Duration,
    /// Timer C: how long a branch may ring (over 3 minutes by the RFC; the operator may choose less).
    pub timer_c: Duration,
    /// How long an INVITE branch may go without any provisional response before the next target is tried, and any other request
    /// without any response before the next candidate of its target is (8*T1 at least); `None`: Timers B and F alone.
    pub no_answer: Option<Duration>,
    /// For how long a candidate that failed is tried after all others; zero: it is not remembered.
    pub dead_target_lifetime: Duration,
    /// Most targets a request is forked to, and most candidates tried of each.
    pub max_targets: usize,
}

/// Most of everything per worker; what does not fit is answered with 503 and Retry-After.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// Server transactions.
    pub server_transactions: usize,
    /// Client transactions.
    pub client_transactions: usize,
    /// Response contexts: proxied requests that wait for their final response.
    pub response_contexts: usize,
    /// Requests that wait for an answer of the control plane.
    pub parked_requests: usize,
    /// Remote targets of dialogs that changed in the middle of the dialog.
    pub refreshed_targets: usize,
    /// Bytes of messages held by these tables: requests that wait or may be sent again, responses that may be sent again.
    pub held_bytes: usize,
    /// Bytes that may be sent over UDP, for each byte that came, to a sender that has proved nothing.
    pub amplification: u32,
    /// Seconds named in Retry-After.
    pub retry_after: u32,
}

/// Everything a worker must know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Domains we are responsible for.
    pub domains: Domains,
    /// Our addresses.
    pub listeners: Vec<Listener>,
    /// Methods challenged when they come from a local subscriber.
    pub challenge: ChallengedMethods,
    /// Algorithms offered, best first.
    pub algorithms: Vec<Algorithm>,
    /// How long a nonce is good.
    pub nonce_lifetime: Duration,
    /// How long a request waits for the control plane before it is answered 500. Those that wait already keep the time they
    /// were given.
    pub question_deadline: Duration,
    /// What leads to a ban.
    pub bans: BanSettings,
    /// Registrar.
    pub registrar: RegistrarSettings,
    /// Proxy.
    pub proxy: ProxySettings,
    /// T1, T2, T4.
    pub timers: TimerSettings,
    /// Table sizes.
    pub limits: TableLimits,
    /// Most header field lines of a message. One with more is answered 400; no more than 512 are ever read.
    pub max_header_fields: usize,
    /// Value of the Server header field in our own responses; empty: none.
    pub server_header: String,
}

impl Settings {
    /// Settings for these domains (the first is the default) and listeners, everything else as a careful operator would have it: every
    /// method challenged with MD5, which every phone knows, no relaying, room for two hundred thousand calls in set-up per worker.
    pub fn new(domains: &[String], listeners: Vec<Listener>) -> Self {
        Self {
            domains: Domains::new(domains, &listeners),
            listeners,
            challenge: ChallengedMethods::All,
            algorithms: vec![Algorithm::Md5],
            nonce_lifetime: Duration::from_secs(300),
            question_deadline: Duration::from_secs(5),
            bans: BanSettings::default(),
            registrar: RegistrarSettings {
                default_expires: Duration::from_secs(3600),
                min_expires: Duration::from_secs(60),
                max_expires: Duration::from_secs(7200),
                max_contacts: 10,
                follow_contact: false,
                answer_when_saved: false,
                longest_unsaved: Duration::from_millis(520),
            },
            proxy: ProxySettings {
                foreign: Foreign::Refuse,
                strangers: Strangers::Accept,
                stranger_methods: vec!["INVITE".into(), "MESSAGE".into()],
                outbound: None,
                trusted_peers: Networks::default(),
                edge_proxies: Networks::default(),
                off_limits: Networks::default(),
                record_route: true,
                dialog_lifetime: Duration::from_secs(24 * 3600),
                timer_c: Duration::from_secs(185),
                no_answer: None,
                dead_target_lifetime: Duration::from_secs(30),
                max_targets: 10,
            },
            timers: TimerSettings::default(),
            limits: TableLimits {
                server_transactions: 400_000,
                client_transactions: 400_000,
                response_contexts: 200_000,
                parked_requests: 20_000,
                refreshed_targets: 100_000,
                held_bytes: 256 << 20,
                amplification: 3,
                retry_after: 5,
            },
            max_header_fields: 256,
            server_header: String::new(),
        }
    }
}
