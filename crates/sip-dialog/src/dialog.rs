//! One dialog: what its messages have said so far.

use crate::party::{Leg, Party};
use crate::record::{CallRecord, LONGEST_TEXT};
use crate::texts::{Text, Texts};
use sip_transaction::{Account, TimerId};
use sip_transport::{Tenant, Time};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a call holds as long as one of its dialogs lives, such as its places in limits. It is given back when it is dropped.
pub trait Held: fmt::Debug + Send + Sync + Any {}

/// What an INVITE says about the dialog that it will create.
#[derive(Clone, Copy, Debug)]
pub struct Invitation<'i> {
    /// Identifies the dialog among those of all nodes. The lower 32 bits are the number of the call.
    pub id: u128,
    /// The ledger account that the dialog is charged to.
    pub account: Account,
    /// Where the INVITE came from.
    pub source: Leg,
    /// Its `CSeq` number.
    pub cseq: u32,
    /// When it arrived.
    pub received: Time,
    /// Its texts.
    pub texts: &'i [(Text, &'i [u8])],
}

/// What a 2xx says about the dialog that it confirms.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// Keyed hash of the number of the call, the Call-ID and the tags. Requests in the dialog have it, too.
    pub key: u64,
    /// The path to the callee.
    pub destination: Leg,
    /// The status code.
    pub status: u16,
    /// The current time.
    pub now: Time,
    /// How long the dialog lives unless it is refreshed.
    pub lifetime: Duration,
    /// How long to wait for the ACK.
    pub patience: Duration,
    /// The tag, the remote target and the route of the callee.
    pub texts: &'a [(Text, &'a [u8])],
}

/// What is known about one party.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) leg: Leg,
    /// The number of the last `CSeq` in requests of this party; 0 if there was none.
    pub(crate) cseq: u32,
}

/// One dialog.
#[derive(Debug)]
pub struct Dialog {
    pub(crate) generation: u32,
    pub(crate) account: Account,
    pub(crate) id: [u8; 16],
    pub(crate) key: u64,
    pub(crate) texts: Texts,
    pub(crate) caller: Side,
    pub(crate) callee: Side,
    pub(crate) started: Time,
    pub(crate) ringing: Option<Time>,
    pub(crate) answered: Option<Time>,
    /// When a confirmed dialog ends unless it is refreshed.
    pub(crate) expires: Time,
    pub(crate) timer: Option<TimerId>,
    pub(crate) status: u16,
    pub(crate) attempts: u16,
    /// The keys of the dialogs that other 2xx of the same INVITE have made. A 2xx that is repeated after the BYE makes none again.
    pub(crate) forks: Box<[u64]>,
    pub(crate) held: Option<Arc<dyn Held>>,
    pub(crate) is_acknowledged: bool,
    pub(crate) is_whole: bool,
}

impl Tenant for Dialog {
    fn generation(&self) -> u32 {
        self.generation
    }
}

impl Dialog {
    /// The dialog that an INVITE will create. It is early.
    pub(crate) fn early(invitation: &Invitation<'_>, generation: u32) -> Self {
        let (texts, is_whole) = Texts::pack(None, invitation.texts);
        let side = |cseq| Side {
            leg: invitation.source,
            cseq,
        };
        Self {
            generation,
            account: invitation.account,
            id: invitation.id.to_ne_bytes(),
            key: 0,
            texts,
            caller: side(invitation.cseq),
            callee: side(0),
            started: invitation.received,
            ringing: None,
            answered: None,
            expires: Time::default(),
            timer: None,
            status: 0,
            attempts: 0,
            forks: Box::default(),
            held: None,
            is_acknowledged: false,
            is_whole,
        }
    }

    /// The early dialog that another 2xx of the same INVITE confirms.
    pub(crate) fn fork(&self, id: u128) -> Self {
        const NUMBER: u128 = u32::MAX as u128;
        let id = id & !NUMBER | self.id() & NUMBER;
        Self {
            id: id.to_ne_bytes(),
            texts: self.texts.clone(),
            answered: None,
            timer: None,
            forks: Box::default(),
            held: self.held.clone(),
            is_acknowledged: false,
            ..*self
        }
    }

    /// Identifies the dialog among those of all nodes.
    pub const fn id(&self) -> u128 {
        u128::from_ne_bytes(self.id)
    }

    /// The number of its call: the lower 32 bits of the id. All dialogs of one INVITE have the same.
    pub const fn number(&self) -> u32 {
        self.id() as u32
    }

    /// The key of a confirmed dialog ([`Answer::key`]).
    pub const fn key(&self) -> u64 {
        self.key
    }

    /// The ledger account that it is charged to.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// One of its texts; empty if it is not known.
    pub fn text(&self, text: Text) -> &[u8] {
        self.texts.get(text)
    }

    /// The remote target of requests to this party.
    pub fn target(&self, party: Party) -> &[u8] {
        self.text(Text::target_of(party))
    }

    /// The path to this party. Before the first attempt, the callee has that of the caller.
    pub const fn leg(&self, party: Party) -> Leg {
        self.side(party).leg
    }

    /// Whether a 2xx has confirmed it. If not, it is early.
    pub const fn is_confirmed(&self) -> bool {
        self.answered.is_some()
    }

    /// Whether the caller has acknowledged the 2xx.
    pub const fn is_acknowledged(&self) -> bool {
        self.is_acknowledged
    }

    /// Whether all its texts are known that requests to the parties need. Texts that are too long, or for which there was no memory, are
    /// missing.
    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The number of the last `CSeq` in requests of this party; 0 if there was none.
    pub const fn last_cseq(&self, party: Party) -> u32 {
        self.side(party).cseq
    }

    /// When it ends unless it is refreshed.
    pub const fn expires(&self) -> Time {
        self.expires
    }

    /// What it holds until it ends.
    pub const fn held(&self) -> Option<&Arc<dyn Held>> {
        self.held.as_ref()
    }

    /// Takes out what it holds.
    pub const fn take_held(&mut self) -> Option<Arc<dyn Held>> {
        self.held.take()
    }

    /// Lets it hold this until it ends, instead of what it has held so far.
    pub fn hold(&mut self, held: Arc<dyn Held>) {
        self.held = Some(held);
    }

    /// The bytes of its texts.
    pub const fn bytes(&self) -> usize {
        self.texts.len()
    }

    /// Notes that a copy of the INVITE was sent over this leg. Returns whether it was the first one.
    pub const fn attempt(&mut self, leg: Leg) -> bool {
        if !self.is_confirmed() {
            self.callee.leg = leg;
        }
        self.attempts = self.attempts.saturating_add(1);
        self.attempts == 1
    }

    /// Notes a provisional response. Returns whether it was the first one.
    pub const fn ring(&mut self, now: Time) -> bool {
        let is_first = self.ringing.is_none();
        if is_first {
            self.ringing = Some(now);
        }
        is_first
    }

    /// Notes the 2xx. If `fits` is false, there is no memory for its texts other than the tag.
    pub(crate) fn confirm(&mut self, answer: &Answer<'_>, fits: bool) {
        self.key = answer.key;
        self.callee.leg = answer.destination;
        self.status = answer.status;
        self.answered = Some(answer.now);
        self.expires = answer.now + answer.lifetime;
        if fits {
            self.change(answer.texts);
        } else {
            let mut texts = answer.texts.iter();
            if let Some(tag) = texts.find(|(name, _)| *name == Text::CalleeTag) {
                self.change(&[*tag]);
            }
            self.is_whole = false;
        }
    }

    /// Notes the ACK of the 2xx.
    pub const fn acknowledge(&mut self) {
        self.is_acknowledged = true;
    }

    /// Notes the `CSeq` number of a request that this party has sent in the dialog.
    pub fn note_request(&mut self, from: Party, cseq: u32) {
        let side = self.side_mut(from);
        side.cseq = side.cseq.max(cseq);
    }

    /// Notes the final response to the INVITE, if there was no 2xx.
    pub const fn fail(&mut self, status: u16) {
        self.status = status;
    }

    /// The dialog ends at this time, if not before.
    pub fn expire_by(&mut self, latest: Time) {
        self.expires = self.expires.min(latest);
    }

    /// Sets texts.
    pub(crate) fn change(&mut self, texts: &[(Text, &[u8])]) {
        let (packed, is_whole) = Texts::pack(Some(&self.texts), texts);
        self.texts = packed;
        self.is_whole &= is_whole;
    }

    /// Notes that there was no memory for a text. The former one is kept.
    pub(crate) fn miss(&mut self, text: Text) {
        self.is_whole &= !text.is_for_requests();
    }

    /// What is known about the call. `ended` is when it ended.
    pub fn record(&self, ended: Option<Time>) -> CallRecord {
        let text = |text| {
            let text = self.text(text);
            text.get(..LONGEST_TEXT).unwrap_or(text).into()
        };
        CallRecord {
            id: self.id(),
            call_id: text(Text::CallId),
            from: text(Text::From),
            from_tag: text(Text::CallerTag),
            to: text(Text::To),
            to_tag: text(Text::CalleeTag),
            request_uri: text(Text::RequestUri),
            identity: text(Text::Identity),
            source: self.caller.leg.flow.remote,
            source_transport: self.caller.leg.protocol,
            destination: (self.attempts > 0)
                .then_some((self.callee.leg.flow.remote, self.callee.leg.protocol)),
            attempts: self.attempts,
            started: self.started,
            ringing: self.ringing,
            answered: self.answered,
            ended,
            status: self.status,
            reason: text(Text::Reason),
        }
    }

    const fn side(&self, party: Party) -> &Side {
        match party {
            Party::Caller => &self.caller,
            Party::Callee => &self.callee,
        }
    }

    const fn side_mut(&mut self, party: Party) -> &mut Side {
        match party {
            Party::Caller => &mut self.caller,
            Party::Callee => &mut self.callee,
        }
    }
}
