//! `tandem user`: manages the subscribers. It works on the database directly, whether a server is running or not; a running server
//! notices changes within a second.

mod address;
mod command;
pub(crate) mod hash;
mod import;
mod list;
mod password;
mod report;

pub use command::Arguments;

use crate::output::complain;
use address::SubscriberAddress;
use command::UserCommand;
use password::PasswordArguments;
use report::Failure;
use std::io::Write;
use std::process::ExitCode;
use tandem_store::{Registrations, Store, StoreError, Subscriber};
use tokio::runtime::Runtime;

/// Runs the command on the configured database. The first configured domain completes addresses without a domain. The exit code is 0
/// for success, 1 for failure, 2 for an invalid command line.
pub fn run(arguments: Arguments) -> ExitCode {
    let configuration = match arguments.file.load() {
        Ok(configuration) => configuration,
        Err(mistakes) => return complain(mistakes),
    };
    if configuration.kamailio().is_some() {
        return complain(
            "`database.schema = \"kamailio\"`: Tandem only reads the subscribers of Kamailio; manage them as before, for example with kamctl",
        );
    }
    let domains = configuration.domains;
    let domains: Vec<String> = domains.into_iter().map(|domain| domain.0).collect();
    let mut out = std::io::stdout();
    let mut notes = std::io::stderr();
    let done = Session::new(
        &configuration.database.url.0,
        &domains,
        &mut out,
        &mut notes,
    )
    .and_then(|mut session| session.perform(arguments.command));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            for line in failure.lines() {
                // If stderr is closed, the exit code still reports the failure.
                let _ = writeln!(notes, "{line}");
            }
            failure.exit_code()
        }
    }
}

/// A running command: its database and its outputs.
struct Session<'a> {
    runtime: Runtime,
    database_url: &'a str,
    domains: &'a [String],
    /// Receives results.
    out: &'a mut (dyn Write + Send),
    /// Receives warnings and progress.
    notes: &'a mut dyn Write,
}

impl<'a> Session<'a> {
    fn new(
        database_url: &'a str,
        domains: &'a [String],
        out: &'a mut (dyn Write + Send),
        notes: &'a mut dyn Write,
    ) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::Failed(format!("cannot create an event loop: {error}")))?;
        Ok(Self {
            runtime,
            database_url,
            domains,
            out,
            notes,
        })
    }

    fn perform(&mut self, command: UserCommand) -> Result<(), Failure> {
        match command {
            UserCommand::Add { address, password } => self.add(&address, &password),
            UserCommand::Passwd {
                address,
                password,
                keep_registrations,
            } => {
                let registrations = if keep_registrations {
                    Registrations::Keep
                } else {
                    Registrations::End
                };
                self.passwd(&address, &password, registrations)
            }
            UserCommand::List(arguments) => self.list(&arguments),
            UserCommand::Remove { address } => self.remove(&address),
            UserCommand::Import(arguments) => self.import(&arguments),
        }
    }

    fn add(
        &mut self,
        address: &SubscriberAddress,
        password: &PasswordArguments,
    ) -> Result<(), Failure> {
        let (username, domain) = address.complete(self.domains)?;
        let given = password.given()?;
        let store = self.open_or_create()?;
        let password = match given {
            Some(password) => password,
            // Checked before the prompt.
            None if self.exists(&store, &username, &domain)? => {
                return Err(exists_already(&format!("{username}@{domain}")));
            }
            None => password::ask(&username, &domain)?,
        };
        let subscriber = hash::subscriber(username, domain, &password);
        let added = self.runtime.block_on(async {
            let added = store.subscribers().add(&subscriber).await;
            store.close().await;
            added
        });
        match added {
            Ok(()) => {
                let Subscriber {
                    username, domain, ..
                } = &subscriber;
                self.warn_of_foreign(domain);
                self.say(format_args!("added {username}@{domain}"))
            }
            Err(StoreError::Exists { address }) => Err(exists_already(&address)),
            Err(error) => Err(error.into()),
        }
    }

    fn passwd(
        &mut self,
        address: &SubscriberAddress,
        password: &PasswordArguments,
        registrations: Registrations,
    ) -> Result<(), Failure> {
        let (username, domain) = address.complete(self.domains)?;
        let given = password.given()?;
        let store = self.open_existing()?;
        let password = match given {
            Some(password) => password,
            None if !self.exists(&store, &username, &domain)? => {
                return Err(no_such_subscriber(&format!("{username}@{domain}")));
            }
            None => password::ask(&username, &domain)?,
        };
        let subscriber = hash::subscriber(username, domain, &password);
        let changed = self.runtime.block_on(async {
            let subscribers = store.subscribers();
            let changed = subscribers.set_password(&subscriber, registrations).await;
            store.close().await;
            changed
        });
        match changed {
            Ok(()) => {
                let Subscriber {
                    username, domain, ..
                } = &subscriber;
                let ended = match registrations {
                    Registrations::End => "; its registrations end",
                    Registrations::Keep => "",
                };
                self.say(format_args!(
                    "changed the password of {username}@{domain}{ended}"
                ))
            }
            Err(StoreError::Missing { address }) => Err(no_such_subscriber(&address)),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&mut self, address: &SubscriberAddress) -> Result<(), Failure> {
        let (username, domain) = address.complete(self.domains)?;
        let store = self.open_existing()?;
        let removed = self.runtime.block_on(async {
            let removed = store.subscribers().remove(&username, &domain).await;
            store.close().await;
            removed
        });
        match removed {
            Ok(()) => self.say(format_args!("removed {username}@{domain}")),
            Err(StoreError::Missing { address }) => Err(Failure::Failed(format!(
                "no such subscriber: {address}; `tandem user list` shows all subscribers"
            ))),
            Err(error) => Err(error.into()),
        }
    }

    fn exists(&self, store: &Store, username: &str, domain: &str) -> Result<bool, Failure> {
        let found = self
            .runtime
            .block_on(store.subscribers().find(username, domain))?;
        Ok(found.is_some())
    }

    fn open_or_create(&mut self) -> Result<Store, Failure> {
        let store = self.runtime.block_on(Store::open(self.database_url))?;
        if store.created() {
            let url = store.url();
            if url.starts_with("sqlite:") {
                let place = std::env::current_dir()
                    .map(|path| path.display().to_string())
                    .unwrap_or_default();
                self.note(format_args!(
                    "created the database {url}, working directory {place}"
                ));
            } else {
                self.note(format_args!("created the tables in the database {url}"));
            }
        }
        Ok(store)
    }

    fn open_existing(&mut self) -> Result<Store, Failure> {
        Ok(self
            .runtime
            .block_on(Store::open_existing(self.database_url))?)
    }

    /// Warns on stderr if the server ignores subscribers of this domain.
    fn warn_of_foreign(&mut self, domain: &str) {
        if self
            .domains
            .iter()
            .any(|own| own.eq_ignore_ascii_case(domain))
        {
            return;
        }
        let own = self.domains.join(", ");
        self.note(format_args!(
            "warning: {domain} is not a configured domain ({own}): the server rejects its subscribers until you add it to \
             \"domains\" in the configuration"
        ));
    }

    fn say(&mut self, text: std::fmt::Arguments<'_>) -> Result<(), Failure> {
        writeln!(self.out, "{text}").map_err(|error| Failure::from_output(&error))
    }

    fn note(&mut self, text: std::fmt::Arguments<'_>) {
        // A note that cannot be written must not stop the command.
        let _ = writeln!(self.notes, "tandem: {text}");
    }
}

fn exists_already(address: &str) -> Failure {
    Failure::Failed(format!(
        "{address} already exists; to change its password: tandem user passwd {address}"
    ))
}

fn no_such_subscriber(address: &str) -> Failure {
    Failure::Failed(format!(
        "no such subscriber: {address}; to add it: tandem user add {address}"
    ))
}

#[cfg(test)]
mod tests;
