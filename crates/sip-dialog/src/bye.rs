//! The BYE that this server sends to a party in the name of the other one (RFC 3261 section 15.1.1), when the life of a dialog is over.

use crate::dialog::Dialog;
use crate::party::Party;
use crate::texts::Text;
use sip_message::{HeaderName, Method, RequestWriter};

/// Max-Forwards of the BYE.
const MAX_FORWARDS: &[u8] = b"70";
/// The highest `CSeq` number (section 8.1.1.5).
const HIGHEST_CSEQ: u32 = (1 << 31) - 1;
/// How far the `CSeq` number of the BYE is above the last known one of its party, which may have sent more since: not every request is
/// seen, or saved. Gaps are legal (section 12.2.2), and the BYE is the last request.
const SKIPPED: u32 = 100_000;

impl Dialog {
    /// Whether enough is known to end the call at both parties.
    pub fn can_hang_up(&self) -> bool {
        let has_target = |party| !self.target(party).is_empty();
        self.is_confirmed()
            && self.is_whole()
            && has_target(Party::Caller)
            && has_target(Party::Callee)
            && self.caller.cseq.max(self.callee.cseq) < HIGHEST_CSEQ
    }

    /// Appends the BYE to a party. `via` writes the value of Via, and `reason` is the value of Reason (RFC 3326). All proxies of the route
    /// are taken for loose routers (section 16.12).
    pub fn write_bye(
        &self,
        into: &mut Vec<u8>,
        to: Party,
        reason: &[u8],
        via: impl FnOnce(&mut Vec<u8>),
    ) {
        let cseq = self.last_cseq(to.other()).min(HIGHEST_CSEQ - SKIPPED) + SKIPPED;
        let route = self.route(to);
        let mut bye = RequestWriter::begin(into, Method::Bye, self.target(to))
            .header_with(HeaderName::Via, via)
            .header(HeaderName::MaxForwards, MAX_FORWARDS)
            .header_with(HeaderName::From, |into| self.write_party(into, to.other()))
            .header_with(HeaderName::To, |into| self.write_party(into, to))
            .header(HeaderName::CallId, self.text(Text::CallId))
            .header_with(HeaderName::CSeq, |into| {
                into.extend_from_slice(format!("{cseq} BYE").as_bytes());
            });
        if !route.is_empty() {
            bye = bye.header(HeaderName::Route, route);
        }
        bye.header(HeaderName::Reason, reason).finish();
    }

    /// The Route of requests to this party, without our own values.
    pub fn route(&self, party: Party) -> &[u8] {
        self.text(match party {
            Party::Caller => Text::CallerRoute,
            Party::Callee => Text::CalleeRoute,
        })
    }

    fn write_party(&self, into: &mut Vec<u8>, party: Party) {
        let (uri, tag) = match party {
            Party::Caller => (Text::From, Text::CallerTag),
            Party::Callee => (Text::To, Text::CalleeTag),
        };
        for part in [b"<", self.text(uri), b">;tag=", self.text(tag)] {
            into.extend_from_slice(part);
        }
    }
}
