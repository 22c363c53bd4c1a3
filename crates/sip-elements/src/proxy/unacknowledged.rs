//! Calls that were answered while the node drains and whose ACK has not passed: until then the node is not done, or the callee
//! would wait for an ACK that finds nobody to forward it. At all other times nothing is remembered of a call that was answered.

use crate::Round;
use sip_message::{Message, home_hash};
use sip_transport::Time;
use std::collections::VecDeque;

/// The calls, by a hash of their Call-ID.
#[derive(Debug, Default)]
pub(super) struct Unacknowledged {
    /// Until when each is waited for, in order of time but for a reload of `t1`, which makes some wait longer; `None`: the node
    /// does not drain.
    calls: Option<VecDeque<(Time, u64)>>,
}

impl Unacknowledged {
    /// Begins to remember calls, or forgets them all.
    pub(super) fn drain(&mut self, drain: bool) {
        self.calls = drain.then(|| self.calls.take().unwrap_or_default());
    }

    /// A 2xx of an INVITE went upstream. Its callee repeats it for 64*T1 (section 13.3.1.4); the ACK comes back to us if we
    /// record-route.
    pub(super) fn answered(&mut self, round: &Round<'_>, response: &Message<'_>) {
        let settings = round.settings;
        let Some(calls) = &mut self.calls else {
            return;
        };
        let call = home_hash(response.call_id().unwrap_or_default());
        if settings.proxy.record_route
            && calls.len() < settings.limits.response_contexts
            && !calls.iter().any(|(_, other)| *other == call)
        {
            calls.push_back((round.now + settings.timers.t1 * 64, call));
        }
    }

    /// An ACK is on its way.
    pub(super) fn acknowledged(&mut self, ack: &Message<'_>) {
        if let Some(calls) = &mut self.calls {
            let call = home_hash(ack.call_id().unwrap_or_default());
            calls.retain(|(_, other)| *other != call);
        }
    }

    /// Gives up what nobody has acknowledged in time.
    pub(super) fn expire(&mut self, now: Time) {
        if let Some(calls) = &mut self.calls {
            while calls.front().is_some_and(|(until, _)| *until <= now) {
                calls.pop_front();
            }
        }
    }

    /// When to call `expire` next.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        Some(self.calls.as_ref()?.front()?.0)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.calls.as_ref().map_or(0, VecDeque::len)
    }
}
