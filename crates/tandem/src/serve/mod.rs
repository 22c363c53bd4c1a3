//! `tandem serve`: runs data plane and control plane, from the first log line to the last save.

mod banner;
mod bans;
mod bindings;
mod changed_subscribers;
mod control;
mod figures;
mod log;
mod order;
mod questions;
mod resolver;
mod saver;
mod server;
mod service_manager;
mod upkeep;
mod workers;

pub use control::{Control, DataPlane, Phase, Refused};
pub use figures::{Ending, Figure, Figures, Lookups};
pub use log::LogControl;
pub use server::{Server, StartError};

use crate::config::Configuration;
use crate::configuration_file::ConfigurationFile;
use crate::output::complain;
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

/// Threads of the control plane, which waits most of the time.
const THREADS: usize = 2;

/// Runs the server until a signal ends it.
pub fn run(file: ConfigurationFile) -> ExitCode {
    let configuration = match file.load() {
        Ok(configuration) => configuration,
        Err(mistakes) => return complain(mistakes),
    };
    let log = log::start(&configuration.log);
    let control_plane = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("control")
        .enable_all()
        .build();
    let control_plane = match control_plane {
        Ok(control_plane) => control_plane,
        Err(error) => return complain(format!("cannot start the control plane: {error}")),
    };
    let ended = control_plane.block_on(serve(file, configuration, log));
    // A pending name lookup must not keep the process alive.
    control_plane.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => complain(problem),
    }
}

async fn serve(
    file: ConfigurationFile,
    configuration: Configuration,
    log: Option<LogControl>,
) -> Result<(), String> {
    let mut signals =
        Signals::open().map_err(|error| format!("cannot receive signals: {error}"))?;
    let server = tokio::select! {
        started = Server::start(file.config, configuration, log) => started.map_err(|error| error.to_string())?,
        () = signals.end() => return Ok(()),
    };
    signals.until_end(&server).await;
    info!("draining: no new calls are accepted; a second signal stops the server immediately");
    let quickly = tokio::select! {
        _ = server.drain() => false,
        () = signals.end() => true,
    };
    if quickly {
        warn!("second signal: stopping immediately");
    }
    let saved = tokio::select! {
        saved = server.stop(quickly) => saved,
        () = signals.end() => false,
    };
    if saved {
        info!("stopped; all registrations are saved");
        Ok(())
    } else {
        Err("some registrations could not be saved".to_owned())
    }
}

/// The signals that the server handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn open() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGTERM or SIGINT.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Reloads at each SIGHUP until SIGTERM or SIGINT arrives.
    async fn until_end(&mut self, server: &Server) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => reload(server).await,
            }
        }
    }
}

async fn reload(server: &Server) {
    match server.control().reload().await {
        Ok(changed) if changed.is_empty() => info!("reloaded: no changes"),
        Ok(changed) => info!("reloaded: {}", changed.join(", ")),
        Err(error) => error!("reload: {error}"),
    }
}
