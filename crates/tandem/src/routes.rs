//! Reads what is known about routes besides the configuration file: gateways of a Kamailio's `dispatcher`, and prefixes. All of it is
//! replaced as a whole, or rejected as a whole.
use crate::config::{
    Configuration, Dispatcher, KamailioPrefixes, Prefixes, Routes, descriptions, group_names,
};
use crate::prefixes::{self, PrefixError};
use sip_routing::gateway::Descriptions;
use sip_routing::prefix::{Builder, PrefixTable};
use std::fmt::Display;
use std::sync::Arc;
use tandem_store::{
    DispatcherTranslation, KamailioPrefixOptions, PrefixTranslation, Store, TranslatedPrefixes,
};

/// Routes, and what of the tables of a Kamailio could not be carried over.
#[derive(Debug, Default)]
pub(crate) struct ReadRoutes {
    pub(crate) routes: Routes,
    /// For people: the table, the row and the problem.
    pub(crate) notes: Vec<String>,
}

/// Whether some of the routes are in the database.
pub(crate) const fn are_in_database(configuration: &Configuration) -> bool {
    let has_gateways = matches!(configuration.dispatcher, Dispatcher::Database(_));
    has_gateways
        || matches!(
            configuration.prefixes,
            Prefixes::Database(_) | Prefixes::Kamailio(_)
        )
}

/// Reads the gateways and prefixes that the configuration names, which are none without a source. The work is done on a blocking thread,
/// except the reading of rows from the database.
///
/// # Errors
/// Why there are none.
pub(crate) async fn read(
    configuration: &Configuration,
    store: &Store,
) -> Result<ReadRoutes, PrefixError> {
    let mut notes = Vec::new();
    let gateways = read_dispatcher(configuration, store, &mut notes).await?;
    let known = descriptions(configuration, &gateways);
    if let Prefixes::Kamailio(table) = &configuration.prefixes {
        return read_kamailio(configuration, table, known, store, notes).await;
    }
    let prefixes = prefixes::read(&configuration.prefixes, group_names(&known), store).await?;
    let routes = Routes {
        gateways: Arc::new(gateways),
        prefixes: Arc::new(prefixes),
    };
    Ok(ReadRoutes { routes, notes })
}

async fn read_dispatcher(
    configuration: &Configuration,
    store: &Store,
    notes: &mut Vec<String>,
) -> Result<Descriptions, PrefixError> {
    let Dispatcher::Database(table) = &configuration.dispatcher else {
        return Ok(Descriptions::default());
    };
    let (source, options) = (table.source()?, table.options());
    let mut translation = DispatcherTranslation::new(&options);
    let read = store.read_dispatcher(&source, |row| translation.add(row));
    read.await?;
    let translated = translation.finish();
    note(&source.table, &translated.findings, notes);
    Ok(translated.descriptions)
}

/// Reads a table of `mtree` or `pdt`. `known` are all gateways and groups without it.
async fn read_kamailio(
    configuration: &Configuration,
    table: &KamailioPrefixes,
    known: Descriptions,
    store: &Store,
    mut notes: Vec<String>,
) -> Result<ReadRoutes, PrefixError> {
    let source = table.source()?;
    let mut options = KamailioPrefixOptions {
        values: table.values,
        ..KamailioPrefixOptions::default()
    };
    if let Dispatcher::Database(table) = &configuration.dispatcher {
        let of_gateways = table.options();
        options.health = of_gateways.health;
        options.failover = of_gateways.failover;
    }
    let mut translation = PrefixTranslation::new(&options, known);
    let read = store.read_prefixes(&source, |row| translation.add(row));
    read.await?;
    let translated = translation.finish();
    note(&source.table, &translated.findings, &mut notes);
    let place = format!("table {}", source.table);
    let built = tokio::task::spawn_blocking(move || build(translated, place));
    let (mut gateways, prefixes) = built.await.map_err(|_| PrefixError::Stopped)??;
    // Those of the file come first.
    gateways.gateways.drain(..configuration.gateway.len());
    gateways.groups.drain(..configuration.group.len());
    let routes = Routes {
        gateways: Arc::new(gateways),
        prefixes: Arc::new(prefixes),
    };
    Ok(ReadRoutes { routes, notes })
}

fn build(
    translated: TranslatedPrefixes,
    place: String,
) -> Result<(Descriptions, PrefixTable), PrefixError> {
    let groups = translated.descriptions.groups.iter();
    let mut builder = Builder::new(groups.map(|group| &*group.name));
    translated.fill(&mut builder);
    let built = builder.build();
    let prefixes = built.map_err(|rows| PrefixError::Rows {
        place,
        counted: "row",
        rows,
    })?;
    Ok((translated.descriptions, prefixes))
}

fn note(table: &impl Display, findings: &[impl Display], notes: &mut Vec<String>) {
    let lines = findings.iter();
    notes.extend(lines.map(|finding| format!("table {table}, {finding}")));
}
