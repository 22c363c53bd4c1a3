//! The commands of `tandem ctl`, and the method that each one calls.
use super::bans::{Banned, Bans, Unbanned};
use super::dialogs::DialogsCommand;
use super::events::Follow;
use super::location::{Location, Locations, Unregistered};
use super::node::{Drained, Effective, Reloaded, Status, Subscribers};
use super::params;
use super::request::Request;
use super::routing::{
    GatewaysCommand, GroupsCommand, LimitsCommand, PrefixesCommand, RoutesCommand, RulesCommand,
};
use super::services::{AliasesCommand, ForwardingCommand};
use super::stats::{DeadTargets, Forwarded, Summary, Workers};
use super::trace::TraceArguments;
use super::watch::Watch;
use clap::Subcommand;
use serde_json::json;
use std::time::Duration;

/// What to show or change.
#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// Show the phase, version, listeners and other facts of the server.
    #[command(
        after_help = "Examples:\n  tandem ctl status\n  tandem ctl status --admin 192.0.2.1:8060 --token-file admin.token"
    )]
    Status(Watch),
    /// Show requests, responses, drops, registrations, memory and CPU time.
    #[command(after_help = "Examples:\n  tandem ctl stats\n  tandem ctl stats --watch=5s")]
    Stats(Watch),
    /// Show the server and client transactions of each worker: all since the start, and live ones.
    #[command(after_help = "Examples:\n  tandem ctl workers --watch")]
    Workers(Watch),
    /// Show counters of forwarded requests.
    #[command(after_help = "Examples:\n  tandem ctl proxy --watch")]
    Proxy(Watch),
    /// List registered addresses with their contacts, ordered by name.
    #[command(
        after_help = "Examples:\n  tandem ctl locations\n  tandem ctl locations --limit 1000 --after mike@example.org\n  tandem ctl locations --json"
    )]
    Locations {
        /// Maximum number of addresses, from 1 to 10000.
        #[arg(long, value_name = "N", default_value = "100")]
        limit: u64,
        /// Begin after this address.
        #[arg(long, value_name = "USER@DOMAIN")]
        after: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show all bindings of one address.
    #[command(after_help = "Examples:\n  tandem ctl location alice@example.org")]
    Location {
        /// Address of record.
        #[arg(value_name = "USER@DOMAIN")]
        address: String,
        #[command(flatten)]
        watch: Watch,
    },
    /// Remove all bindings of one address; its phones register again when their registrations expire.
    #[command(after_help = "Examples:\n  tandem ctl unregister alice@example.org")]
    Unregister {
        /// Address of record.
        #[arg(value_name = "USER@DOMAIN")]
        address: String,
    },
    /// List banned sources.
    #[command(after_help = "Examples:\n  tandem ctl bans\n  tandem ctl bans --watch=10s")]
    Bans(Watch),
    /// Ban a source: drop its datagrams and refuse its connections.
    #[command(
        after_help = "Examples:\n  tandem ctl ban 192.0.2.7\n  tandem ctl ban 2001:db8::7 --for 30min"
    )]
    Ban {
        /// IPv4 address, or any address of an IPv6 /64 network; with /56, the network of 56 bits.
        source: String,
        /// Duration of the ban (default: `bans.duration` of the server).
        #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
        duration: Option<Duration>,
    },
    /// Lift the ban of a source.
    #[command(after_help = "Examples:\n  tandem ctl unban 192.0.2.7")]
    Unban {
        /// Address, as in the list of bans.
        source: String,
    },
    /// List servers of next hops that failed recently.
    #[command(after_help = "Examples:\n  tandem ctl targets")]
    Targets(Watch),
    /// Follow the events of calls: started, ringing, answered, ended; until Ctrl-C.
    #[command(
        after_help = "Examples:\n  tandem ctl events\n  tandem ctl events --user alice --types answered,ended\n  tandem ctl events --json"
    )]
    Events(Follow),
    /// List, show, end and count calls in progress.
    #[command(
        after_help = "Examples:\n  tandem ctl dialogs list --user alice@example.org\n  tandem ctl dialogs end 8f1c2a@192.0.2.7 --reason fraud\n  tandem ctl dialogs stats"
    )]
    Dialogs {
        #[command(subcommand)]
        command: DialogsCommand,
    },
    /// List, set and delete aliases: addresses and numbers that lead to a subscriber.
    #[command(
        after_help = "Examples:\n  tandem ctl aliases list\n  tandem ctl aliases set +4930123 alice@example.org\n  tandem ctl aliases delete +4930123"
    )]
    Aliases {
        #[command(subcommand)]
        command: AliasesCommand,
    },
    /// Show, set and delete call forwarding of a subscriber.
    #[command(
        after_help = "Examples:\n  tandem ctl forwarding show alice@example.org\n  tandem ctl forwarding set alice@example.org --busy bob@example.org"
    )]
    Forwarding {
        #[command(subcommand)]
        command: ForwardingCommand,
    },
    /// List, show, disable and enable gateways.
    #[command(
        after_help = "Examples:\n  tandem ctl gateways\n  tandem ctl gateways get berlin-1\n  tandem ctl gateways disable berlin-1"
    )]
    Gateways {
        #[command(subcommand)]
        command: Option<GatewaysCommand>,
    },
    /// List gateway groups.
    #[command(after_help = "Examples:\n  tandem ctl groups")]
    Groups {
        #[command(subcommand)]
        command: Option<GroupsCommand>,
    },
    /// Look up, reload and count prefixes.
    #[command(
        after_help = "Examples:\n  tandem ctl prefixes\n  tandem ctl prefixes lookup +4930123\n  tandem ctl prefixes reload"
    )]
    Prefixes {
        #[command(subcommand)]
        command: Option<PrefixesCommand>,
    },
    /// List limits for calls.
    #[command(after_help = "Examples:\n  tandem ctl limits")]
    Limits {
        #[command(subcommand)]
        command: Option<LimitsCommand>,
    },
    /// List routing rules.
    #[command(after_help = "Examples:\n  tandem ctl rules")]
    Rules {
        #[command(subcommand)]
        command: Option<RulesCommand>,
    },
    /// Explain where a request would go.
    #[command(
        after_help = "Examples:\n  tandem ctl routes explain sip:+4930123@example.org --source 192.0.2.7"
    )]
    Routes {
        #[command(subcommand)]
        command: RoutesCommand,
    },
    /// Count the subscribers in the database.
    #[command(
        after_help = "Examples:\n  tandem ctl subscribers\n  tandem ctl subscribers --domain example.org"
    )]
    Subscribers {
        /// Count only this domain.
        #[arg(long)]
        domain: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show the messages of one user or one call as they come, decrypted.
    #[command(
        after_help = "Examples:\n  tandem ctl trace alice@example.org\n  tandem ctl trace alice@example.org --for 10min --pcap alice.pcap\n  tandem ctl trace --call-id 8f1c2a@192.0.2.7 --json"
    )]
    Trace(TraceArguments),
    /// Accept no new calls and finish those in progress; the server keeps running.
    #[command(after_help = "Examples:\n  tandem ctl drain")]
    Drain,
    /// Accept new calls again after a drain.
    #[command(after_help = "Examples:\n  tandem ctl undrain")]
    Undrain,
    /// Read the configuration file and the certificates again; apply all changes or none.
    #[command(
        after_help = "Examples:\n  tandem ctl reload\n  tandem ctl reload --config /etc/tandem/tandem.toml"
    )]
    Reload,
    /// Show the configuration in force, including defaults.
    #[command(after_help = "Examples:\n  tandem ctl config")]
    Config,
    /// List the methods of the admin interface, without asking a server.
    #[command(after_help = "Examples:\n  tandem ctl methods\n  tandem ctl methods --json")]
    Methods,
    /// Call any method of the admin interface, and print the result as JSON.
    #[command(
        after_help = "Examples:\n  tandem ctl call node.version\n  tandem ctl call location.list limit=10"
    )]
    Call {
        /// Method, as in the list of `tandem ctl methods`.
        method: String,
        /// Parameters: one key=value each, or a single JSON object with all of them.
        params: Vec<String>,
    },
}

/// What a command does.
pub enum Task<'c> {
    /// Lists the methods, without a server.
    ListMethods,
    /// Follows events.
    Follow(&'c Follow),
    /// Follows messages.
    Trace(&'c TraceArguments),
    /// Calls a method.
    Call(Request),
}

impl CtlCommand {
    /// What the command does.
    ///
    /// # Errors
    /// The parameters of `call` cannot be read.
    pub fn task(&self) -> anyhow::Result<Task<'_>> {
        let none = || json!({});
        Ok(Task::Call(match self {
            Self::Status(watch) => Request::new::<Status>("node.status", none()).every(watch),
            Self::Stats(watch) => Request::new::<Summary>("stats.summary", none()).every(watch),
            Self::Workers(watch) => {
                Request::new::<Workers>("transactions.stats", none()).every(watch)
            }
            Self::Proxy(watch) => Request::new::<Forwarded>("proxy.stats", none()).every(watch),
            Self::Locations {
                limit,
                after,
                watch,
            } => {
                let params = json!({ "limit": limit, "after": after });
                Request::new::<Locations>("location.list", params).every(watch)
            }
            Self::Location { address, watch } => {
                Request::new::<Location>("location.get", json!({ "address": address })).every(watch)
            }
            Self::Unregister { address } => {
                Request::new::<Unregistered>("location.remove", json!({ "address": address }))
            }
            Self::Bans(watch) => Request::new::<Bans>("bans.list", none()).every(watch),
            Self::Ban { source, duration } => {
                let seconds = duration.map(|duration| duration.as_secs());
                let params = json!({ "source": source, "seconds": seconds });
                Request::new::<Banned>("bans.add", params)
            }
            Self::Unban { source } => {
                Request::new::<Unbanned>("bans.remove", json!({ "source": source }))
            }
            Self::Targets(watch) => {
                Request::new::<DeadTargets>("targets.dead", none()).every(watch)
            }
            Self::Dialogs { command } => command.request(),
            Self::Aliases { command } => command.request(),
            Self::Forwarding { command } => command.request(),
            Self::Gateways { command } => command.as_ref().map_or_else(
                || GatewaysCommand::default().request(),
                GatewaysCommand::request,
            ),
            Self::Groups { command } => command.as_ref().map_or_else(
                || GroupsCommand::default().request(),
                GroupsCommand::request,
            ),
            Self::Prefixes { command } => command.as_ref().map_or_else(
                || PrefixesCommand::default().request(),
                PrefixesCommand::request,
            ),
            Self::Limits { command } => command.as_ref().map_or_else(
                || LimitsCommand::default().request(),
                LimitsCommand::request,
            ),
            Self::Rules { command } => command
                .as_ref()
                .map_or_else(|| RulesCommand::default().request(), RulesCommand::request),
            Self::Routes { command } => command.request(),
            Self::Subscribers { domain, watch } => {
                let params = json!({ "domain": domain });
                Request::new::<Subscribers>("subscribers.count", params).every(watch)
            }
            Self::Drain => drain(true),
            Self::Undrain => drain(false),
            Self::Reload => Request::new::<Reloaded>("config.reload", none()).of_prefixes(),
            Self::Config => Request::new::<Effective>("config.show", none()),
            Self::Events(wanted) => return Ok(Task::Follow(wanted)),
            Self::Trace(trace) => return Ok(Task::Trace(trace)),
            Self::Methods => return Ok(Task::ListMethods),
            Self::Call { method, params } => Request::raw(method, params::read(params)?),
        }))
    }
}

fn drain(on: bool) -> Request {
    Request::new::<Drained>("node.drain", json!({ "on": on })).of_all_workers()
}
