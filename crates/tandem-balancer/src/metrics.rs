//! Counters of one worker: written by that worker alone, read by anybody. Never reset.

use sip_transport::Counter;

/// Why something received went no further. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by the reason")]
#[repr(usize)]
pub enum DropReason {
    NotSip,
    KeepAlive,
    Incomplete,
    TooManyHeaders,
    StrayResponse,
    ForgedResponse,
    NotFromNode,
    ConnectionGone,
}

/// Their labels, in the order of [`DropReason`].
pub const DROPS: [&str; 8] = [
    "not_sip",
    "keep_alive",
    "incomplete",
    "too_many_headers",
    "stray_response",
    "forged_response",
    "not_from_node",
    "connection_gone",
];

/// The counters of a worker.
#[derive(Debug, Default)]
pub struct EdgeMetrics {
    /// Requests of clients that were forwarded.
    pub from_clients: Counter,
    /// Requests of nodes that were forwarded.
    pub from_nodes: Counter,
    /// Responses that were forwarded to clients.
    pub to_clients: Counter,
    /// Responses that were forwarded to nodes.
    pub to_nodes: Counter,
    /// Messages that carried an authentic hint at a node that does not answer, and went to another one.
    pub moved: Counter,
    /// Requests that were sent again, because no node had answered and their client does not retransmit.
    pub repeated: Counter,
    /// Requests that could not be remembered for that, because there was no room.
    pub not_remembered: Counter,
    /// Responses of the edge itself, by the class of their status: 2xx to 5xx.
    pub own_responses: [Counter; 4],
    /// Messages that were dropped, by [`DropReason`].
    pub drops: [Counter; DROPS.len()],
}

impl EdgeMetrics {
    pub(crate) fn dropped(&self, reason: DropReason) {
        self.drops
            .get(reason as usize)
            .inspect(|counter| counter.increment());
    }

    pub(crate) fn responded(&self, status: u16) {
        let class = usize::from(status / 100).checked_sub(2);
        class
            .and_then(|class| self.own_responses.get(class))
            .inspect(|counter| counter.increment());
    }
}
