//! Checks of the routing sections: what `sip-routing` would refuse, with the line of each mistake.
use super::Configuration;
use super::document::Document;
use super::gateway_account;
use super::mistake::nearest;
use super::resolve::declared_listeners;
use super::routing_policy::{
    Names, descriptions, gateway, group_names, groups, limit_description, networks_of,
    own_listener, rules,
};
use super::sections::Dispatcher;
use super::sections::example_next_hop;
use super::sections::{CallLimit, Prefixes, RuleDecision};
use super::values::network::Network;
use sip_routing::gateway::{Descriptions, GatewayDescription, GatewayError, Gateways};
use sip_routing::limit::{Description, InvalidLimit, Limits};
use sip_routing::prefix::DEFAULT;
use sip_routing::rule::{Problem, RuleMistake};
use std::collections::HashMap;
use tandem_store::dispatcher_group;

/// Reports everything that is wrong with networks, gateways, groups, limits and rules.
pub(super) fn routing(configuration: &Configuration, document: &Document<'_>) {
    networks(configuration, document);
    let gateways = gateways(configuration, document);
    gateway_groups(configuration, &gateways, document);
    dispatcher(configuration, document);
    limits(configuration, document);
    routing_rules(configuration, document);
    balanced_groups(configuration, document);
}

fn networks(configuration: &Configuration, document: &Document<'_>) {
    for (index, network) in configuration.network.iter().enumerate() {
        let path = format!("network[{index}]");
        let earlier = configuration.network.iter().take(index);
        let name = &network.name;
        if name.trim().is_empty() {
            document.report_at(
                &format!("{path}.name"),
                format!("`{path}.name`: a network needs a name"),
            );
        } else if earlier.into_iter().any(|other| other.name == *name) {
            document.report_at(
                &format!("{path}.name"),
                format!("`{path}.name`: another network has the name \"{name}\""),
            );
        } else if Network::parse(name).is_ok() {
            document.report_at(
                &format!("{path}.name"),
                format!("`{path}.name = \"{name}\"`: an address cannot be a name"),
            );
        }
        if network.addresses.is_empty() {
            document.report_at(
                &format!("{path}.addresses"),
                format!("`{path}.addresses`: list at least one network or address"),
            );
        }
    }
}

/// Reports wrong gateways. Returns the descriptions of all that could be declared, by name.
fn gateways(
    configuration: &Configuration,
    document: &Document<'_>,
) -> HashMap<String, GatewayDescription> {
    let listeners = declared_listeners(configuration);
    let plan = configuration.numbering.plan();
    let mut known: HashMap<String, GatewayDescription> = HashMap::new();
    for (index, declared) in configuration.gateway.iter().enumerate() {
        let path = format!("gateway[{index}]");
        let description = gateway(declared, &plan);
        let alone = Descriptions {
            gateways: vec![description.clone()],
            groups: Vec::new(),
        };
        if let Err(error) = Gateways::new(alone, None) {
            document.report_at(&gateway_place(document, &path, &error), error.to_string());
        }
        if let Err(error) = own_listener(&description, &listeners) {
            document.report_at(&format!("{path}.destination"), error.to_string());
        }
        if declared.burst.is_some() && declared.calls_per_second.is_none() {
            document.report_at(
                &format!("{path}.burst"),
                format!("`{path}.burst`: requires `calls_per_second`"),
            );
        }
        gateway_account::check(declared, &path, document);
        let name = declared.name.clone();
        if known.insert(name, description).is_some() {
            let name = declared.name.as_str().into();
            let error = GatewayError::DuplicateGateway { name };
            document.report_at(&format!("{path}.name"), error.to_string());
        }
    }
    known
}

/// Where an error of a gateway is reported: at the key that it is about, or at the section if the key has its default.
fn gateway_place(document: &Document<'_>, section: &str, error: &GatewayError) -> String {
    let of_rewriting = match error {
        GatewayError::Rewriting { problem, .. } => Some(problem.key()),
        _ => None,
    };
    let keys: &[&str] = match error {
        GatewayError::Rewriting { .. } => of_rewriting.as_slice(),
        GatewayError::NoHost { .. } | GatewayError::NoPort { .. } => &["destination"],
        GatewayError::NoProbeAnswers { .. } => &["probe_codes"],
        GatewayError::FailoverCode { .. } => &["failover_codes"],
        GatewayError::Duration { .. } => &["probe_timeout", "probe_interval"],
        _ => &["name"],
    };
    let mut paths = keys.iter().map(|key| format!("{section}.{key}"));
    let given = paths.find(|path| document.is_given(path));
    given.unwrap_or_else(|| section.to_owned())
}

fn gateway_groups(
    configuration: &Configuration,
    known: &HashMap<String, GatewayDescription>,
    document: &Document<'_>,
) {
    for (index, group) in groups(configuration).enumerate() {
        let path = format!("group[{index}]");
        let members = group.members.iter();
        let mut gateways: Vec<GatewayDescription> = Vec::new();
        for description in members.filter_map(|member| known.get(&*member.gateway)) {
            if !gateways.iter().any(|it| it.name == description.name) {
                // A gateway with mistakes of its own has been reported.
                let destination = description.destination.clone();
                gateways.push(GatewayDescription::new(&description.name, destination));
            }
        }
        let mut earlier = configuration.group.iter().take(index);
        let name = group.name.clone();
        if earlier.any(|other| *other.name == *name) {
            let error = GatewayError::DuplicateGroup { name };
            document.report_at(&format!("{path}.name"), error.to_string());
        }
        let alone = Descriptions {
            gateways,
            groups: vec![group],
        };
        if document.is_wrong(&format!("{path}.members")) {
            continue;
        }
        match Gateways::new(alone, None) {
            Err(error @ GatewayError::GroupName { .. }) => {
                document.report_at(&format!("{path}.name"), error.to_string());
            }
            Err(error @ GatewayError::UnknownMember { .. }) => {
                let hint = member_hint(&error, known);
                document.report_at(&format!("{path}.members"), format!("{error}{hint}"));
            }
            Err(error) if is_of_group(&error) => {
                document.report_at(&format!("{path}.members"), error.to_string());
            }
            _ => {}
        }
    }
}

/// The gateway that an unknown member probably means.
fn member_hint(error: &GatewayError, known: &HashMap<String, GatewayDescription>) -> String {
    let GatewayError::UnknownMember { gateway, .. } = error else {
        return String::new();
    };
    let near = nearest(gateway, known.keys().map(String::as_str));
    near.map(|near| format!(" (did you mean `{near}`?)"))
        .unwrap_or_default()
}

const fn is_of_group(error: &GatewayError) -> bool {
    matches!(
        error,
        GatewayError::EmptyGroup { .. }
            | GatewayError::TooManyMembers { .. }
            | GatewayError::DuplicateMember { .. }
            | GatewayError::Weight { .. }
    )
}

fn limits(configuration: &Configuration, document: &Document<'_>) {
    let description = limit_description(configuration);
    let shared = Description {
        networks: Vec::new(),
        named: Vec::new(),
        ..description.clone()
    };
    let mut are_right = true;
    if let Err(error) = Limits::new(&shared, None) {
        document.report_at("call_limits", error.to_string());
        are_right = false;
    }
    for (index, limit) in configuration.limit.iter().enumerate() {
        let path = format!("limit[{index}]");
        if has_unknown_network(configuration, limit, &path, document) {
            are_right = false;
            continue;
        }
        let named = description.named.iter();
        let networks = description.networks.iter();
        let alone = Description {
            named: named
                .filter(|it| it.name == limit.name)
                .take(1)
                .cloned()
                .collect(),
            networks: networks
                .filter(|it| it.name == limit.name)
                .take(1)
                .cloned()
                .collect(),
            ..Description::default()
        };
        if let Err(error) = Limits::new(&alone, None) {
            document.report_at(&format!("{path}.{}", limit_key(&error)), error.to_string());
            are_right = false;
        }
    }
    if are_right && let Err(error) = Limits::new(&description, None) {
        let at = limit_of(&error, configuration);
        document.report_at(&format!("{at}.{}", limit_key(&error)), error.to_string());
    }
}

/// Reports networks of a limit that are neither a name nor a network.
fn has_unknown_network(
    configuration: &Configuration,
    limit: &CallLimit,
    path: &str,
    document: &Document<'_>,
) -> bool {
    let entries = limit.networks.iter().flatten();
    let unknown = entries.filter(|entry| networks_of(configuration, entry).is_none());
    let mut has_unknown = false;
    for entry in unknown {
        let known = of_networks(configuration);
        document.report_at(
            &format!("{path}.networks"),
            format!("`{path}.networks`: \"{entry}\" is unknown: it must be {known}"),
        );
        has_unknown = true;
    }
    has_unknown
}

/// What a network may be called.
fn of_networks(configuration: &Configuration) -> String {
    let names = configuration.network.iter();
    let names: Vec<String> = names
        .map(|network| format!("\"{}\"", network.name))
        .collect();
    let addresses = "a network or an address, such as \"192.0.2.0/24\"";
    if names.is_empty() {
        format!("{addresses}, or the name of a [[network]]")
    } else {
        format!("{addresses}, or one of {}", names.join(", "))
    }
}

/// The key that an error of a limit is about.
const fn limit_key(error: &InvalidLimit) -> &'static str {
    match error {
        InvalidLimit::Rate { .. } => "calls_per_second",
        InvalidLimit::Burst { .. } | InvalidLimit::BurstWithoutRate { .. } => "burst",
        InvalidLimit::NoNetwork { .. } | InvalidLimit::SameNetwork { .. } => "networks",
        _ => "name",
    }
}

/// The section that an error about several limits is about: the last one with this name.
fn limit_of(error: &InvalidLimit, configuration: &Configuration) -> String {
    let (InvalidLimit::SameName { limit }
    | InvalidLimit::SameNetwork { limit, .. }
    | InvalidLimit::ReservedName { limit }) = error
    else {
        return "limit".to_owned();
    };
    let mut limits = configuration.limit.iter();
    let index = limits.rposition(|it| it.name == *limit);
    format!("limit[{}]", index.unwrap_or_default())
}

fn routing_rules(configuration: &Configuration, document: &Document<'_>) {
    let mut tables: Vec<&str> = Vec::new();
    if configuration.prefixes != Prefixes::None {
        // Which tables there are is known when the prefixes have been read.
        tables.push(DEFAULT);
        tables.extend(configuration.rule.iter().filter_map(|rule| {
            let RuleDecision::Prefixes(by) = &rule.decision else {
                return None;
            };
            Some(by.prefixes.as_str())
        }));
    }
    let mut groups = group_names(&descriptions(configuration, &Descriptions::default()));
    groups.extend(sets(configuration));
    let names = Names {
        groups: &groups,
        tables: &tables,
    };
    let listeners = declared_listeners(configuration);
    for mistake in rules(configuration, &names, &listeners, None)
        .err()
        .into_iter()
        .flatten()
    {
        let section = rule_of(&mistake, configuration);
        let key = rule_key(&mistake.problem).unwrap_or("name");
        let path = format!("{section}.{key}");
        // Then the key has its default, which is no more than an example.
        if document.is_wrong(&path) {
            continue;
        }
        let at = if document.is_given(&path) {
            path
        } else {
            section
        };
        document.report_at(&at, mistake.to_string());
    }
}

/// Reports rules that balance over a group whose choice does not depend on the call alone.
fn balanced_groups(configuration: &Configuration, document: &Document<'_>) {
    for (index, rule) in configuration.rule.iter().enumerate() {
        let RuleDecision::Balance(over) = &rule.decision else {
            continue;
        };
        let mut groups = groups(configuration);
        let group = groups.find(|group| *group.name == *over.group);
        if group.is_some_and(|group| !group.algorithm.is_by_call()) {
            let path = format!("rule[{index}].group");
            document.report_at(
                &path,
                format!(
                    "`{path}`: the algorithm of group \"{}\" must be \"rendezvous\": without a transaction, all requests of a call must go to the same gateway",
                    over.group
                ),
            );
        }
    }
}

/// The sets of `dispatcher` that rules name. Which ones there are is known when the table has been read.
fn sets(configuration: &Configuration) -> impl Iterator<Item = String> + '_ {
    let has_sets = configuration.dispatcher != Dispatcher::None;
    let rules = configuration.rule.iter().filter(move |_| has_sets);
    rules.filter_map(|rule| match &rule.decision {
        RuleDecision::Group(to) if is_set(&to.group) => Some(to.group.clone()),
        RuleDecision::Balance(over) if is_set(&over.group) => Some(over.group.clone()),
        _ => None,
    })
}

fn is_set(group: &str) -> bool {
    let set = group.rsplit('-').next().and_then(|set| set.parse().ok());
    set.is_some_and(|set| dispatcher_group(set) == group)
}

/// Reports wrong settings of the gateways of a Kamailio.
fn dispatcher(configuration: &Configuration, document: &Document<'_>) {
    let Dispatcher::Database(table) = &configuration.dispatcher else {
        return;
    };
    let options = table.options();
    let example = GatewayDescription {
        health: options.health,
        failover: options.failover,
        ..GatewayDescription::new("dispatcher", example_next_hop().0)
    };
    let alone = Descriptions {
        gateways: vec![example],
        groups: Vec::new(),
    };
    if let Err(error) = Gateways::new(alone, None) {
        let place = gateway_place(document, "dispatcher", &error);
        document.report_at(&place, error.to_string());
    }
}

/// The section of a rule with a mistake.
fn rule_of(mistake: &RuleMistake, configuration: &Configuration) -> String {
    let rules = &configuration.rule;
    let numbered = mistake.rule.strip_prefix('#').and_then(|number| {
        let number: usize = number.parse().ok()?;
        number
            .checked_sub(1)
            .filter(|index| rules.get(*index).is_some_and(|rule| rule.name.is_empty()))
    });
    let is_named = |rule: &super::RoutingRule| rule.name == mistake.rule;
    let named = match mistake.problem {
        Problem::DuplicateName => rules.iter().rposition(is_named),
        _ => rules.iter().position(is_named),
    };
    format!("rule[{}]", numbered.or(named).unwrap_or_default())
}

/// The key that a mistake is about.
const fn rule_key(problem: &Problem) -> Option<&'static str> {
    Some(match problem {
        Problem::EmptyList { key }
        | Problem::TooManyEntries { key, .. }
        | Problem::Unknown { key, .. }
        | Problem::Pattern { key, .. }
        | Problem::Uri { key, .. }
        | Problem::HeaderName { key, .. }
        | Problem::ProtectedHeader { key, .. }
        | Problem::RepeatedHeader { key, .. }
        | Problem::Text { key, .. } => key,
        Problem::Contradiction { one, .. } => one,
        Problem::HostBits { .. } => "source",
        Problem::NotMethod(_) | Problem::FollowingMethod(_) => "method",
        Problem::Status(_) | Problem::StatusNeedsField { .. } => "status",
        Problem::Prefix(_) => "prefix",
        _ => return None,
    })
}
