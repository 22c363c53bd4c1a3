//! Derives the routing policy from the configuration.
use super::sections::Configuration;
use super::sections::{CallLimits, Gateway, Prefixes, Refusal, RoutingRule, RuleDecision};
use super::values::network::Network;
use sip_routing::Policy;
use sip_routing::gateway::{
    Descriptions, FailoverRules, GatewayDescription, GatewayError, Gateways, GroupDescription,
    HealthRules, MissWeights, WaitRules,
};
use sip_routing::limit::{
    Declared, DeclaredEach, Description, InvalidLimit, Limits, MAX_BURST, NamedLimit, NetworkLimit,
    Rate,
};
use sip_routing::numbering::NumberingPlan;
use sip_routing::prefix::{DEFAULT, PrefixTable, RouteList};
use sip_routing::rule::{KnownNames, RefusalDescription, RuleDescription, RuleMistake, RuleSet};
use sip_transport::selection::Destination;
use sip_transport::{IpNet, Listener, Protocol};
use std::sync::Arc;

/// Why a configuration has no routing policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// A gateway or a group.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// A gateway that is this server.
    #[error(transparent)]
    OwnListener(#[from] OwnListener),
    /// A limit.
    #[error(transparent)]
    Limit(#[from] InvalidLimit),
    /// Rules.
    #[error("{}", joined(.0))]
    Rules(Vec<RuleMistake>),
    /// A prefix table that was read for other groups.
    #[error(
        "the prefixes name the gateway group `{group}`, which is not declared; declare it, or remove it from the prefixes"
    )]
    UnknownGroup {
        /// The name.
        group: String,
    },
}

/// A gateway whose destination is a listener of this server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "gateway `{gateway}`: {listener} is a listener of this server, so that calls would come back; name another server"
)]
pub struct OwnListener {
    /// The gateway.
    pub gateway: String,
    /// The address of the listener.
    pub listener: std::net::SocketAddr,
}

/// What is known about routes besides the configuration file.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// Gateways and groups of a Kamailio.
    pub gateways: Arc<Descriptions>,
    /// The prefixes.
    pub prefixes: Arc<PrefixTable>,
}

fn joined(mistakes: &[RuleMistake]) -> String {
    let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// The routing policy of a configuration, for these listeners and routes. Gateways, groups, limits and rules take over the state that
/// `previous` has by the same names.
///
/// # Errors
/// What is wrong. Nothing is taken over then.
pub fn policy(
    configuration: &Configuration,
    listeners: &[Listener],
    routes: Routes,
    previous: Option<&Policy>,
) -> Result<Policy, PolicyError> {
    let Routes { gateways, prefixes } = routes;
    let descriptions = descriptions(configuration, &gateways);
    for gateway in &descriptions.gateways {
        own_listener(gateway, listeners)?;
    }
    let groups = group_names(&descriptions);
    let gateways = Gateways::new(descriptions, previous.map(|it| &it.gateways))?;
    if let Some(group) = unknown_group(&prefixes, &gateways) {
        let group = group.to_owned();
        return Err(PolicyError::UnknownGroup { group });
    }
    let limits = Limits::new(
        &limit_description(configuration),
        previous.map(|it| &it.limits),
    )?;
    let mut tables: Vec<&str> = prefixes.tables().map(|(name, _)| name).collect();
    if configuration.prefixes != Prefixes::None && !tables.contains(&DEFAULT) {
        tables.push(DEFAULT);
    }
    let names = Names {
        groups: &groups,
        tables: &tables,
    };
    let previous = previous.map(|it| &it.rules);
    let rules = rules(configuration, &names, listeners, previous);
    Ok(Policy {
        rules: rules.map_err(PolicyError::Rules)?,
        gateways,
        limits,
        prefixes,
    })
}

/// A group that prefixes name and that is not declared.
fn unknown_group<'p>(prefixes: &'p PrefixTable, gateways: &Gateways) -> Option<&'p str> {
    let mut groups = prefixes.lists().iter().flat_map(RouteList::groups);
    groups.find(|group| gateways.group(group).is_none())
}

/// The names of gateway groups, which prefixes may name.
pub fn group_names(descriptions: &Descriptions) -> Vec<String> {
    let groups = descriptions.groups.iter();
    groups.map(|group| group.name.to_string()).collect()
}

/// What rules may refer to besides sections of the configuration.
pub(super) struct Names<'n> {
    /// Gateway groups.
    pub(super) groups: &'n [String],
    /// Prefix tables.
    pub(super) tables: &'n [&'n str],
}

/// Compiles the rules.
pub(super) fn rules(
    configuration: &Configuration,
    names: &Names<'_>,
    listeners: &[Listener],
    previous: Option<&RuleSet>,
) -> Result<RuleSet, Vec<RuleMistake>> {
    let networks = networks(configuration);
    let networks: Vec<(&str, &[IpNet])> = networks
        .iter()
        .map(|(name, networks)| (*name, networks.as_slice()))
        .collect();
    let groups: Vec<&str> = names.groups.iter().map(String::as_str).collect();
    let limits = configuration.limit.iter();
    let limits: Vec<&str> = limits
        .filter(|limit| limit.networks.is_none())
        .map(|limit| limit.name.as_str())
        .collect();
    let known = KnownNames {
        networks: &networks,
        groups: &groups,
        prefixes: names.tables,
        limits: &limits,
        listeners,
    };
    let rules: Vec<RuleDescription> = configuration.rule.iter().map(rule_description).collect();
    RuleSet::new(&rules, &known, previous)
}

/// The named networks.
fn networks(configuration: &Configuration) -> Vec<(&str, Vec<IpNet>)> {
    let of = |addresses: &[Network]| addresses.iter().map(|network| network.0).collect();
    let networks = configuration.network.iter();
    networks
        .map(|network| (network.name.as_str(), of(&network.addresses)))
        .collect()
}

/// The networks of an entry: a name, a network or an address. `None`: it is unknown.
pub(super) fn networks_of(configuration: &Configuration, entry: &str) -> Option<Vec<IpNet>> {
    let mut named = configuration.network.iter();
    if let Some(network) = named.find(|network| network.name == entry) {
        return Some(network.addresses.iter().map(|it| it.0).collect());
    }
    Network::parse(entry).ok().map(|network| vec![network.0])
}

/// The gateways and groups of the file, then these, as `sip-routing` describes them.
pub fn descriptions(configuration: &Configuration, more: &Descriptions) -> Descriptions {
    let plan = configuration.numbering.plan();
    let gateways = configuration.gateway.iter().map(|it| gateway(it, &plan));
    Descriptions {
        gateways: gateways.chain(more.gateways.iter().cloned()).collect(),
        groups: groups(configuration)
            .chain(more.groups.iter().cloned())
            .collect(),
    }
}

pub(super) fn groups(configuration: &Configuration) -> impl Iterator<Item = GroupDescription> + '_ {
    configuration.group.iter().map(|group| GroupDescription {
        name: group.name.as_str().into(),
        algorithm: group.algorithm,
        all_inactive: group.all_inactive,
        members: group
            .members
            .iter()
            .map(|member| member.0.clone())
            .collect(),
    })
}

pub(super) fn gateway(gateway: &Gateway, plan: &Arc<NumberingPlan>) -> GatewayDescription {
    GatewayDescription {
        name: gateway.name.as_str().into(),
        destination: gateway.destination.0.clone(),
        max_calls: gateway.max_calls,
        rate: gateway.calls_per_second.and_then(|rate| {
            let burst = gateway.burst.unwrap_or_else(|| calls_of_a_second(rate));
            Rate::new(rate, burst)
        }),
        health: HealthRules {
            probe: gateway.probe,
            interval: gateway.probe_interval,
            timeout: gateway.probe_timeout,
            misses: gateway.misses,
            answers: gateway.answers,
            probe_answers: gateway.probe_codes,
            weights: MissWeights {
                timeout: gateway.timeout_misses,
                transport_error: gateway.transport_error_misses,
                unavailable: gateway.unavailable_misses,
            },
            longest_rest: gateway.longest_rest,
        },
        failover: FailoverRules {
            codes: gateway.failover_codes,
            timeout: gateway.failover_on_timeout,
            transport_error: gateway.failover_on_transport_error,
            after_early_media: gateway.failover_after_early_media,
        },
        credential: gateway.account.credential(),
        registration: gateway.account.registration(),
        trusted: gateway.numbers.trusted,
        rewriting: gateway.numbers.rewriting(plan),
        wait: WaitRules {
            response: gateway.response_timeout,
            answer: gateway.answer_timeout,
        },
    }
}

/// The burst of a rate without one: the calls of a second, at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the values of the key are from 0.001 to 100,000"
)]
fn calls_of_a_second(rate: f64) -> u32 {
    (rate.ceil() as u32).clamp(1, MAX_BURST)
}

/// The limits as `sip-routing` describes them. Unknown networks are left out; they have been reported.
pub(super) fn limit_description(configuration: &Configuration) -> Description {
    let limits = &configuration.call_limits;
    let mut description = Description {
        overall: Declared {
            calls_per_second: limits.calls_per_second,
            burst: limits.burst,
            max_calls: limits.max_calls,
        },
        each_source: each_source(limits),
        each_subscriber: each_subscriber(limits),
        ..Description::default()
    };
    for limit in &configuration.limit {
        let name = limit.name.clone();
        let bounds = Declared {
            calls_per_second: limit.calls_per_second,
            burst: limit.burst,
            max_calls: limit.max_calls,
        };
        match &limit.networks {
            None => description.named.push(NamedLimit { name, bounds }),
            Some(entries) => description.networks.push(NetworkLimit {
                name,
                bounds,
                networks: entries
                    .iter()
                    .filter_map(|entry| networks_of(configuration, entry))
                    .flatten()
                    .collect(),
            }),
        }
    }
    description
}

fn each_source(limits: &CallLimits) -> Option<DeclaredEach> {
    let bounds = Declared {
        calls_per_second: limits.source_calls_per_second,
        burst: limits.source_burst,
        max_calls: limits.source_max_calls,
    };
    each(bounds, limits.source_table)
}

fn each_subscriber(limits: &CallLimits) -> Option<DeclaredEach> {
    let bounds = Declared {
        calls_per_second: limits.subscriber_calls_per_second,
        burst: limits.subscriber_burst,
        max_calls: limits.subscriber_max_calls,
    };
    each(bounds, limits.subscriber_table)
}

/// The limit of each key; `None` if nothing is bounded.
fn each(bounds: Declared, max_keys: usize) -> Option<DeclaredEach> {
    (bounds != Declared::default()).then_some(DeclaredEach { bounds, max_keys })
}

fn rule_description(rule: &RoutingRule) -> RuleDescription {
    let fields = |list: &[super::HeaderField]| list.iter().map(|field| field.0.clone()).collect();
    let header = rule.header.as_ref();
    let description = RuleDescription {
        name: rule.name.clone(),
        method: rule.method.clone(),
        source: rule.source.clone(),
        listener: rule.listener.clone(),
        transport: rule.transport.clone(),
        user: rule.user.clone(),
        domain: rule.domain.clone(),
        from_user: rule.from_user.clone(),
        from_domain: rule.from_domain.clone(),
        to_user: rule.to_user.clone(),
        to_domain: rule.to_domain.clone(),
        header: header.map(|list| list.iter().map(|header| header.0.clone()).collect()),
        authenticate: rule.authenticate,
        limit: rule.limit.clone(),
        add_header: fields(&rule.add_header),
        remove_header: rule.remove_header.clone(),
        replace_header: fields(&rule.replace_header),
        strip: rule.strip,
        prefix: rule.prefix.clone(),
        ..RuleDescription::default()
    };
    decided(description, &rule.decision)
}

/// Adds the decision to the description of a rule.
fn decided(rule: RuleDescription, decision: &RuleDecision) -> RuleDescription {
    match decision {
        RuleDecision::Local => RuleDescription {
            local: true,
            ..rule
        },
        RuleDecision::Refuse(refusal) => RuleDescription {
            refuse: Some(refusal_description(refusal)),
            ..rule
        },
        RuleDecision::Redirect(to) => RuleDescription {
            redirect: Some(to.redirect.clone()),
            ..rule
        },
        RuleDecision::Group(to) => RuleDescription {
            group: Some(to.group.clone()),
            ..rule
        },
        RuleDecision::Prefixes(by) => RuleDescription {
            prefixes: Some(by.prefixes.clone()),
            ..rule
        },
        RuleDecision::Balance(over) => RuleDescription {
            balance: Some(over.group.clone()),
            ..rule
        },
        RuleDecision::Stateless(to) => RuleDescription {
            stateless: Some(to.stateless.clone()),
            ..rule
        },
    }
}

fn refusal_description(refusal: &Refusal) -> RefusalDescription {
    RefusalDescription {
        status: refusal.status,
        reason: refusal.reason.clone(),
        retry_after: refusal.retry_after,
    }
}

/// Rejects a gateway whose destination is the address of a listener. A name is located later.
///
/// # Errors
/// The listener.
pub fn own_listener(
    gateway: &GatewayDescription,
    listeners: &[Listener],
) -> Result<(), OwnListener> {
    let destination = &gateway.destination;
    let Some(address) = destination.literal() else {
        return Ok(());
    };
    let port = destination.port.unwrap_or(default_port(destination));
    let is_own = |listener: &&Listener| {
        let protocol = destination.protocol;
        listener.address == (address, port).into()
            && port != 0
            && protocol.is_none_or(|protocol| protocol == listener.protocol)
    };
    match listeners.iter().find(is_own) {
        None => Ok(()),
        Some(listener) => Err(OwnListener {
            gateway: gateway.name.to_string(),
            listener: listener.address,
        }),
    }
}

/// The port of a destination without one (RFC 3263 section 4.2).
fn default_port(destination: &Destination) -> u16 {
    let is_secure = destination.secure || destination.protocol.is_some_and(Protocol::is_secure);
    if is_secure { 5061 } else { 5060 }
}
