//! `tandem balance`: runs an edge of a fleet. The crate `tandem-balancer` decides about messages; this module opens the sockets, keeps the
//! list of nodes, resolves names and shows what the edge does.

mod admin;
mod controller;
mod edge;
mod metrics;
mod names;
mod nodes;

pub use edge::RunningEdge;
#[cfg(test)]
pub(crate) use metrics::reference as metrics_reference;

use crate::config;
use crate::configuration_file::ConfigurationFile;
use crate::control::log;
use crate::output::complain;
use crate::terminate::Termination;
use anyhow::Context as _;
use std::process::ExitCode;
use tracing::info;

/// Threads of the control plane, which waits most of the time.
const THREADS: usize = 2;

/// Runs the edge until a signal ends it.
pub fn run(file: &ConfigurationFile) -> ExitCode {
    match run_on_runtime(file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(format_args!("{error:#}")),
    }
}

fn run_on_runtime(file: &ConfigurationFile) -> anyhow::Result<()> {
    let configuration = config::load_balancer(file.path())?;
    log::start(&configuration.log);
    let control_plane = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("control")
        .enable_all()
        .build()
        .context("cannot start the control plane")?;
    let ended = control_plane.block_on(async {
        let mut signals = Termination::open().context("cannot receive signals")?;
        let edge = RunningEdge::start(file.config.clone(), configuration).await?;
        signals.until_end(|| edge.reload()).await;
        info!("stopping");
        edge.stop().await;
        Ok(())
    });
    // A pending name lookup must not keep the process alive.
    control_plane.shutdown_background();
    ended
}
