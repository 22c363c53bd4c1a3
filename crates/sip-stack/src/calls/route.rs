//! Where a request goes: from a URI to candidates (RFC 3263), and from a candidate to a flow.

use super::event::CallNumber;
use super::table::Calls;
use crate::{NextHop, Stack};
use sip_message::{Uri, home_hash};
use sip_transport::selection::{Candidate, Destination, Reach, Selection};
use sip_transport::{Flow, Listener, ListenerId};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// A request that waits for its next hop, or for its response. The second value is the dialog of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Invite(CallNumber),
    Ack(CallNumber, usize),
    Bye(CallNumber, usize),
    Register(CallNumber),
}

impl Work {
    pub(crate) const fn number(self) -> CallNumber {
        match self {
            Self::Invite(number)
            | Self::Ack(number, _)
            | Self::Bye(number, _)
            | Self::Register(number) => number,
        }
    }
}

/// Candidates that have not been tried, best first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hops {
    pub(crate) candidates: VecDeque<Candidate>,
    /// The domain that a peer must prove over TLS: the name that was resolved.
    pub(crate) domain: Option<Box<[u8]>>,
}

impl Hops {
    /// Takes the next candidate that a listener can reach.
    pub(crate) fn take(&mut self, listeners: &[Listener]) -> Option<(Candidate, Flow)> {
        loop {
            let candidate = self.candidates.pop_front()?;
            if let Some(flow) = flow_to(listeners, candidate) {
                return Some((candidate, flow));
            }
        }
    }

    /// Tries this candidate first, if it is one.
    pub(crate) fn prefer(&mut self, candidate: Candidate) {
        if let Some(place) = self.candidates.iter().position(|it| *it == candidate) {
            self.candidates.swap(0, place);
        }
    }

    /// A flow as a next hop.
    pub(crate) fn hop(&self, flow: Flow) -> NextHop<'_> {
        NextHop {
            flow,
            domain: self.domain.as_deref(),
        }
    }
}

/// A URI that leads nowhere: not SIP, no listener for its transport or address, or no resolver for its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoute;

/// A lookup in progress.
#[derive(Debug)]
pub(crate) struct Waiting {
    work: Work,
    domain: Box<[u8]>,
}

impl Calls {
    /// Finds the next hops of a URI, at once or by a lookup, and continues with [`Calls::perform`].
    pub(crate) fn route(
        &mut self,
        stack: &mut Stack<'_>,
        uri: &[u8],
        call_id: &[u8],
        work: Work,
    ) -> Result<(), NoRoute> {
        let uri = Uri::parse(uri).ok_or(NoRoute)?;
        let destination = Destination::of_uri(&uri).ok_or(NoRoute)?;
        let reach = Reach::of(stack.listeners());
        if let Some(candidates) = Selection::new(&destination, reach).literal() {
            let hops = Hops {
                candidates: candidates.into(),
                domain: None,
            };
            if hops.clone().take(stack.listeners()).is_none() {
                return Err(NoRoute);
            }
            self.perform(stack, work, hops);
            return Ok(());
        }
        let ask = self.ask.as_mut().ok_or(NoRoute)?;
        if self.lookups.len() >= self.settings.bounds.lookups {
            return Err(NoRoute);
        }
        let domain = destination.host.as_bytes().into();
        self.last_ticket += 1;
        self.lookups
            .insert(self.last_ticket, Waiting { work, domain });
        ask(self.last_ticket, destination, home_hash(call_id));
        Ok(())
    }

    /// Continues after a lookup.
    pub(crate) fn located(&mut self, stack: &mut Stack<'_>, ticket: u64, found: Vec<Candidate>) {
        if let Some(Waiting { work, domain }) = self.lookups.remove(&ticket) {
            let hops = Hops {
                candidates: found.into(),
                domain: Some(domain),
            };
            self.perform(stack, work, hops);
        }
    }

    /// Sends the request that has waited for its next hop.
    fn perform(&mut self, stack: &mut Stack<'_>, work: Work, hops: Hops) {
        match work {
            Work::Invite(number) => self.begin_invite(stack, number, hops),
            Work::Ack(number, dialog) => self.send_ack(stack, number, dialog, hops),
            Work::Bye(number, dialog) => self.send_bye(stack, number, dialog, hops),
            Work::Register(number) => self.begin_register(stack, number, hops),
        }
    }

    /// Forgets the lookups of a call that has ended.
    pub(crate) fn forget_lookups(&mut self, number: CallNumber) {
        self.lookups
            .retain(|_, waiting| waiting.work.number() != number);
    }
}

/// The flow to a candidate, from the listener that fits best: loopback to loopback, then one in the network of the address.
fn flow_to(listeners: &[Listener], candidate: Candidate) -> Option<Flow> {
    let Candidate { protocol, address } = candidate;
    let remote = SocketAddr::new(address.ip().to_canonical(), address.port());
    let ip = remote.ip();
    if remote.port() == 0 || is_group_or_unspecified(ip) {
        return None;
    }
    let fits = |listener: &Listener| {
        listener.protocol == protocol && listener.address.is_ipv4() == ip.is_ipv4()
    };
    let rank = |(_, listener): &(u16, &Listener)| {
        let is_far = listener.address.ip().is_loopback() != ip.is_loopback();
        (is_far, !listener.reaches_directly(ip))
    };
    let fitting = (0..).zip(listeners).filter(|(_, listener)| fits(listener));
    let (place, _) = fitting.min_by_key(rank)?;
    Some(Flow::to(ListenerId(place), remote))
}

const fn is_group_or_unspecified(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast() || ip.octets()[0] == 0,
        IpAddr::V6(ip) => ip.is_multicast() || ip.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_transport::Protocol;

    fn listener(protocol: Protocol, address: &str, prefix_length: u8) -> Listener {
        Listener {
            protocol,
            address: address.parse().expect("an address"),
            prefix_length,
            advertised: String::new(),
            behind_balancer: false,
        }
    }

    #[test]
    fn the_listener_in_the_network_of_the_address_sends() {
        let listeners = [
            listener(Protocol::Udp, "127.0.0.1:5060", 8),
            listener(Protocol::Udp, "192.0.2.1:5060", 24),
            listener(Protocol::Udp, "198.51.100.1:5060", 24),
            listener(Protocol::Tcp, "198.51.100.1:5060", 24),
        ];
        let chosen = |protocol, address: &str| {
            let address = address.parse().expect("an address");
            let flow = flow_to(&listeners, Candidate { protocol, address });
            flow.map(|flow| flow.listener.0)
        };
        assert_eq!(chosen(Protocol::Udp, "127.0.0.1:5070"), Some(0));
        assert_eq!(chosen(Protocol::Udp, "192.0.2.9:5060"), Some(1));
        assert_eq!(chosen(Protocol::Udp, "198.51.100.9:5060"), Some(2));
        assert_eq!(chosen(Protocol::Tcp, "203.0.113.9:5060"), Some(3));
        assert_eq!(chosen(Protocol::Udp, "203.0.113.9:5060"), Some(1));
        assert_eq!(chosen(Protocol::Tls, "203.0.113.9:5060"), None);
        for nowhere in [
            "224.0.0.1:5060",
            "0.0.0.0:5060",
            "192.0.2.9:0",
            "[::1]:5060",
        ] {
            assert_eq!(chosen(Protocol::Udp, nowhere), None, "{nowhere}");
        }
    }
}
