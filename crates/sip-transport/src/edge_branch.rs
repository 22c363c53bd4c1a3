//! The branch that an edge writes into its Via (RFC 3261 section 16.11), and that the nodes behind it read.
//!
//! The edge keeps no transactions. The branch of a client's request therefore carries the client's flow. A keyed hash with the secret of the
//! fleet proves it. Every edge of the fleet can thus forward the response, and a node that finds the branch in a request knows the address
//! of the client.
//!
//! The branch of a node's request names no node. Two nodes that forward the same request, one in the place of the other, write the same
//! branch, and so must the edge: the callee then sees one transaction. The Via below names the node.
//!
//! An INVITE, its retransmissions, its CANCEL and the ACK of a non-2xx have the same topmost Via, so they get the same branch.
//!
//! ```text
//! z9hG4bKe SEAL TOKEN   a client's request; SEAL has 16 digits, TOKEN is the client's flow
//! z9hG4bKn SEAL         a node's request
//! ```

use crate::{Flow, flow_token};
use sip_message::{KeyHasher, Message, Via};

const COOKIE: &[u8; 7] = b"z9hG4bK";
const OF_CLIENT: u8 = b'e';
const OF_NODE: u8 = b'n';

/// Where the sender of a request is, and thus where the response goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// A client of the edge.
    Client(Flow),
    /// A node of the fleet. The Via below says which.
    Node,
}

/// The branch of a request that an edge forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeBranch {
    /// Where the response goes.
    pub upstream: Upstream,
    seal: u64,
}

impl EdgeBranch {
    /// The branch for this request, whose topmost Via is `via`.
    pub fn new(
        hasher: &KeyHasher,
        request: &Message<'_>,
        via: &Via<'_>,
        upstream: Upstream,
    ) -> Self {
        Self {
            upstream,
            seal: seal(hasher, request, via, upstream),
        }
    }

    /// Parses a branch; `None` if no edge can have written it. Any peer can write a branch that parses: check it with
    /// [`EdgeBranch::is_genuine`].
    pub fn parse(branch: &[u8]) -> Option<Self> {
        let (kind, digits) = branch.strip_prefix(COOKIE)?.split_first()?;
        let (seal, digits) = digits.split_at_checked(16)?;
        let upstream = match *kind {
            OF_CLIENT => Upstream::Client(flow_token::read(digits)?),
            OF_NODE if digits.is_empty() => Upstream::Node,
            _ => return None,
        };
        let seal = flow_token::read_number(seal)?;
        Some(Self { upstream, seal })
    }

    /// Whether an edge with this secret wrote the branch for the request that `message` is or answers. `below` is the Via below that of
    /// the edge.
    pub fn is_genuine(&self, hasher: &KeyHasher, message: &Message<'_>, below: &Via<'_>) -> bool {
        self.seal == seal(hasher, message, below, self.upstream)
    }

    /// 64 bits that differ between the transactions of a fleet.
    pub const fn transaction(&self) -> u64 {
        self.seal
    }

    /// Appends the branch to `into`.
    pub fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(COOKIE);
        into.push(match self.upstream {
            Upstream::Client(_) => OF_CLIENT,
            Upstream::Node => OF_NODE,
        });
        flow_token::write_number(into, &self.seal.to_be_bytes());
        if let Upstream::Client(flow) = self.upstream {
            flow_token::write(into, flow);
        }
    }
}

/// The branch of the Via below identifies the transaction. RFC 2543 clients write no such branch, but they have a `CSeq` number for each
/// transaction of a call.
fn seal(hasher: &KeyHasher, message: &Message<'_>, below: &Via<'_>, upstream: Upstream) -> u64 {
    let token = match upstream {
        Upstream::Client(flow) => Some(flow_token::octets(flow)),
        Upstream::Node => None,
    };
    hasher.hash(&[
        b"edge branch",
        token.as_ref().map_or(&[][..], |octets| octets),
        message.call_id().unwrap_or_default(),
        below.branch().unwrap_or_default(),
        // Nodes that stand in for each other have different addresses.
        token.map_or(b"", |_| below.sent_by),
        &message.cseq().map_or(0, |cseq| cseq.number).to_be_bytes(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectionId, ListenerId};
    use proptest::prelude::*;

    const HASHER: KeyHasher = KeyHasher::new((1, 2));
    const VIA: &[u8] = b"SIP/2.0/TCP 192.0.2.7;branch=z9hG4bK1";

    fn flow(remote: &str) -> Flow {
        Flow {
            listener: ListenerId(1),
            connection: ConnectionId::new(2, 3),
            remote: remote.parse().expect("an address"),
        }
    }

    fn both() -> [Upstream; 2] {
        let flow = flow("[2001:db8::7]:5060");
        [Upstream::Client(flow), Upstream::Node]
    }

    fn text(method: &str, call_id: &str, cseq: u32) -> String {
        format!(
            "{method} sip:1@h SIP/2.0\r\nVia: {}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\r\n",
            String::from_utf8_lossy(VIA)
        )
    }

    fn of(text: &str, upstream: Upstream) -> EdgeBranch {
        let request = Message::parse(text.as_bytes()).expect("a request");
        let via = request.top_via().expect("a Via");
        EdgeBranch::new(&HASHER, &request, &via, upstream)
    }

    fn written(branch: &EdgeBranch) -> Vec<u8> {
        let mut bytes = Vec::new();
        branch.write(&mut bytes);
        bytes
    }

    fn is_genuine(branch: &EdgeBranch, hasher: &KeyHasher, text: &str, via: &[u8]) -> bool {
        let message = Message::parse(text.as_bytes()).expect("a message");
        let via = Via::parse(via).expect("a Via");
        branch.is_genuine(hasher, &message, &via)
    }

    #[test]
    fn a_branch_says_where_the_response_goes() {
        for upstream in both() {
            let branch = of(&text("INVITE", "c", 1), upstream);
            assert_eq!(EdgeBranch::parse(&written(&branch)), Some(branch));
            let completed = [VIA, b";received=192.0.2.9;rport=7"].concat();
            assert!(is_genuine(
                &branch,
                &HASHER,
                &text("INVITE", "c", 1),
                &completed
            ));
        }
    }

    #[test]
    fn the_messages_of_one_invite_have_one_branch() {
        for upstream in both() {
            let invite = of(&text("INVITE", "c", 1), upstream);
            assert_eq!(of(&text("ACK", "c", 1), upstream), invite);
            assert_eq!(of(&text("CANCEL", "c", 1), upstream), invite);
            assert_ne!(of(&text("INVITE", "c", 2), upstream), invite);
            assert_ne!(of(&text("INVITE", "d", 1), upstream), invite);
        }
    }

    #[test]
    fn a_branch_is_good_for_one_call_one_via_and_one_secret() {
        let sent = text("INVITE", "c", 1);
        for upstream in both() {
            let branch = of(&sent, upstream);
            assert!(!is_genuine(&branch, &KeyHasher::new((1, 3)), &sent, VIA));
            assert!(!is_genuine(&branch, &HASHER, &text("INVITE", "d", 1), VIA));
            let other = b"SIP/2.0/TCP 192.0.2.7;branch=z9hG4bK2";
            assert!(!is_genuine(&branch, &HASHER, &sent, other));
            // Another node with the same branch stands in for the first one.
            let other = b"SIP/2.0/TCP 192.0.2.8;branch=z9hG4bK1";
            let is_of_node = upstream == Upstream::Node;
            assert_eq!(is_genuine(&branch, &HASHER, &sent, other), is_of_node);
        }
    }

    #[test]
    fn a_branch_of_a_client_is_none_of_a_node() {
        let [client, node] = both().map(|upstream| written(&of(&text("INVITE", "c", 1), upstream)));
        assert_ne!(client[8..24], node[8..24]);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_do_not(kind: bool, bytes: Vec<u8>) {
            let kind = if kind { OF_CLIENT } else { OF_NODE };
            let _ = EdgeBranch::parse(&[&COOKIE[..], &[kind], &bytes].concat());
        }

        #[test]
        fn one_wrong_octet_is_noticed(node: bool, place in 7_usize..60, octet: u8) {
            let sent = text("INVITE", "c", 1);
            let mut bytes = written(&of(&sent, both()[usize::from(node)]));
            let place = place.min(bytes.len() - 1);
            prop_assume!(bytes[place] != octet);
            bytes[place] = octet;
            let read = EdgeBranch::parse(&bytes);
            prop_assert!(!read.is_some_and(|it| is_genuine(&it, &HASHER, &sent, VIA)));
        }
    }
}
