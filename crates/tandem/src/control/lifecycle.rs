//! The lifecycle of the server.
//!
//! ```text
//! Starting ──▶ Ready ◀──▶ Draining ──▶ Stopping
//!                └──────────────────────▲
//! ```
use super::running::Running;
use std::sync::Arc;

/// The lifecycle phase of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Opens the database, warms caches, restores registrations.
    Starting,
    /// Accepts requests.
    Ready,
    /// Finishes requests in progress and accepts no new calls.
    Draining,
    /// Shuts down.
    Stopping,
}

impl Phase {
    /// The phase as one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
        }
    }
}

/// The phase, with the running server as soon as there is one.
#[derive(Clone, Debug, Default)]
pub(super) enum Lifecycle {
    #[default]
    Starting,
    Ready(Arc<Running>),
    Draining(Arc<Running>),
    Stopping(Arc<Running>),
}

impl Lifecycle {
    pub(super) const fn phase(&self) -> Phase {
        match self {
            Self::Starting => Phase::Starting,
            Self::Ready(_) => Phase::Ready,
            Self::Draining(_) => Phase::Draining,
            Self::Stopping(_) => Phase::Stopping,
        }
    }

    pub(super) const fn running(&self) -> Option<&Arc<Running>> {
        match self {
            Self::Starting => None,
            Self::Ready(running) | Self::Draining(running) | Self::Stopping(running) => {
                Some(running)
            }
        }
    }

    /// A ready server drains.
    pub(super) fn draining(&self) -> Self {
        match self {
            Self::Ready(running) => Self::Draining(Arc::clone(running)),
            other => other.clone(),
        }
    }

    /// A draining server is ready again.
    pub(super) fn ready_again(&self) -> Self {
        match self {
            Self::Draining(running) => Self::Ready(Arc::clone(running)),
            other => other.clone(),
        }
    }

    /// A running server stops.
    pub(super) fn stopping(&self) -> Self {
        match self.running() {
            Some(running) => Self::Stopping(Arc::clone(running)),
            None => Self::Starting,
        }
    }
}
