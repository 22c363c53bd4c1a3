//! The server's log: text or JSON on standard error, with a level that a reload can change.
use crate::config::{Log, LogFormat, LogLevel};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

/// Changes the level of the running log.
#[derive(Clone, Debug)]
pub struct LogControl(reload::Handle<LevelFilter, Registry>);

impl LogControl {
    /// Sets the level for subsequent records.
    pub fn set_level(&self, level: LogLevel) {
        // Fails only if the subscriber no longer exists, at process exit.
        let _ = self.0.reload(filter(level));
    }
}

/// Starts the log of the process. Returns `None` if it is already started.
pub fn start(log: &Log) -> Option<LogControl> {
    let (level, handle) = reload::Layer::new(filter(log.level));
    let registry = tracing_subscriber::registry().with(level);
    let started = match log.format {
        LogFormat::Text => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            registry
                .with(
                    fmt::layer()
                        .with_writer(std::io::stderr)
                        .with_target(false)
                        .with_ansi(colours),
                )
                .try_init()
        }
        LogFormat::Json => registry
            .with(
                fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_writer(std::io::stderr),
            )
            .try_init(),
    };
    started.ok().map(|()| LogControl(handle))
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
