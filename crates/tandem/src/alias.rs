//! `tandem alias import`: aliases from a file, into the database. A running server notices them within a second.
use crate::configuration_file::ConfigurationFile;
use crate::output::complain;
use crate::services::{AliasName, SubscriberName};
use anyhow::{Context as _, bail};
use clap::Subcommand;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write as _, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use tandem_store::{Alias, Store};

/// Aliases per transaction.
const BATCH: usize = 1_000;
/// The maximum length of a line, in bytes.
const LONGEST_LINE: u64 = 4_096;
/// Errors about lines that are printed; the rest is counted.
const MAX_COMPLAINTS: u64 = 20;

/// The command and the configuration file.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: AliasCommand,
    #[command(flatten)]
    file: ConfigurationFile,
}

/// The alias commands. `tandem ctl aliases` has the others.
#[derive(Debug, Subcommand)]
enum AliasCommand {
    /// Import aliases from a file with lines `alias,subscriber`.
    ///
    /// An alias is a number, or user@domain. A first line `alias,subscriber`, empty lines and lines that start with # are skipped.
    /// Existing aliases are replaced. Invalid lines are reported with the reason and skipped; the others are imported.
    #[command(after_help = "Examples:
  tandem alias import numbers.csv
  tandem alias import numbers.csv --config tandem.toml")]
    Import {
        /// File to import, in UTF-8.
        #[arg(value_name = "FILE")]
        aliases: PathBuf,
    },
}

/// Runs the command on the configured database. The exit code is 0 for success, 1 for failure.
pub fn run(arguments: &Arguments) -> ExitCode {
    let AliasCommand::Import { aliases } = &arguments.command;
    match import(aliases, &arguments.file) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => complain(format_args!("{problem:#}")),
    }
}

/// Returns whether all lines were imported.
fn import(file: &PathBuf, configuration: &ConfigurationFile) -> anyhow::Result<bool> {
    let configuration = configuration.load()?;
    if configuration.kamailio().is_some() {
        bail!("`database.schema = \"kamailio\"`: Tandem only reads the database of Kamailio");
    }
    let domains = configuration.domains.iter();
    let domains = domains.map(|domain| domain.0.clone()).collect();
    let opened = File::open(file);
    let opened = opened.with_context(|| format!("{} cannot be read", file.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot create an event loop")?;
    runtime.block_on(async {
        let store = Store::open_existing(&configuration.database.url.0).await?;
        let mut import = Import {
            store: &store,
            domains,
            name: file.display().to_string(),
            batch: Vec::new(),
            imported: 0,
            refused: 0,
        };
        let done = import.run(BufReader::new(opened)).await;
        let (imported, refused) = (import.imported, import.refused);
        store.close().await;
        // Printed after a failure too: aliases imported before it stay.
        let mut notes = stderr();
        let _ = writeln!(
            notes,
            "tandem: {imported} aliases imported, {refused} lines refused"
        );
        done.map(|()| refused == 0)
    })
}

/// A running import.
struct Import<'s> {
    store: &'s Store,
    domains: Vec<String>,
    /// File name for error messages.
    name: String,
    batch: Vec<Alias>,
    imported: usize,
    refused: u64,
}

impl Import<'_> {
    async fn run(&mut self, mut input: impl BufRead) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        let mut number = 0_u64;
        loop {
            bytes.clear();
            let line = (&mut input)
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut bytes);
            if line.with_context(|| format!("{} cannot be read", self.name))? == 0 {
                return self.write().await;
            }
            number += 1;
            if bytes.len() as u64 == LONGEST_LINE && !bytes.ends_with(b"\n") {
                bail!(
                    "{}:{number}: the line is longer than {LONGEST_LINE} bytes",
                    self.name
                );
            }
            if let Err(problem) = self.take(&bytes, number).await {
                self.refused += 1;
                if self.refused <= MAX_COMPLAINTS {
                    // A note that cannot be written must not stop the command.
                    let _ = writeln!(stderr(), "tandem: {}:{number}: {problem:#}", self.name);
                }
            }
            if self.batch.len() >= BATCH {
                self.write().await?;
            }
        }
    }

    /// Takes a line into the batch.
    async fn take(&mut self, line: &[u8], number: u64) -> anyhow::Result<()> {
        let line = std::str::from_utf8(line)
            .context("the line is not UTF-8")?
            .trim();
        let is_heading = number == 1 && line.eq_ignore_ascii_case("alias,subscriber");
        if line.is_empty() || line.starts_with('#') || is_heading {
            return Ok(());
        }
        let (alias, subscriber) = line
            .rsplit_once(',')
            .context("must be alias,subscriber, such as +4930123,alice@example.org")?;
        let (alias, subscriber) = (alias.trim(), subscriber.trim());
        let name = AliasName::parse(alias, &self.domains);
        let name = name.with_context(|| format!("alias {alias:?}"))?;
        let subscriber = SubscriberName::parse(subscriber, &self.domains)
            .with_context(|| format!("subscriber {subscriber:?}"))?;
        let subscribers = self.store.subscribers();
        let found = subscribers.find(&subscriber.username, &subscriber.domain);
        if found.await?.is_none() {
            bail!("there is no subscriber {subscriber}");
        }
        self.batch.push(Alias {
            username: name.username,
            domain: name.domain,
            subscriber: subscriber.to_string(),
        });
        Ok(())
    }

    async fn write(&mut self) -> anyhow::Result<()> {
        if !self.batch.is_empty() {
            self.store.services().set_aliases(&self.batch).await?;
            self.imported += self.batch.len();
            self.batch.clear();
        }
        Ok(())
    }
}
