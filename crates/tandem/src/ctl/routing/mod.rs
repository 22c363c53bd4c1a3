//! `tandem ctl gateways`, `groups`, `prefixes`, `limits`, `rules` and `routes`: where new calls go.
mod explained;
mod gateways;
mod limits;
mod prefixes;
mod rewriting;

use super::request::Request;
use super::watch::Watch;
use clap::Subcommand;
use explained::Explained;
use gateways::{Changed, Gateway, Gateways, Groups, Reloaded as ReloadedGateways};
use limits::{Limits, Rules};
use prefixes::{Found, Reloaded, Table};
use serde_json::json;

/// What to do with gateways.
#[derive(Debug, Subcommand)]
pub enum GatewaysCommand {
    /// List gateways with state, calls and outcomes.
    #[command(
        after_help = "Examples:\n  tandem ctl gateways list\n  tandem ctl gateways list --state inactive\n  tandem ctl gateways list --watch=5s"
    )]
    List {
        /// List only gateways in this state.
        #[arg(long, value_parser = ["unprobed", "active", "resting", "inactive", "disabled"])]
        state: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show all that is known about one gateway.
    #[command(
        after_help = "Examples:\n  tandem ctl gateways get berlin-1\n  tandem ctl gateways get berlin-1 --json"
    )]
    Get {
        /// Name of the gateway.
        name: String,
        #[command(flatten)]
        watch: Watch,
    },
    /// Give a gateway no new calls and no probes; calls that it has go on.
    #[command(after_help = "Examples:\n  tandem ctl gateways disable berlin-1")]
    Disable {
        /// Name of the gateway.
        name: String,
    },
    /// Give a gateway calls again that was disabled.
    #[command(after_help = "Examples:\n  tandem ctl gateways enable berlin-1")]
    Enable {
        /// Name of the gateway.
        name: String,
    },
    /// Read the table of gateways of a Kamailio again, and the prefixes; replace both or nothing.
    #[command(after_help = "Examples:\n  tandem ctl gateways reload")]
    Reload,
}

/// What to do with gateway groups.
#[derive(Debug, Subcommand)]
pub enum GroupsCommand {
    /// List gateway groups with their members.
    #[command(after_help = "Examples:\n  tandem ctl groups list\n  tandem ctl groups list --watch")]
    List(Watch),
}

/// What to do with prefixes.
#[derive(Debug, Subcommand)]
pub enum PrefixesCommand {
    /// Show which prefixes match a number; the first one decides.
    #[command(
        after_help = "Examples:\n  tandem ctl prefixes lookup +4930123\n  tandem ctl prefixes lookup 004930123 --table retail"
    )]
    Lookup {
        /// Telephone number.
        number: String,
        /// Prefix table, which is the name of a group of callers.
        #[arg(long, default_value = "default")]
        table: String,
    },
    /// Read the prefixes again; replace all of them or none.
    #[command(after_help = "Examples:\n  tandem ctl prefixes reload")]
    Reload,
    /// Show the size of the prefix table, where it comes from, and when it was read.
    #[command(after_help = "Examples:\n  tandem ctl prefixes stats")]
    Stats(Watch),
}

/// What to do with limits.
#[derive(Debug, Subcommand)]
pub enum LimitsCommand {
    /// List limits for calls with what they admitted and refused.
    #[command(after_help = "Examples:\n  tandem ctl limits list --watch")]
    List(Watch),
}

/// What to do with rules.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// List routing rules in order, with how often they matched.
    #[command(after_help = "Examples:\n  tandem ctl rules list --watch")]
    List(Watch),
}

/// What to do with routes.
#[derive(Debug, Subcommand)]
pub enum RoutesCommand {
    /// Show which rule, prefix, groups and gateways a request would take, and why. Nothing is sent or counted.
    #[command(
        after_help = "Examples:\n  tandem ctl routes explain sip:+4930123@example.org --source 192.0.2.7\n  tandem ctl routes explain sip:110@example.org --from sip:alice@example.org"
    )]
    Explain(Box<Question>),
}

/// The request to explain.
#[derive(Debug, clap::Args)]
pub struct Question {
    /// Request-URI.
    uri: String,
    /// Address that the request comes from (default: 127.0.0.1).
    #[arg(long, value_name = "ADDRESS")]
    source: Option<String>,
    /// URI of From (default: anonymous).
    #[arg(long, value_name = "URI")]
    from: Option<String>,
    /// URI of To (default: the Request-URI).
    #[arg(long, value_name = "URI")]
    to: Option<String>,
    /// Method (default: INVITE).
    #[arg(long)]
    method: Option<String>,
    /// Listener that the request arrives on, such as udp:192.0.2.1:5060 (default: the first one).
    #[arg(long, value_name = "LISTENER")]
    listener: Option<String>,
    /// A further header field of the request, such as "X-Customer: gold-7".
    #[arg(long, value_name = "FIELD")]
    header: Option<String>,
    /// Call-ID, by which some groups choose.
    #[arg(long, value_name = "CALL-ID")]
    call_id: Option<String>,
}

impl Default for GatewaysCommand {
    fn default() -> Self {
        Self::List {
            state: None,
            watch: Watch::default(),
        }
    }
}

impl GatewaysCommand {
    /// The method that the command calls.
    pub(super) fn request(&self) -> Request {
        let named = |name: &str| json!({ "name": name });
        match self {
            Self::List { state, watch } => {
                let params = json!({ "state": state });
                Request::new::<Gateways>("gateways.list", params).every(watch)
            }
            Self::Get { name, watch } => {
                Request::new::<Gateway>("gateways.get", named(name)).every(watch)
            }
            Self::Disable { name } => Request::new::<Changed>("gateways.disable", named(name)),
            Self::Enable { name } => Request::new::<Changed>("gateways.enable", named(name)),
            Self::Reload => {
                Request::new::<ReloadedGateways>("gateways.reload", json!({})).of_prefixes()
            }
        }
    }
}

impl Default for GroupsCommand {
    fn default() -> Self {
        Self::List(Watch::default())
    }
}

impl GroupsCommand {
    /// The method that the command calls.
    pub(super) fn request(&self) -> Request {
        let Self::List(watch) = self;
        Request::new::<Groups>("groups.list", json!({})).every(watch)
    }
}

impl Default for PrefixesCommand {
    fn default() -> Self {
        Self::Stats(Watch::default())
    }
}

impl PrefixesCommand {
    /// The method that the command calls.
    pub(super) fn request(&self) -> Request {
        match self {
            Self::Lookup { number, table } => {
                let params = json!({ "number": number, "table": table });
                Request::new::<Found>("prefixes.lookup", params)
            }
            Self::Reload => Request::new::<Reloaded>("prefixes.reload", json!({})).of_prefixes(),
            Self::Stats(watch) => Request::new::<Table>("prefixes.stats", json!({})).every(watch),
        }
    }
}

impl Default for LimitsCommand {
    fn default() -> Self {
        Self::List(Watch::default())
    }
}

impl LimitsCommand {
    /// The method that the command calls.
    pub(super) fn request(&self) -> Request {
        let Self::List(watch) = self;
        Request::new::<Limits>("limits.list", json!({})).every(watch)
    }
}

impl Default for RulesCommand {
    fn default() -> Self {
        Self::List(Watch::default())
    }
}

impl RulesCommand {
    /// The method that the command calls.
    pub(super) fn request(&self) -> Request {
        let Self::List(watch) = self;
        Request::new::<Rules>("rules.list", json!({})).every(watch)
    }
}

impl RoutesCommand {
    /// The method that the command calls.
    pub(super) fn request(&self) -> Request {
        let Self::Explain(question) = self;
        let Question {
            uri,
            source,
            from,
            to,
            method,
            listener,
            header,
            call_id,
        } = &**question;
        let params = json!({
            "uri": uri, "source": source, "from": from, "to": to, "method": method, "listener": listener, "header": header,
            "call_id": call_id,
        });
        Request::new::<Explained>("routes.explain", params)
    }
}
