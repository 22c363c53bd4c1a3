//! The command line of `tandem user`.

use super::address::SubscriberAddress;
use super::import::ImportArguments;
use super::list::ListArguments;
use super::password::PasswordArguments;
use crate::configuration_file::ConfigurationFile;
use clap::Subcommand;

/// The command and the configuration file.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    pub(super) command: UserCommand,
    #[command(flatten)]
    pub(super) file: ConfigurationFile,
}

/// The subscriber commands.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add a subscriber.
    ///
    /// Without --password and --password-file, the command prompts for the password.
    #[command(after_help = "Examples:
  tandem user add alice@example.org
  tandem user add alice --password-file alice.password --config tandem.toml")]
    Add {
        /// Subscriber: alice@example.org, or alice in the first configured domain.
        #[arg(value_name = "ADDRESS")]
        address: SubscriberAddress,
        /// Source of the password
        #[command(flatten)]
        password: PasswordArguments,
    },
    /// Change the password of a subscriber.
    ///
    /// Without --password and --password-file, the command prompts for the password. Registrations made with the old password end;
    /// on a running server, within two seconds.
    #[command(after_help = "Examples:
  tandem user passwd alice@example.org
  tandem user passwd alice@example.org --keep-registrations --password-file -")]
    Passwd {
        /// Subscriber: alice@example.org, or alice in the first configured domain.
        #[arg(value_name = "ADDRESS")]
        address: SubscriberAddress,
        /// Source of the password
        #[command(flatten)]
        password: PasswordArguments,
        /// Keep existing registrations until they expire.
        #[arg(long)]
        keep_registrations: bool,
    },
    /// List subscribers, one address per line.
    #[command(after_help = "Examples:
  tandem user list --domain example.org
  tandem user list --limit 10 --json")]
    List(ListArguments),
    /// Remove a subscriber; existing registrations stay until they expire.
    #[command(after_help = "Examples:
  tandem user remove alice@example.org")]
    Remove {
        /// Subscriber: alice@example.org, or alice in the first configured domain.
        #[arg(value_name = "ADDRESS")]
        address: SubscriberAddress,
    },
    /// Import subscribers from a file with lines `username,domain,password`.
    ///
    /// A first line `username,domain,password`, empty lines and lines that start with # are skipped. Quote fields that contain a comma
    /// or a quote: "se,cret". Invalid lines are reported with the reason and skipped; the others are imported.
    #[command(after_help = "Examples:
  tandem user import subscribers.csv
  tandem user import --replace --dry-run subscribers.csv")]
    Import(ImportArguments),
}
