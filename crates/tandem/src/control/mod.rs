//! The state of the control plane and the orders that change it. `serve` builds and runs it; `admin` shows it and passes orders on.
//!
//! [`Control`] exists from the start of the process. [`Running`] exists once the server runs. It is complete, and published once, with the
//! change from [`Phase::Starting`] to [`Phase::Ready`].

mod asking;
mod counters;
mod dialogs;
mod drain;
#[cfg(test)]
pub(crate) mod gated;
mod lifecycle;
pub(crate) mod log;
mod order;
mod policy;
mod readiness;
mod reload;
mod running;
pub(crate) mod service_manager;
mod state;
pub(crate) mod tables;
mod trace;
pub(crate) mod trusted_peers;

pub(crate) use asking::{DialogError, Position};
pub use counters::{ControlCounters, DialogSaveCounters, LookupCounters, LookupResult};
pub(crate) use dialogs::{Page, PlacedDialog};
pub use drain::DrainError;
pub use lifecycle::Phase;
pub use log::LogControl;
pub use order::Undelivered;
pub(crate) use policy::TimedRoutes;
pub use policy::{PolicyReloadError, PrefixCounters, ReloadedGateways};
pub use reload::ReloadError;
pub use running::Running;
pub use state::Control;
