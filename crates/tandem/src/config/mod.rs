//! The configuration: a TOML file and environment variables, parsed into typed keys with all errors reported, then resolved into the
//! settings of the server.
//!
//! `sections/` lists all keys. `read/` reads a file against it, `check.rs` checks combinations of keys, `resolve.rs` derives the settings
//! of data plane and control plane, and `reference.rs` generates the documentation.
//!
//! The reader walks the parsed TOML itself, without serde. An operator gets all errors at once, each with line, column, value, what is
//! allowed and a likely correction. A deserializer stops at the first error, and the catalogue would be needed beside it anyway, because
//! it holds defaults, ranges and the reference.

mod balancer;
mod catalogue;
mod check;
pub mod controller;
mod declare;
mod document;
mod environment;
mod gateway_account;
mod mistake;
mod read;
mod reference;
mod resolve;
mod routing_check;
mod routing_identity;
mod routing_policy;
mod section;
mod sections;
mod values;
mod write;

pub use balancer::{balancer_settings, load_balancer, member_list, parse_balancer};
pub use catalogue::{Changes, Chapter, ChapterKey, Key};
pub use document::Places;
pub use environment::Environment;
pub use gateway_account::{AddressOfRecord, ContactUser, GatewayAccount, Password, QuotedText};
pub use mistake::{Mistake, Mistakes, Place, nearest};
pub use reference::{controller_reference, edge_example, edge_reference, example, reference};
pub use resolve::{
    MAX_CONNECTIONS, MAX_PER_PEER, listeners, location_limits, peer_policy, resolver_settings,
    runtime_options, save_time, settings, speaks_tls, tls_settings,
};
pub use routing_identity::*;
pub use routing_policy::{
    OwnListener, PolicyError, Routes, descriptions, group_names, own_listener, policy,
};
pub use sections::*;
pub use values::controller_url::ControllerUrl;
pub use values::host::{
    Advertised, AgentName, Count, DatabaseUrl, DomainName, FilePath, HepCollector, LocationStore,
    NextHop,
};
pub use values::kamailio::{AlgorithmNumber, PrefixLayout, SetAlgorithm};
pub use values::keyword::{
    CallLines, Challengeable, Durability, Keyword, LogFormat, LogLevel, RecordedFailures,
    StrangerMethod,
};
pub use values::network::Network;
pub use values::node_name::NodeName;
pub use values::origin::Origin;
pub use values::redis_url::RedisUrl;
pub use values::routing::{
    ColumnName, CountryCode, DialledDigits, GroupMember, HeaderField, HeaderMatch, TableName,
};
pub use write::effective;

use document::Document;
use read::TableReader;
use section::Section;
use std::path::Path;
use toml::de::DeTable;

/// Stands for the file name in messages if there is no file.
const NO_FILE: &str = "(built-in defaults)";

/// A configuration, and where its values come from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The values of all keys.
    pub configuration: Configuration,
    /// The name of the file in messages.
    pub file: String,
    /// Where each value comes from.
    pub places: Places,
}

/// Reads a file, or begins with the defaults if `file` is `None`; then applies the environment of this process.
///
/// # Errors
/// All errors in the file and in the environment.
pub fn load(file: Option<&Path>) -> Result<Configuration, Mistakes> {
    load_with(file, &Environment::of_process()).map(|loaded| loaded.configuration)
}

/// Reads a file, or begins with the defaults if `file` is `None`; then applies the variables of `environment`.
///
/// # Errors
/// All errors in the file and in the environment.
pub fn load_with(file: Option<&Path>, environment: &Environment) -> Result<Loaded, Mistakes> {
    let Some(path) = file else {
        return parse("", NO_FILE, environment);
    };
    let (text, name) = read_text(path)?;
    parse(&text, &name, environment)
}

/// Reads a file like [`load`], for a command that needs only the keys of the admin interface. Mistakes in other sections are returned
/// beside the configuration, where their keys have the defaults: the running server may not have read them.
///
/// # Errors
/// The file cannot be read, or has mistakes that may concern the admin interface.
pub fn load_for_admin(file: Option<&Path>) -> Result<(Configuration, Option<Mistakes>), Mistakes> {
    let (text, name) = match file {
        Some(path) => read_text(path)?,
        None => (String::new(), NO_FILE.to_owned()),
    };
    let parsed = parse_section(&text, &Environment::of_process(), check::together);
    let mistakes = Mistakes {
        file: name,
        list: parsed.mistakes,
    };
    if mistakes.list.is_empty() {
        Ok((parsed.section, None))
    } else if mistakes.list.iter().any(Mistake::may_concern_admin) {
        Err(mistakes)
    } else {
        Ok((parsed.section, Some(mistakes)))
    }
}

/// The text of a file and its name in messages.
fn read_text(path: &Path) -> Result<(String, String), Mistakes> {
    let name = path.display().to_string();
    let text = std::fs::read(path)
        .map_err(|error| Mistakes::one(&name, format!("cannot be read: {error}")))?;
    let text = String::from_utf8(text).map_err(|error| {
        let line = text_line(error.as_bytes(), error.utf8_error().valid_up_to());
        Mistakes::one(&name, format!("line {line} is not UTF-8 text"))
    })?;
    Ok((text, name))
}

fn text_line(bytes: &[u8], offset: usize) -> usize {
    bytes
        .iter()
        .take(offset)
        .filter(|octet| **octet == b'\n')
        .count()
        + 1
}

/// Parses the text of a file, whose name in messages is `file`, and applies the variables of `environment`.
///
/// # Errors
/// All errors in the text and in the environment.
pub fn parse(text: &str, file: &str, environment: &Environment) -> Result<Loaded, Mistakes> {
    let parsed = parse_section(text, environment, check::together);
    let file = file.to_owned();
    if parsed.mistakes.is_empty() {
        Ok(Loaded {
            configuration: parsed.section,
            file,
            places: parsed.places,
        })
    } else {
        Err(Mistakes {
            file,
            list: parsed.mistakes,
        })
    }
}

/// A section that was read. What the mistakes are about has its default.
struct Parsed<S> {
    section: S,
    places: Places,
    mistakes: Vec<Mistake>,
}

/// Parses a text into a section and all sections nested in it; `check` reports invalid combinations of keys.
fn parse_section<S: Section>(
    text: &str,
    environment: &Environment,
    check: impl Fn(&S, &Document<'_>),
) -> Parsed<S> {
    let document = Document::new(text, environment, catalogue::chapters::<S>());
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let place = error.span().map(|span| document::Source::Text(span.start));
        document.report(place, format!("invalid TOML: {}", error.message()));
    }
    // Keys recovered from broken TOML may be wrong, so they are not checked.
    let section = if errors.is_empty() {
        let section = TableReader::root(&document, table.get_ref()).read();
        document.refuse_unknown_variables();
        check(&section, &document);
        section
    } else {
        S::default()
    };
    let (mistakes, places) = document.finish();
    Parsed {
        section,
        places,
        mistakes,
    }
}

#[cfg(test)]
mod tests;
