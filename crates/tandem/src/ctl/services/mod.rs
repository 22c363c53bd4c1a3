//! `tandem ctl aliases` and `forwarding`: which addresses lead to a subscriber, and where its calls go instead.
mod shown;

use super::request::Request;
use clap::Subcommand;
use serde_json::json;
pub(super) use shown::Forwarding;
use shown::{Alias, Aliases, Removed};
use std::time::Duration;

/// What to do with aliases.
#[derive(Debug, Subcommand)]
pub enum AliasesCommand {
    /// List aliases with their subscribers, ordered by name.
    #[command(
        after_help = "Examples:\n  tandem ctl aliases list\n  tandem ctl aliases list --limit 1000 --after +4930123"
    )]
    List {
        /// Maximum number of aliases, from 1 to 10000.
        #[arg(long, value_name = "N", default_value = "100")]
        limit: u64,
        /// Begin after this alias.
        #[arg(long, value_name = "ALIAS")]
        after: Option<String>,
    },
    /// Let an address or a number lead to a subscriber.
    #[command(
        after_help = "Examples:\n  tandem ctl aliases set +4930123 alice@example.org\n  tandem ctl aliases set info@example.org alice@example.org"
    )]
    Set {
        /// Number, or user@domain.
        alias: String,
        /// Subscriber.
        #[arg(value_name = "USER@DOMAIN")]
        subscriber: String,
    },
    /// Remove an alias.
    #[command(after_help = "Examples:\n  tandem ctl aliases delete +4930123")]
    Delete {
        /// Number, or user@domain.
        alias: String,
    },
}

/// What to do with call forwarding.
#[derive(Debug, Subcommand)]
pub enum ForwardingCommand {
    /// Show where calls to a subscriber go instead.
    #[command(after_help = "Examples:\n  tandem ctl forwarding show alice@example.org")]
    Show {
        /// Subscriber.
        #[arg(value_name = "USER@DOMAIN")]
        subscriber: String,
    },
    /// Change where calls to a subscriber go instead. An empty target ends that kind of forwarding.
    #[command(
        after_help = "Examples:\n  tandem ctl forwarding set alice@example.org --no-answer +4930123 --after 20s\n  tandem ctl forwarding set alice@example.org --busy bob@example.org --always \"\""
    )]
    Set {
        /// Subscriber.
        #[arg(value_name = "USER@DOMAIN")]
        subscriber: String,
        /// Target of all calls.
        #[arg(long, value_name = "TARGET")]
        always: Option<String>,
        /// Target of calls that the phones refuse because they are busy.
        #[arg(long, value_name = "TARGET")]
        busy: Option<String>,
        /// Target of calls that are not answered.
        #[arg(long, value_name = "TARGET")]
        no_answer: Option<String>,
        /// How long the phones ring, from 1s to 3min (default: 20s).
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        after: Option<Duration>,
        /// Target of calls that reach no phone.
        #[arg(long, value_name = "TARGET")]
        not_registered: Option<String>,
    },
    /// Forward no calls of a subscriber.
    #[command(after_help = "Examples:\n  tandem ctl forwarding delete alice@example.org")]
    Delete {
        /// Subscriber.
        #[arg(value_name = "USER@DOMAIN")]
        subscriber: String,
    },
}

impl AliasesCommand {
    /// The method that the command calls.
    pub(super) fn request(&self) -> Request {
        match self {
            Self::List { limit, after } => {
                let params = json!({ "limit": limit, "after": after });
                Request::new::<Aliases>("aliases.list", params)
            }
            Self::Set { alias, subscriber } => {
                let params = json!({ "alias": alias, "subscriber": subscriber });
                Request::new::<Alias>("aliases.set", params)
            }
            Self::Delete { alias } => {
                Request::new::<Removed>("aliases.delete", json!({ "alias": alias }))
            }
        }
    }
}

impl ForwardingCommand {
    /// The method that the command calls.
    pub(super) fn request(&self) -> Request {
        match self {
            Self::Show { subscriber } => {
                Request::new::<Forwarding>("forwarding.show", json!({ "subscriber": subscriber }))
            }
            Self::Set {
                subscriber,
                always,
                busy,
                no_answer,
                after,
                not_registered,
            } => {
                let params = json!({
                    "subscriber": subscriber, "always": always, "busy": busy, "no_answer": no_answer,
                    "seconds": after.map(|after| after.as_secs()), "not_registered": not_registered,
                });
                Request::new::<Forwarding>("forwarding.set", params)
            }
            Self::Delete { subscriber } => {
                let params = json!({ "subscriber": subscriber });
                Request::new::<Removed>("forwarding.delete", params)
            }
        }
    }
}
