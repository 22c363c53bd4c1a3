//! What `tandem check` finds in the routing besides the file: prefixes, and gateways that are this server or have no address.
use super::machine::Found;
use crate::config::{self, Configuration, Gateway, PolicyError, Prefixes, gateway_groups};
use crate::prefixes;
use sip_resolver::{Located, Resolver};
use sip_routing::prefix::PrefixTable;
use sip_transport::Listener;
use sip_transport::selection::Reach;
use std::sync::Arc;
use std::time::Duration;

/// How long all gateways may take to resolve.
const PATIENCE: Duration = Duration::from_secs(15);

impl Found<'_> {
    /// Everything that would keep the server from using its routing. The prefixes of a database are read by the server only.
    pub(super) fn routing(&mut self) {
        let configuration = &self.loaded.configuration;
        let Ok(listeners) = config::listeners(configuration) else {
            return;
        };
        let table = match &configuration.prefixes {
            Prefixes::None => PrefixTable::default(),
            Prefixes::Database(_) => {
                for gateway in &configuration.gateway {
                    self.own_listener(gateway, &listeners);
                }
                return;
            }
            Prefixes::File(source) => {
                let groups = gateway_groups(configuration);
                match prefixes::read_file(&source.file.0, &groups) {
                    Ok(table) => table,
                    Err(error) => {
                        for line in error.lines() {
                            self.add("prefixes.file", &source.file.0.display(), &line);
                        }
                        return;
                    }
                }
            }
        };
        match config::policy(configuration, &listeners, Arc::new(table), None) {
            Ok(_) => {}
            Err(PolicyError::OwnListener(own)) => {
                let path = gateway_path(configuration, &own.gateway);
                self.add_line(&path, own.to_string());
            }
            Err(PolicyError::Rules(mistakes)) => {
                for mistake in mistakes {
                    let mut rules = configuration.rule.iter();
                    let index = rules.position(|rule| rule.name == mistake.rule);
                    let path = format!("rule[{}]", index.unwrap_or_default());
                    self.add_line(&path, mistake.to_string());
                }
            }
            Err(error) => self.add_line("prefixes", error.to_string()),
        }
    }

    fn own_listener(&mut self, gateway: &Gateway, listeners: &[Listener]) {
        if let Err(error) = config::own_listener(gateway, listeners) {
            let path = gateway_path(&self.loaded.configuration, &gateway.name);
            self.add_line(&path, error.to_string());
        }
    }
}

/// The path of the destination of a gateway.
fn gateway_path(configuration: &Configuration, name: &str) -> String {
    let mut gateways = configuration.gateway.iter();
    let index = gateways.position(|gateway| gateway.name == name);
    format!("gateway[{}].destination", index.unwrap_or_default())
}

/// What is declared, for people; `None`: nothing.
pub(super) fn summary(configuration: &Configuration) -> Option<String> {
    let Configuration {
        gateway,
        group,
        rule,
        limit,
        prefixes,
        ..
    } = configuration;
    let counts = [
        (gateway.len(), "gateways"),
        (group.len(), "groups"),
        (rule.len(), "rules"),
        (limit.len(), "limits"),
    ];
    let counted = counts.into_iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<String> = counted
        .map(|(count, what)| format!("{what}: {count}"))
        .collect();
    match prefixes {
        Prefixes::None => {}
        Prefixes::File(source) => parts.push(format!("prefixes from {}", source.file.0.display())),
        Prefixes::Database(columns) => {
            parts.push(format!("prefixes from table {}", columns.table.0));
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Gateways whose name has no address, or one of this server. Name servers may know other addresses later, so these are warnings.
pub(super) fn unlocated(configuration: &Configuration) -> Vec<String> {
    let is_named = |gateway: &&Gateway| gateway.destination.0.literal().is_none();
    let named: Vec<&Gateway> = configuration.gateway.iter().filter(is_named).collect();
    let Ok(listeners) = config::listeners(configuration) else {
        return Vec::new();
    };
    if named.is_empty() {
        return Vec::new();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(locate(configuration, &named, &listeners)),
        Err(error) => vec![format!("cannot look gateways up: {error}")],
    }
}

async fn locate(
    configuration: &Configuration,
    gateways: &[&Gateway],
    listeners: &[Listener],
) -> Vec<String> {
    let settings = config::resolver_settings(configuration);
    let resolver = match Resolver::new(&settings, Reach::of(listeners)) {
        Ok(resolver) => resolver,
        Err(error) => return vec![error.to_string()],
    };
    let looked_up = gateways.iter().map(|gateway| async {
        let located = resolver.locate(&gateway.destination.0, 0).await;
        problem(gateway, &located, listeners)
    });
    let all = futures_util::future::join_all(looked_up);
    match tokio::time::timeout(PATIENCE, all).await {
        Ok(problems) => problems.into_iter().flatten().collect(),
        Err(_) => vec![format!(
            "the name servers did not answer for all gateways within {} s",
            PATIENCE.as_secs()
        )],
    }
}

/// What is wrong with where a gateway is.
fn problem(gateway: &Gateway, located: &Located, listeners: &[Listener]) -> Option<String> {
    let (name, uri) = (&gateway.name, gateway.destination.uri());
    let mut candidates = located.candidates.iter();
    let own = candidates.find(|candidate| {
        let is_same =
            |it: &Listener| it.address == candidate.address && it.protocol == candidate.protocol;
        listeners.iter().any(is_same)
    });
    if let Some(own) = own {
        return Some(format!(
            "gateway `{name}`: {uri} is at {}, a listener of this server: calls would come back",
            own.address
        ));
    }
    if !located.candidates.is_empty() {
        return None;
    }
    Some(if located.incomplete {
        format!("gateway `{name}`: the name servers gave no answer for {uri}")
    } else {
        format!("gateway `{name}`: {uri} has no address that a listener can reach")
    })
}
