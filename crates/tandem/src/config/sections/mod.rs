//! The catalogue of all configuration keys: the single source of types, checks, the reference and the example file. A default that the
//! crates below have, too, is taken from them, so that tests and fuzzing run with the defaults of the server.

mod balancer;
mod calls;
mod kamailio;
mod output;
mod routing;
mod server;
mod storage;
mod subscribers;
mod transport;

pub use balancer::*;
pub use calls::*;
pub use kamailio::*;
pub use output::*;
pub use routing::*;
pub use server::*;
pub use storage::*;
pub use subscribers::*;
pub use transport::*;

use crate::config::catalogue::{any, not_empty};
use crate::config::declare::section;
use crate::config::routing_identity::Numbering;
use crate::config::values::host::DomainName;
use crate::config::values::redis_url::RedisUrl;
use sip_elements::Settings;

section! {
    /// The identity of the server. Place these keys above the first section.
    Configuration {
        /// The domains that this server is responsible for. The first domain also covers the server's own addresses: a phone that knows
        /// only an address registers and calls in the first domain.
        reload domains: Vec<DomainName> = vec![DomainName("tandem.localhost".to_owned())], not_empty();

        /// Value of the `Server` header field in the server's own responses. If empty, the field is omitted.
        reload server_header: String = settings().server_header, any();

        /// In the order of the file; never empty after reading.
        section listen: Vec<Listen> = Listen::defaults();

        /// In the order of the file.
        section certificate: Vec<Certificate>;

        /// TLS.
        section tls: Tls;

        /// Worker threads.
        section workers: Workers;

        /// Overload control.
        section overload: Overload;

        /// The node.
        section node: Node;

        /// The database.
        section database: Database;

        /// Digest authentication.
        section auth: Auth;

        /// Bans.
        section bans: Bans;

        /// The proxy.
        section proxy: Proxy;

        /// Named networks.
        section network: Vec<NamedNetwork>;

        /// Telephone numbers.
        section numbering: Numbering;

        /// Gateways.
        section gateway: Vec<Gateway>;

        /// Groups of gateways.
        section group: Vec<GatewayGroup>;

        /// Gateways of a Kamailio.
        section dispatcher: Dispatcher;

        /// Limits for calls.
        section limit: Vec<CallLimit>;

        /// Limits for all calls.
        section call_limits: CallLimits;

        /// Routing rules, in the order of the file.
        section rule: Vec<RoutingRule>;

        /// Prefixes.
        section prefixes: Prefixes;

        /// Session timers.
        section session_timers: SessionTimers;

        /// Name resolution.
        section dns: Dns;

        /// The registrar.
        section registrar: Registrar;

        /// The location service.
        section location: Location;

        /// The fleet.
        section fleet: Fleet;

        /// Timers.
        section timers: Timers;

        /// Dialogs of calls.
        section dialogs: Dialogs;

        /// Upper limits.
        section limits: Limits;

        /// The HTTP interface.
        section admin: Admin;

        /// Call records.
        section records: Records;

        /// Call events.
        section events: Events;

        /// The log.
        section log: Log;

        /// Copies of messages for a collector.
        section trace: Trace;

        /// UDP sockets.
        section udp: Udp;

        /// Connections.
        section connections: Connections;

        /// Shutdown.
        section shutdown: Shutdown;
    }
}

impl Configuration {
    /// How to read the tables of a Kamailio; `None`: the database is Tandem's own.
    pub fn kamailio(&self) -> Option<&KamailioTables> {
        match &self.database.schema {
            Schema::Kamailio(tables) => Some(tables),
            Schema::Tandem => None,
        }
    }

    /// The name of this process in the fleet.
    pub fn instance(&self) -> &str {
        let name = self.fleet.instance.as_ref().unwrap_or(&self.node.name);
        name.0.as_str()
    }

    /// Whether calls in progress are saved. A database of Kamailio has no place for them.
    pub fn saves_dialogs(&self) -> bool {
        self.dialogs.persist && self.kamailio().is_none()
    }

    /// The server by which the nodes of a fleet share calls in progress.
    pub fn shared_dialogs(&self) -> Option<&RedisUrl> {
        self.dialogs.store.redis().filter(|_| self.saves_dialogs())
    }
}

/// The settings of a worker that tests and fuzzing use.
fn settings() -> Settings {
    Settings::new(&[], Vec::new())
}
