//! `tandem user`: who may register and call. Works on the database itself, whether a server is running or not; a running one notices
//! within a second.

mod address;
mod hash;
mod import;
mod list;
mod password;
mod report;

use address::SubscriberAddress;
use clap::Subcommand;
use import::ImportArguments;
use list::ListArguments;
use password::PasswordArguments;
use report::Failure;
use std::io::Write;
use std::process::ExitCode;
use tandem_store::{Registrations, Store, StoreError, Subscriber};
use tokio::runtime::Runtime;

/// What can be done with subscribers.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add a subscriber: `tandem user add alice@example.org`
    ///
    /// Without --password or --password-stdin the password is asked for.
    Add {
        /// Who: `alice@example.org`, or `alice` in the first configured domain
        #[arg(value_name = "ADDRESS")]
        address: SubscriberAddress,
        /// Where the password comes from
        #[command(flatten)]
        password: PasswordArguments,
    },
    /// Give a subscriber another password
    ///
    /// Without --password or --password-stdin the password is asked for. What was registered with the old password ends, within two
    /// seconds where a server is running.
    Passwd {
        /// Whose: `alice@example.org`, or `alice` in the first configured domain
        #[arg(value_name = "ADDRESS")]
        address: SubscriberAddress,
        /// Where the password comes from
        #[command(flatten)]
        password: PasswordArguments,
        /// Let what is registered stay registered until it expires
        #[arg(long)]
        keep_registrations: bool,
    },
    /// List subscribers, one address a line
    List(ListArguments),
    /// Remove a subscriber; what is registered stays until it expires
    Remove {
        /// Who: `alice@example.org`, or `alice` in the first configured domain
        #[arg(value_name = "ADDRESS")]
        address: SubscriberAddress,
    },
    /// Add many subscribers from a file of lines `username,domain,password`
    ///
    /// A first line `username,domain,password`, empty lines and lines that begin with # are passed over. Fields that hold a comma or a
    /// quote are quoted: "se,cret". Lines that are wrong are named with the reason and left out; the others are imported.
    Import(ImportArguments),
}

/// Does what the command says with the database that `database_url` names. `domains` are the configured ones, the first of which stands
/// for addresses without one. The exit code is 0 for success, 1 for failure, 2 for a command line that makes no sense.
pub fn run(command: UserCommand, database_url: &str, domains: &[String]) -> ExitCode {
    let mut out = std::io::stdout();
    let mut notes = std::io::stderr();
    let done = Session::new(database_url, domains, &mut out, &mut notes)
        .and_then(|mut session| session.perform(command));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            for line in failure.lines() {
                // With stderr closed there is nobody left to tell; the exit code says it.
                let _ = writeln!(notes, "{line}");
            }
            failure.exit_code()
        }
    }
}

/// One command under way: where it works and whom it talks to.
struct Session<'a> {
    runtime: Runtime,
    database_url: &'a str,
    domains: &'a [String],
    /// Results.
    out: &'a mut dyn Write,
    /// Warnings and progress.
    notes: &'a mut dyn Write,
}

impl<'a> Session<'a> {
    fn new(
        database_url: &'a str,
        domains: &'a [String],
        out: &'a mut dyn Write,
        notes: &'a mut dyn Write,
    ) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| {
                Failure::Failed(format!("the operating system gives no event loop: {error}"))
            })?;
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
            // Before anybody types a password in vain.
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
                return Err(nobody_to_change(&format!("{username}@{domain}")));
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
            Err(StoreError::Missing { address }) => Err(nobody_to_change(&address)),
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
                "there is no subscriber {address}; to see who there is: tandem user list"
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
            let place = std::env::current_dir()
                .map(|path| path.display().to_string())
                .unwrap_or_default();
            let url = self.database_url;
            self.note(format_args!(
                "made the database {url}, working directory {place}"
            ));
        }
        Ok(store)
    }

    fn open_existing(&mut self) -> Result<Store, Failure> {
        Ok(self
            .runtime
            .block_on(Store::open_existing(self.database_url))?)
    }

    /// Says on stderr that the server will not look at subscribers of this domain, if so.
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
            "warning: {domain} is none of the configured domains ({own}): the server refuses its subscribers until it is added to \
             \"domains\" in the configuration"
        ));
    }

    fn say(&mut self, text: std::fmt::Arguments<'_>) -> Result<(), Failure> {
        writeln!(self.out, "{text}").map_err(|error| Failure::from_output(&error))
    }

    fn note(&mut self, text: std::fmt::Arguments<'_>) {
        // A note that nobody can read must not stop the work.
        let _ = writeln!(self.notes, "tandem: {text}");
    }
}

fn exists_already(address: &str) -> Failure {
    Failure::Failed(format!(
        "{address} exists already; to change the password: tandem user passwd {address}"
    ))
}

fn nobody_to_change(address: &str) -> Failure {
    Failure::Failed(format!(
        "there is no subscriber {address}; to add one: tandem user add {address}"
    ))
}

#[cfg(test)]
mod tests;
