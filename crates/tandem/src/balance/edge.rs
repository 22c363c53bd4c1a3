//! A running edge: the order of startup and shutdown.
use super::controller::Controller;
use super::metrics::Figures;
use super::nodes::{self, Nodes};
use super::{admin, names};
use crate::config::{self, Balancer};
use crate::descriptors::{self, Room, shortage};
use crate::fleet_secret;
use anyhow::{Context as _, Error, anyhow};
use sip_resolver::Resolver;
use sip_runtime::tls::SharedTls;
use sip_runtime::{Clock, Runtime, SharedPeerPolicy, StreamOptions};
use sip_transport::Listener;
use sip_transport::selection::Reach;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tandem_balancer::{Control, Edge, EdgeMetrics, EdgeOptions, Question, Shared, Unanswered};
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// How long the end of the threads may take.
const STOP: Duration = Duration::from_secs(2);

/// A running edge.
#[derive(Debug)]
pub struct RunningEdge {
    file: Option<PathBuf>,
    workers: sip_runtime::Running<Control>,
    figures: Arc<Figures>,
    admin: admin::Listening,
    tasks: Vec<JoinHandle<()>>,
}

impl RunningEdge {
    /// Opens the admin interface and the sockets. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// What could not be opened, and how to fix it.
    pub async fn start(file: Option<PathBuf>, balancer: Balancer) -> anyhow::Result<Self> {
        let shared = balancer.shared();
        let listeners = config::listeners(&shared).map_err(Error::msg)?;
        let hasher = if let Some(file) = &balancer.fleet.secret_file {
            fleet_secret::read(&file.0)?
        } else {
            warn!("no `fleet.secret_file`: this edge works alone, and its calls end with it");
            fleet_secret::draw()?
        };
        let count = NonZeroU16::new(balancer.workers.count.resolve()).unwrap_or(NonZeroU16::MIN);
        let clock = Clock::start();
        let mut options = config::runtime_options(&shared, clock);
        let tls = load_tls(&shared)?;
        options.streams.tls.clone_from(&tls);
        options.streams.policy = SharedPeerPolicy::new(config::peer_policy(&shared));
        bound_connections(&shared, listeners.len(), &mut options.streams);
        let resolver_settings = config::resolver_settings(&shared);
        let resolver = Resolver::new(&resolver_settings, Reach::of(&listeners))?;
        // The message already names the source of the error.
        let bound = Runtime::bind(listeners, count, options).map_err(|error| anyhow!("{error}"))?;
        let settings = Arc::new(config::balancer_settings(&balancer, bound.listeners()));
        let mut controller = Controller::new(&balancer.nodes)?;
        let mut list = nodes::read(&balancer)?;
        if let Some(controller) = controller.as_mut().filter(|_| list.is_empty()) {
            list = controller.first().await;
        }
        let nodes = Nodes::new(list, Arc::clone(&settings), count.get())?;
        let nodes = Arc::new(nodes);
        let state = Arc::new(Shared {
            hasher,
            unanswered: Unanswered::new(balancer.nodes.unanswered),
        });
        let metrics: Vec<Arc<EdgeMetrics>> = (0..count.get()).map(|_| Arc::default()).collect();
        let edge = |worker: u16| {
            Edge::new(EdgeOptions {
                worker,
                shared: Arc::clone(&state),
                settings: Arc::clone(&settings),
                members: nodes.members(),
                metrics: metrics
                    .get(usize::from(worker))
                    .map(Arc::clone)
                    .unwrap_or_default(),
                now: clock.now(),
            })
        };
        let (asking, questions) = names::queue();
        let ask = move |worker: u16, question: Question| {
            let full = |(_, question): names::Asked| question;
            let sent = asking.try_send((worker, question));
            sent.map_err(|error| full(error.into_inner()))
        };
        let workers = bound
            .start(edge, &ask)
            .context("cannot start the worker threads")?;
        let figures = Arc::new(Figures {
            metrics,
            stats: workers.stats(),
            nodes: Arc::clone(&nodes),
            shared: state,
            tls,
        });
        let admin = admin::listen(&balancer.admin, Arc::clone(&figures)).await?;
        let mut tasks = vec![
            tokio::spawn(names::answer(resolver, workers.handle(), questions)),
            tokio::spawn(nodes::log_states(Arc::clone(&nodes))),
        ];
        if let Some(file) = &balancer.nodes.file {
            let nodes = Arc::clone(&nodes);
            let follow = nodes::follow_file(file.0.clone(), nodes, workers.handle());
            tasks.push(tokio::spawn(follow));
        }
        if let Some(controller) = controller {
            tasks.push(tokio::spawn(controller.follow(nodes, workers.handle())));
        }
        greet(&workers, &figures, admin.address());
        Ok(Self {
            file,
            workers,
            figures,
            admin,
            tasks,
        })
    }

    /// The listeners as bound.
    pub fn listeners(&self) -> &[Listener] {
        self.workers.listeners()
    }

    /// The address of the admin interface.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Reads the nodes and the certificates from the configuration again: both, or none if one has a mistake. Other keys change at the next
    /// start.
    pub fn reload(&self) {
        if let Err(error) = self.try_reload() {
            warn!("the reload is refused: {error:#}");
        }
    }

    fn try_reload(&self) -> anyhow::Result<()> {
        let balancer = config::load_balancer(self.file.as_deref())?;
        let list = nodes::read(&balancer)?;
        if let Some(tls) = &self.figures.tls {
            let previous = tls.context();
            let fresh = config::tls_settings(&balancer.shared()).load(Some(&previous))?;
            if !fresh.certificates().same_as(previous.certificates()) {
                info!("the certificates have changed");
            }
            tls.replace(fresh);
        }
        // An edge may know its nodes from the controller only.
        if !list.is_empty() || balancer.nodes.controller.is_none() {
            self.figures.nodes.replace(list, &self.workers.handle());
        }
        Ok(())
    }

    /// Stops the edge. Its connections end.
    pub async fn stop(self) {
        for task in &self.tasks {
            task.abort();
        }
        self.admin.close();
        let workers = self.workers;
        let stopped = tokio::task::spawn_blocking(move || workers.stop());
        let _ = tokio::time::timeout(STOP, stopped).await;
    }
}

fn load_tls(shared: &config::Configuration) -> anyhow::Result<Option<Arc<SharedTls>>> {
    if !config::speaks_tls(shared) {
        return Ok(None);
    }
    let context = config::tls_settings(shared).load(None)?;
    Ok(Some(SharedTls::new(context)))
}

/// Connections need descriptors: raises the limit as far as possible and derives the maximum number of connections.
fn bound_connections(
    shared: &config::Configuration,
    listeners: usize,
    options: &mut StreamOptions,
) {
    let limit = sip_runtime::raise_descriptor_limit();
    let taken = descriptors::taken(shared, listeners);
    if let Some(shortage) = shortage(shared, limit, taken) {
        warn!("{shortage}");
    }
    Room::new(shared, limit, taken).apply(options);
}

/// The first lines of the log.
fn greet(workers: &sip_runtime::Running<Control>, figures: &Figures, admin: SocketAddr) {
    info!("Tandem {} balances", env!("CARGO_PKG_VERSION"));
    for listener in workers.listeners() {
        let (transport, address) = (listener.protocol.via_token(), listener.address);
        info!(
            "listening: {transport} {address}, advertised as {}",
            listener.advertised
        );
    }
    for (member, _) in figures.nodes.members().iter() {
        info!("node: {} at {}", member.identity, member.address);
    }
    info!("admin: http://{admin}/health/ready, /metrics, /v1/nodes");
}
