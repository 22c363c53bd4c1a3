//! Converts the configuration into the settings of data plane and control plane.
use super::sections::{Configuration, Listen, Proxy, TlsClients};
use super::values::keyword::{CallLines, Durability};
use super::values::network::Network;
use super::values::origin::Origin;
use sip_elements::bans::BanSettings;
use sip_elements::location::LocationLimits;
use sip_elements::routing::NextHop;
use sip_elements::{
    DialogSettings, DiversionSettings, Domains, ProxySettings, RegistrarSettings,
    SessionDescriptions, SessionTimerSettings, Settings, TableLimits,
};
use sip_resolver::Settings as ResolverSettings;
use sip_runtime::tls::{CertificateFiles, ClientCertificates, TlsSettings};
use sip_runtime::{Clock, Options, PeerPolicy, StreamOptions, expand_wildcard};
use sip_transaction::TimerSettings;
use sip_transport::Listener;
use sip_transport::overload::OverloadSettings;
use sip_transport::websocket::Origins;
use std::sync::Arc;
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

/// The listeners as the file declares them. A wildcard stays one.
pub(super) fn declared_listeners(configuration: &Configuration) -> Vec<Listener> {
    configuration.listen.iter().map(listener).collect()
}

fn listener(listen: &Listen) -> Listener {
    Listener {
        protocol: listen.transport,
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

/// The settings of the workers, without a routing policy; `listeners` are the bound ones.
pub fn settings(configuration: &Configuration, listeners: &[Listener]) -> Settings {
    let Configuration {
        domains,
        server_header,
        auth,
        bans,
        proxy,
        session_timers,
        registrar,
        location,
        timers,
        limits,
        ..
    } = configuration;
    let names: Vec<String> = domains.iter().map(|domain| domain.0.clone()).collect();
    Settings {
        domains: Domains::new(&names, listeners),
        listeners: listeners.to_vec(),
        fleet: None,
        challenge: auth.challenge.clone(),
        algorithms: auth.algorithms.clone(),
        nonce_lifetime: auth.nonce_lifetime,
        question_deadline: limits.question_deadline,
        bans: BanSettings {
            automatic: bans.enabled,
            failures: bans.failures,
            window: bans.window,
            duration: bans.duration,
            drop_user_agents: bans
                .drop_user_agents
                .iter()
                .map(|name| name.0.clone())
                .collect(),
        },
        registrar: RegistrarSettings {
            default_expires: registrar.default_expires,
            min_expires: registrar.min_expires,
            max_expires: registrar.max_expires,
            max_contacts: registrar.max_contacts,
            follow_contact: registrar.follow_contact,
            answer_when_saved: location.durability == Durability::Commit,
            longest_unsaved: location.save_interval + save_time(configuration),
        },
        proxy: proxy_settings(proxy),
        session_timers: (session_timers.enabled && proxy.record_route).then_some(
            SessionTimerSettings {
                interval: session_timers.interval,
                min_interval: session_timers.min_interval,
            },
        ),
        dialogs: DialogSettings {
            bye_at_end: configuration.dialogs.bye_at_end,
            records: configuration.records.file.is_some()
                || configuration.records.database
                || configuration.log.calls != CallLines::None,
            events: Arc::default(),
            persist: configuration.saves_dialogs(),
            adopts: configuration.shared_dialogs().is_some(),
        },
        timers: TimerSettings {
            t1: timers.t1,
            t2: timers.t2,
            t4: timers.t4,
        },
        limits: TableLimits {
            server_transactions: limits.server_transactions,
            client_transactions: limits.client_transactions,
            response_contexts: limits.response_contexts,
            dialogs: limits.dialogs,
            parked_requests: limits.parked_requests,
            refreshed_targets: limits.refreshed_targets,
            held_bytes: limits.held_bytes,
            amplification: limits.amplification,
            retry_after: limits.retry_after,
        },
        policy: Arc::default(),
        max_header_fields: limits.header_fields,
        server_header: server_header.clone(),
    }
}

fn proxy_settings(proxy: &Proxy) -> ProxySettings {
    ProxySettings {
        foreign: proxy.foreign,
        strangers: proxy.strangers,
        stranger_methods: proxy
            .stranger_methods
            .iter()
            .map(|method| method.0)
            .collect(),
        outbound: proxy
            .outbound
            .as_ref()
            .map(|hop| NextHop::Server(hop.0.clone())),
        trusted_peers: Network::set(&proxy.trusted_peers),
        edge_proxies: Network::set(&proxy.edge_proxies),
        off_limits: Network::set(&proxy.off_limits),
        session_descriptions: SessionDescriptions::Pass,
        refused_events: proxy.refused_events.clone(),
        diversions: DiversionSettings {
            most: proxy.max_diversions,
            headers: proxy.diversion_headers,
            redirects: proxy.redirects,
        },
        record_route: proxy.record_route,
        dialog_lifetime: proxy.dialog_lifetime,
        timer_c: proxy.timer_c,
        max_ringing: proxy.max_ringing,
        no_answer: Some(proxy.no_answer),
        dead_target_lifetime: proxy.dead_target_lifetime,
        max_targets: proxy.max_targets,
    }
}

/// Time budget for one save: half of `max_lag`, because changes that arrive during a save wait for the next one.
pub fn save_time(configuration: &Configuration) -> Duration {
    configuration.location.max_lag / 2
}

/// Whether the server uses TLS. If not, startup skips reading the system's trusted authorities.
pub fn speaks_tls(configuration: &Configuration) -> bool {
    let is_secure = |listen: &Listen| listen.transport.is_secure();
    !configuration.certificate.is_empty() || configuration.listen.iter().any(is_secure)
}

/// TLS settings; the files are not read yet.
pub fn tls_settings(configuration: &Configuration) -> TlsSettings {
    let tls = &configuration.tls;
    let (client_certificates, clients) = match &tls.clients {
        TlsClients::None => (ClientCertificates::None, None),
        TlsClients::Optional(clients) => (ClientCertificates::Optional, Some(clients)),
        TlsClients::Required(clients) => (ClientCertificates::Required, Some(clients)),
    };
    TlsSettings {
        certificates: configuration
            .certificate
            .iter()
            .map(|certificate| CertificateFiles {
                chain: certificate.chain.0.clone(),
                key: certificate.key.0.clone(),
            })
            .collect(),
        min_version: tls.min_version,
        client_certificates,
        client_ca: clients.map(|clients| clients.client_ca.0.clone()),
        server_ca: tls.server_ca.as_ref().map(|file| file.0.clone()),
        verify_servers: tls.verify_servers,
        ..TlsSettings::default()
    }
}

/// The settings of the resolver.
pub fn resolver_settings(configuration: &Configuration) -> ResolverSettings {
    let dns = &configuration.dns;
    ResolverSettings {
        servers: dns.servers.clone(),
        timeout: dns.timeout,
        attempts: dns.attempts,
        cache_size: dns.cache_size,
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
pub const MAX_CONNECTIONS: usize = 1_000_000;

/// Maximum number of connections per peer if the file sets no limit.
pub const MAX_PER_PEER: u32 = 1_000;

/// The peers that are trusted and the origins whose pages may open a WebSocket.
pub fn peer_policy(configuration: &Configuration) -> PeerPolicy {
    let origins = configuration.connections.origins.iter();
    let domains = configuration.domains.iter();
    PeerPolicy {
        trusted: Network::set(&configuration.proxy.trusted_peers),
        origins: Origins {
            all: origins.clone().any(|origin| origin.0 == Origin::ANYWHERE),
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
        event_loop: workers.event_loop,
        gather: workers.gather,
        overload: overload.enabled.then(|| OverloadSettings {
            target: overload.target,
            interval: overload.interval,
            t1: timers.t1,
            ..OverloadSettings::default()
        }),
        receive_buffer: udp.receive_buffer,
        segmentation: udp.segmentation,
        steering: udp.steering,
        streams: StreamOptions {
            max_connections: connections.max.unwrap_or(MAX_CONNECTIONS),
            max_per_peer: connections.max_per_peer.unwrap_or(MAX_PER_PEER),
            max_header: connections.max_header,
            max_body: connections.max_body,
            max_queue: connections.max_queue,
            max_queued: connections.max_queued,
            max_partial: connections.max_partial,
            max_held_per_peer: connections.max_held_per_peer,
            open_timeout: connections.open_timeout,
            silent_timeout: connections.silent_timeout,
            message_timeout: connections.message_timeout,
            write_timeout: connections.write_timeout,
            idle_timeout: connections.idle_timeout,
            unproven_timeout: Some(connections.unproven_timeout),
            keep_alive: connections.keep_alive,
            aliases: connections.aliases,
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
