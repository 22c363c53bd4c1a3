//! The edge of one worker, and what all workers share.

use crate::members::{Kind, Members, Node};
use crate::metrics::EdgeMetrics;
use crate::own_uris::OwnUris;
use crate::probes::Probes;
use crate::unanswered::{self, Unanswered};
use crate::{probes, request, response};
use sip_message::{KeyHasher, Message};
use sip_transport::selection::Candidate;
use sip_transport::{Flow, Input, Listener, Output, Time, Undelivered};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The settings of an edge.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The listeners, as the runtime has bound them.
    pub listeners: Vec<Listener>,
    /// For each listener, whether it is for nodes only. If none is, all of them accept requests of nodes.
    pub for_nodes: Vec<bool>,
    /// Whether the edge adds itself to Record-Route and Path. Without it, nodes reach clients only at the addresses that these name.
    pub record_route: bool,
    /// Messages to nodes that are longer than this go over TCP, in bytes.
    pub largest_datagram: usize,
    /// How often each node is probed.
    pub probe_interval: Duration,
    /// After how many unanswered probes in a row a node counts as dead.
    pub probe_misses: u32,
    /// Maximum number of header field lines in a message.
    pub max_header_fields: usize,
}

impl Settings {
    /// Settings for these listeners, all others with their defaults.
    pub fn new(listeners: Vec<Listener>) -> Self {
        Self {
            for_nodes: vec![false; listeners.len()],
            listeners,
            record_route: true,
            largest_datagram: 1_300,
            probe_interval: Duration::from_millis(500),
            probe_misses: 3,
            max_header_fields: 128,
        }
    }
}

/// What all workers of an edge share.
#[derive(Debug)]
pub struct Shared {
    /// Keyed hashes with the secret of the fleet.
    pub hasher: KeyHasher,
    /// Requests that no node has answered yet.
    pub unanswered: Unanswered,
}

/// An order of the control plane.
#[derive(Clone, Debug)]
pub enum Control {
    /// The set of nodes from now on.
    Members(Arc<Members>),
    /// The answer to a [`Question`].
    Resolved {
        /// The question.
        question: Question,
        /// Where the name leads; `None` if it leads nowhere.
        candidate: Option<Candidate>,
    },
}

/// The next hop of a node's request is a name. The request travels with the question, so the edge keeps nothing.
#[derive(Clone, Debug)]
pub struct Question {
    /// The URI of the next hop.
    pub uri: Box<[u8]>,
    /// The request.
    pub request: Box<[u8]>,
    /// The flow that it arrived on.
    pub flow: Flow,
}

/// The parts that an edge is built from.
#[derive(Debug)]
pub struct EdgeOptions {
    /// The index of the worker, from 0.
    pub worker: u16,
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// The settings.
    pub settings: Arc<Settings>,
    /// The nodes.
    pub members: Arc<Members>,
    /// The counters of this worker.
    pub metrics: Arc<EdgeMetrics>,
    /// The start time.
    pub now: Time,
}

/// The edge of one worker.
#[derive(Debug)]
pub struct Edge {
    pub(crate) worker: u16,
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) members: Arc<Members>,
    pub(crate) metrics: Arc<EdgeMetrics>,
    pub(crate) own: OwnUris,
    /// Whether some listener is for nodes only.
    has_side_for_nodes: bool,
    /// The probes of the nodes; worker 0 sends them.
    pub(crate) probes: Option<Probes>,
    /// When worker 0 looks for requests without an answer.
    next_look: Time,
    /// Reused buffer for the text of patches.
    pub(crate) scratch: Vec<u8>,
}

impl Edge {
    /// Creates the edge of a worker.
    pub fn new(options: EdgeOptions) -> Self {
        let EdgeOptions {
            worker,
            shared,
            settings,
            members,
            metrics,
            now,
        } = options;
        Self {
            worker,
            shared,
            own: OwnUris::new(&settings.listeners),
            has_side_for_nodes: settings.for_nodes.contains(&true),
            probes: (worker == 0).then(|| Probes::new(now)),
            settings,
            members,
            metrics,
            next_look: now,
            scratch: Vec::new(),
        }
    }

    /// The listener of a flow.
    pub(crate) fn listener(&self, flow: Flow) -> Option<&Listener> {
        self.settings.listeners.get(usize::from(flow.listener.0))
    }

    /// The node that sent a request. Over UDP, its address says so. Over a stream, a node has a port of its own, so its Via must name the
    /// node, too. Both can be forged only where a sender can use the address of a node: keep nodes in a network of their own, or give them a
    /// listener of their own.
    pub(crate) fn sending_node(&self, request: &Message<'_>, flow: Flow) -> Option<&Node> {
        if !self.accepts_nodes(flow) {
            return None;
        }
        if !flow.connection.is_some() {
            return self.members.at(flow.remote);
        }
        if !self.members.has_address(flow.remote.ip()) {
            return None;
        }
        let via = request.top_via()?;
        let sip_message::Host::Address(ip) = via.host else {
            return None;
        };
        let node = self
            .members
            .at(SocketAddr::new(ip, via.port.unwrap_or(5060)))?;
        (ip.to_canonical() == flow.remote.ip().to_canonical()).then_some(node)
    }

    /// Whether a response can have come from a node.
    pub(crate) fn is_from_node(&self, flow: Flow) -> bool {
        self.accepts_nodes(flow)
            && if flow.connection.is_some() {
                self.members.has_address(flow.remote.ip())
            } else {
                self.members.at(flow.remote).is_some()
            }
    }

    fn accepts_nodes(&self, flow: Flow) -> bool {
        let listener = usize::from(flow.listener.0);
        !self.has_side_for_nodes || self.settings.for_nodes.get(listener) == Some(&true)
    }

    /// The node for a message of a call: the one with this number if it answers, else the one that the hash of the Call-ID selects. Also
    /// returns whether the number decided.
    pub(crate) fn node_for(
        &self,
        hint: Option<u32>,
        call_id: &[u8],
        kind: Kind,
    ) -> Option<(&Node, bool)> {
        if let Some(hint) = hint {
            if let Some(node) = self.members.living(hint) {
                return Some((node, true));
            }
            self.metrics.moved.increment();
        }
        let call = self.shared.hasher.hash(&[b"edge call", call_id]);
        let node = self.members.choose(call, kind)?;
        Some((node, false))
    }

    /// Sends again what no node has answered.
    fn repeat_unanswered(&mut self, now: Time, output: &mut Output<Question>) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + unanswered::LOOK;
        let shared = Arc::clone(&self.shared);
        for due in shared.unanswered.due(now, &shared.hasher) {
            self.metrics.repeated.increment();
            request::repeat(self, now, due.flow, &due.request, output);
        }
    }

    /// A message could not be sent, or an ICMP error returned it.
    fn undelivered(&mut self, message: &Undelivered<'_>, output: &mut Output<Question>) {
        if let Some(node) = self.members.at(message.flow.remote) {
            if node.health.set(crate::NodeState::Dead) {
                self.probes.iter_mut().for_each(Probes::hasten);
            }
            return;
        }
        response::undelivered_request(self, message, output);
    }
}

impl sip_transport::Node for Edge {
    type Question = Question;
    type Record = std::convert::Infallible;
    type Control = Control;

    fn handle(&mut self, now: Time, input: Input<'_, Control>, output: &mut Output<Question>) {
        match input {
            Input::Received(message) => request::receive(self, now, &message, output),
            Input::Undeliverable(message) => self.undelivered(&message, output),
            Input::ConnectionEnded(_) => {}
            Input::Control(Control::Members(members)) => {
                self.members = members;
                self.probes.iter_mut().for_each(Probes::hasten);
            }
            Input::Control(Control::Resolved {
                question,
                candidate,
            }) => {
                request::resolved(self, &question, candidate, output);
            }
        }
    }

    fn expire(&mut self, now: Time, output: &mut Output<Question>) {
        if self.probes.is_some() {
            probes::expire(self, now, output);
            self.repeat_unanswered(now, output);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let probe = self.probes.as_ref().map(Probes::next)?;
        Some(probe.min(self.next_look))
    }
}
