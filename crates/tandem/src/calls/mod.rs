//! What the control plane does with the events of calls: it writes records of ended calls and lines of the log, pushes events to
//! readers, and publishes them.
//!
//! ```text
//! workers ─▶ CallSender ─▶ dispatcher ─┬─▶ queue ─▶ writer ─▶ file        records: JSON lines, or rows of the database
//!            (bounded)                 ├─▶ queue ─▶ writer ─▶ database
//!                                      ├─▶ queue ─▶ lines of the log
//!                                      ├─▶ queue ─▶ publisher ─▶ Redis or Valkey
//!                                      └─▶ hub: a ring of events ─▶ readers of `GET /events`
//! ```
//!
//! No arrow waits for what comes after it. What does not fit into a queue is lost and counted.

mod dispatch;
pub mod events;
pub(crate) mod line;
pub(crate) mod log;
pub mod publishing;
pub(crate) mod queue;
pub mod records;
#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod written;

pub(crate) use dispatch::{CallSender, Recording, channel};

use crate::config::{CallLines, Configuration};
use events::Hub;
use queue::Weight;
use sip_dialog::CallEvent;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An event that queues and the ring share.
pub(crate) type SharedEvent = Arc<CallEvent>;

/// What the allocator takes for the texts of a call, apart from their bytes.
const ALLOCATIONS: usize = 128;

/// The switch by which workers know whether each change of a call is wanted.
pub(crate) fn switch(hub: &Hub, configuration: &Configuration) -> Arc<AtomicBool> {
    let are_logged = configuration.log.calls == CallLines::All;
    if are_logged || configuration.events.publish.is_some() {
        Arc::new(AtomicBool::new(true))
    } else {
        hub.wanted()
    }
}

impl Weight for CallEvent {
    fn weight(&self) -> usize {
        let call = &*self.call;
        let texts = [
            &call.call_id,
            &call.from,
            &call.from_tag,
            &call.to,
            &call.to_tag,
            &call.request_uri,
            &call.identity,
            &call.reason,
        ];
        let texts: usize = texts.into_iter().map(|text| text.len()).sum();
        size_of::<Self>() + size_of_val(call) + texts + ALLOCATIONS
    }
}

impl Weight for SharedEvent {
    fn weight(&self) -> usize {
        (**self).weight()
    }
}
