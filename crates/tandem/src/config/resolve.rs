//! Converts the configuration into the settings of data plane and control plane.
use super::host_value::FilePath;
use super::keyword::{
    Aliases, ChallengedMethods, ClientCertificates, Digest, Durability, EventLoop, Foreign,
    Strangers, TlsVersion, Transport,
};
use super::network_value::Network;
use super::origin::Origin;
use super::sections::{Configuration, Listen};
use sip_elements::bans::BanSettings;
use sip_elements::location::LocationLimits;
use sip_elements::routing::NextHop;
use sip_elements::{
    Domains, ProxySettings, RegistrarSettings, SessionDescriptions, Settings, TableLimits,
};
use sip_message::digest::Algorithm;
use sip_runtime::tls::{self, CertificateFiles, TlsSettings};
use sip_runtime::{Clock, EventLoopKind, Options, PeerPolicy, StreamOptions, expand_wildcard};
use sip_transaction::TimerSettings;
use sip_transport::overload::OverloadSettings;
use sip_transport::websocket::Origins;
use sip_transport::{Listener, Protocol};
use std::time::Duration;

/// The listeners, with each wildcard expanded into one listener per address of the machine.
///
/// # Errors
/// The addresses of the machine cannot be listed, or a wildcard matches none of them.
pub fn listeners(configuration: &Configuration) -> Result<Vec<Listener>, String> {
    let mut all: Vec<Listener> = Vec::new();
    for (index, listen) in configuration.listen.iter().enumerate() {
        let wildcard = listen.address.ip().is_unspecified();
        let expanded = expand_wildcard(&listener(listen))
            .map_err(|error| format!("cannot list the addresses of this machine: {error}"))?;
        if expanded.is_empty() {
            let family = if listen.address.is_ipv4() {
                "IPv4"
            } else {
                "IPv6"
            };
            return Err(format!(
                "`listen[{index}].address = \"{}\"`: this machine has no {family} address for this wildcard: \
                 remove this listener",
                listen.address
            ));
        }
        for listener in expanded {
            // An address with a section of its own takes precedence over the one from a wildcard.
            let same = |other: &Listener| {
                other.protocol == listener.protocol && other.address == listener.address
            };
            let taken = all
                .iter()
                .position(|other| listener.address.port() != 0 && same(other));
            match taken.and_then(|place| all.get_mut(place)) {
                Some(other) if !wildcard => *other = listener,
                Some(_) => {}
                None => all.push(listener),
            }
        }
    }
    Ok(all)
}

fn listener(listen: &Listen) -> Listener {
    Listener {
        protocol: match listen.transport {
            Transport::Udp => Protocol::Udp,
            Transport::Tcp => Protocol::Tcp,
            Transport::Tls => Protocol::Tls,
            Transport::Ws => Protocol::Ws,
            Transport::Wss => Protocol::Wss,
        },
        address: listen.address,
        prefix_length: if listen.address.is_ipv4() { 32 } else { 128 },
        advertised: listen
            .advertise
            .as_ref()
            .map(|advertised| advertised.0.clone())
            .unwrap_or_default(),
        behind_balancer: listen.proxy_protocol,
    }
}

/// The settings of the workers; `listeners` are the bound ones.
pub fn settings(configuration: &Configuration, listeners: &[Listener]) -> Settings {
    let Configuration {
        general,
        auth,
        bans,
        proxy,
        registrar,
        location,
        timers,
        limits,
        ..
    } = configuration;
    let names: Vec<String> = general
        .domains
        .iter()
        .map(|domain| domain.0.clone())
        .collect();
    Settings {
        domains: Domains::new(&names, listeners),
        listeners: listeners.to_vec(),
        challenge: challenged(&auth.challenge),
        algorithms: auth
            .algorithms
            .iter()
            .map(|digest| algorithm(*digest))
            .collect(),
        nonce_lifetime: auth.nonce_lifetime.duration(),
        question_deadline: limits.question_deadline.duration(),
        bans: BanSettings {
            automatic: bans.enabled,
            failures: bans.failures,
            window: bans.window.duration(),
            duration: bans.duration.duration(),
            drop_user_agents: bans
                .drop_user_agents
                .iter()
                .map(|name| name.0.clone())
                .collect(),
        },
        registrar: RegistrarSettings {
            default_expires: registrar.default_expires.duration(),
            min_expires: registrar.min_expires.duration(),
            max_expires: registrar.max_expires.duration(),
            max_contacts: registrar.max_contacts,
            follow_contact: registrar.follow_contact,
            answer_when_saved: location.durability == Durability::Commit,
            longest_unsaved: location.save_interval.duration() + save_time(configuration),
        },
        proxy: ProxySettings {
            foreign: match proxy.foreign {
                Foreign::Refuse => sip_elements::Foreign::Refuse,
                Foreign::Subscribers => sip_elements::Foreign::Subscribers,
                Foreign::Relay => sip_elements::Foreign::Relay,
            },
            strangers: match proxy.strangers {
                Strangers::Accept => sip_elements::Strangers::Accept,
                Strangers::Refuse => sip_elements::Strangers::Refuse,
            },
            stranger_methods: proxy
                .stranger_methods
                .iter()
                .map(|method| method.word().to_owned())
                .collect(),
            outbound: proxy
                .outbound
                .as_ref()
                .map(|hop| NextHop::Server(hop.0.clone())),
            trusted_peers: Network::set(&proxy.trusted_peers),
            edge_proxies: Network::set(&proxy.edge_proxies),
            off_limits: Network::set(&proxy.off_limits),
            session_descriptions: SessionDescriptions::Pass,
            record_route: proxy.record_route,
            dialog_lifetime: proxy.dialog_lifetime.duration(),
            timer_c: proxy.timer_c.duration(),
            no_answer: Some(proxy.no_answer.duration()),
            dead_target_lifetime: proxy.dead_target_lifetime.duration(),
            max_targets: proxy.max_targets,
        },
        timers: TimerSettings {
            t1: timers.t1.duration(),
            t2: timers.t2.duration(),
            t4: timers.t4.duration(),
        },
        limits: TableLimits {
            server_transactions: limits.server_transactions,
            client_transactions: limits.client_transactions,
            response_contexts: limits.response_contexts,
            parked_requests: limits.parked_requests,
            refreshed_targets: limits.refreshed_targets,
            held_bytes: limits.held_bytes,
            amplification: limits.amplification,
            retry_after: limits.retry_after,
        },
        max_header_fields: limits.header_fields,
        server_header: general.server_header.clone(),
    }
}

fn challenged(methods: &ChallengedMethods) -> sip_elements::ChallengedMethods {
    match methods {
        ChallengedMethods::All => sip_elements::ChallengedMethods::All,
        ChallengedMethods::Listed(methods) => sip_elements::ChallengedMethods::Listed(
            methods
                .iter()
                .map(|method| method.word().to_owned())
                .collect(),
        ),
    }
}

/// Time budget for one save: half of `max_lag`, because changes that arrive during a save wait for the next one.
pub fn save_time(configuration: &Configuration) -> Duration {
    configuration.location.max_lag.duration() / 2
}

fn algorithm(digest: Digest) -> Algorithm {
    match digest {
        Digest::Md5 => Algorithm::Md5,
        Digest::Sha256 => Algorithm::Sha256,
    }
}

/// Whether the server uses TLS. If not, startup skips reading the system's trusted authorities.
pub fn speaks_tls(configuration: &Configuration) -> bool {
    let is_secure = |listen: &Listen| matches!(listen.transport, Transport::Tls | Transport::Wss);
    !configuration.certificate.is_empty() || configuration.listen.iter().any(is_secure)
}

/// TLS settings; the files are not read yet.
pub fn tls_settings(configuration: &Configuration) -> TlsSettings {
    let path = |path: &Option<FilePath>| path.as_ref().map(|path| path.0.clone());
    let tls = &configuration.tls;
    TlsSettings {
        certificates: configuration
            .certificate
            .iter()
            .map(|certificate| CertificateFiles {
                chain: path(&certificate.chain).unwrap_or_default(),
                key: path(&certificate.key).unwrap_or_default(),
            })
            .collect(),
        min_version: match tls.min_version {
            TlsVersion::V12 => tls::TlsVersion::V1_2,
            TlsVersion::V13 => tls::TlsVersion::V1_3,
        },
        client_certificates: match tls.client_certificates {
            ClientCertificates::None => tls::ClientCertificates::None,
            ClientCertificates::Optional => tls::ClientCertificates::Optional,
            ClientCertificates::Required => tls::ClientCertificates::Required,
        },
        client_ca: path(&tls.client_ca),
        server_ca: path(&tls.server_ca),
        verify_servers: tls.verify_servers,
        ..TlsSettings::default()
    }
}

/// Limits of the location service.
pub fn location_limits(configuration: &Configuration) -> LocationLimits {
    LocationLimits {
        max_bindings: configuration.limits.bindings,
        max_pending_changes: configuration.limits.pending_changes,
    }
}

/// Maximum number of connections if neither the file nor the system sets a limit.
pub const MOST_CONNECTIONS: usize = 1_000_000;

/// Maximum number of connections per peer if the file sets no limit.
pub const MOST_PER_PEER: u32 = 1_000;

/// The peers that are trusted and the origins whose pages may open a WebSocket.
pub fn peer_policy(configuration: &Configuration) -> PeerPolicy {
    let origins = configuration.connections.origins.iter();
    let domains = configuration.general.domains.iter();
    PeerPolicy {
        trusted: Network::set(&configuration.proxy.trusted_peers),
        origins: Origins {
            everybody: origins.clone().any(|origin| origin.0 == Origin::ANYWHERE),
            listed: origins.map(|origin| origin.0.clone()).collect(),
            hosts: domains.map(|domain| domain.0.clone()).collect(),
        },
    }
}

/// Options of the runtime. The number of connections also depends on the system: see `descriptors.rs`.
pub fn runtime_options(configuration: &Configuration, clock: Clock) -> Options {
    let Configuration {
        workers,
        overload,
        timers,
        udp,
        connections,
        limits,
        ..
    } = configuration;
    Options {
        event_loop: match workers.event_loop {
            EventLoop::Auto => EventLoopKind::Auto,
            EventLoop::Epoll => EventLoopKind::Epoll,
            EventLoop::Poll => EventLoopKind::Poll,
            EventLoop::IoUring => EventLoopKind::IoUring,
        },
        gather: workers.gather.duration(),
        overload: overload.enabled.then(|| OverloadSettings {
            target: overload.target.duration(),
            interval: overload.interval.duration(),
            t1: timers.t1.duration(),
            ..OverloadSettings::default()
        }),
        receive_buffer: udp.receive_buffer,
        segmentation: udp.segmentation,
        steering: udp.steering,
        streams: StreamOptions {
            max_connections: connections.max.unwrap_or(MOST_CONNECTIONS),
            max_per_peer: connections.max_per_peer.unwrap_or(MOST_PER_PEER),
            max_header: connections.max_header,
            max_body: connections.max_body,
            max_queue: connections.max_queue,
            max_queued: connections.max_queued,
            max_partial: connections.max_partial,
            max_held_per_peer: connections.max_held_per_peer,
            open_timeout: connections.open_timeout.duration(),
            silent_timeout: connections.silent_timeout.duration(),
            message_timeout: connections.message_timeout.duration(),
            write_timeout: connections.write_timeout.duration(),
            idle_timeout: connections.idle_timeout.duration(),
            unproven_timeout: Some(connections.unproven_timeout.duration()),
            keep_alive: connections.keep_alive.duration(),
            aliases: match connections.aliases {
                Aliases::Nobody => sip_runtime::Aliases::Nobody,
                Aliases::Certified => sip_runtime::Aliases::Certified,
                Aliases::Everybody => sip_runtime::Aliases::Everybody,
            },
            ..StreamOptions::default()
        },
        share_port: udp.share_port,
        cpus: workers.pin.iter().map(|cpu| usize::from(*cpu)).collect(),
        // All parked requests may be answered at the same time.
        waiting_answers: limits.parked_requests + 64,
        clock,
        ..Options::default()
    }
}
