//! The branch of an edge's probe, by which the nodes of its fleet recognise it.
//!
//! A probe tells a node that an edge is there, and at which address. The branch carries the address at which the node has seen the edge before, so
//! a copy of the probe from another address proves nothing.
//!
//! ```text
//! z9hG4bKp NODE SEAL [ADDRESS]   NODE has 8 digits, SEAL 16; ADDRESS is the edge's, as a flow token
//! ```

use crate::{ConnectionId, Flow, ListenerId, flow_token};
use sip_message::{KeyHasher, Message};
use std::net::SocketAddr;

const COOKIE: &[u8] = b"z9hG4bKp";

/// The branch of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeBranch {
    /// The number of the node that the probe is for.
    pub node: u32,
    /// The address at which the node has seen the edge; `None` in the first probe.
    pub edge: Option<SocketAddr>,
    seal: u64,
}

impl ProbeBranch {
    /// The branch of the probe with this Call-ID.
    pub fn new(hasher: &KeyHasher, call_id: &[u8], node: u32, edge: Option<SocketAddr>) -> Self {
        Self {
            node,
            edge,
            seal: seal(hasher, call_id, node, edge),
        }
    }

    /// Parses a branch; `None` if no edge can have written it. Check it with [`ProbeBranch::is_genuine`].
    pub fn parse(branch: &[u8]) -> Option<Self> {
        let digits = branch.strip_prefix(COOKIE)?;
        let (node, digits) = digits.split_at_checked(8)?;
        let (seal, token) = digits.split_at_checked(16)?;
        let edge = match token {
            [] => None,
            token => Some(flow_token::read(token)?.remote),
        };
        Some(Self {
            node: u32::try_from(flow_token::read_number(node)?).ok()?,
            edge,
            seal: flow_token::read_number(seal)?,
        })
    }

    /// Whether an edge with this secret wrote the branch for the probe that `message` is or answers.
    pub fn is_genuine(&self, hasher: &KeyHasher, message: &Message<'_>) -> bool {
        let call_id = message.call_id().unwrap_or_default();
        self.seal == seal(hasher, call_id, self.node, self.edge)
    }

    /// Appends the branch to `into`.
    pub fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(COOKIE);
        flow_token::write_number(into, &self.node.to_be_bytes());
        flow_token::write_number(into, &self.seal.to_be_bytes());
        if let Some(edge) = self.edge {
            flow_token::write(into, flow(edge));
        }
    }
}

const fn flow(remote: SocketAddr) -> Flow {
    Flow {
        listener: ListenerId(0),
        connection: ConnectionId::NONE,
        remote,
    }
}

fn seal(hasher: &KeyHasher, call_id: &[u8], node: u32, edge: Option<SocketAddr>) -> u64 {
    let edge = edge.map(|edge| flow_token::octets(flow(edge)));
    hasher.hash(&[
        b"edge probe",
        &node.to_be_bytes(),
        call_id,
        edge.as_ref().map_or(&[][..], |octets| octets),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HASHER: KeyHasher = KeyHasher::new((1, 2));

    fn is_genuine(branch: &ProbeBranch, call_id: &str) -> bool {
        let text = format!("OPTIONS sip:n SIP/2.0\r\nCall-ID: {call_id}\r\n\r\n");
        let message = Message::parse(text.as_bytes()).expect("a request");
        branch.is_genuine(&HASHER, &message)
    }

    #[test]
    fn a_branch_is_read_as_it_was_written() {
        let addresses = [None, Some("192.0.2.1:5060"), Some("[2001:db8::1]:5062")];
        for edge in addresses.map(|edge| edge.map(|edge| edge.parse().expect("an address"))) {
            let branch = ProbeBranch::new(&HASHER, b"c", 7, edge);
            let mut written = Vec::new();
            branch.write(&mut written);
            assert_eq!(ProbeBranch::parse(&written), Some(branch));
            assert!(is_genuine(&branch, "c"));
            assert!(!is_genuine(&branch, "d"));
        }
    }

    #[test]
    fn the_seal_covers_the_address() {
        let edge = Some("192.0.2.1:5060".parse().expect("an address"));
        let branch = ProbeBranch::new(&HASHER, b"c", 7, edge);
        for edge in [None, Some("192.0.2.2:5060".parse().expect("an address"))] {
            assert!(!is_genuine(&ProbeBranch { edge, ..branch }, "c"));
        }
        assert!(!is_genuine(&ProbeBranch { node: 8, ..branch }, "c"));
    }

    proptest! {
        #[test]
        fn no_branch_breaks_the_reader(branch in "(z9hG4bKp)?[0-9a-f]{0,90}") {
            let _ = ProbeBranch::parse(branch.as_bytes());
        }
    }
}
