//! Requests that this server sends on its own account, to the servers of its configuration: where they go, and their first header fields.

use crate::own_response::hex;
use crate::owner::BranchId;
use crate::routing::listener::{ListenerCriteria, flow_to};
use crate::routing::route::RouteSet;
use crate::routing::target::{NextHop, Target, Way};
use crate::worker::{Worker, home_of};
use crate::{Question, WorkerParts};
use rand_chacha::rand_core::Rng;
use sip_transaction::{Branch, ClientOptions, Kind};
use sip_transport::selection::{Candidate, Destination};
use sip_transport::{Flow, Listener, ListenerId, Protocol};
use std::net::SocketAddr;

/// How many Call-IDs are drawn to find one whose home is this worker.
const DRAWS: usize = 10_000;

/// Where a request goes: the address, and the protocol if it is given.
pub(crate) type Remote = (SocketAddr, Option<Protocol>);

/// Whether a server has been located.
pub(crate) enum Located {
    At(Remote),
    /// The control plane resolves its name. The answer has the ticket.
    Asked,
}

/// Locates a server, or asks for its addresses. `None`: there is no way to it.
pub(crate) fn locate(
    parts: &mut WorkerParts<'_>,
    destination: &Destination,
    ticket: BranchId,
    seed: u64,
) -> Option<Located> {
    let target = Target {
        uri: Box::default(),
        q: 1000,
        route: Box::default(),
        next_hop: Some(NextHop::Server(destination.clone())),
        listener: None,
        flow: None,
        is_owned: false,
        instance: 0,
    };
    let routes = RouteSet::default();
    let hop = target.hop(&routes, &parts.settings.listeners).ok()?;
    match hop.way {
        Way::Address(remote) => Some(Located::At((remote, hop.protocol))),
        Way::Name(name) => {
            parts.output.ask(Question::Resolve {
                ticket,
                destination: name.into(),
                seed,
            });
            parts.metrics.questions.increment();
            Some(Located::Asked)
        }
    }
}

/// The best candidate.
pub(crate) fn best(candidates: &[Candidate]) -> Option<Remote> {
    let best = candidates.first()?;
    Some((best.address, Some(best.protocol)))
}

/// The way of a request: its flow, and the listener that it leaves from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving<'r> {
    flow: Flow,
    pub(crate) listener: &'r Listener,
}

impl<'r> Leaving<'r> {
    /// `None`: no listener leads there.
    pub(crate) fn to(listeners: &'r [Listener], (remote, protocol): Remote) -> Option<Self> {
        let wanted = ListenerCriteria {
            target: None,
            recorded: None,
            incoming: ListenerId(0),
            protocol,
        };
        let flow = flow_to(listeners, wanted, remote)?;
        let listener = listeners.get(usize::from(flow.listener.0))?;
        Some(Self { flow, listener })
    }

    /// The options of the transaction of a request to this server.
    pub(crate) fn options<'d>(&self, destination: &'d Destination) -> ClientOptions<'d> {
        let protocol = self.listener.protocol;
        let names_domain = protocol == Protocol::Tls && destination.literal().is_none();
        ClientOptions {
            domain: names_domain.then_some(destination.host.as_bytes()),
            ..ClientOptions::new(Kind::NonInvite, self.flow, protocol.is_reliable())
        }
    }

    /// Appends the value of Via.
    pub(crate) fn write_via(&self, branch: Branch, into: &mut Vec<u8>) {
        into.extend_from_slice(b"SIP/2.0/");
        into.extend_from_slice(self.listener.protocol.via_token().as_bytes());
        into.push(b' ');
        into.extend_from_slice(self.listener.advertised.as_bytes());
        into.extend_from_slice(b";branch=");
        branch.write(into);
        into.extend_from_slice(b";rport");
    }
}

/// A random Call-ID whose home is this worker.
pub(crate) fn call_id(worker: &mut Worker<'_, '_>) -> [u8; 16] {
    let (index, workers) = (worker.index, worker.workers);
    let random = &mut *worker.parts.random;
    let mut drawn = [0; 16];
    for _ in 0..DRAWS {
        drawn = hex(random.next_u64());
        if home_of(&drawn, workers) == index {
            break;
        }
    }
    drawn
}
