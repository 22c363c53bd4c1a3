//! What the operator decided, resolved and immutable. A reload builds a new one and hands it to every worker.
use crate::Domains;
use crate::proxy::NextHop;
use sip_message::digest::Algorithm;
use sip_transaction::TimerSettings;
use sip_transport::Listener;
use std::time::Duration;

/// What to do with requests for domains that are not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// 403: no open relay.
    Refuse,
    /// Forward them: an operator's explicit choice.
    Relay,
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
}

/// Choices of the proxy (section 16).
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// Requests for other domains.
    pub foreign: Foreign,
    /// Next hop for all that we are not responsible for.
    pub outbound: Option<NextHop>,
    /// Whether dialogs stay on our path.
    pub record_route: bool,
    /// Timer C: how long a branch may ring (over 3 minutes by the RFC; the operator may choose less).
    pub timer_c: Duration,
    /// How long an INVITE branch may go without any provisional response before the next target is tried, and any other request
    /// without any response before the next candidate of its target is; `None`: Timers B and F alone.
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
    /// Methods challenged when they come from a local subscriber (`REGISTER` gets 401, others 407).
    pub challenge: Vec<String>,
    /// Algorithms offered, best first.
    pub algorithms: Vec<Algorithm>,
    /// How long a nonce is good.
    pub nonce_lifetime: Duration,
    /// How long a request waits for the control plane before it is answered 500. Those that wait already keep the time they
    /// were given.
    pub question_deadline: Duration,
    /// Registrar.
    pub registrar: RegistrarSettings,
    /// Proxy.
    pub proxy: ProxySettings,
    /// T1, T2, T4.
    pub timers: TimerSettings,
    /// Table sizes.
    pub limits: TableLimits,
    /// Value of the Server header field in our own responses; empty: none.
    pub server_header: String,
}

impl Settings {
    /// Settings for these domains (the first is the default) and listeners, everything else as a careful operator would have it: `REGISTER` and
    /// `INVITE` challenged with MD5, which every phone knows, no relaying, room for two hundred thousand calls in set-up per worker.
    pub fn new(domains: &[String], listeners: Vec<Listener>) -> Self {
        Self {
            domains: Domains::new(domains, &listeners),
            listeners,
            challenge: vec!["REGISTER".into(), "INVITE".into()],
            algorithms: vec![Algorithm::Md5],
            nonce_lifetime: Duration::from_secs(300),
            question_deadline: Duration::from_secs(5),
            registrar: RegistrarSettings {
                default_expires: Duration::from_secs(3600),
                min_expires: Duration::from_secs(60),
                max_expires: Duration::from_secs(7200),
                max_contacts: 10,
            },
            proxy: ProxySettings {
                foreign: Foreign::Refuse,
                outbound: None,
                record_route: true,
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
                retry_after: 5,
            },
            server_header: String::new(),
        }
    }
}
