//! `tandem check`: validates a configuration, finds what is missing on this machine, and summarizes what it would run.

mod machine;
mod routing;

use crate::admin::metrics_reference;
use crate::config::{self, Challengeable, Configuration, Environment, Keyword, Loaded, Mistakes};
use crate::configuration_file::ConfigurationFile;
use crate::descriptors::{shortage, taken};
use crate::output::{complain, show};
use crate::warnings::dangerous_settings;
use humantime::format_duration;
use sip_elements::ChallengedMethods;
use sip_runtime::tls::Certificate;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::SystemTime;

/// The file to check, or the document to print instead.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Arguments {
    #[command(flatten)]
    file: ConfigurationFile,
    /// Print the configuration reference in Markdown.
    #[arg(long, conflicts_with_all = ["example", "effective"])]
    reference: bool,
    /// Print an example file with every key and its default, commented out.
    #[arg(long, conflicts_with = "effective")]
    example: bool,
    /// Print the reference of all metrics in Markdown.
    #[arg(long, conflicts_with_all = ["reference", "example", "effective"])]
    metrics: bool,
    /// Print the effective configuration, including defaults.
    #[arg(long)]
    effective: bool,
}

/// Prints the summary; fails with all errors in the file.
pub fn run(arguments: &Arguments) -> ExitCode {
    if arguments.reference {
        return show(&config::reference());
    }
    if arguments.metrics {
        return show(&metrics_reference());
    }
    if arguments.example {
        return show(&config::example());
    }
    let loaded = match config::load_with(arguments.file.path(), &Environment::of_process()) {
        Ok(loaded) => loaded,
        Err(mistakes) => return complain(mistakes),
    };
    if arguments.effective {
        return show(&config::effective(&loaded));
    }
    match summary(loaded) {
        Ok(text) => show(&text),
        Err(problem) => complain(problem),
    }
}

/// A summary of what would run, or everything that would keep the server from starting.
fn summary(loaded: Loaded) -> Result<String, String> {
    let (list, warnings) = machine::errors(&loaded);
    if list.is_empty() {
        return describe(&loaded.configuration, warnings);
    }
    let file = loaded.file;
    Err(Mistakes { file, list }.to_string())
}

/// A summary of what would run, for people, with warnings about what it should not.
///
/// # Errors
/// A listener or a certificate that cannot be used, with the reason.
fn describe(configuration: &Configuration, found: Vec<String>) -> Result<String, String> {
    let Configuration {
        domains,
        workers,
        database,
        auth,
        proxy,
        registrar,
        limits,
        admin,
        ..
    } = configuration;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<14}{value}");
    };
    line(
        "domains",
        listed(domains.iter().map(|domain| domain.0.as_str())),
    );
    let listeners = config::listeners(configuration)?;
    let taken = taken(configuration, listeners.len());
    for listener in listeners {
        let transport = listener.protocol.via_token().to_ascii_lowercase();
        let advertised = match listener.advertised.as_str() {
            "" => String::new(),
            name => format!(", advertised as {name}"),
        };
        line(
            "listen",
            format!("{transport} {}{advertised}", listener.address),
        );
    }
    for certificate in certificates(configuration)? {
        line("certificate", certificate);
    }
    line("tls", peers(configuration));
    line("workers", workers.count.resolve().to_string());
    let tables = match configuration.kamailio() {
        Some(_) => ", tables of Kamailio, only read",
        None => "",
    };
    line("database", format!("{}{tables}", database.url.shown().0));
    let methods = match &auth.challenge {
        ChallengedMethods::All => "all methods".to_owned(),
        ChallengedMethods::Listed(methods) => {
            listed(methods.iter().map(|method| Challengeable(*method).word()))
        }
    };
    let algorithms = listed(auth.algorithms.iter().map(|digest| digest.word()));
    let digest = if auth.challenge.is_empty() {
        "off".to_owned()
    } else {
        format!("{algorithms} for {methods}")
    };
    line("digest", digest);
    let outbound = proxy
        .outbound
        .as_ref()
        .map(|hop| format!(", next hop {}", hop.uri()))
        .unwrap_or_default();
    line(
        "other domains",
        format!("{}{outbound}", proxy.foreign.word()),
    );
    let registrar = format!(
        "{} to {}, {} by default, {} contacts per address of record",
        format_duration(registrar.min_expires),
        format_duration(registrar.max_expires),
        format_duration(registrar.default_expires),
        registrar.max_contacts
    );
    line("registrations", registrar);
    let tables = format!(
        "per worker: {} server and {} client transactions, {} forwarded requests, {} parked requests; in total: {} bindings",
        limits.server_transactions,
        limits.client_transactions,
        limits.response_contexts,
        limits.parked_requests,
        limits.bindings
    );
    line("limits", tables);
    if let Some(routing) = routing::summary(configuration) {
        line("routing", routing);
    }
    line("admin", format!("http://{}", admin.listen));
    for warning in found.into_iter().chain(warnings(configuration, taken)) {
        line("WARNING", warning);
    }
    Ok(text)
}

/// What does not keep the server from starting, but is probably not intended.
fn warnings(configuration: &Configuration, descriptors: u64) -> Vec<String> {
    // The limit depends on where the command runs: the server may have another one.
    let limit = sip_runtime::raise_descriptor_limit();
    let of_machine = [
        machine::missing_processors(configuration),
        shortage(configuration, limit, descriptors),
    ];
    let dangerous = dangerous_settings(configuration).into_iter();
    dangerous
        .map(str::to_owned)
        .chain(of_machine.into_iter().flatten())
        .chain(routing::unlocated(configuration))
        .collect()
}

/// Each certificate with its names and last day.
fn certificates(configuration: &Configuration) -> Result<Vec<String>, String> {
    if !config::speaks_tls(configuration) {
        return Ok(Vec::new());
    }
    let settings = config::tls_settings(configuration);
    let context = settings.load(None).map_err(|errors| errors.to_string())?;
    let now = SystemTime::now();
    let describe = |certificate: &Certificate| {
        let warning = certificate
            .warning(now)
            .map(|warning| format!("; it {warning}"));
        format!(
            "{} until {} ({}{})",
            certificate.names().join(", "),
            certificate.last_day(),
            certificate.chain_file().display(),
            warning.unwrap_or_default()
        )
    };
    Ok(context.certificates().iter().map(describe).collect())
}

/// How TLS peers are verified.
fn peers(configuration: &Configuration) -> String {
    let tls = &configuration.tls;
    let servers = match (&tls.server_ca, tls.verify_servers) {
        (_, false) => "NOT verified".to_owned(),
        (Some(file), true) => format!("verified by {}", file.0.display()),
        (None, true) => "verified by the system's authorities".to_owned(),
    };
    format!(
        "{} and later; clients' certificates: {}; servers are {servers}",
        tls.min_version.word(),
        tls.clients.word()
    )
}

fn listed<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}
