//! From the file's words to what data plane and control plane run on.
use super::interval::Interval;
use super::keyword::{Digest, EventLoop, Foreign, Transport};
use super::sections::{Configuration, Listen};
use sip_elements::location::LocationLimits;
use sip_elements::proxy::NextHop;
use sip_elements::{Domains, ProxySettings, RegistrarSettings, Settings, TableLimits};
use sip_message::digest::Algorithm;
use sip_runtime::{Clock, EventLoopKind, Options, expand_wildcard};
use sip_transaction::TimerSettings;
use sip_transport::{Listener, Protocol};

/// The listeners, wildcards expanded into one for each address of the machine.
///
/// # Errors
/// Which one cannot be, and why.
pub fn listeners(configuration: &Configuration) -> Result<Vec<Listener>, String> {
    let mut all: Vec<Listener> = Vec::new();
    for (index, listen) in configuration.listen.iter().enumerate() {
        let wildcard = listen.address.ip().is_unspecified();
        let expanded = expand_wildcard(&listener(listen))
            .map_err(|error| format!("the addresses of this machine cannot be listed: {error}"))?;
        if expanded.is_empty() {
            let family = if listen.address.is_ipv4() {
                "IPv4"
            } else {
                "IPv6"
            };
            return Err(format!(
                "`listen[{index}].address = \"{}\"` stands for every {family} address of this machine, and it has none: \
                 leave this listener out",
                listen.address
            ));
        }
        for listener in expanded {
            // An address that is configured apart comes before the one that a wildcard stands for.
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
    }
}

/// What every worker must know; `listeners` as they are bound.
pub fn settings(configuration: &Configuration, listeners: &[Listener]) -> Settings {
    let Configuration {
        general,
        auth,
        proxy,
        registrar,
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
        challenge: auth
            .challenge
            .iter()
            .map(|method| method.word().to_owned())
            .collect(),
        algorithms: auth
            .algorithms
            .iter()
            .map(|digest| algorithm(*digest))
            .collect(),
        nonce_lifetime: auth.nonce_lifetime.duration(),
        question_deadline: limits.question_deadline.duration(),
        registrar: RegistrarSettings {
            default_expires: registrar.default_expires.duration(),
            min_expires: registrar.min_expires.duration(),
            max_expires: registrar.max_expires.duration(),
            max_contacts: registrar.max_contacts,
        },
        proxy: ProxySettings {
            foreign: match proxy.foreign {
                Foreign::Refuse => sip_elements::Foreign::Refuse,
                Foreign::Relay => sip_elements::Foreign::Relay,
            },
            outbound: proxy
                .outbound
                .as_ref()
                .map(|hop| NextHop::Server(hop.0.clone())),
            record_route: proxy.record_route,
            timer_c: proxy.timer_c.duration(),
            no_answer: proxy.no_answer.map(Interval::duration),
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
            retry_after: limits.retry_after,
        },
        server_header: general.server_header.clone(),
    }
}

fn algorithm(digest: Digest) -> Algorithm {
    match digest {
        Digest::Md5 => Algorithm::Md5,
        Digest::Sha256 => Algorithm::Sha256,
    }
}

/// Bounds of the location service.
pub fn location_limits(configuration: &Configuration) -> LocationLimits {
    LocationLimits {
        max_bindings: configuration.limits.bindings,
        max_pending_changes: configuration.limits.pending_changes,
    }
}

/// How the runtime opens sockets and waits for them.
pub fn runtime_options(configuration: &Configuration, clock: Clock) -> Options {
    let Configuration {
        workers,
        udp,
        limits,
        ..
    } = configuration;
    Options {
        event_loop: match workers.event_loop {
            EventLoop::Auto | EventLoop::IoUring => EventLoopKind::Auto,
            EventLoop::Epoll => EventLoopKind::Epoll,
            EventLoop::Poll => EventLoopKind::Poll,
        },
        gather: workers.gather.duration(),
        receive_buffer: udp.receive_buffer,
        segmentation: udp.segmentation,
        share_port: udp.share_port,
        cpus: workers.pin.iter().map(|cpu| usize::from(*cpu)).collect(),
        // Every parked request may be answered in one go.
        waiting_answers: limits.parked_requests + 64,
        clock,
        ..Options::default()
    }
}
