//! What `tandem check` finds in the routing besides the file: prefixes, tables of a Kamailio, and gateways that are this server or have no
//! address.
use super::machine::Found;
use crate::config::{
    self, Configuration, Dispatcher, Gateway, PolicyError, Prefixes, Routes, descriptions,
    group_names,
};
use crate::prefixes::{self, PrefixError};
use crate::routes::{self, ReadRoutes};
use sip_resolver::{Located, Resolver};
use sip_routing::gateway::Descriptions;
use sip_transport::Listener;
use sip_transport::selection::Reach;
use std::sync::Arc;
use std::time::Duration;
use tandem_store::{Store, StoreError};
use tokio::time::timeout;

/// How long all gateways may take to resolve.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long the tables of the database may take: millions of rows are read in seconds.
const DATABASE_PATIENCE: Duration = Duration::from_secs(60);

impl Found<'_> {
    /// Everything that would keep the server from using its routing.
    pub(super) fn routing(&mut self) {
        let configuration = &self.loaded.configuration;
        let Ok(listeners) = config::listeners(configuration) else {
            return;
        };
        let Some(routes) = self.routes() else {
            // The rules cannot be checked without the names in the tables.
            return self.own_listeners(&listeners);
        };
        match config::policy(configuration, &listeners, routes, None) {
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

    fn own_listeners(&mut self, listeners: &[Listener]) {
        let configuration = &self.loaded.configuration;
        let gateways = descriptions(configuration, &Descriptions::default()).gateways;
        for gateway in &gateways {
            if let Err(own) = config::own_listener(gateway, listeners) {
                let path = gateway_path(configuration, &own.gateway);
                self.add_line(&path, own.to_string());
            }
        }
    }

    /// The routes that the file does not have; `None` if they have mistakes, or cannot be read here and now.
    fn routes(&mut self) -> Option<Routes> {
        let configuration = &self.loaded.configuration;
        if routes::are_in_database(configuration) {
            return self.routes_of_database();
        }
        let Prefixes::File(source) = &configuration.prefixes else {
            return Some(Routes::default());
        };
        let groups = group_names(&descriptions(configuration, &Descriptions::default()));
        match prefixes::read_file(&source.file.0, &groups) {
            Ok(table) => Some(Routes {
                prefixes: Arc::new(table),
                ..Routes::default()
            }),
            Err(error) => {
                for line in error.lines() {
                    self.add("prefixes.file", &source.file.0.display(), &line);
                }
                None
            }
        }
    }

    fn routes_of_database(&mut self) -> Option<Routes> {
        let configuration = &self.loaded.configuration;
        let reason = match read(configuration) {
            Ok(Ok(ReadRoutes { routes, notes })) => {
                self.warnings.extend(notes);
                return Some(routes);
            }
            Ok(Err(error)) if is_about_tables(&error) => {
                let path = table_path(configuration, &error);
                for line in error.lines() {
                    self.add_line(path, line);
                }
                return None;
            }
            Ok(Err(error)) => error.to_string(),
            Err(reason) => reason,
        };
        let what = shown_tables(configuration);
        self.warnings
            .push(format!("{what} not checked, with the rules: {reason}"));
        None
    }
}

/// Reads the routes of the database, and changes nothing there. The outer error says why that is not possible here and now.
fn read(configuration: &Configuration) -> Result<Result<ReadRoutes, PrefixError>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let read = async {
        let store = Store::open_to_read(&configuration.database.url.0).await?;
        let read = Box::pin(routes::read(configuration, &store)).await;
        store.close().await;
        read
    };
    let read = runtime.block_on(async { timeout(DATABASE_PATIENCE, read).await });
    read.map_err(|_| {
        let seconds = DATABASE_PATIENCE.as_secs();
        format!("the database took longer than {seconds} s")
    })
}

/// Whether what is in the tables is wrong. Otherwise, it could not be read from here.
const fn is_about_tables(error: &PrefixError) -> bool {
    matches!(
        error,
        PrefixError::Rows { .. }
            | PrefixError::File { .. }
            | PrefixError::Name(_)
            | PrefixError::Database(StoreError::Table { .. })
    )
}

/// The key of the table that an error is about.
fn table_path(configuration: &Configuration, error: &PrefixError) -> &'static str {
    let (PrefixError::Database(StoreError::Table { table, .. }), Dispatcher::Database(of_gateways)) =
        (error, &configuration.dispatcher)
    else {
        return "prefixes.table";
    };
    if *table == of_gateways.table.0 {
        "dispatcher.table"
    } else {
        "prefixes.table"
    }
}

/// The tables of the database, as the subject of a sentence.
fn shown_tables(configuration: &Configuration) -> String {
    let mut tables = Vec::new();
    if let Dispatcher::Database(gateways) = &configuration.dispatcher {
        tables.push(gateways.table.0.as_str());
    }
    match &configuration.prefixes {
        Prefixes::Database(columns) => tables.push(&columns.table.0),
        Prefixes::Kamailio(prefixes) => tables.push(&prefixes.table.0),
        Prefixes::None | Prefixes::File(_) => {}
    }
    match tables[..] {
        [table] => format!("the table {table} was"),
        _ => format!("the tables {} were", tables.join(" and ")),
    }
}

/// The path of the destination of a gateway, which is in the file or in the table of a Kamailio.
fn gateway_path(configuration: &Configuration, name: &str) -> String {
    let mut gateways = configuration.gateway.iter();
    let index = gateways.position(|gateway| gateway.name == name);
    index.map_or_else(
        || "dispatcher.table".to_owned(),
        |index| format!("gateway[{index}].destination"),
    )
}

/// What is declared, for people; `None`: nothing.
pub(super) fn summary(configuration: &Configuration) -> Option<String> {
    let Configuration {
        gateway,
        group,
        rule,
        limit,
        prefixes,
        dispatcher,
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
        Prefixes::Kamailio(source) => {
            parts.push(format!("prefixes from table {}", source.table.0));
        }
    }
    if let Dispatcher::Database(source) = dispatcher {
        parts.push(format!("gateways from table {}", source.table.0));
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
