//! The operator's configuration, resolved and immutable. A reload builds new settings and passes them to every worker.
use crate::Domains;
use crate::bans::BanSettings;
use crate::routing::NextHop;
use sip_dialog::SessionTimerSettings;
use sip_message::digest::Algorithm;
use sip_message::{KeyHasher, Method};
use sip_routing::Policy;
use sip_transaction::TimerSettings;
use sip_transport::{Listener, Networks};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What to do with requests for domains that are not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// 403: not an open relay. If there is a next hop, subscribers and trusted peers can still reach other domains through it.
    Refuse,
    /// Forward requests of subscribers and trusted peers.
    Subscribers,
    /// Forward all requests. The operator must choose this explicitly.
    Relay,
}

/// What to do with requests from other domains for our subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strangers {
    /// Forward the methods in [`ProxySettings::stranger_methods`], so that anyone can call.
    Accept,
    /// 403: only subscribers and trusted peers can call.
    Refuse,
}

/// The methods that are challenged if a request speaks for one of our subscribers. `REGISTER` gets 401, others get 407.
/// ACK and CANCEL are never challenged (RFC 3261 section 22.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChallengedMethods {
    /// Every method.
    All,
    /// These methods. If empty, digest is off and the operator trusts the network.
    Listed(Vec<Method<'static>>),
}

impl ChallengedMethods {
    /// Whether requests with this method are challenged.
    pub fn contains(&self, method: Method<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Listed(methods) => methods.contains(&method),
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

/// Settings of the registrar (section 10.3).
#[derive(Clone, Debug)]
pub struct RegistrarSettings {
    /// The lifetime of a binding if the phone asks for none.
    pub default_expires: Duration,
    /// The shortest lifetime. Shorter ones get 423 with Min-Expires.
    pub min_expires: Duration,
    /// The longest lifetime. Longer ones are shortened.
    pub max_expires: Duration,
    /// The maximum number of contacts of an address of record. More get 403.
    pub max_contacts: usize,
    /// Whether the server sends requests to the host in a phone's Contact even if its REGISTER came from another address.
    ///
    /// Otherwise it sends them to the source of the REGISTER. Then a subscriber cannot direct calls to others, and phones
    /// behind NAT are reachable.
    pub follow_contact: bool,
    /// Whether the 200 always waits until the bindings are in the database.
    pub answer_when_saved: bool,
    /// If the oldest unsaved change is older than this, the 200 waits in any case.
    pub longest_unsaved: Duration,
}

/// Whether the control plane sees the session descriptions (SDP) of forwarded messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionDescriptions {
    /// They pass unchanged.
    Pass,
    /// Each message with one waits until the control plane has answered [`Question::Describe`](crate::Question::Describe), except
    /// the ACK of a 2xx.
    Ask,
}

/// What happens to the redirections (3xx) of our subscribers' phones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// They pass to the caller.
    Pass,
    /// The server calls the contacts on behalf of the subscriber (section 16.7 step 4). Other redirections pass.
    Recurse,
}

/// The header fields that tell the next callee who has diverted a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiversionHeaders {
    /// None.
    None,
    /// Diversion (RFC 5806).
    Diversion,
    /// History-Info (RFC 7044).
    HistoryInfo,
    /// Both.
    Both,
}

/// Settings of calls that their callees divert.
#[derive(Clone, Copy, Debug)]
pub struct DiversionSettings {
    /// How often a call may be diverted. The Diversion values that it arrives with count.
    pub most: usize,
    /// The header fields of a diverted call.
    pub headers: DiversionHeaders,
    /// What happens to redirections.
    pub redirects: Redirects,
}

impl Default for DiversionSettings {
    fn default() -> Self {
        Self {
            most: 5,
            headers: DiversionHeaders::Both,
            redirects: Redirects::Pass,
        }
    }
}

/// Settings of the proxy (section 16).
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// What to do with requests for other domains.
    pub foreign: Foreign,
    /// What to do with requests from other domains for our subscribers.
    pub strangers: Strangers,
    /// Methods that other domains may send to our subscribers outside a dialog.
    pub stranger_methods: Vec<Method<'static>>,
    /// Event packages that subscribers' phones do not report: SUBSCRIBE and PUBLISH for one of our subscribers get 489.
    pub refused_events: Vec<String>,
    /// The next hop for all requests that this server is not responsible for.
    pub outbound: Option<NextHop>,
    /// Trusted peers. Their identity header fields are kept (RFC 3325), and they may speak for our subscribers.
    pub trusted_peers: Networks,
    /// Edge proxies, whose Path is accepted (RFC 3327).
    pub edge_proxies: Networks,
    /// Networks that the server never sends requests to.
    pub off_limits: Networks,
    /// Whether the control plane sees and may replace session descriptions.
    pub session_descriptions: SessionDescriptions,
    /// Calls that their callees divert.
    pub diversions: DiversionSettings,
    /// Whether the server stays on the path of dialogs.
    pub record_route: bool,
    /// How long requests inside a dialog are relayed after the dialog began or its targets were refreshed.
    pub dialog_lifetime: Duration,
    /// Timer C: how long a branch may ring. The RFC demands more than 3 minutes; the operator may choose less.
    pub timer_c: Duration,
    /// How long an INVITE may stay without a final response, however often it rings: provisional responses move Timer C, but not this.
    pub max_ringing: Duration,
    /// How long to wait before failing over. `None`: Timers B and F alone decide.
    ///
    /// - An INVITE branch without a provisional response: then the next target is tried.
    /// - Any other request without a response: then the next candidate of its target is tried, after 8*T1 at the earliest.
    pub no_answer: Option<Duration>,
    /// How long a failed candidate is tried after all others. Zero: failures are not remembered.
    pub dead_target_lifetime: Duration,
    /// The maximum number of targets that a request is forked to, and of candidates that are tried for each target.
    pub max_targets: usize,
}

/// Settings of dialogs.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct DialogSettings {
    /// Whether the end of each call is recorded ([`Record::Call`](crate::Record::Call)).
    pub records: bool,
    /// Whether each change of a call is recorded. The control plane switches this at any time, when something begins or ceases to follow
    /// calls.
    pub events: Arc<AtomicBool>,
    /// Whether both parties get a BYE when the life of a dialog is over.
    pub bye_at_end: bool,
    /// Whether each confirmed dialog is recorded for a restart ([`Record::Dialog`](crate::Record::Dialog)).
    pub persist: bool,
    /// Whether other nodes may have the dialogs of requests, and a store can be asked for them: a dialog that is missing here is reported
    /// ([`Record::Missed`](crate::Record::Missed)), and may be adopted ([`ControlMessage::Adopt`](crate::ControlMessage::Adopt)).
    pub adopts: bool,
}

impl Default for DialogSettings {
    fn default() -> Self {
        Self {
            records: false,
            events: Arc::default(),
            bye_at_end: false,
            persist: true,
            adopts: false,
        }
    }
}

/// Table sizes of each worker. A request that exceeds one gets 503 with Retry-After.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// Server transactions.
    pub server_transactions: usize,
    /// Client transactions.
    pub client_transactions: usize,
    /// Response contexts: proxied requests that wait for their final response.
    pub response_contexts: usize,
    /// Dialogs, early ones included.
    pub dialogs: usize,
    /// Requests that wait for an answer of the control plane.
    pub parked_requests: usize,
    /// Remote targets that changed during their dialog.
    pub refreshed_targets: usize,
    /// Message bytes in these tables: requests that wait or may be sent again, and responses that may be sent again.
    pub held_bytes: usize,
    /// Bytes that may be sent over UDP for each byte received, to a sender that has proven nothing.
    pub amplification: u32,
    /// The value of Retry-After, in seconds.
    pub retry_after: u32,
}

/// The settings of a worker.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The domains that this server is responsible for.
    pub domains: Domains,
    /// The server's own addresses.
    pub listeners: Vec<Listener>,
    /// Keyed hashes with the secret of the fleet, with which its edges prove which client a request comes from. `None`: there are no edges.
    pub fleet: Option<KeyHasher>,
    /// The methods that are challenged if they come from a local subscriber.
    pub challenge: ChallengedMethods,
    /// The digest algorithms to offer, best first.
    pub algorithms: Vec<Algorithm>,
    /// The lifetime of a nonce.
    pub nonce_lifetime: Duration,
    /// How long a request waits for the control plane before it is answered with 500. A reload does not affect requests
    /// that already wait.
    pub question_deadline: Duration,
    /// When failures lead to a ban.
    pub bans: BanSettings,
    /// Settings of the registrar.
    pub registrar: RegistrarSettings,
    /// Settings of the proxy.
    pub proxy: ProxySettings,
    /// Session timers (RFC 4028). `None`: the header fields of session timers pass unchanged.
    pub session_timers: Option<SessionTimerSettings>,
    /// Settings of dialogs.
    pub dialogs: DialogSettings,
    /// T1, T2 and T4.
    pub timers: TimerSettings,
    /// Table sizes.
    pub limits: TableLimits,
    /// Where new calls go, and whether they may.
    pub policy: Arc<Policy>,
    /// The maximum number of header field lines in a message. A message with more is answered with 400. The parser never
    /// reads more than 512.
    pub max_header_fields: usize,
    /// The value of the Server header field in the server's own responses. Empty: no Server header field.
    pub server_header: String,
}

impl Default for RegistrarSettings {
    fn default() -> Self {
        Self {
            default_expires: Duration::from_secs(3_600),
            min_expires: Duration::from_secs(60),
            max_expires: Duration::from_secs(7_200),
            max_contacts: 10,
            follow_contact: false,
            answer_when_saved: false,
            longest_unsaved: Duration::from_millis(520),
        }
    }
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            foreign: Foreign::Refuse,
            strangers: Strangers::Accept,
            stranger_methods: vec![Method::Invite, Method::Message],
            refused_events: ["message-summary", "presence", "reg"]
                .map(str::to_owned)
                .to_vec(),
            outbound: None,
            trusted_peers: Networks::default(),
            edge_proxies: Networks::default(),
            off_limits: Networks::default(),
            session_descriptions: SessionDescriptions::Pass,
            diversions: DiversionSettings::default(),
            record_route: true,
            dialog_lifetime: Duration::from_secs(24 * 3_600),
            timer_c: Duration::from_secs(185),
            max_ringing: Duration::from_secs(1_800),
            no_answer: Some(Duration::from_secs(3)),
            dead_target_lifetime: Duration::from_secs(30),
            max_targets: 16,
        }
    }
}

impl Default for TableLimits {
    fn default() -> Self {
        Self {
            server_transactions: 400_000,
            client_transactions: 400_000,
            response_contexts: 200_000,
            dialogs: 400_000,
            parked_requests: 20_000,
            refreshed_targets: 100_000,
            held_bytes: 256 << 20,
            amplification: 3,
            retry_after: 10,
        }
    }
}

impl Settings {
    /// Creates settings with careful defaults for these domains (the first is the default) and listeners. These are also the defaults of
    /// the server's configuration file.
    ///
    /// - Every method is challenged, with MD5, which every phone supports.
    /// - No relaying.
    /// - Session timers of half an hour.
    /// - Room for two hundred thousand calls in set-up per worker.
    pub fn new(domains: &[String], listeners: Vec<Listener>) -> Self {
        Self {
            domains: Domains::new(domains, &listeners),
            listeners,
            fleet: None,
            challenge: ChallengedMethods::All,
            algorithms: vec![Algorithm::Md5],
            nonce_lifetime: Duration::from_secs(300),
            question_deadline: Duration::from_secs(3),
            bans: BanSettings::default(),
            registrar: RegistrarSettings::default(),
            proxy: ProxySettings::default(),
            session_timers: Some(SessionTimerSettings::default()),
            dialogs: DialogSettings::default(),
            timers: TimerSettings::default(),
            limits: TableLimits::default(),
            policy: Arc::default(),
            max_header_fields: 256,
            server_header: "Tandem".to_owned(),
        }
    }
}
