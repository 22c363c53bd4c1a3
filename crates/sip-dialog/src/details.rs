//! All that is known about a live dialog, for operators.

use crate::dialog::Dialog;
use crate::party::{Leg, Party};
use crate::record::CallRecord;
use sip_transport::Time;

/// What is known about a live dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialogDetails {
    /// What its record would say now.
    pub call: CallRecord,
    /// Whether a 2xx has confirmed it. If not, it is early.
    pub is_confirmed: bool,
    /// Whether the caller has acknowledged the 2xx.
    pub is_acknowledged: bool,
    /// When it ends unless it is refreshed; `None` while it is early.
    pub expires: Option<Time>,
    /// The caller.
    pub caller: PartyDetails,
    /// The callee; `None` if no next hop was tried.
    pub callee: Option<PartyDetails>,
    /// The bytes of its texts.
    pub bytes: usize,
}

/// What is known about a party of a live dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyDetails {
    /// The path to the party.
    pub leg: Leg,
    /// The remote target of requests to the party; empty if it is not known.
    pub target: Box<[u8]>,
    /// The Route of requests to the party, after the values of this server; may be empty.
    pub route: Box<[u8]>,
    /// The number of the last `CSeq` in requests of the party; 0 if there was none.
    pub last_cseq: u32,
}

impl Dialog {
    /// All that is known about it.
    pub fn details(&self) -> DialogDetails {
        let call = self.record(None);
        DialogDetails {
            is_confirmed: self.is_confirmed(),
            is_acknowledged: self.is_acknowledged(),
            expires: self.is_confirmed().then(|| self.expires()),
            caller: self.party(Party::Caller),
            callee: (call.attempts > 0).then(|| self.party(Party::Callee)),
            bytes: self.bytes(),
            call,
        }
    }

    fn party(&self, party: Party) -> PartyDetails {
        PartyDetails {
            leg: self.leg(party),
            target: self.target(party).into(),
            route: self.route(party).into(),
            last_cseq: self.last_cseq(party),
        }
    }
}
