//! Configures and starts an agent.

use super::handler::Handler;
use super::{Agent, Inner};
use crate::calls::{AgentSettings, BadSettings, Bounds, Resolve, UserAgent};
use crate::{Setup, SetupError};
use sip_runtime::Options;
use sip_transaction::TimerSettings;
use sip_transport::Protocol;
use std::fmt;
use std::net::SocketAddr;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

/// Incoming calls that may wait for the program. Further ones are rejected with 486.
const WAITING: usize = 64;

/// An agent to be started. A mistake in a setting is reported by [`Builder::start`].
#[must_use = "start() starts the agent"]
pub struct Builder {
    settings: Result<AgentSettings, AgentError>,
    setup: Setup,
    is_bound: bool,
    resolver: Option<Box<dyn Resolve>>,
    #[cfg(feature = "resolver")]
    names: sip_resolver::Settings,
}

/// Why an agent does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum AgentError {
    /// A setting is wrong.
    Settings(BadSettings),
    /// Not an address like `udp:192.0.2.1:5060`.
    Address(String),
    /// The stack or the thread of the resolver cannot start.
    Setup(SetupError),
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(error) => error.fmt(f),
            Self::Address(it) => write!(
                f,
                "{it:?} is not an address like udp:192.0.2.1:5060 or tcp:[2001:db8::1]:0"
            ),
            Self::Setup(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AgentError {}

impl Builder {
    pub(super) fn new(address: &str) -> Self {
        Self {
            settings: AgentSettings::new(address).map_err(AgentError::Settings),
            setup: Setup::new(),
            is_bound: false,
            resolver: None,
            #[cfg(feature = "resolver")]
            names: sip_resolver::Settings::default(),
        }
    }

    /// Changes the settings, and keeps the first error.
    fn change(
        mut self,
        change: impl FnOnce(&mut AgentSettings) -> Result<(), BadSettings>,
    ) -> Self {
        self.settings = self.settings.and_then(|mut settings| {
            change(&mut settings).map_err(AgentError::Settings)?;
            Ok(settings)
        });
        self
    }

    /// Answers challenges of any realm with this user name and password.
    pub fn credentials(self, username: &str, password: &str) -> Self {
        self.change(|settings| settings.credentials(username, password))
    }

    /// Answers challenges of one realm with this user name and password. They take precedence over those for any realm.
    pub fn credentials_for(self, realm: &str, username: &str, password: &str) -> Self {
        self.change(|settings| settings.credentials_for(realm, username, password))
    }

    /// Sends all requests outside dialogs to this proxy: `sip:proxy.example.org;transport=tcp`.
    pub fn proxy(self, uri: &str) -> Self {
        self.change(|settings| settings.proxy(uri))
    }

    /// Sets the name to display in From.
    pub fn display_name(self, name: &str) -> Self {
        self.change(|settings| settings.display_name(name))
    }

    /// Sets the bounds on calls, lookups and ringing.
    pub fn bounds(self, bounds: Bounds) -> Self {
        self.change(|settings| {
            settings.bounds(bounds);
            Ok(())
        })
    }

    /// Adds a listener: a transport and an address, such as `udp:0.0.0.0:0`. Port 0 lets the kernel choose, and a wildcard address becomes
    /// one listener for each address of the machine. By default, the agent uses UDP and TCP on all IPv4 addresses.
    pub fn bind(mut self, listener: &str) -> Self {
        let parts = listener.split_once(':');
        let parsed = parts.and_then(|(protocol, address)| {
            let protocol = Protocol::from_token(protocol.as_bytes())?;
            Some((protocol, address.parse::<SocketAddr>().ok()?))
        });
        match parsed {
            Some((protocol, address)) => {
                self.setup = self.setup.listen(protocol, address);
                self.is_bound = true;
            }
            None if self.settings.is_ok() => {
                self.settings = Err(AgentError::Address(listener.to_owned()));
            }
            None => {}
        }
        self
    }

    /// Sets T1, T2 and T4.
    pub fn timers(mut self, timers: TimerSettings) -> Self {
        self.setup = self.setup.timers(timers);
        self
    }

    /// Changes other options of the stack: buffers, TLS, limits of connections.
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        self.setup = self.setup.options(change);
        self
    }

    /// Resolves names with this resolver instead of the system's name servers.
    pub fn resolver(mut self, resolver: impl Resolve) -> Self {
        self.resolver = Some(Box::new(resolver));
        self
    }

    /// Resolves names with these name servers instead of those in `/etc/resolv.conf`.
    #[cfg(feature = "resolver")]
    pub fn name_servers(mut self, servers: &[SocketAddr]) -> Self {
        self.names.servers = servers.to_vec();
        self
    }

    /// Starts the agent.
    ///
    /// # Errors
    /// A setting is wrong, or an address cannot be bound.
    pub fn start(self) -> Result<Agent, AgentError> {
        let settings = self.settings?;
        let setup = if self.is_bound {
            self.setup
        } else {
            let any = SocketAddr::from(([0, 0, 0, 0], 0));
            self.setup
                .listen(Protocol::Udp, any)
                .listen(Protocol::Tcp, any)
        };
        let (incoming, queue) = sync_channel(WAITING);
        let agent = UserAgent::new(settings, Handler::new(incoming));
        let running = setup.start(agent).map_err(AgentError::Setup)?;
        #[cfg(feature = "resolver")]
        let resolver = if self.resolver.is_some() {
            self.resolver
        } else {
            let reach = sip_transport::selection::Reach::of(running.listeners());
            let system = crate::SystemResolver::start(&self.names, reach);
            let system = system.map_err(|error| AgentError::Setup(error.into()))?;
            Some(Box::new(system) as Box<dyn Resolve>)
        };
        #[cfg(not(feature = "resolver"))]
        let resolver = self.resolver;
        if let Some(resolver) = resolver {
            let handle = running.handle();
            let connect = move |agent: &mut UserAgent<Handler>, _: &mut crate::Stack<'_>| {
                agent.resolve_with(handle, resolver);
            };
            // The queue of a stack that has just started has room.
            let _ = running.handle().post(connect);
        }
        Ok(Agent(Arc::new(Inner {
            running,
            incoming: Mutex::new(queue),
        })))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("settings", &self.settings)
            .field("setup", &self.setup)
            .finish_non_exhaustive()
    }
}
