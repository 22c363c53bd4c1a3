//! `tandem serve`: runs data plane and control plane, from the first log line to the last save.

mod at_rest;
mod banner;
mod bans;
mod bindings;
mod changed_subscribers;
mod dialogs;
mod gateway_log;
mod questions;
mod registrations;
mod saved_dialogs;
mod saver;
mod server;
mod shared_dialogs;
mod shared_locations;
mod taken_over;
mod upkeep;
mod workers;

pub(crate) use bindings::ListenerNames;
pub use server::Server;

use crate::config::Configuration;
use crate::configuration_file::ConfigurationFile;
use crate::control::{LogControl, log};
use crate::output::complain;
use anyhow::{Context as _, bail};
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

/// Threads of the control plane, which waits most of the time.
const THREADS: usize = 2;

/// Runs the server until a signal ends it.
pub fn run(file: ConfigurationFile) -> ExitCode {
    match run_on_runtime(file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(format_args!("{error:#}")),
    }
}

fn run_on_runtime(file: ConfigurationFile) -> anyhow::Result<()> {
    let configuration = file.load()?;
    let log = log::start(&configuration.log);
    let control_plane = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("control")
        .enable_all()
        .build()
        .context("cannot start the control plane")?;
    let ended = control_plane.block_on(serve(file, configuration, log));
    // A pending name lookup must not keep the process alive.
    control_plane.shutdown_background();
    ended
}

async fn serve(
    file: ConfigurationFile,
    configuration: Configuration,
    log: Option<LogControl>,
) -> anyhow::Result<()> {
    let mut signals = Signals::open().context("cannot receive signals")?;
    let server = tokio::select! {
        started = Server::start(file.config, configuration, log) => started?,
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
    if !saved {
        bail!("some registrations or call records could not be saved");
    }
    info!("stopped; all registrations are saved, and all call records are written");
    Ok(())
}

/// The signals that the server handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    /// Held so that a file that reaches the limit of its size (`RLIMIT_FSIZE`) is an error of its writer, and does not end the process.
    _file_size: Signal,
}

impl Signals {
    fn open() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
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
    // The reload logs its result.
    let _ = server.control().reload(server.running()).await;
}
