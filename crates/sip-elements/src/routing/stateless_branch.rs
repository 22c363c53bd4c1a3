//! The branch of a request that is forwarded without a transaction (RFC 3261 section 16.11).
//!
//! It is computed from the request, so that an INVITE, its retransmissions, its CANCEL and the ACK of a non-2xx get the same one. It carries
//! all that a response needs, so that responses find their way with any worker, and after a restart:
//!
//! - 64 bits over everything that decides where the request goes, for loop detection. Of To, only the URI: the ACK has the tag of the callee
//! - 64 bits that prove that we wrote it for this flow, this Call-ID and the Via below ours
//! - the flow that responses leave on, as a flow token

use super::flow_token;
use sip_message::{HeaderName, KeyHasher, Message, Via};
use sip_transport::{Flow, response_flow};

/// The magic cookie, and a mark that no branch of a transaction has in this place.
const COOKIE: &[u8; 8] = b"z9hG4bKs";
const DIGITS: usize = 16;

/// The branch of a request without a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatelessBranch {
    way: u64,
    seal: u64,
    /// Where responses go.
    pub(crate) upstream: Flow,
}

impl StatelessBranch {
    /// The branch of the copies of a request that arrived on this flow; `None` without a Via. `scratch` is a work buffer.
    pub(crate) fn of(
        hasher: &KeyHasher,
        request: &Message<'_>,
        source: Flow,
        scratch: &mut Vec<u8>,
    ) -> Option<Self> {
        let via = request.top_via()?;
        let upstream = response_flow(source, &via);
        let way = way(hasher, request, scratch);
        Some(Self {
            way,
            seal: seal(hasher, request, &via, (way, upstream)),
            upstream,
        })
    }

    /// Parses a branch; `None` if it cannot be ours. Any peer can write a branch that parses: check it with
    /// [`StatelessBranch::is_genuine`].
    pub(crate) fn parse(branch: &[u8]) -> Option<Self> {
        let digits = branch.strip_prefix(COOKIE)?;
        let (way, digits) = digits.split_at_checked(DIGITS)?;
        let (seal, token) = digits.split_at_checked(DIGITS)?;
        Some(Self {
            way: flow_token::read_number(way)?,
            seal: flow_token::read_number(seal)?,
            upstream: flow_token::read(token)?,
        })
    }

    /// Whether we forwarded the request of this response, with this Via below ours.
    pub(crate) fn is_genuine(
        &self,
        hasher: &KeyHasher,
        response: &Message<'_>,
        below: &Via<'_>,
    ) -> bool {
        self.seal == seal(hasher, response, below, (self.way, self.upstream))
    }

    /// Whether this request has come round again. `way` is that of the request, from [`way`].
    pub(crate) const fn has_way(&self, way: u64) -> bool {
        self.way == way
    }

    /// Appends the branch to `into`.
    pub(crate) fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(COOKIE);
        flow_token::write_number(into, &self.way.to_be_bytes());
        flow_token::write_number(into, &self.seal.to_be_bytes());
        flow_token::write(into, self.upstream);
    }
}

/// Hash of everything that decides where a request goes, and that its CANCEL and the ACK of a non-2xx have, too.
pub(crate) fn way(hasher: &KeyHasher, request: &Message<'_>, scratch: &mut Vec<u8>) -> u64 {
    scratch.clear();
    let mut push = |part: &[u8]| {
        scratch.extend_from_slice(part);
        scratch.extend_from_slice(b"\n.");
    };
    push(&request.cseq().map_or(0, |cseq| cseq.number).to_be_bytes());
    push(request.request_uri());
    let (from, to) = (request.from(), request.to());
    push(from.map_or(b"", |from| from.uri_bytes));
    push(from.and_then(|from| from.tag()).unwrap_or_default());
    push(to.map_or(b"", |to| to.uri_bytes));
    push(request.call_id().unwrap_or_default());
    request.values(HeaderName::Route).for_each(&mut push);
    hasher.hash(&[b"stateless way", scratch])
}

fn seal(
    hasher: &KeyHasher,
    message: &Message<'_>,
    below: &Via<'_>,
    (way, upstream): (u64, Flow),
) -> u64 {
    hasher.hash(&[
        b"stateless",
        &way.to_be_bytes(),
        &flow_token::octets(upstream),
        message.call_id().unwrap_or_default(),
        below.branch().unwrap_or_default(),
        below.sent_by,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sip_transport::{ConnectionId, ListenerId};

    const HASHER: KeyHasher = KeyHasher::new((1, 2));
    const URI: &str = "sip:1@h";

    fn flow(remote: &str) -> Flow {
        Flow {
            listener: ListenerId(1),
            connection: ConnectionId::new(2, 3),
            remote: remote.parse().expect("an address"),
        }
    }

    fn text(method: &str, tag: &str, cseq: u32, via: &str) -> String {
        format!(
            "{method} {URI} SIP/2.0\r\nVia: SIP/2.0/TCP {via}\r\nFrom: <sip:a@h>;tag=a\r\nTo: <{URI}>{tag}\r\n\
             Call-ID: c\r\nCSeq: {cseq} {method}\r\n\r\n"
        )
    }

    fn of(text: &str, source: Flow) -> StatelessBranch {
        let request = Message::parse(text.as_bytes()).expect("a request");
        StatelessBranch::of(&HASHER, &request, source, &mut Vec::new()).expect("a Via")
    }

    fn written(branch: &StatelessBranch) -> Vec<u8> {
        let mut bytes = Vec::new();
        branch.write(&mut bytes);
        bytes
    }

    #[test]
    fn the_messages_of_one_invite_have_one_branch_and_others_another() {
        let (source, via) = (flow("192.0.2.7:5060"), "192.0.2.7;branch=z9hG4bK1");
        let invite = of(&text("INVITE", "", 1, via), source);
        for same in [("ACK", ";tag=b"), ("CANCEL", ""), ("INVITE", "")] {
            assert_eq!(
                of(&text(same.0, same.1, 1, via), source),
                invite,
                "{same:?}"
            );
        }
        assert_ne!(of(&text("INVITE", "", 2, via), source), invite);
        let other_via = "192.0.2.7;branch=z9hG4bK2";
        assert_ne!(of(&text("INVITE", "", 1, other_via), source), invite);
        let elsewhere = flow("192.0.2.8:5060");
        assert_ne!(of(&text("INVITE", "", 1, via), elsewhere), invite);
    }

    #[test]
    fn a_branch_is_good_for_one_call_one_via_and_one_secret() {
        let source = flow("[2001:db8::7]:5060");
        let sent = text("INVITE", "", 1, "h;branch=z9hG4bK1");
        let branch = of(&sent, source);
        assert_eq!(StatelessBranch::parse(&written(&branch)), Some(branch));
        assert_eq!(branch.upstream, source);
        let is_genuine = |hasher: &KeyHasher, text: &str, via: &str| {
            let message = Message::parse(text.as_bytes()).expect("a message");
            let via = Via::parse(via.as_bytes()).expect("a Via");
            branch.is_genuine(hasher, &message, &via)
        };
        let ours = "SIP/2.0/TCP h;branch=z9hG4bK1;received=192.0.2.9";
        assert!(is_genuine(&HASHER, &sent, ours));
        assert!(!is_genuine(&KeyHasher::new((1, 3)), &sent, ours));
        assert!(!is_genuine(
            &HASHER,
            &sent.replace("Call-ID: c", "Call-ID: d"),
            ours
        ));
        for other in [
            "SIP/2.0/TCP h;branch=z9hG4bK2",
            "SIP/2.0/TCP i;branch=z9hG4bK1",
        ] {
            assert!(!is_genuine(&HASHER, &sent, other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_do_not(bytes: Vec<u8>) {
            let _ = StatelessBranch::parse(&[COOKIE, &bytes[..]].concat());
        }

        #[test]
        fn one_wrong_octet_is_noticed(place in 8_usize..68, octet: u8) {
            let sent = text("INVITE", "", 1, "h;branch=z9hG4bK1");
            let mut bytes = written(&of(&sent, flow("192.0.2.7:5060")));
            prop_assume!(bytes[place] != octet);
            bytes[place] = octet;
            let response = Message::parse(sent.as_bytes()).expect("a message");
            let via = Via::parse(b"SIP/2.0/TCP h;branch=z9hG4bK1").expect("a Via");
            let read = StatelessBranch::parse(&bytes);
            prop_assert!(!read.is_some_and(|it| it.is_genuine(&HASHER, &response, &via)));
        }
    }
}
