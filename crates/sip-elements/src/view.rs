//! What decisions read: the time, the configuration and the shared state.
use crate::{Settings, Shared};
use sip_transport::Time;

/// What a decision depends on, apart from the message. It gives no access to the worker's tables and output.
#[derive(Clone, Copy, Debug)]
pub struct View<'v> {
    /// The current time.
    pub now: Time,
    /// The operator's configuration.
    pub settings: &'v Settings,
    /// The state that all workers share.
    pub shared: &'v Shared,
}
