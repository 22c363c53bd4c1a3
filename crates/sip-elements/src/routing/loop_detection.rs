//! Loop detection (RFC 3261 sections 16.3 item 4 and 16.6 step 8, RFC 5393). Our branch parameter carries bits of a keyed hash over everything
//! that decides where the request goes. They show that the same request has come round again.

use super::return_path;
use super::stateless_branch::{self, StatelessBranch};
use crate::View;
use sip_message::{HeaderName, KeyHasher, Message, Via};
use sip_transaction::Branch;

/// Whether we have forwarded this same request before (section 16.3 item 4: 482). A request that comes back with
/// another Request-URI or Route is a spiral, not a loop.
pub fn is_loop(request: &Message<'_>, view: View<'_>) -> bool {
    // A request that we have forwarded has our Via, and the Via of its sender below it.
    if request.values(HeaderName::Via).nth(1).is_none() {
        return false;
    }
    let hasher = &view.shared.hasher;
    let (mut way, mut stateless_way) = (None, None);
    let mut vias = request.values(HeaderName::Via);
    vias.any(|value| {
        let Some(branch) = Via::parse(value).and_then(|via| via.branch()) else {
            return false;
        };
        if let Some(ours) = Branch::parse(branch) {
            let hash = || way_hash(hasher, request, &mut Vec::new());
            return return_path::has_way(ours.suffix(), *way.get_or_insert_with(hash));
        }
        StatelessBranch::parse(branch).is_some_and(|ours| {
            let hash = || stateless_branch::way(hasher, request, &mut Vec::new());
            ours.has_way(*stateless_way.get_or_insert_with(hash))
        })
    })
}

/// Hash of everything that decides where the request goes. The topmost Via is left out: it differs each time round
/// (RFC 5393 section 4.2.1). From is taken as received: a proxy that rewrites it does so in the same way each time round. Of To, only the
/// URI counts, because the ACK of a failure has the tag of the callee.
pub(super) fn way_hash(hasher: &KeyHasher, request: &Message<'_>, scratch: &mut Vec<u8>) -> u64 {
    // Hashing many short parts costs more than copying them together first.
    scratch.clear();
    let mut push = |part: &[u8]| {
        scratch.extend_from_slice(part);
        // Inside a part, a line feed is a fold with white space after it, so parts cannot run together.
        scratch.extend_from_slice(b"\n.");
    };
    push(&request.cseq().map_or(0, |cseq| cseq.number).to_be_bytes());
    push(request.request_uri());
    push(request.header(HeaderName::From).unwrap_or_default());
    push(request.to().map_or(b"", |to| to.uri_bytes));
    push(request.header(HeaderName::CallId).unwrap_or_default());
    for name in [HeaderName::Route, HeaderName::ProxyRequire] {
        request.values(name).for_each(&mut push);
        push(b"");
    }
    hasher.hash(&[b"way", scratch])
}
