//! The configuration file: parsed into typed keys with all errors reported, then resolved into the settings of the server.
//!
//! `sections.rs` is the catalogue of keys. `read.rs` reads a file against it, `check.rs` checks combinations of keys, `resolve.rs`
//! derives the settings of data plane and control plane, and `reference.rs` generates the documentation.

mod catalogue;
mod check;
mod host_value;
mod interval;
mod keyword;
mod mistake;
mod network_value;
mod origin;
mod read;
mod reference;
mod resolve;
mod sections;
mod value;

pub use catalogue::{Changes, Chapter, Key};
pub use host_value::{
    Advertised, AgentName, Count, DatabaseUrl, DomainName, FilePath, LocationStore, NextHop,
};
pub use interval::Interval;
pub use keyword::{
    Aliases, Challenged, ChallengedMethods, ClientCertificates, Digest, Durability, EventLoop,
    Foreign, LogFormat, LogLevel, StrangerMethod, Strangers, TlsVersion, Transport,
};
pub use mistake::{Mistake, Mistakes, nearest};
pub use network_value::Network;
pub use origin::Origin;
pub use reference::{example, reference};
pub use resolve::{
    MOST_CONNECTIONS, MOST_PER_PEER, listeners, location_limits, peer_policy, runtime_options,
    save_time, settings, speaks_tls, tls_settings,
};
pub use sections::{
    Admin, Auth, Bans, Certificate, Configuration, Connections, Database, Dns, General, Limits,
    Listen, Location, Log, Proxy, Registrar, Shutdown, Timers, Tls, Udp, Workers,
};

use catalogue::Section;
use read::{Document, TableReader};
use sections::for_each_section;
use std::path::Path;
use toml::de::DeTable;

/// Stands for the file name in messages if there is no file.
const NO_FILE: &str = "(built-in defaults)";

/// Reads a file, or returns the defaults if `file` is `None`.
///
/// # Errors
/// All errors in the file.
pub fn load(file: Option<&Path>) -> Result<Configuration, Mistakes> {
    let Some(path) = file else {
        return parse("", NO_FILE);
    };
    let name = path.display().to_string();
    let text = std::fs::read(path)
        .map_err(|error| Mistakes::one(&name, format!("cannot be read: {error}")))?;
    let text = String::from_utf8(text).map_err(|error| {
        let line = text_line(error.as_bytes(), error.utf8_error().valid_up_to());
        Mistakes::one(&name, format!("line {line} is not UTF-8 text"))
    })?;
    parse(&text, &name)
}

fn text_line(bytes: &[u8], offset: usize) -> usize {
    bytes
        .iter()
        .take(offset)
        .filter(|octet| **octet == b'\n')
        .count()
        + 1
}

/// Parses the text of a file; `file` is its name in messages.
///
/// # Errors
/// All errors in the text.
pub fn parse(text: &str, file: &str) -> Result<Configuration, Mistakes> {
    let chapters = Configuration::chapters();
    let known = chapters
        .iter()
        .flat_map(|chapter| chapter.keys.iter().map(|key| (chapter.header(), key.name)))
        .collect();
    let document = Document::new(text, known);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        document.report(
            error.span().map(|span| span.start),
            format!("invalid TOML: {}", error.message()),
        );
    }
    // Keys recovered from broken TOML may be wrong, so they are not checked.
    let configuration = if errors.is_empty() {
        read(&document, table.get_ref(), &chapters)
    } else {
        Configuration::default()
    };
    let list = document.into_mistakes();
    if list.is_empty() {
        Ok(configuration)
    } else {
        Err(Mistakes {
            file: file.to_owned(),
            list,
        })
    }
}

fn read<'d, 'i>(
    document: &'d Document<'i>,
    table: &'d DeTable<'i>,
    chapters: &[Chapter],
) -> Configuration {
    let root = TableReader::root(document, table);
    let own = chapters
        .iter()
        .filter(|chapter| chapter.name.is_empty())
        .flat_map(|chapter| chapter.keys.iter().map(|key| key.name));
    let sections = chapters
        .iter()
        .map(|chapter| chapter.name)
        .filter(|name| !name.is_empty());
    root.refuse_unknown(&own.chain(sections).collect::<Vec<_>>());
    macro_rules! read_all {
        ($($field:ident $type:ident),+) => {
            Configuration {
                general: General::read(&root),
                listen: root.sections(),
                certificate: root.sections(),
                $( $field: root.section(), )+
            }
        };
    }
    let mut configuration = for_each_section!(read_all);
    if configuration.listen.is_empty() {
        configuration.listen = Listen::defaults();
    }
    check::together(&configuration, document);
    configuration
}

#[cfg(test)]
mod tests;
