//! `tandem control`: runs the controller of a fleet until a signal ends it.
//!
//! It is not the laboratory's controller (`tandem lab controller`), which commands phones.

use crate::config::controller::{
    ControllerConfiguration, ControllerLog, CustomMetrics, KubernetesMembers, MemberSource,
    load_controller,
};
use crate::config::{Environment, Log};
use crate::configuration_file::ConfigurationFile;
use crate::control::log;
use crate::output::{complain, show};
use crate::user::hash;
use anyhow::Context as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tandem_fleet::source::{DnsSource, KubernetesSource, Source};
use tandem_fleet::{Controller, NodeAccess, Options, UserDatabase, custom_metrics};
use tandem_http::Token;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

/// Threads of the controller, which waits most of the time.
const THREADS: usize = 2;
/// How often the deletion costs of pods are written, at most.
const DELETION_COSTS: Duration = Duration::from_secs(15);
/// Where Kubernetes says in which namespace a pod is.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The configuration file, and whether only to check it.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    file: ConfigurationFile,
    /// Only check the configuration.
    #[arg(long)]
    check: bool,
}

/// Runs the controller.
pub fn run(arguments: &Arguments) -> ExitCode {
    let loaded = load_controller(arguments.file.path(), &Environment::of_process());
    let configuration = match loaded {
        Ok(configuration) => configuration,
        Err(mistakes) => return complain(mistakes),
    };
    if arguments.check {
        let source = configuration.members.source.word();
        return show(&format!(
            "the configuration is valid; the members come from: {source}\n"
        ));
    }
    let ControllerLog { level, format } = configuration.log;
    log::start(&Log {
        level,
        format,
        ..Log::default()
    });
    match run_on_runtime(&configuration) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(format_args!("{error:#}")),
    }
}

fn run_on_runtime(configuration: &ControllerConfiguration) -> anyhow::Result<()> {
    let options = options(configuration)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("controller")
        .enable_all()
        .build()
        .context("cannot start the controller")?;
    let ended = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let controller = Controller::start(options).await?;
        info!(api = %controller.address(), "the controller runs");
        if let Some(address) = controller.custom_metrics_address() {
            info!(%address, "custom metrics are served");
        }
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    });
    // A pending name lookup must not keep the process alive.
    runtime.shutdown_background();
    info!("stopped; edges keep the last member set");
    ended
}

/// What the library needs of a configuration.
///
/// # Errors
/// A file that cannot be read.
pub fn options(configuration: &ControllerConfiguration) -> anyhow::Result<Options> {
    let ControllerConfiguration {
        api,
        members,
        nodes,
        database,
        custom_metrics,
        ..
    } = configuration;
    let token = nodes
        .token_file
        .as_ref()
        .map(|file| Token::read_text(&file.0));
    let namespace = |named: &Option<String>| match named {
        Some(namespace) => Ok(namespace.clone()),
        None => own_namespace(),
    };
    let custom_metrics = match custom_metrics {
        None => None,
        Some(CustomMetrics {
            listen,
            chain,
            key,
            client_authority,
            namespace: named,
        }) => Some(custom_metrics::Options {
            listen: *listen,
            certificate: chain.0.clone(),
            key: key.0.clone(),
            client_authority: client_authority.as_ref().map(|file| file.0.clone()),
            namespace: namespace(named)?,
        }),
    };
    let admin_port = Some(members.admin_port);
    let source = match &members.source {
        MemberSource::Static => Source::Static(configuration.listed()),
        MemberSource::Api => Source::Api,
        MemberSource::Dns(dns) => Source::Dns(DnsSource {
            name: dns.name.clone(),
            port: dns.port,
            refresh: dns.refresh,
            servers: dns.servers.clone(),
            admin_port,
        }),
        MemberSource::Kubernetes(kubernetes) => {
            let KubernetesMembers {
                service,
                namespace: named,
                port_name,
                server,
                token_file,
                authority_file,
                deletion_costs,
            } = kubernetes;
            Source::Kubernetes(KubernetesSource {
                server: server.clone(),
                namespace: namespace(named)?,
                service: service.clone(),
                port_name: port_name.clone(),
                admin_port,
                token_file: Some(token_file.0.clone()),
                authority_file: Some(authority_file.0.clone()),
                deletion_costs: deletion_costs.then_some(DELETION_COSTS),
            })
        }
    };
    Ok(Options {
        listen: api.listen,
        hosts: api.hosts.iter().map(|host| host.0.clone()).collect(),
        token: Token::read(&api.token_file.0).context("`api.token_file`")?,
        source,
        grace: members.grace,
        state_file: members.state_file.as_ref().map(|file| file.0.clone()),
        nodes: NodeAccess {
            token: token.transpose().context("`nodes.token_file`")?,
            timeout: nodes.timeout,
        },
        database: database
            .url
            .as_ref()
            .map(|url| UserDatabase::new(url.0.clone(), hash::subscriber)),
        max_watchers: api.max_watchers,
        watcher_timeout: api.watcher_timeout,
        custom_metrics,
    })
}

fn own_namespace() -> anyhow::Result<String> {
    let namespace = std::fs::read_to_string(Path::new(OWN_NAMESPACE));
    let namespace =
        namespace.with_context(|| format!("{OWN_NAMESPACE} cannot be read: set `namespace`"))?;
    Ok(namespace.trim().to_owned())
}
