//! `tandem certificate`: creates a self-signed certificate for testing.
use crate::output::{complain, show};
use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Subcommand;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(86_400);
/// Longest lifetime: the dates of X.509 have four digits for the year.
const LONGEST_LIFETIME: Duration = DAY.saturating_mul(36_500);

/// The certificate commands.
#[derive(Debug, Subcommand)]
pub enum CertificateCommand {
    /// Create a self-signed certificate and its key (chain.pem and key.pem) for tests and laboratories.
    #[command(after_help = "Examples:
  tandem certificate self-signed --name example.org --folder .
  tandem certificate self-signed --name sip.example.org --name 192.0.2.1 --lifetime 90d --folder tls")]
    SelfSigned(SelfSigned),
}

/// Names, place and lifetime of the certificate.
#[derive(Debug, clap::Args)]
pub struct SelfSigned {
    /// Domain, host or address in the certificate; may be repeated. The first one is the common name.
    #[arg(long = "name", value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Directory for chain.pem and key.pem; created if it does not exist.
    #[arg(long, value_name = "DIRECTORY")]
    folder: PathBuf,
    /// Lifetime, at least one day.
    #[arg(long, value_name = "TIME", default_value = "825d", value_parser = lifetime)]
    lifetime: Duration,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(command: &CertificateCommand) -> ExitCode {
    let CertificateCommand::SelfSigned(wanted) = command;
    match self_signed(wanted) {
        Ok(text) => show(&text),
        Err(problem) => complain(problem),
    }
}

fn lifetime(text: &str) -> anyhow::Result<Duration> {
    let lifetime = humantime::parse_duration(text)?;
    let is_allowed = (DAY..=LONGEST_LIFETIME).contains(&lifetime);
    ensure!(is_allowed, "must be from 1d to 36500d");
    Ok(lifetime)
}

fn self_signed(wanted: &SelfSigned) -> anyhow::Result<String> {
    let (chain, key) = make(&wanted.names, wanted.lifetime)?;
    let folder = &wanted.folder;
    let (chain_file, key_file) = (folder.join("chain.pem"), folder.join("key.pem"));
    if !wanted.force
        && let Some(there) = [&chain_file, &key_file]
            .into_iter()
            .find(|file| file.exists())
    {
        bail!(
            "{} already exists: choose another --folder, or replace it with --force",
            there.display()
        );
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    write(&key_file, &key, 0o600)?;
    write(&chain_file, &chain, 0o644)?;
    Ok(format!(
        "created {} and {} for {}, valid for {} days\n\n[[certificate]]\nchain = {:?}\nkey = {:?}\n",
        chain_file.display(),
        key_file.display(),
        wanted.names.join(", "),
        wanted.lifetime.as_secs() / DAY.as_secs(),
        chain_file.display().to_string(),
        key_file.display().to_string()
    ))
}

/// Returns chain and key in PEM: ECDSA on P-256, with DNS names also as SIP domains (RFC 5922 section 4).
fn make(names: &[String], lifetime: Duration) -> anyhow::Result<(String, String)> {
    const CANNOT: &str = "the certificate cannot be created";
    let mut params = CertificateParams::default();
    for name in names {
        params.subject_alt_names.extend(alternatives(name)?);
    }
    let common_name = names.first().map_or("", String::as_str);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    // The clock of a phone may be slow.
    let now = SystemTime::now();
    params.not_before = (now - DAY).into();
    params.not_after = (now + lifetime).into();
    let key = KeyPair::generate().context(CANNOT)?;
    let certificate = params.self_signed(&key).context(CANNOT)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn alternatives(name: &str) -> anyhow::Result<Vec<SanType>> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(vec![SanType::IpAddress(address)]);
    }
    let labels = name.strip_prefix("*.").unwrap_or(name);
    let is_name = sip_message::Host::parse(labels.as_bytes())
        .is_some_and(|host| matches!(host, sip_message::Host::Name(_)));
    let ascii = |text: String| {
        text.try_into()
            .map_err(|error: rcgen::Error| anyhow!("\"{name}\": {error}"))
    };
    if !is_name {
        bail!(
            "--name \"{name}\": must be a domain, a host name or an address, without scheme and port"
        );
    }
    let mut found = vec![SanType::DnsName(ascii(name.to_ascii_lowercase())?)];
    if labels == name {
        found.push(SanType::URI(ascii(format!(
            "sip:{}",
            name.to_ascii_lowercase()
        ))?));
    }
    Ok(found)
}

/// Writes a new file with these permissions, replacing an old one.
fn write(file: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let cannot = || format!("{} cannot be written", file.display());
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(cannot);
        }
        _ => {}
    }
    let mut opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(file)
        .with_context(cannot)?;
    opened.write_all(text.as_bytes()).with_context(cannot)
}
