//! Calls that were answered while the node drains and whose ACK has not been forwarded. The node stays up until then:
//! otherwise the callee would wait for an ACK that no proxy forwards. A node that does not drain remembers nothing
//! about answered calls.

use crate::WorkerParts;
use sip_message::{Message, home_hash};
use sip_transport::Time;
use std::collections::VecDeque;

/// The calls, by a hash of their Call-ID.
#[derive(Debug, Default)]
pub(super) struct Unacknowledged {
    /// The calls and when to stop waiting for each; `None` if the node does not drain. They are in order of time,
    /// except after a reload of `t1`, which makes some wait longer.
    calls: Option<VecDeque<(Time, u64)>>,
}

impl Unacknowledged {
    /// Begins to remember calls, or forgets all of them.
    pub(super) fn drain(&mut self, drain: bool) {
        self.calls = drain.then(|| self.calls.take().unwrap_or_default());
    }

    /// Remembers a call after a 2xx to its INVITE was forwarded. The callee retransmits the 2xx for 64*T1
    /// (section 13.3.1.4). The ACK comes back through us if we record-route.
    pub(super) fn answered(&mut self, parts: &WorkerParts<'_>, response: &Message<'_>) {
        let settings = parts.settings;
        let Some(calls) = &mut self.calls else {
            return;
        };
        let call = home_hash(response.call_id().unwrap_or_default());
        if settings.proxy.record_route
            && calls.len() < settings.limits.response_contexts
            && !calls.iter().any(|(_, other)| *other == call)
        {
            calls.push_back((parts.now + settings.timers.t1 * 64, call));
        }
    }

    /// Forgets a call when its ACK is forwarded.
    pub(super) fn acknowledged(&mut self, ack: &Message<'_>) {
        if let Some(calls) = &mut self.calls {
            let call = home_hash(ack.call_id().unwrap_or_default());
            calls.retain(|(_, other)| *other != call);
        }
    }

    /// Gives up the calls that were not acknowledged in time.
    pub(super) fn expire(&mut self, now: Time) {
        if let Some(calls) = &mut self.calls {
            while calls.front().is_some_and(|(until, _)| *until <= now) {
                calls.pop_front();
            }
        }
    }

    /// Returns when to call `expire` next.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        Some(self.calls.as_ref()?.front()?.0)
    }

    pub(super) fn len(&self) -> usize {
        self.calls.as_ref().map_or(0, VecDeque::len)
    }
}
